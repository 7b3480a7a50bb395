"""The four tools: what each asks the service, and what it answers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import uuid4

from server.mcp import graph, paths
from server.mcp.answer import Answer, Refused, counted, one_line, place
from server.mcp.tools import Graph, Recall, Remember, Search

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from plait.client.folders import Here
    from plait.domain.answers.indexing import Repository
    from plait.domain.answers.recalls import RecallResult
    from plait.domain.answers.search import Degradation
    from plait.domain.values import Hit
    from server.mcp.service import Service

# The server's own limits (plait/retrieval/query/analysis.py, plait/memory/entry.py), said here in the tools' words;
# a note is one thing worth knowing, so it is held shorter.
MAX_QUERY_BYTES = 8192
MAX_ATTACHED_BYTES = 262_144
MAX_NOTE_BYTES = 16_384
MIN_BUDGET, MAX_BUDGET = 150, 8000
MAX_K = 50
# What an answer says beside the block of a recall: freshness, what was left out.
FOOTER_TOKENS = 50
# As JSON a block takes more tokens (newlines and quotes are escaped): measured by benchmarks.mcp_cost.
JSON_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class Called:
    """One call on its way: where it is asked, and who asks."""

    service: Service
    here: Here
    repository: Repository
    agent: str = ""


async def recall(call: Called, asked: Recall) -> Answer:
    """A block for the prompt, whole within `budget` tokens as text and as JSON."""
    from plait.domain.options import RecallOptions
    from plait.domain.values import Filter

    task, attached = _query(asked)
    _in_range("budget", asked.budget, MIN_BUDGET, MAX_BUDGET)
    where = Filter(repos=(call.repository.name,))
    budget = int((asked.budget - FOOTER_TOKENS) * (1 - JSON_SHARE))
    found = await call.service.ask(
        lambda client: client.recall(
            task,
            where=where,
            collections=(),
            attached=attached,
            options=RecallOptions(budget_tokens=budget),
        )
    )
    block = found.context.strip("\n")
    notes = [f"nothing helps: {found.silence}" if not block else "", _left_out(found)]
    shown = {one.item.path for one in found.items if one.item.path and one.item.start_line}
    return _answer(
        call,
        shown,
        [block] if block else [],
        {"context": block},
        [*notes, *_degraded(found.degraded)],
        {
            "recall_id": str(found.recall_id or ""),
            "tokens": found.tokens,
            "budget": asked.budget,
            "items": [str(one.item.id) for one in found.items],
        },
    )


def _query(asked: Recall) -> tuple[str, str]:
    """The query and what is attached to it: a diff, a trace, or a task that is too long for a query."""
    attached = "\n\n".join(part for part in (asked.diff, asked.trace) if part.strip())
    task = asked.task.strip()
    if not task and not attached:
        raise Refused(
            "The call is empty: say what you are about to do in `task`, or give `diff` or `trace`."
        )
    if _size(task) > MAX_QUERY_BYTES:  # an issue's text, say
        attached, task = "\n\n".join(filter(None, (task, attached))), ""
    field = "diff and trace" if asked.diff or asked.trace else "task"
    _limited(field, attached, MAX_ATTACHED_BYTES)
    return task, attached


def _left_out(found: RecallResult) -> str:
    if not found.items or not found.omitted:
        return ""
    short = sum(omitted.why.cause == "budget" for omitted in found.omitted)
    larger = f", {short} for want of budget" if short else ""
    return f"{counted(len(found.omitted), 'weaker item')} left out{larger}"


async def search(call: Called, asked: Search) -> Answer:
    """A line a hit: the place, the symbol, the line that defines it. As JSON the same three, in this order:
    named fields would cost an agent half as much again."""
    from plait.domain.values import Filter

    query = asked.query.strip()
    if not query:
        raise Refused("`query` is empty: say in plain words or identifiers what the code does.")
    _limited("query", query, MAX_QUERY_BYTES)
    _in_range("k", asked.k, 1, MAX_K)
    glob = paths.glob(asked.paths, call.here.root)
    where = Filter(repos=(call.repository.name,), path_glob=glob)
    found = await call.service.ask(lambda client: client.search(query, where=where, k=asked.k))
    hits = [_hit(hit) for hit in found.hits]
    if not hits:
        narrowed = f" in {one_line(glob)}; leave `paths` out" if glob else ""
        notes = [f"nothing found{narrowed}; other words may help"]
    else:
        notes = [f"the first {asked.k} only"] if len(hits) == asked.k else []
    return _answer(
        call,
        {hit.item.path for hit in found.hits},
        ["  ".join(filter(None, hit)) for hit in hits],
        {"hits": hits},
        [*notes, *_degraded(found.degraded)],
        {"scores": [round(hit.score, 3) for hit in found.hits]},
    )


def _hit(hit: Hit) -> list[str]:
    item = hit.item
    at = place(item.path, item.start_line, item.end_line)
    return [at, one_line(item.symbol), _telling(item.content)]


_DECORATION = re.compile(r"\s*(?:@|#\[|//|/?\*|#!|\"\"\"|\'\'\')")


def _telling(content: str) -> str:
    """The first line that is no decorator and no comment's edge."""
    lines = [line for line in content.splitlines() if line.strip()]
    return one_line(next((x for x in lines if not _DECORATION.match(x)), lines[0] if lines else ""))


