"""`Filter` and `View` as SQL conditions. Every value is bound; only our own names are written in."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from plait.domain.errors import InvalidInput
from plait.domain.values import Collection, Filter
from plait.ports import View
from vector.index.visible import ONE_BY_ONE, chunk, item
from vector.search.compacted import SEEN_NOW, seen_as_of
from vector.search.snapshots import PinnedView

# PostgreSQL compiles a pattern to an automaton, so matching is linear in the path; its size is not
# bounded by the pattern's length alone, hence these two.
MAX_GLOB = 400
MAX_WILDCARDS = 40

_GLOB = re.compile(r"\*\*/|\*\*|\*|\?|[^*?]+")


@dataclass(frozen=True, slots=True)
class Condition:
    """`table` to read as `i`, a boolean expression over it, and its parameters.

    `restrictive`: it says more than which collections, revisions and times. `timed`: rows come and go
    by time, which segments and their dead documents don't tell."""

    table: str
    where: str
    params: dict[str, Any]
    restrictive: bool
    timed: bool = False

    @property
    def in_bulk(self) -> str:
        """`where` for a statement that reads all that matches."""
        return self.where.replace(ONE_BY_ONE, "")

    @property
    def checked(self) -> bool:
        """Whether candidates must be held against it, wherever they come from."""
        return self.restrictive or self.timed


def condition(view: View, where: Filter) -> Condition:
    """What of `view` matches `where`. Raises: InvalidInput, for a bad glob or a NUL in a value."""
    _refuse_nul(where)
    collections = _there(view, where.collections or tuple(Collection))
    timed = any(c != Collection.FILES for c in collections)
    code = Collection.FILES in collections
    parts, params = _visible(view, code=code, agents=timed), _visible_params(view)
    if timed:
        times, bound = _times(view, code_too=code)
        parts += times
        params.update(bound)
    if len(collections) == 1:
        # The partition by its name: planning six of them costs more than most queries.
        table = Collection(collections[0]).value
    else:
        table = "item"
        if set(collections) != set(Collection):
            parts.append("i.collection = ANY(%(collections)s)")
            params["collections"] = [Collection(c).value for c in collections]
    extra = dict(_restrictions(where))
    parts += extra
    for bound in extra.values():
        params.update(bound)
    return Condition(table, " AND ".join(parts), params, bool(extra), timed)


def _there(view: View, asked: Sequence[Collection]) -> Sequence[Collection]:
    """Those of `asked` that the view has something of: every item of an agent is in a segment of the text index, and
    planning a statement over six partitions costs more than most queries."""
    if not isinstance(view, PinnedView):
        return asked
    agents = {segment.collection for segment in view.segments}
    published = any(revision.number for revision in view.revisions)
    found = [c for c in asked if (published if c is Collection.FILES else c.value in agents)]
    return found or asked[:1]


def _visible(view: View, *, code: bool, agents: bool) -> list[str]:
    """Rows of the pinned revisions, which hold all agents' items."""
    if len(view.revisions) == 1:
        number, repos = "%(number)s", "i.repo_id = %(repo)s"
    else:
        number = "(%(numbers)s::int[])[array_position(%(repos)s::int[], i.repo_id)]"
        repos = "i.repo_id = ANY(%(repos)s)"
    if not code:
        return [repos]
    return [repos, item("i", number) if agents else chunk("i", number)]


def _times(view: View, *, code_too: bool) -> tuple[list[str], dict[str, Any]]:
    """Rows without revisions by their two times: known at `view.recorded`, holding at `view.valid`.
    Code has neither; its draft was written before the time of its revision, or after a clock's jump."""
    valid, params = "now()", {}
    if view.valid is not None:
        valid, params = "%(valid)s", {"valid": view.valid}
    holds = (
        f"(i.valid_from IS NULL OR i.valid_from <= {valid})"
        f" AND (i.valid_to IS NULL OR i.valid_to > {valid})"
    )
    if view.recorded is None:
        return [_of_agents(holds, code_too), SEEN_NOW], params
    known = f"i.recorded_at <= %(recorded)s AND {seen_as_of('%(recorded)s')}"
    return [_of_agents(f"{holds} AND {known}", code_too)], {**params, "recorded": view.recorded}


def _of_agents(times: str, code_too: bool) -> str:
    """`times`, asked only of rows without revisions. The planner knows next to nothing of them and would
    take code, which has none, for rare: it then read all of it, 140 ms of 100,000 chunks, instead of HNSW."""
    return f"(i.rev_from > 0 OR ({times}))" if code_too else times


