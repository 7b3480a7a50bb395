"""Episodes from outside: parse documented JSON, and hold every episode to the same limits.

`parse` takes a JSON document (docs/episodes.md), `check` an `Episode` built elsewhere (from a
protobuf message). Both end in the same value: tags sorted, numbers normalised, the body hashed, and a
request id made from that hash where the caller gave none.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, NoReturn

from plait.domain.errors import EpisodeInvalid
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Outcome,
)

# Limits: part of the contract (proto/plait/v1/episode.proto and docs/episodes.md state them too).
MAX_ARTIFACTS = 500
MAX_CONTENT_BYTES = 2**20
MAX_TOTAL_BYTES = 16 * 2**20
MAX_SUMMARY_BYTES = 16_384
MAX_METRICS = 100
MAX_TAGS = 50
MAX_LABEL_BYTES = 128  # a tag, a metric's name
MAX_NAME_BYTES = 256  # agent, session, branch
MAX_PATH_BYTES = 4096
MAX_META_BYTES = 65_536
MAX_META_DEPTH = 16
MAX_EVIDENCE = 20
MAX_EVIDENCE_BYTES = 16 * 2**20  # of one
MAX_EPISODE_BYTES = 24 * 2**20  # contents and evidence together
MAX_MEDIA_TYPE_BYTES = 128
MAX_EXACT_INTEGER = 2**53  # JSON numbers travel as doubles
CLOCK_SKEW = timedelta(days=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

STATUSES = ("success", "failure", "partial", "unknown")
COLLECTION_OF: Mapping[ArtifactKind, Collection] = {
    ArtifactKind.PLAN: Collection.PLANS,
    ArtifactKind.DIFF: Collection.DIFFS,
    ArtifactKind.REFLECTION: Collection.REFLECTIONS,
    ArtifactKind.TEST_RESULT: Collection.TESTS,
    ArtifactKind.NOTE: Collection.MEMORIES,
    ArtifactKind.TURN: Collection.MEMORIES,
}
DEFAULT_MEDIA_TYPE = "application/octet-stream"

_REPO = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/-]{0,127}")
_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")
_COMMIT = re.compile(r"[0-9a-fA-F]{4,64}")
_MEDIA_TYPE = re.compile(r"[A-Za-z0-9][\w.+!#$&^-]*/[\w.+!#$&^-]+(?:;[\x20-\x7e]*)?", re.ASCII)


def fail(pointer: str, problem: str, fix: str) -> NoReturn:
    """Raise EpisodeInvalid: where (a JSON pointer), what, and what to write instead."""
    raise EpisodeInvalid(f"{pointer or '/'}: {problem}; {fix}", field=pointer, pointer=pointer)


# -- JSON → Episode ------------------------------------------------------------------------------


def parse(document: object) -> Episode:
    """The checked episode of a JSON document as `json.loads` returns it.

    Raises: EpisodeInvalid, with the JSON pointer of the value at fault.
    """
    top = _object(document, "")
    known = {
        *("request_id", "repo", "outcome", "artifacts"),
        *("agent_id", "session_key", "tags", "started_at", "evidence"),
    }
    _no_others(top, known, "")
    _require(top, "repo", "")
    _require(top, "outcome", "")
    items = _list(top.get("artifacts", []), "/artifacts")
    if len(items) > MAX_ARTIFACTS:
        _too_many_artifacts(len(items))
    evidence = _list(top.get("evidence", []), "/evidence")
    if len(evidence) > MAX_EVIDENCE:
        _too_much_evidence(len(evidence))
    return check(
        Episode(
            request_id=_text(top, "request_id", ""),
            repo=_text(top, "repo", ""),
            outcome=_outcome(top["outcome"]),
            artifacts=tuple(_artifact(a, f"/artifacts/{i}") for i, a in enumerate(items)),
            agent_id=_text(top, "agent_id", ""),
            session_key=_text(top, "session_key", ""),
            tags=tuple(_texts(top.get("tags", []), "/tags")),
            started_at=_time(top.get("started_at"), "/started_at"),
            evidence=tuple(_evidence(e, f"/evidence/{i}") for i, e in enumerate(evidence)),
        )
    )


def _outcome(value: object) -> Outcome:
    at = "/outcome"
    data = _object(value, at)
    _no_others(data, {"status", "summary", "metrics", "commit", "branch"}, at)
    _require(data, "status", at)
    metrics = _object(data.get("metrics", {}), f"{at}/metrics")
    for key, number in metrics.items():
        if isinstance(number, bool) or not isinstance(number, int | float):
            fail(f"{at}/metrics/{_escape(key)}", "is not a number", "metrics are numbers only")
    return Outcome(
        status=_text(data, "status", at),
        summary=_text(data, "summary", at),
        metrics={key: _as_float(n, f"{at}/metrics/{_escape(key)}") for key, n in metrics.items()},
        commit=_text(data, "commit", at),
        branch=_text(data, "branch", at),
    )


def _artifact(value: object, at: str) -> Artifact:
    data = _object(value, at)
    _no_others(data, {"kind", "path", "content", "meta"}, at)
    _require(data, "kind", at)
    _require(data, "content", at)
    kind = _text(data, "kind", at)
    if kind not in set(ArtifactKind):
        fail(
            f"{at}/kind", f"{kind[:40]!r} is not a kind", f"write one of {', '.join(ArtifactKind)}"
        )
    meta = _object(data.get("meta", {}), f"{at}/meta")
    return Artifact(ArtifactKind(kind), _text(data, "content", at), _text(data, "path", at), meta)


def _evidence(value: object, at: str) -> Evidence:
    """`content` is text, `base64` anything; one of them."""
    data = _object(value, at)
    _no_others(data, {"name", "media_type", "content", "base64"}, at)
    _require(data, "name", at)
    if ("content" in data) == ("base64" in data):
        fail(at, "needs `content` or `base64`, and not both", "write text as content")
    name, media_type = _text(data, "name", at), _text(data, "media_type", at)
    if "content" in data:
        text = _text(data, "content", at)
        try:
            return Evidence(name, media_type, text.encode())
        except UnicodeEncodeError:
            fail(f"{at}/content", "holds half of a surrogate pair", "write it as base64")
    try:
        body = base64.b64decode(_text(data, "base64", at), validate=True)
    except (binascii.Error, ValueError):
        fail(
            f"{at}/base64", "is not base64", "encode the bytes as RFC 4648 says, without line ends"
        )
    return Evidence(name, media_type, body)


def _object(value: object, at: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        fail(at, f"is {_json_type(value)}, not an object", "write {…} here")
    return value


def _list(value: object, at: str) -> Sequence[Any]:
    if not isinstance(value, list):
        fail(at, f"is {_json_type(value)}, not a list", "write […] here")
    return value


def _texts(value: object, at: str) -> list[str]:
    items = _list(value, at)
    for i, item in enumerate(items):
        if not isinstance(item, str):
            fail(f"{at}/{i}", f"is {_json_type(item)}, not a string", "put it in quotes")
    return list(items)


def _text(data: Mapping[str, Any], key: str, at: str) -> str:
    value = data.get(key, "")
    if value is None:
        return ""
    if not isinstance(value, str):
        fail(f"{at}/{key}", f"is {_json_type(value)}, not a string", "put it in quotes")
    return value


def _time(value: object, at: str) -> datetime | None:
    if value is None or value == "":
        return None
    fix = "write RFC 3339 with an offset, as 2026-11-22T09:30:00Z"
    if not isinstance(value, str):
        fail(at, f"is {_json_type(value)}, not a time", fix)
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        fail(at, f"{value[:40]!r} is not a time", fix)
    if time.tzinfo is None:
        fail(at, f"{value[:40]!r} has no offset from UTC", fix)
    return time


def _as_float(number: int | float, at: str) -> float:
    try:
        return float(number)
    except OverflowError:
        fail(at, "is too large for a double", "metrics are numbers up to 1.8e308")


def _require(data: Mapping[str, Any], key: str, at: str) -> None:
    if key not in data:
        fail(f"{at}/{key}", "is missing", "it is required; docs/episodes.md has an example")


def _no_others(data: Mapping[str, Any], known: set[str], at: str) -> None:
    for key in data:
        if key not in known:
            names = ", ".join(sorted(known))
            fail(f"{at}/{_escape(key)}", "is not a known key", f"the keys here are {names}")


def _json_type(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "a string", bool: "a truth value"}
    return "null" if value is None else names.get(type(value), "a number")


def _escape(key: object) -> str:
    """A key as a JSON pointer's token (RFC 6901), cut to a readable length."""
    return str(key)[:80].replace("~", "~0").replace("/", "~1")