async def ask_graph(call: Called, asked: Graph) -> Answer:
    """A line a place, as `server.mcp.graph` phrases them."""
    template, given = graph.question(asked, call.here.root)
    found = await call.service.ask(
        lambda client: client.template(
            template, given, repositories=(call.repository.name,), max_rows=graph.MAX_ASKED
        )
    )
    rows = graph.rows(asked, found)
    return _answer(
        call,
        rows.paths,
        [" ".join(filter(None, row)) for row in rows.shown],
        {"rows": rows.shown},
        [rows.note, *_degraded(found.degraded)],
    )


async def remember(call: Called, asked: Remember) -> Answer:
    """Stored once, though the connection broke and the call is sent again."""
    from plait.client.entries import new_memory

    text = asked.text.strip()
    if not text:
        raise Refused("`text` is empty: say in a sentence or two what a later session should know.")
    _limited("text", text, MAX_NOTE_BYTES)
    path, symbol = paths.about(asked.about, call.here.root)
    entry = new_memory(
        text, repo=call.repository.name, agent_id=call.agent, path=path, symbol=symbol
    )
    request_id = uuid4().hex
    stored = await call.service.ask(lambda client: client.store(entry, request_id=request_id))
    said = "it was known already" if stored.duplicate else "kept"
    alike = f"; {counted(len(stored.similar), 'note')} much alike" if stored.similar else ""
    about = f" about {one_line(path or symbol)}" if path or symbol else ""
    id_ = str(stored.entry.id)
    return Answer([f"{said}{about}{alike}"], {"said": f"{said}{about}{alike}"}, (), {"id": id_})


# -- what all answers share --------------------------------------------------------------------------------


def _answer(
    call: Called,
    shown: Iterable[str],
    lines: Sequence[str],
    data: dict[str, object],
    notes: Sequence[str],
    meta: dict[str, object] | None = None,
) -> Answer:
    """Freshness is put in by `server.mcp.server`, which knows of index runs; it needs to know what is shown."""
    return Answer(lines, data, notes, {**(meta or {}), "shown": sorted(shown)})


def _degraded(parts: Sequence[Degradation]) -> list[str]:
    """Vectors that are not there yet are said with the freshness."""
    quiet = ("coverage", "no_vectors")
    return [f"without {part.part}: {part.cause}" for part in parts if part.cause not in quiet]


def _size(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def _limited(argument: str, text: str, most: int) -> None:
    """Raises: Refused."""
    size = _size(text)
    if size > most:
        raise Refused(
            f"`{argument}` has {size:,} bytes, more than {most:,}: send the part that matters "
            "(of a diff the files you ask about, of a trace its end)."
        )


def _in_range(argument: str, number: int, least: int, most: int) -> None:
    """Raises: Refused."""
    if not least <= number <= most:
        raise Refused(f"`{argument}` is {number:,}; give {least:,} to {most:,}.")