def _visible_params(view: View) -> dict[str, Any]:
    if len(view.revisions) == 1:
        return {"repo": view.revisions[0].repo_id, "number": view.revisions[0].number}
    return {
        "repos": [r.repo_id for r in view.revisions],
        "numbers": [r.number for r in view.revisions],
    }


def _restrictions(where: Filter) -> list[tuple[str, dict[str, Any]]]:
    out: list[tuple[str, dict[str, Any]]] = []
    if where.kinds:
        out.append(("i.kind = ANY(%(kinds)s)", {"kinds": list(where.kinds)}))
    if where.languages:
        out.append(("i.language = ANY(%(languages)s)", {"languages": list(where.languages)}))
    if where.path_glob:
        out.append(_glob(where.path_glob))
    if where.tags_any:
        out.append(("i.tags && %(tags_any)s::text[]", {"tags_any": list(where.tags_any)}))
    if where.tags_all:
        out.append(("i.tags @> %(tags_all)s::text[]", {"tags_all": list(where.tags_all)}))
    if where.since:
        out.append(("i.ts >= %(since)s", {"since": where.since}))
    if where.until:
        out.append(("i.ts < %(until)s", {"until": where.until}))
    if where.agent_id:
        out.append(("i.agent_id = %(agent)s", {"agent": where.agent_id}))
    if where.session_key:
        out.append(("i.session_key = %(session)s", {"session": where.session_key}))
    return out + _of_memories(where)


def _of_memories(where: Filter) -> list[tuple[str, dict[str, Any]]]:
    out: list[tuple[str, dict[str, Any]]] = []
    if where.sources:
        out.append(("i.source = ANY(%(sources)s)", {"sources": [str(s) for s in where.sources]}))
    if where.types:
        out.append(("i.type = ANY(%(types)s)", {"types": [str(t) for t in where.types]}))
    if where.importance_min > 0:
        # As a `real`, which is what the column holds: 0.7 has to match what was stored as 0.7.
        out.append(("i.importance >= %(important)s::float4", {"important": where.importance_min}))
    if where.created_after:
        out.append(("i.created_at >= %(created_after)s", {"created_after": where.created_after}))
    if where.created_before:
        out.append(("i.created_at < %(created_before)s", {"created_before": where.created_before}))
    return out


def _glob(glob: str) -> tuple[str, dict[str, Any]]:
    prefix = re.split(r"[*?]", glob, maxsplit=1)[0]
    if prefix == glob:
        return "i.path = %(glob)s", {"glob": glob}
    pattern = {"glob": glob_pattern(glob)}
    if not prefix:
        return "i.path ~ %(glob)s", pattern
    # The prefix finds its rows by the index on (repo_id, path), whose order is that of code points.
    return (
        "i.path >= %(prefix)s AND i.path < %(beyond)s AND i.path ~ %(glob)s",
        {**pattern, "prefix": prefix, "beyond": _beyond(prefix)},
    )


def _beyond(prefix: str) -> str:
    """A string after all that start with `prefix`: no name has the noncharacter U+10FFFF."""
    return prefix + "\U0010ffff"


def glob_pattern(glob: str) -> str:
    """An anchored PostgreSQL pattern: `*` and `?` stay inside one part of a path, `**` crosses, and
    `**/` may also be nothing. Raises: InvalidInput."""
    if len(glob) > MAX_GLOB or len(re.findall(r"\*+|\?", glob)) > MAX_WILDCARDS:
        raise InvalidInput(
            f"path_glob is too long or has too many wildcards; at most {MAX_GLOB} characters and "
            f"{MAX_WILDCARDS} wildcards",
            field="path_glob",
        )
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    pieces = [known.get(piece) or _escape(piece) for piece in _GLOB.findall(glob)]
    return "^" + "".join(pieces) + "$"


def _escape(text: str) -> str:
    """Each special character in a class of its own; `\\` and `^` can't stand there alone."""
    return re.sub(r"[][\\^$.|?*+(){}]", lambda m: "\\" + m[0], text)


def _refuse_nul(where: Filter) -> None:
    texts = {
        "repos": where.repos,
        "kinds": where.kinds,
        "languages": where.languages,
        "path_glob": (where.path_glob,),
        "tags_any": where.tags_any,
        "tags_all": where.tags_all,
        "agent_id": (where.agent_id,),
        "session_key": (where.session_key,),
    }
    for name, values in texts.items():
        if any("\0" in value for value in values):
            raise InvalidInput(f"`{name}` holds a NUL character; remove it", field=name)
