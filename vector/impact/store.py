"""ImpactStore: what a diff changes in the index, and what happened to code before, as a view sees both."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from uuid import UUID

from plait.domain.recall import PastEvent
from plait.domain.values import ItemId, Revision
from plait.ports import Changed, ChangedCode, Run, View
from plait.text.diff import Diff, FileDiff, Hunk, parse_diff, touched
from plait.text.hunk_functions import SourceFile, Span, functions
from vector.connection.pool import Scoped
from vector.impact import sql as q

MAX_FILES, MAX_HUNKS = 50, 400  # of a diff: what is larger is no one change
MAX_CHUNKS = 20_000  # of the files of a diff
MAX_ENDS, MAX_TESTS = 400, 2_000
FILE_ONLY = 0.4  # how sure a file stands for a hunk that was not found in it; guessed
_EVERYWHERE = 2**31 - 1
_TITLE = 160


class Impacts:
    def __init__(self, app: Scoped) -> None:
        self._app = app

    async def changed(self, view: View, diff: str) -> ChangedCode:
        # A diff may have 256 kB, and its hunks are looked for in whole files: a thread's work.
        read, cut = await asyncio.to_thread(lambda: _bounded(touched(parse_diff(diff))))
        symbols: dict[tuple[str, str, str], Changed] = {}
        known: set[str] = set()
        for revision in view.revisions:
            if not revision.number or not read:
                continue
            paths = await self._paths_meant(view, revision, read)
            known |= paths.keys()
            files = await self._chunks_of_files(view, revision, sorted(set(paths.values())))
            for one in await asyncio.to_thread(_changed, revision.repo, read, paths, files):
                key = (one.repo, one.path, one.symbol)
                if key not in symbols or symbols[key].sure < one.sure:
                    symbols[key] = one
        unknown = tuple(file.path for file in read if file.path not in known)
        return ChangedCode(tuple(symbols.values()), unknown, cut)

    async def history(
        self, view: View, repo: str, ends: Sequence[str], tests: Sequence[str], limit: int
    ) -> list[PastEvent]:
        revision = next((r for r in view.revisions if r.repo == repo), None)
        if revision is None or limit <= 0:
            return []
        given = {**_times(view), "repo": revision.repo_id, "limit": limit}
        events: list[PastEvent] = []
        if ends:
            sent = {**given, "ends": [_clean(e) for e in ends[:MAX_ENDS]]}
            rows = await self._app.rows(q.TOUCHED_BY, sent, tenant=view.tenant)
            events += [_diff_event(row) for row in rows]
        if tests:
            sent = {**given, "tests": [_clean(t) for t in tests[:MAX_TESTS]]}
            rows = await self._app.rows(q.FAILED, sent, tenant=view.tenant)
            events += [_failure(row) for row in rows]
        events.sort(key=lambda e: (-_seconds(e.at), e.kind, e.node))
        return events[:limit]

    async def runs_behind(self, view: View, ids: Sequence[ItemId]) -> dict[ItemId, Run]:
        if not ids:
            return {}
        repos = [r.repo_id for r in view.revisions]
        given = {**_times(view), "ids": list(ids), "repos": repos}
        rows = await self._app.rows(q.RUNS_BEHIND, given, tenant=view.tenant)
        return {
            ItemId(id_): Run(episode, status, summary, at, tuple(diffs), tuple(fixed))
            for id_, episode, status, summary, at, diffs, fixed in rows
        }

    async def _paths_meant(
        self, view: View, revision: Revision, files: Sequence[FileDiff]
    ) -> dict[str, str]:
        """By `FileDiff.path` the indexed path that is meant: itself, the name before it was moved, the
        longest end of it that there is (two parts at least), or the one path that ends with it."""
        here: dict[str, Any] = {"repo": revision.repo_id, "number": revision.number}
        names = {file.path: [n for n in (file.new, file.old) if n] for file in files}
        tried = {
            path: [end for name in own for end in (name, *_ends(name))]
            for path, own in names.items()
        }
        candidates = sorted({_clean(end) for ends in tried.values() for end in ends})
        rows = await self._app.rows(q.PATHS, {**here, "paths": candidates}, tenant=view.tenant)
        there = {path for (path,) in rows}
        found = {
            path: hit
            for path, ends in tried.items()
            if (hit := next((end for end in ends if end in there), ""))
        }
        if missing := {n: path for path, own in names.items() if path not in found for n in own}:
            sent = {**here, "paths": [_clean(name) for name in missing]}
            rows = await self._app.rows(q.PATHS_BY_END, sent, tenant=view.tenant)
            for name, first, last in rows:
                if first == last and name in missing:
                    found.setdefault(missing[name], first)
        return found

    async def _chunks_of_files(
        self, view: View, revision: Revision, paths: Sequence[str]
    ) -> dict[str, list[_Chunk]]:
        if not paths:
            return {}
        given = {
            "repo": revision.repo_id,
            "number": revision.number,
            "paths": list(paths),
            "limit": MAX_CHUNKS,
        }
        rows = await self._app.rows(q.CHUNKS, given, tenant=view.tenant)
        chunks: dict[str, list[_Chunk]] = {}
        for path, *columns in rows:
            chunks.setdefault(path, []).append(_Chunk(*columns))
        return chunks


@dataclass(frozen=True, slots=True)
class _Chunk:
    symbol: str
    kind: str
    start: int
    end: int
    content: str
    is_test: bool

    @property
    def name(self) -> str:
        """Without the `#n` of later parts."""
        return self.symbol.partition("#")[0]


@dataclass(frozen=True, slots=True)
class IndexedFile:
    """One file as its chunks have it: lines, as far as they can be numbered, and the spans of symbols;
    the file itself is a span round all others, named ""."""

    source: SourceFile
    first: Mapping[str, _Chunk]

    @classmethod
    def of(cls, chunks: Sequence[_Chunk]) -> IndexedFile:
        own = [c for c in chunks if c.symbol and c.kind != "module"]
        first: dict[str, _Chunk] = {}
        ends: dict[str, int] = {}
        for chunk in own:
            first.setdefault(chunk.name, chunk)
            # What it holds ends inside it: a class whose chunk stops before its methods goes on.
            for name in _enclosing(chunk.name):
                ends[name] = max(ends.get(name, 0), chunk.end)
        spans = [Span(name, chunk.start, ends[name]) for name, chunk in first.items()]
        lines: dict[int, str] = {}
        for chunk in chunks:
            for number, line in _numbered(chunk, own):
                lines.setdefault(number, line)
        everything = Span("", 1, _EVERYWHERE)
        return cls(SourceFile.of(lines, [everything, *spans]), first)

    def changed(self, repo: str, path: str, file: FileDiff) -> Iterable[Changed]:
        """What the hunks of `file` change, in their order."""
        for hunk in file.hunks:
            symbols = functions(
                hunk.lines, hunk.old_start, hunk.new_start, hunk.heading, self.source
            )
            if not symbols:
                yield Changed(repo, path, "", 1, sure=FILE_ONLY)
            for symbol in symbols:
                if symbol:
                    chunk = self.first[symbol]
                    yield Changed(repo, path, symbol, chunk.start, chunk.is_test)
                elif _says_something(hunk):
                    yield Changed(repo, path, "", 1)


def _changed(
    repo: str,
    diff: Sequence[FileDiff],
    paths: Mapping[str, str],
    chunks: Mapping[str, Sequence[_Chunk]],
) -> list[Changed]:
    """What `diff` changes in files that are indexed; `paths`: by `FileDiff.path` the indexed one."""
    files = {path: IndexedFile.of(found) for path, found in chunks.items()}
    return [
        one
        for file in diff
        if (path := paths.get(file.path)) is not None and path in files
        for one in files[path].changed(repo, path, file)
    ]


def _enclosing(name: str) -> list[str]:
    """`a.b.c`: itself, `a.b` and `a`; also of `a::b`."""
    found = [name]
    for at in range(len(name) - 1, 0, -1):
        if name[at] in ".:/#" and name[at - 1] not in ".:/#":
            found.append(name[:at])
    return found[:12]


def _numbered(chunk: _Chunk, own: Sequence[_Chunk]) -> list[tuple[int, str]]:
    """The lines of a chunk with their numbers. Of one that leaves out what has chunks of its own, those
    before the first and after the last of it."""
    rows = chunk.content.split("\n")
    if rows and not rows[-1] and len(rows) == chunk.end - chunk.start + 2:
        rows.pop()
    if len(rows) == chunk.end - chunk.start + 1:
        return list(enumerate(rows, chunk.start))
    inner = [
        c for c in own if chunk.start <= c.start and c.end <= chunk.end and c.name != chunk.name
    ]
    if not inner:
        return []
    before = min(c.start for c in inner) - chunk.start
    after = min(chunk.end - max(c.end for c in inner), max(0, len(rows) - before))
    # A module's trailing run has no blank lines at its ends; a class's may, so only what is sure.
    head = list(enumerate(rows[: max(0, before)], chunk.start))
    tail = [(chunk.end - n, rows[-1 - n]) for n in range(after)] if chunk.kind == "module" else []
    return head + tail


_NOTHING = (
    "#",
    "//",
    "/*",
    "*",
    "--",
    "import ",
    "from ",
    "use ",
    "using ",
    "package ",
    "@",
    '"""',
)
_DEFINES = (
    "def ", "async def ", "class ", "func ", "fn ", "pub fn ", "function ", "async function ",
    "export function ", "export class ", "public class ", "interface ", "type ", "struct ", "impl ",
)  # fmt: skip


