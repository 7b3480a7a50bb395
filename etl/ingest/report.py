"""What `ingest` prints: a line (or a JSON object) an episode, faults, what is left for later, a sum."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etl.ingest import memory_usage as kept
from etl.ingest.inputs import Told
from plait.domain.display import to_json
from plait.domain.errors import PlaitError
from plait.domain.values import Episode

if TYPE_CHECKING:
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget

_PLURAL = {
    "turn": "turns", "plan": "plans", "diff": "diffs", "reflection": "reflections",
    "test_result": "test results", "note": "notes",
}  # fmt: skip
MAX_ERRORS = 5  # printed of one file


@dataclass(slots=True)
class Report:
    """Prints as things happen; `stored`, `repeated`, `failed`, `notes` count them."""

    as_json: bool = False
    quiet: bool = False
    stored: int = 0
    repeated: int = 0
    failed: int = 0
    notes: int = 0
    files: set[str] = field(default_factory=set)
    repos: set[str] = field(default_factory=set)  # in which something was stored
    faults: Counter[str] = field(default_factory=Counter)  # by file

    @property
    def read(self) -> int:
        """How many things were told of, whatever they were."""
        return self.stored + self.repeated + self.failed + self.notes

    def store(self, told: Told, episode_id: str, items: int, repeated: bool, differs: bool) -> None:
        """`differs`: it was stored before by other options or an earlier version, and stays so."""
        episode = told.read.episode
        assert episode is not None
        self.files.add(told.file)
        self.repeated += repeated
        self.stored += not repeated
        if not repeated:
            self.repos.add(episode.repo)
        if self.as_json:
            body: dict[str, Any] = {
                "episode_id": episode_id,
                "request_id": episode.request_id,
                "repo": episode.repo,
                "items": items,
                "repeated": repeated,
                "file": told.file,
                "format": told.format,
            }
            if differs:
                body["differs"] = True
            self._line(body)
        elif not self.quiet:
            verb = "Stored before" if repeated else "Stored"
            id_ = episode_id or episode.request_id
            kept = "; read in another way then, and kept so" if differs else ""
            print(f"{verb} {id_}  {_what(episode)}{kept}", flush=True)
        if not repeated:
            self._odd(told)

    def would_store(self, told: Told) -> None:
        episode = told.read.episode
        assert episode is not None
        self.files.add(told.file)
        self.stored += 1
        if self.as_json:
            self._line({"would_store": _summary(told, episode)})
            return
        print(f"Would store {episode.request_id}  {_what(episode)}")
        for key, value in _summary(told, episode).items():
            if (
                key in ("agent_id", "session_key", "started_at", "evidence_bytes", "redacted")
                and value
            ):
                print(f"    {key}: {value}")
        if episode.outcome.summary:
            print(f"    summary: {' '.join(episode.outcome.summary.split())[:160]}")
        for artifact in episode.artifacts:
            first = " ".join(artifact.content[:400].split())[:100]
            print(f"    {artifact.kind:<12} {artifact.path or '-'}  {first}")
        self._odd(told)

    def error(self, told: Told, exc: PlaitError) -> None:
        self.failed += 1
        self.files.add(told.file)
        if self.as_json:
            body = {
                "reason": exc.reason,
                "message": exc.message,
                "file": told.file,
                "line": told.read.line,
                "metadata": exc.metadata,
            }
            self._line({"error": body})
        self.faults[told.file] += 1
        if self.faults[told.file] > MAX_ERRORS:
            return  # a file in another format than it is said to be has one a line
        where = self._where(told) if told.format else f"{told.file}: "
        if told.file != "-" and (
            exc.message.startswith(told.file) or (not told.format and told.file in exc.message)
        ):
            where = ""  # the message names it
        print(f"error: {where}{exc.message} [{exc.reason}]", file=sys.stderr)

    def note(self, told: Told) -> None:
        self.notes += 1
        self.files.add(told.file)
        self._odd(told)

    def _odd(self, told: Told) -> None:
        if not told.read.note:
            return
        if self.as_json:
            self._line(
                {"note": {"message": told.read.note, "file": told.file, "line": told.read.line}}
            )
        elif not self.quiet:
            print(f"note: {self._where(told)}{told.read.note}", file=sys.stderr)

    def kept(self, usage: Mapping[tuple[str, str, Budget], MemoryUsage]) -> None:
        """What retention closed where something was stored, and which budgets are nearly full."""
        for note in kept.notes(usage, frozenset(self.repos)):
            print(f"note: {note}", file=sys.stderr)

    def end(self, *, dry: bool, skipped: Mapping[str, int]) -> None:
        """What was not said of faults and skipped files; a sum, where more than one thing was read, or
        nothing."""
        for file, count in self.faults.items():
            if count > MAX_ERRORS:
                more = f"{count - MAX_ERRORS:,} more errors; --json has them all"
                print(f"error: {file}: {more}", file=sys.stderr)
        self._skipped(skipped)
        told = self.read
        if self.as_json or self.quiet or (told == 1 and len(self.files) < 2):
            return
        if not told:
            print("nothing found that can be imported", file=sys.stderr)
            return
        verb = "would be stored" if dry else "stored"
        parts = [f"{self.stored:,} {verb}"]
        parts += [f"{self.repeated:,} stored before"] if self.repeated else []
        parts += [f"{self.failed:,} refused"] if self.failed else []
        parts += [f"{self.notes:,} not ended yet"] if self.notes else []
        files = f"{len(self.files):,} file{'s' if len(self.files) != 1 else ''}"
        print(f"{files}: episodes: {', '.join(parts)}", file=sys.stderr)

    def _skipped(self, skipped: Mapping[str, int]) -> None:
        if skipped and not self.quiet:
            total = sum(skipped.values())
            why = ", ".join(f"{n:,} {reason}" for reason, n in sorted(skipped.items()))
            print(f"skipped {total:,} file{'s' if total != 1 else ''}: {why}", file=sys.stderr)

    @staticmethod
    def _where(told: Told) -> str:
        return f"{told.file}:{told.read.line}: "

    @staticmethod
    def _line(body: dict[str, Any]) -> None:
        print(to_json(body), flush=True)


def _what(episode: Episode) -> str:
    return f"{episode.repo}: {episode.outcome.status}, {_kinds(episode)}"


def _kinds(episode: Episode) -> str:
    found = Counter(str(a.kind) for a in episode.artifacts)
    parts = [
        f"{n} {_PLURAL.get(kind, kind) if n > 1 else kind.replace('_', ' ')}"
        for kind, n in sorted(found.items())
    ]
    total = len(episode.artifacts)
    return f"{total} artifact{'s' if total != 1 else ''}" + (
        f" ({', '.join(parts)})" if parts else ""
    )


def _summary(told: Told, episode: Episode) -> dict[str, Any]:
    """What would be stored, without the texts."""
    return {
        "request_id": episode.request_id,
        "repo": episode.repo,
        "file": told.file,
        "line": told.read.line,
        "format": told.format,
        "status": episode.outcome.status,
        "summary": episode.outcome.summary,
        "metrics": dict(episode.outcome.metrics),
        "agent_id": episode.agent_id,
        "session_key": episode.session_key,
        "started_at": episode.started_at.isoformat() if episode.started_at else "",
        "artifacts": [
            {"kind": str(a.kind), "path": a.path, "bytes": len(a.content.encode())}
            for a in episode.artifacts
        ],
        "evidence_bytes": sum(len(e.body) for e in episode.evidence),
        "redacted": int(episode.outcome.metrics.get("redacted", 0)),
    }
