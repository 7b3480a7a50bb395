"""Requests → domain values. Everything that comes in is checked here, with the field at fault named."""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from uuid import UUID

from google.protobuf.message import Message
from google.protobuf.timestamp_pb2 import Timestamp

from etl.pipeline import IndexRequest
from plait.domain.deadline import Deadline
from plait.domain.errors import InvalidInput, PageTokenInvalid
from plait.domain.values import Episode, Filter, ItemId
from plait.memory import episode as episodes
from plait.retrieval.explain import MAX_IDS
from plait.retrieval.search import Mode, SearchQuery
from plait.v1 import graph_pb2, index_service_pb2, knowledge_service_pb2, types_pb2
from plait.wire import episodes as wire_episodes
from plait.wire import graph, items, scalars
from plait.wire import search as wire_search

MAX_CYPHER_BYTES = 65_536
MAX_PARAMETERS = 100
MAX_PARAMETER_BYTES = 2**20
MAX_PARAMETER_DEPTH = 32
MAX_ROWS = 100_000
MAX_REPOSITORIES = 100
MAX_LIST = 50
MAX_STAGES_OFF = 15
MAX_NAME_BYTES = 256
MAX_CHANGED = 10_000  # paths of one request
MAX_PATH_BYTES = 4096
DEFAULT_PAGE = 100
MAX_PAGE = 1000

_REQUEST_ID = re.compile(r"[\x21-\x7e]{1,128}")


def bad(field: str, problem: str, **metadata: object) -> InvalidInput:
    """An InvalidInput on `field`, ready to raise."""
    return InvalidInput(f"{field} {problem}", field=field, **metadata)


# -- search ----------------------------------------------------------------------------------------------


def search(request: knowledge_service_pb2.SearchRequest, deadline: Deadline) -> SearchQuery:
    """Raises: InvalidInput."""
    # The text, k and min_score are checked where every search begins: `retrieval.query.analyse`.
    where = filter_(request.filter, "filter")
    modes(request)
    off, why_not = (
        stages_off(request.stages_off),
        ids(request.why_not, "why_not", MAX_IDS),
    )
    options = wire_search.options_of(request)
    return SearchQuery(
        request.query,
        where,
        request.k,
        request.min_score,
        Mode(options.mode),
        options.fusion,
        options.explain,
        deadline,
        off,
        why_not,
    )


def modes(
    request: knowledge_service_pb2.SearchRequest | knowledge_service_pb2.RecallRequest,
) -> None:
    """Raises: InvalidInput, for a mode or a fusion that this server does not know."""
    choice(request.mode, "mode", wire_search.MODE_OF)
    choice(request.fusion, "fusion", wire_search.FUSION_OF)


def stages_off(names: Iterable[str], at: str = "stages_off") -> tuple[str, ...]:
    """Their names are checked against the tuple of stages, by its runner. Raises: InvalidInput."""
    out = tuple(dict.fromkeys(names))
    if len(out) > MAX_STAGES_OFF:
        raise bad(at, f"has {len(out)} names, more than {MAX_STAGES_OFF}; there are no more stages")
    return out


def ids(values: Iterable[str], at: str, most: int) -> tuple[ItemId, ...]:
    """Raises: InvalidInput."""
    out = tuple(dict.fromkeys(values))
    if len(out) > most:
        raise bad(at, f"has {len(out)} ids, more than {most}; ask twice")
    return tuple(ItemId(uuid(value, f"{at}[{i}]")) for i, value in enumerate(out))


def uuid(value: str, at: str) -> UUID:
    """Raises: InvalidInput."""
    try:
        return UUID(value)
    except ValueError:
        said = f"is {value[:60]!r}, no UUID" if value else "is empty; it is required"
        raise bad(at, f"{said}; copy the id from an answer" if value else said) from None


def filter_(message: types_pb2.Filter, at: str) -> Filter:
    """With the names as the caller gave them. Raises: InvalidInput."""
    repositories(message.repositories, f"{at}.repositories")
    for name in ("kinds", "languages", "tags_any", "tags_all"):
        texts(getattr(message, name), f"{at}.{name}")
    text(message.path_glob, f"{at}.path_glob", 512)
    text(message.agent_id, f"{at}.agent_id", MAX_NAME_BYTES)
    text(message.session_key, f"{at}.session_key", MAX_NAME_BYTES)
    for i, number in enumerate(message.collections):
        choice(number, f"{at}.collections[{i}]", items.COLLECTION_OF)
    for name in ("since", "until"):
        if message.HasField(name):  # type: ignore[arg-type]
            time(getattr(message, name), f"{at}.{name}")
    where = items.filter_of(message)
    if where.since and where.until and where.until <= where.since:
        raise bad(f"{at}.until", "is not after since, so nothing can match; swap them")
    return where