# -- the limits -------------------------------------------------------------------------------------


def check(episode: Episode, now: datetime | None = None) -> Episode:
    """`episode` within every limit and normalised, with `body_hash` and `request_id` filled in.

    Raises: EpisodeInvalid, with the JSON pointer of the value at fault.
    """
    if episode.request_id and not _REQUEST_ID.fullmatch(episode.request_id):
        fail(
            "/request_id",
            "is not 1 to 128 printable ASCII characters without spaces",
            "use a UUID, or leave it out to have one made from the body",
        )
    check_repo(episode.repo)
    if len(episode.artifacts) > MAX_ARTIFACTS:
        _too_many_artifacts(len(episode.artifacts))
    artifacts = tuple(
        _check_artifact(a, f"/artifacts/{i}") for i, a in enumerate(episode.artifacts)
    )
    total = sum(len(a.content.encode()) for a in artifacts)
    if total > MAX_TOTAL_BYTES:
        fail(
            "/artifacts",
            f"hold {total:,} bytes of content, more than {MAX_TOTAL_BYTES:,}",
            "split the episode, with the same session_key",
        )
    evidence = _check_evidence(episode.evidence, total)
    _short(episode.agent_id, "/agent_id", MAX_NAME_BYTES)
    _short(episode.session_key, "/session_key", MAX_NAME_BYTES)
    checked = replace(
        episode,
        outcome=_check_outcome(episode.outcome),
        artifacts=artifacts,
        evidence=evidence,
        tags=_check_tags(episode.tags),
        started_at=_check_time(episode.started_at, now or datetime.now(UTC)),
    )
    body_hash = hash_body(checked)
    request_id = checked.request_id or f"body-{body_hash.hex()}"
    return replace(checked, body_hash=body_hash, request_id=request_id)


