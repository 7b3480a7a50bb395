"""An episode that an importer is putting together, and the options of every importer."""

from __future__ import annotations

import hashlib
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, BinaryIO

from etl.ingest.episode_json import Read
from etl.ingest.importers.trim import cut_bytes, plain
from plait.domain.errors import PlaitError, TranscriptInvalid
from plait.domain.values import Artifact, ArtifactKind, Episode, Evidence, Outcome
from plait.memory import episode as rules
from plait.secrets.episodes import masked_episode
from plait.secrets.mask import masker
from plait.secrets.rules import BUILT_IN, Rules

# Below the contract's limits, so that markers of what was cut still fit.
MAX_ARTIFACTS = 400
MAX_TEXT_BYTES = 8 * 2**20  # of one episode's artifacts
MAX_RAW_BYTES = 8 * 2**20  # of one episode's evidence
MAX_CONTENT_BYTES = 900_000
MAX_SUMMARY_BYTES = 4_000
MAX_META_TEXT = 2_000


@dataclass(frozen=True, slots=True)
class Options:
    """Values given by the caller. Empty: those of the input itself."""

    repo: str = ""
    agent_id: str = ""
    session_key: str = ""
    root: str = ""  # the repository's folder, to make paths relative
    rules: Rules = BUILT_IN  # of secrets
    now: datetime | None = None  # None: the clock


Importer = Callable[[BinaryIO, str, Options], Iterator[Read]]


@dataclass(slots=True)
class Draft:
    """One episode. `raw` is what it was read from: its hash makes the request id, so the same bytes
    are the same request whenever and from wherever they are imported."""

    format: str
    options: Options
    name: str  # of the evidence
    media_type: str
    line: int = 1
    part: int = 0  # distinguishes episodes read from the same bytes
    repo: str = ""
    agent_id: str = ""
    session_key: str = ""
    status: str = "unknown"
    summary: str = ""
    commit: str = ""
    branch: str = ""
    started_at: datetime | None = None
    tags: list[str] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    artifacts: list[Artifact] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)
    identity: bytes = b""  # what the request id is made from, where it is not `raw`
    tests: dict[str, int] | None = None  # counts of the last run of tests, {} where it printed none
    tested: str = ""  # how that run ended, "" where there was none
    note: str = ""  # what the one who imports should know of it
    text_bytes: int = 0
    raw_bytes: int = 0

    def add(
        self,
        kind: ArtifactKind,
        content: str,
        path: str = "",
        meta: Mapping[str, Any] | None = None,
    ) -> None:
        """Add an artifact, its text made fit to store; blank ones are left out."""
        content = plain(content)
        if not content.strip():
            return
        content = cut_bytes(content, MAX_CONTENT_BYTES)
        self.text_bytes += len(content.encode())
        self.artifacts.append(Artifact(kind, content, path, fit_meta(meta or {})))

    def keep(self, raw: bytes) -> None:
        self.raw.append(raw)
        self.raw_bytes += len(raw)

    def count(self, metric: str, n: float = 1) -> None:
        self.metrics[metric] = self.metrics.get(metric, 0.0) + n

    @property
    def full(self) -> bool:
        """Time for the next episode of the session."""
        return (
            len(self.artifacts) >= MAX_ARTIFACTS
            or self.text_bytes >= MAX_TEXT_BYTES
            or self.raw_bytes >= MAX_RAW_BYTES
        )

    def read(self) -> Read:
        """The checked episode, or its error."""
        try:
            return Read(self.line, self._episode(), note=self.note)
        except PlaitError as exc:
            return Read(self.line, None, exc)

    def _episode(self) -> Episode:
        options, body = self.options, b"".join(self.raw)
        repo = options.repo or self.repo
        if not repo:
            raise TranscriptInvalid(
                f"{self.name} does not say which repository it is about; say `--repo NAME`",
                file=self.name,
            )
        evidence = (Evidence(evidence_name(self.name), self.media_type, body),) if body else ()
        episode = Episode(
            request_id=request_id(self.format, repo, self.identity or body, self.part),
            repo=repo,
            outcome=Outcome(
                self.status,
                cut_bytes(plain(self.summary).strip(), MAX_SUMMARY_BYTES),
                self.metrics,
                self.commit,
                cut_name(self.branch),
            ),
            artifacts=tuple(self.artifacts),
            agent_id=options.agent_id or cut_name(self.agent_id),
            session_key=options.session_key or cut_name(self.session_key),
            tags=tuple(self.tags),
            started_at=possible(self.started_at, options),
            evidence=evidence,
        )
        return rules.check(masked_episode(masker(options.rules), episode), options.now)