# -- graph -------------------------------------------------------------------------------------------------


def repositories(names: Iterable[str], at: str) -> tuple[str, ...]:
    """Raises: InvalidInput."""
    out = tuple(dict.fromkeys(names))
    if len(out) > MAX_REPOSITORIES:
        raise bad(
            at, f"has {len(out)} names, more than {MAX_REPOSITORIES}; set all_repositories for all"
        )
    for i, name in enumerate(out):
        repository(name, f"{at}[{i}]")
    return out


def repository(name: str, at: str) -> str:
    """Any name that could be indexed. Raises: InvalidInput."""
    if not name:
        raise bad(at, "is empty; name a repository (`ListRepositories` has them)")
    return text(name, at, MAX_NAME_BYTES)


def parameters(entries: Mapping[str, graph_pb2.GraphValue], at: str) -> dict[str, Any]:
    """The values of a query's parameters: plain ones, of bounded number, size and depth.

    Raises: InvalidInput.
    """
    if len(entries) > MAX_PARAMETERS:
        raise bad(
            at, f"has {len(entries)} entries, more than {MAX_PARAMETERS}; pass a list or a map"
        )
    size = sum(len(key) + value.ByteSize() for key, value in entries.items())
    if size > MAX_PARAMETER_BYTES:
        raise bad(at, f"are {size:,} bytes, more than {MAX_PARAMETER_BYTES:,}; send fewer values")
    for key, value in entries.items():
        if not key.isidentifier():
            raise bad(at, f"has the key {key[:40]!r}; use letters, digits and '_'")
        _check_parameter(value, f"{at}[{key}]", 0)
    return graph.map_of(entries)


def _check_parameter(value: graph_pb2.GraphValue, at: str, depth: int) -> None:
    if depth > MAX_PARAMETER_DEPTH:
        raise bad(at, f"is more than {MAX_PARAMETER_DEPTH} levels deep; flatten it")
    kind = value.WhichOneof("kind")
    if kind in ("node_value", "edge_value", "path_value"):
        raise bad(at, f"is a {kind.split('_')[0]}; pass its id instead")
    if kind == "double_value" and not math.isfinite(value.double_value):
        raise bad(at, "is not a finite number; leave it out when it is not known")
    if kind == "string_value":
        text(value.string_value, at, MAX_PARAMETER_BYTES)
    for item in value.list_value.values if kind == "list_value" else ():
        _check_parameter(item, at, depth + 1)
    for item in value.map_value.entries.values() if kind == "map_value" else ():
        _check_parameter(item, at, depth + 1)


def max_rows(value: int, most: int) -> int:
    """Raises: InvalidInput."""
    asked = in_range(value, "max_rows", 0, MAX_ROWS)
    return min(asked or most, most)


# -- episodes ------------------------------------------------------------------------------------------------


def episode(request: knowledge_service_pb2.AppendEpisodeRequest) -> Episode:
    """Raises: EpisodeInvalid, InvalidInput."""
    message = request.episode
    if not request.HasField("episode"):
        raise bad("episode", "is missing; it is required")
    if not message.HasField("outcome"):
        raise bad("episode.outcome", "is missing; it is required")
    choice(message.outcome.status, "episode.outcome.status", wire_episodes.STATUS_OF)
    if len(message.artifacts) > episodes.MAX_ARTIFACTS:
        count = len(message.artifacts)
        raise bad("episode.artifacts", f"has {count} artifacts, more than {episodes.MAX_ARTIFACTS}")
    for i, artifact in enumerate(message.artifacts):
        choice(artifact.kind, f"episode.artifacts[{i}].kind", wire_episodes.ARTIFACT_KIND_OF)
        shallow(artifact.meta, f"episode.artifacts[{i}].meta")
    if message.HasField("start_time"):
        time(message.start_time, "episode.start_time")
    return episodes.check(wire_episodes.episode_of(message, request.request_id))


def shallow(meta: Message, at: str) -> None:
    # Three protobuf levels carry one of JSON. Protobuf's own limit of 100 comes first, so this is
    # only here to answer with the limit that the contract states.
    if meta.ByteSize() > 4 * episodes.MAX_META_BYTES:
        raise bad(at, f"is larger than {episodes.MAX_META_BYTES:,} bytes as JSON; shorten it")