def check_repo(repo: str, at: str = "/repo") -> None:
    """Raises: EpisodeInvalid, when `repo` is no repository's name."""
    if not repo:
        fail(at, "is missing", "name the repository the run worked on")
    if not _REPO.fullmatch(repo):
        fail(
            at,
            f"{repo[:40]!r} is not a repository's name",
            "use 1 to 128 letters, digits, '.', '_', '-', '/', first a letter or digit",
        )


def _too_many_artifacts(n: int) -> NoReturn:
    fail(
        "/artifacts",
        f"has {n:,} artifacts, more than {MAX_ARTIFACTS}",
        "split the episode, with the same session_key",
    )


def _too_much_evidence(n: int) -> NoReturn:
    fail(
        "/evidence",
        f"has {n:,} entries, more than {MAX_EVIDENCE}",
        "join them, or split the episode",
    )


def _check_evidence(evidence: Sequence[Evidence], contents: int) -> tuple[Evidence, ...]:
    """`contents`: bytes of the artifacts, which count against the same sum."""
    if len(evidence) > MAX_EVIDENCE:
        _too_much_evidence(len(evidence))
    for i, one in enumerate(evidence):
        at = f"/evidence/{i}"
        if not one.name.strip():
            fail(f"{at}/name", "is empty", "name it, as a file")
        _short(one.name, f"{at}/name", MAX_NAME_BYTES)
        _short(one.media_type, f"{at}/media_type", MAX_MEDIA_TYPE_BYTES)
        if one.media_type and not _MEDIA_TYPE.fullmatch(one.media_type):
            fail(
                f"{at}/media_type", "is no media type", "write one as application/json, or nothing"
            )
        if not one.body:
            fail(f"{at}/content", "is empty", "leave out what holds nothing")
        if len(one.body) > MAX_EVIDENCE_BYTES:
            size = f"{len(one.body):,} bytes, more than {MAX_EVIDENCE_BYTES:,}"
            fail(f"{at}/content", f"is {size}", "split the episode, with the same session_key")
    total = contents + sum(len(one.body) for one in evidence)
    if total > MAX_EPISODE_BYTES:
        fail(
            "/evidence",
            f"and the artifacts hold {total:,} bytes, more than {MAX_EPISODE_BYTES:,}",
            "split the episode, with the same session_key",
        )
    return tuple(
        one if one.media_type else replace(one, media_type=DEFAULT_MEDIA_TYPE) for one in evidence
    )


def _check_outcome(outcome: Outcome) -> Outcome:
    at = "/outcome"
    if outcome.status not in STATUSES:
        fail(
            f"{at}/status",
            f"{outcome.status[:40]!r} is not a status",
            f"write one of {', '.join(STATUSES)}",
        )
    _short(outcome.summary, f"{at}/summary", MAX_SUMMARY_BYTES)
    _short(outcome.branch, f"{at}/branch", MAX_NAME_BYTES)
    if outcome.commit and not _COMMIT.fullmatch(outcome.commit):
        fail(
            f"{at}/commit", "is not a commit's hash", "write 4 to 64 hexadecimal digits, or nothing"
        )
    if len(outcome.metrics) > MAX_METRICS:
        fail(f"{at}/metrics", f"has more than {MAX_METRICS} entries", "keep those worth comparing")
    for key, number in outcome.metrics.items():
        where = f"{at}/metrics/{_escape(key)}"
        _label(key, where)
        if not math.isfinite(number):
            fail(where, "is not a finite number", "leave it out when it is not known")
    return replace(
        outcome, commit=outcome.commit.lower(), metrics=dict(sorted(outcome.metrics.items()))
    )


