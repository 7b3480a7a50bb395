"""The formats that can be imported, and how the format of a file is detected."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import BinaryIO

from etl.ingest import episode_json
from etl.ingest.episode_json import Read
from etl.ingest.importers import claude_code, junit_xml, mbox, swe_agent, unified
from etl.ingest.importers.draft import Importer, Options
from plait.domain.errors import PlaitError, TranscriptInvalid
from plait.domain.values import Episode
from plait.memory import episode as rules
from plait.secrets.episodes import masked_episode
from plait.secrets.mask import masker

HEAD_BYTES = 65_536  # what `detect` is given of a file, or less


@dataclass(frozen=True, slots=True)
class Format:
    """`endings`: of files that a folder is searched for."""

    name: str
    title: str
    read: Importer
    endings: tuple[str, ...]


def read_episodes(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """Plait's own JSON (docs/episodes.md): one object, or one a line."""
    for one in episode_json.read(stream, options.repo):
        yield replace(one, episode=_own(one.episode, options)) if one.episode else one


def _own(episode: Episode, options: Options) -> Episode:
    """The caller's values fill the episode's empty fields; credentials are removed."""
    made = episode.request_id == f"body-{episode.body_hash.hex()}"
    changed = replace(
        episode,
        agent_id=episode.agent_id or options.agent_id,
        session_key=episode.session_key or options.session_key,
    )
    changed = masked_episode(masker(options.rules), changed)
    if changed == episode:
        return episode
    return rules.check(replace(changed, request_id="" if made else episode.request_id))


FORMATS: Mapping[str, Format] = {
    f.name: f
    for f in (
        Format("episode", "Plait's JSON and JSON Lines", read_episodes, (".json", ".jsonl")),
        Format("junit", "JUnit XML reports", junit_xml.read, (".xml",)),
        Format("diff", "unified diffs", unified.read, (".diff", ".patch")),
        Format("patch", "git format-patch, mbox", mbox.read, (".patch", ".mbox", ".eml")),
        Format("claude-code", "Claude Code sessions", claude_code.read, (".jsonl",)),
        Format("swe-agent", "SWE-agent trajectories", swe_agent.read, (".traj", ".traj.json")),
    )
}
ENDINGS = tuple(sorted({ending for f in FORMATS.values() for ending in f.endings}))

_MAIL = re.compile(
    rb"From (?:[0-9a-f]{40}|\S{1,300} +[A-Z][a-z]{2}) |(?:From|Subject|Date|Message-I[dD]|Received|Return-Path|X-[\w-]+|MIME-Version|In-Reply-To): "
)
_DIFF = re.compile(
    rb"^(?:diff --(?:git|cc|combined) |Index: \S|--- [^\n]+\n\+\+\+ [^\n]+\n@@ )", re.MULTILINE
)
_XML = re.compile(rb"\s*(?:<\?xml|<testsuite|<!--|<!DOCTYPE)")
_KEY = r'"%s"\s*:'


def detect(head: bytes, name: str) -> str:
    """The format of a file that begins with `head`.

    Raises: TranscriptInvalid, when it is none.
    """
    for format_, fits in _TESTS:
        if fits(head, name.lower()):
            return format_
    known = ", ".join(FORMATS)
    raise TranscriptInvalid(
        f"{name}: is in no format that can be imported; say which with `--format` ({known})",
        file=name,
    )


def read(stream: BinaryIO, name: str, format_: str, options: Options) -> Iterator[Read]:
    """The episodes of `stream`, which is in the named format.

    An error in one part is yielded in its place; an error of the whole stream is raised.
    Raises: TranscriptInvalid, EpisodeInvalid.
    """
    known = FORMATS.get(format_)
    if known is None:
        raise TranscriptInvalid(
            f"{format_[:40]!r} is no format; use one of {', '.join(FORMATS)}", format=format_[:40]
        )
    yield from known.read(stream, name, options)


def read_all(stream: BinaryIO, name: str, format_: str, options: Options) -> Iterator[Read]:
    """As `read`, but an error of the whole stream is yielded last."""
    try:
        yield from read(stream, name, format_, options)
    except PlaitError as exc:
        yield Read(1, None, exc)


# -- how each is detected ---------------------------------------------------------------------------------


def _is_xml(head: bytes, name: str) -> bool:
    start = head.removeprefix(b"\xef\xbb\xbf")
    if start.startswith((b"\xff\xfe", b"\xfe\xff")):
        start = start.decode("utf-16", "replace").encode()
    return _XML.match(start) is not None


def _is_mail(head: bytes, name: str) -> bool:
    return _MAIL.match(head.lstrip(b"\r\n")) is not None


def _is_diff(head: bytes, name: str) -> bool:
    return _DIFF.search(head.replace(b"\r\n", b"\n")) is not None and not _is_json(head, name)


def _is_json(head: bytes, name: str) -> bool:
    return head.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"


def _is_claude(head: bytes, name: str) -> bool:
    """Its lines have a type, and messages a session: in the first line that is whole, or by keys."""
    if not _is_json(head, name):
        return False
    for line in head.split(b"\n")[:50]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            if {"outcome", "artifacts", "trajectory"} & value.keys():
                return False
            if (
                "type" in value
                and {"sessionId", "leafUuid", "snapshot", "parentUuid"} & value.keys()
            ):
                return True
    first = head.split(b"\n")[0].decode("utf-8", "replace")
    has_keys = all(re.search(_KEY % key, first) for key in ("type", "message"))
    return has_keys and re.search(_KEY % "(?:sessionId|parentUuid|isSidechain)", first) is not None


def _is_trajectory(head: bytes, name: str) -> bool:
    if not _is_json(head, name):
        return False
    if name.endswith((".traj", ".traj.json")):
        return True
    start = head.decode("utf-8", "replace")
    return bool(
        re.search(r'\A\W*"trajectory(?:_format)?"\s*:', start)
        or (
            re.search(_KEY % "trajectory", start)
            and re.search(_KEY % "(?:action|environment)", start)
        )
        or (
            re.search(_KEY % "model_stats", start)
            and re.search(_KEY % "(?:messages|mini_version)", start)
        )
    )


_TESTS: tuple[tuple[str, Callable[[bytes, str], bool]], ...] = (
    ("junit", _is_xml),
    ("swe-agent", _is_trajectory),
    ("claude-code", _is_claude),
    ("episode", _is_json),
    ("patch", _is_mail),
    ("diff", _is_diff),
)