def request_id(format_: str, repo: str, body: bytes, part: int = 0) -> str:
    digest = hashlib.blake2b(body, digest_size=20, person=b"plait-import")
    digest.update(f"\0{part}\0{repo}".encode("utf-8", "replace"))
    return f"{format_}-{digest.hexdigest()}"


def evidence_name(name: str) -> str:
    """The last part of a file's path, as evidence is named."""
    last = plain(name.replace("\\", "/")).rstrip("/").rpartition("/")[2].strip()
    return cut_name(last if last not in ("", "-") else "stdin")


def cut_name(text: str) -> str:
    """Within the limit of agents, sessions and branches."""
    return plain(text).encode("utf-8", "replace")[: rules.MAX_NAME_BYTES].decode("utf-8", "ignore")


def possible(time: datetime | None, options: Options) -> datetime | None:
    """A time that an episode may have; a wrong clock's is left out rather than refused."""
    now = options.now or datetime.now(UTC)
    if time is None or time.tzinfo is None:
        return None
    try:
        return time if rules.EPOCH <= time.astimezone(UTC) <= now + rules.CLOCK_SKEW else None
    except OverflowError:
        return None


def fit_meta(value: Any, depth: int = 0) -> Any:
    """JSON of strings that can be stored, each cut to a bound; `tests` lists are made to fit before."""
    if isinstance(value, str):
        text = plain(value)
        return text if len(text) <= MAX_META_TEXT else text[: MAX_META_TEXT - 1] + "…"
    if isinstance(value, Mapping):
        return {plain(str(k))[:200]: fit_meta(v, depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [fit_meta(v, depth + 1) for v in value]
    return value


# -- paths and repositories ---------------------------------------------------------------------------

_DRIVE = re.compile(r"[A-Za-z]:[\\/]")


def inside(path: str, root: str) -> str:
    """`path` relative to `root`, with '/'; "" when it does not lie inside, or can't be a path."""
    if not path or len(path) > 1000 or plain(path) != path or any(c in path for c in "\n\t"):
        return ""
    if _DRIVE.match(path) or _DRIVE.match(root):
        path, root = path.replace("\\", "/"), root.replace("\\", "/")
    elif "\\" in path:
        return ""
    is_absolute = path.startswith("/") or _DRIVE.match(path)
    path = posixpath.normpath(path)
    if is_absolute:
        return _below(path, posixpath.normpath(root)) if root else ""
    return "" if path in (".", "..") or path.startswith("../") else path


def _below(path: str, base: str) -> str:
    """`path` from `base` on; "" when it is not below it, or that is no folder of anybody's own."""
    is_below = base not in ("/", ".") and path.startswith(base.rstrip("/") + "/")
    return path[len(base) + 1 :] if is_below else ""


def repo_name(folder: str) -> str:
    """The last folder's name, as a repository's; "" when none can be made of it."""
    last = folder.replace("\\", "/").rstrip("/").rpartition("/")[2]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", last)[:128].lstrip("._-")
    return name if name.strip("-._") else ""


def time_of(value: object) -> datetime | None:
    """An ISO 8601 time with an offset; None for anything else."""
    if not isinstance(value, str) or len(value) > 40:
        return None
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    return time if time.tzinfo is not None else None