def _check_artifact(artifact: Artifact, at: str) -> Artifact:
    if not artifact.content.strip():
        fail(f"{at}/content", "is empty", "leave the artifact out when there is nothing to say")
    _short(artifact.content, f"{at}/content", MAX_CONTENT_BYTES)
    path = artifact.path
    _short(path, f"{at}/path", MAX_PATH_BYTES)
    if path.startswith("/") or "\\" in path or ".." in path.split("/"):
        fail(
            f"{at}/path",
            f"{path[:80]!r} does not stay inside the repository",
            "write it relative to the repository's root, with '/' and without '..'",
        )
    meta = _normal(artifact.meta, f"{at}/meta", 0)
    size = len(_canonical(meta))
    if size > MAX_META_BYTES:
        fail(f"{at}/meta", f"is {size:,} bytes of JSON, more than {MAX_META_BYTES:,}", "shorten it")
    return replace(artifact, meta=meta)


def _normal(value: Any, at: str, depth: int) -> Any:
    """A JSON value in its one form: whole floats become integers, as JSON and protobuf mix them."""
    if depth > MAX_META_DEPTH:
        fail(at, f"is more than {MAX_META_DEPTH} levels deep", "flatten it")
    if isinstance(value, Mapping):
        for key in value:
            _plain(str(key), at)
        return {k: _normal(v, f"{at}/{_escape(k)}", depth + 1) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_normal(v, f"{at}/{i}", depth + 1) for i, v in enumerate(value)]
    if isinstance(value, str):
        _plain(value, at)
        return value
    if value is None or isinstance(value, bool):
        return value
    return _normal_number(value, at)


def _normal_number(value: int | float, at: str) -> int | float:
    if isinstance(value, float) and not math.isfinite(value):
        fail(at, "is not a finite number", "leave it out when it is not known")
    if abs(value) > MAX_EXACT_INTEGER and isinstance(value, int):
        fail(at, "is an integer that a double can't hold exactly", "write it as a string")
    if isinstance(value, float) and value.is_integer() and abs(value) <= MAX_EXACT_INTEGER:
        return int(value)
    return value


def _check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    if len(tags) > MAX_TAGS:
        fail("/tags", f"has {len(tags)} tags, more than {MAX_TAGS}", "keep those you filter by")
    for i, tag in enumerate(tags):
        _label(tag, f"/tags/{i}")
    return tuple(sorted(set(tags)))


def _check_time(time: datetime | None, now: datetime) -> datetime | None:
    if time is None:
        return None
    time = time.astimezone(UTC)
    if time < EPOCH or time > now + CLOCK_SKEW:
        fail(
            "/started_at",
            f"{time.isoformat()} is before 1970 or in the future",
            "set the clock right",
        )
    return time


def _label(text: str, at: str) -> None:
    if not text.strip():
        fail(at, "is empty", "write at least one character")
    _short(text, at, MAX_LABEL_BYTES)


def _short(text: str, at: str, limit: int) -> None:
    _plain(text, at)
    size = len(text.encode())
    if size > limit:
        fail(at, f"is {size:,} bytes, more than {limit:,}", "shorten it, or split it")


def _plain(text: str, at: str) -> None:
    if "\0" in text:
        fail(at, "holds a NUL character", "take it out; text stores refuse it")
    try:
        text.encode()
    except UnicodeEncodeError:
        fail(at, "holds half of a surrogate pair", "write whole characters; it is not valid UTF-8")


# -- the hash -----------------------------------------------------------------------------------------


def hash_body(episode: Episode) -> bytes:
    """32 bytes of BLAKE2b over the canonical JSON of all but the request id: equal bodies, equal hash."""
    body: dict[str, Any] = {
        "repo": episode.repo,
        "outcome": {
            "status": episode.outcome.status,
            "summary": episode.outcome.summary,
            "metrics": _normal(episode.outcome.metrics, "/outcome/metrics", 0),
            "commit": episode.outcome.commit,
            "branch": episode.outcome.branch,
        },
        "artifacts": [
            {"kind": str(a.kind), "path": a.path, "content": a.content, "meta": a.meta}
            for a in episode.artifacts
        ],
        "agent_id": episode.agent_id,
        "session_key": episode.session_key,
        "tags": list(episode.tags),
        "started_at": episode.started_at.isoformat() if episode.started_at else "",
    }
    if episode.evidence:  # bodies without it hash as they did before there was any
        body["evidence"] = [
            {
                "name": e.name,
                "media_type": e.media_type,
                "hash": hashlib.blake2b(e.body).hexdigest(),
            }
            for e in episode.evidence
        ]
    return hashlib.blake2b(_canonical(body), digest_size=32).digest()


def _canonical(value: object) -> bytes:
    """JSON with sorted keys and no white space, in UTF-8."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return text.encode()