def _says_something(hunk: Hunk) -> bool:
    """Whether a change outside symbols may concern who imports the file: a value at the margin, not an
    import, a comment, or a new definition, which nobody uses yet."""
    return any(
        line[0] != " "
        and line[1:2].strip()
        and line[1:2] not in "})]"
        and not line[1:].startswith(_NOTHING + _DEFINES)
        for line in hunk.lines
    )


def _bounded(diff: Diff) -> tuple[list[FileDiff], bool]:
    bounded: list[FileDiff] = []
    left = MAX_HUNKS
    for file in diff.files[:MAX_FILES]:
        bounded.append(replace(file, hunks=file.hunks[:left]))
        left -= len(bounded[-1].hunks)
    whole = sum(len(file.hunks) for file in diff.files) == MAX_HUNKS - left
    return bounded, not whole or len(diff.files) > MAX_FILES


def _ends(path: str) -> list[str]:
    """What is left of `path` behind each of its first folders, two parts at least, the longest first."""
    parts = path.split("/")[:40]
    return ["/".join(parts[n:]) for n in range(1, len(parts) - 1)]


def _diff_event(row: Sequence[Any]) -> PastEvent:
    source, ends, at, status, summary, links = row
    _, item, path = source.split("/", 2)
    by: dict[str, list[str]] = {}
    for link in links:
        relation, _, target = link.partition(" ")
        by.setdefault(relation, []).append(target)
    fixed, caused, tests = (by.get(r, []) for r in ("FIXES", "CAUSES", "VALIDATED_BY"))
    issues = [target.removeprefix("issue/") for target in (fixed or caused)]
    kind, title = "change", f"changed {path}"
    if fixed or tests:
        kind, title = (
            "fix",
            f"fixed {', '.join(issues[:3])} in {path}" if fixed else f"fixed {path}",
        )
    elif caused:
        kind, title = "issue", f"caused {', '.join(issues[:3])} in {path}"
    elif status == "failure":
        kind, title = "failure", f"a run that failed changed {path}"
    return PastEvent(
        kind,
        _line(f"{title}: {summary}" if summary else title),
        at,
        ItemId(UUID(item)),
        source,
        tuple(ends),
        tuple(tests[:10]),
    )


def _failure(row: Sequence[Any]) -> PastEvent:
    test, times, _, item, reported, green = row
    often = "failed" if times == 1 else f"failed in {times} runs"
    since = "has passed since" if green is not None else "has not passed since"
    return PastEvent(
        "failure", _line(f"{reported} {often}, {since}"), row[2], ItemId(item), "", (), (test,)
    )


def _line(text: str) -> str:
    """One line, cut at a word."""
    flat = " ".join(text.split())
    if len(flat) <= _TITLE:
        return flat
    return flat[:_TITLE].rpartition(" ")[0] + " …"


def _times(view: View) -> dict[str, Any]:
    return {"valid": view.valid, "recorded": view.recorded}


def _seconds(at: datetime | None) -> float:
    return at.timestamp() if at is not None else 0.0


def _clean(text: str) -> str:
    return text.replace("\0", "").encode("utf-8", "replace").decode("utf-8")