# -- indexing ------------------------------------------------------------------------------------------------


def index(request: index_service_pb2.StartIndexRequest, tenant: str) -> IndexRequest:
    """Its name as the caller gave it. Raises: InvalidInput."""
    request_id(request.request_id)
    path = text(request.path, "path", MAX_PATH_BYTES)
    if not path:
        raise bad("path", "is empty; send the folder's absolute path on the server's machine")
    if not Path(path).is_absolute():
        raise bad(
            "path", f"{path[:80]!r} is relative; the server has no folder of yours to start in"
        )
    name = request.repository
    if name:
        text(name, "repository", MAX_NAME_BYTES)
    embed, move = not request.skip_embedding, request.move
    keep, touched = request.HasField("changed"), None
    if keep and not request.changed.all:
        touched = _changed(request.changed.paths)
    return IndexRequest(
        Path(path), name, embed=embed, move=move, tenant=tenant, touched=touched, keep=keep
    )


def _changed(paths: Sequence[str]) -> frozenset[str]:
    """Raises: InvalidInput."""
    if len(paths) > MAX_CHANGED:
        raise bad(
            "changed.paths",
            f"has {len(paths):,} paths, {MAX_CHANGED:,} at most; send `all` for so many changes",
        )
    for path in paths:
        text(path, "changed.paths", MAX_PATH_BYTES)
        if not path or path.startswith("/") or ".." in path.split("/"):
            raise bad("changed.paths", f"has {path[:80]!r}, which is no path inside the folder")
    return frozenset(paths)


def page(size: int, token: str) -> tuple[int, str]:
    """`(size, name after which the page starts)`. Raises: InvalidInput, PageTokenInvalid."""
    if size < 0:
        raise bad("page_size", f"is {size}; it must be 0 to {MAX_PAGE}")
    if not token:
        return min(size or DEFAULT_PAGE, MAX_PAGE), ""
    try:
        after = json.loads(base64.urlsafe_b64decode(token.encode()))["after"]
        if not isinstance(after, str):
            raise TypeError("after")
    except (binascii.Error, ValueError, KeyError, TypeError, RecursionError) as exc:
        raise PageTokenInvalid(
            "page_token is none that this server gave; begin again without one", field="page_token"
        ) from exc
    return min(size or DEFAULT_PAGE, MAX_PAGE), after


def page_token(after: str) -> str:
    return base64.urlsafe_b64encode(json.dumps({"after": after}).encode()).decode()


# -- what all share ----------------------------------------------------------------------------------------------


def request_id(value: str) -> str:
    """Raises: InvalidInput."""
    if value and not _REQUEST_ID.fullmatch(value):
        raise bad("request_id", "is not 1 to 128 printable ASCII characters; use a UUID")
    return value


def text(value: str, at: str, limit: int) -> str:
    """Raises: InvalidInput, when `value` is longer than `limit` bytes or holds a NUL."""
    size = len(value.encode())
    if size > limit:
        raise bad(at, f"is {size:,} bytes, more than {limit:,}; shorten it", size=size, limit=limit)
    if "\0" in value:
        raise bad(at, "holds a NUL character; take it out")
    return value


def texts(values: Iterable[str], at: str) -> None:
    """Raises: InvalidInput."""
    items = list(values)
    if len(items) > MAX_LIST:
        raise bad(at, f"has {len(items)} entries, more than {MAX_LIST}; ask twice")
    for i, value in enumerate(items):
        if not text(value, f"{at}[{i}]", MAX_NAME_BYTES):
            raise bad(f"{at}[{i}]", "is empty; leave it out")


def in_range(value: int, at: str, low: int, high: int) -> int:
    """Raises: InvalidInput."""
    if not low <= value <= high:
        raise bad(at, f"is {value}; it must be {low} to {high}, 0 for the default", value=value)
    return value


def choice(number: int, at: str, table: Mapping[Any, Any]) -> Any:
    """The table's value of an enum's number. Raises: InvalidInput, for one that isn't in it."""
    if number not in table:
        raise bad(at, f"is {number}, which this server does not know or may not be left unset")
    return table[number]


def time(message: Timestamp, at: str) -> None:
    """Raises: InvalidInput."""
    try:
        scalars.datetime_of(message)
    except (ValueError, OverflowError) as exc:
        raise bad(at, "is no time between the years 1 and 9999") from exc
