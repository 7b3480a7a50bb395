"""Answers as people read them in a terminal. Text from repositories is data: it can't steer the terminal."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from plait import terminal
from plait.domain.answers.graph import GraphEdge, GraphNode, GraphPath
from plait.domain.memory import AsOf, MemoryEntry, MemoryMatch
from plait.domain.recall import StageRank
from plait.domain.values import Hit, ItemId
from server.commands.output import explained

SNIPPET_LINES = 4
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_WORD = re.compile(r"\w{3,}")


def console() -> Console:
    """Standard output, for text that is no markup."""
    return terminal.console(highlight=False, markup=False, emoji=False, soft_wrap=True)


def clean(text: str) -> str:
    """`text` without characters that steer a terminal or reorder what is read (escape sequences,
    bidirectional overrides); tabs become spaces."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(_clean_character(c) for c in text)


def _clean_character(c: str) -> str:
    if c == "\t":
        return "    "
    # Cc: control, Cf: format (bidi overrides, zero-width), Zl/Zp: line separators, Cs: surrogates.
    return "\ufffd" if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs") else c


def counted(n: int, one: str, many: str = "") -> str:
    """`1 memory`, `2 memories`."""
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def hits(
    found: Sequence[Hit],
    query: str,
    *,
    ranks: Mapping[ItemId, Sequence[StageRank]] | None,
    out: Console,
) -> None:
    """Each hit: a headline with place, symbol and score, then the lines that hold the query's words.
    `ranks`: what `--explain` shows, None without it."""
    terms = {word.lower() for word in _WORD.findall(query)}
    repos = {hit.item.repo for hit in found}
    # Nine columns hold the line's number. Elsewhere than on a terminal lines are cut against megabytes.
    width = max(20, out.width - 9) if out.is_terminal else 400
    for number, hit in enumerate(found, 1):
        out.print(_headline(number, hit, with_repo=len(repos) > 1))
        for line, text in snippet(hit.item.content, hit.item.start_line, terms):
            out.print(_source_line(line, text, terms, width))
        if ranks is not None:
            explained.show(hit.item.id, hit.arms, ranks, out)
        if number < len(found):
            out.print()


def _headline(number: int, hit: Hit, *, with_repo: bool) -> Text:
    item = hit.item
    text = Text(f"{number:>2}. ")
    if with_repo:
        text.append(f"{clean(item.repo)}  ", style="magenta")
    if item.path:
        text.append(clean(item.path), style="bold cyan")
        text.append(f":{item.start_line}-{item.end_line}" if item.start_line else "", style="cyan")
    else:
        text.append(f"{item.collection} {item.id}", style="bold cyan")
    if item.symbol:
        text.append(f"  {clean(item.symbol)}", style="bold")
    text.append(f"  {clean(item.kind)}", style="dim")
    text.append(f"  {hit.score:.2f}", style="green")
    return text


def snippet(
    content: str, start_line: int, terms: set[str], most: int = SNIPPET_LINES
) -> list[tuple[int, str]]:
    """The first line that says something and those that hold most of `terms`, in their order."""
    lines = [(start_line + i, text) for i, text in enumerate(content.splitlines()) if text.strip()]
    if not lines:
        return []
    ranked = sorted(lines[1:], key=lambda line: (-_score(line[1], terms), line[0]))
    chosen = [lines[0], *ranked[: most - 1]]
    return sorted(chosen)


def _score(text: str, terms: set[str]) -> int:
    low = text.lower()
    return sum(term in low for term in terms)


def _source_line(line: int, text: str, terms: set[str], width: int) -> Text:
    number = f"{line:>6} " if line else "       "
    body = Text(clean(text.rstrip())[:width])
    if terms:
        body.highlight_regex(
            "(?i)" + "|".join(re.escape(term) for term in sorted(terms)), style="bold yellow"
        )
    return Text.assemble((number, "dim"), ("│ ", "dim"), body)


# -- graph ------------------------------------------------------------------------------------------


def rows(
    columns: Sequence[str],
    cells: Iterable[Sequence[Any]],
    out: Console,
    times: Sequence[str] = (),
) -> None:
    """A table on a terminal; tab-separated with a heading elsewhere, for `cut` and its kin. Columns
    named in `times` hold milliseconds since 1970, shown as times."""
    at = {i for i, name in enumerate(columns) if name in times}
    texts = [_row([_time(v) if i in at else v for i, v in enumerate(row)]) for row in cells]
    if not out.is_terminal:
        for row in [list(map(clean, columns)), *texts]:
            out.file.write("\t".join(row) + "\n")  # rich would turn the tabs into spaces
        return
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for name in columns:
        table.add_column(clean(name), overflow="fold")
    for row in texts:
        table.add_row(*(Text(text) for text in row))
    out.print(table)


def _time(value: Any) -> Any:
    return local(_EPOCH + timedelta(milliseconds=value)) if isinstance(value, int) else value


def _row(values: Sequence[Any]) -> list[str]:
    # Beside a node, an edge's own ends say nothing new.
    brief = any(isinstance(value, GraphNode) for value in values)
    return [_edge(v) if brief and isinstance(v, GraphEdge) else cell(v) for v in values]


def _edge(edge: GraphEdge) -> str:
    lines = edge.properties.get("lines") or ()
    return clean(f"{edge.relation}:{','.join(str(n) for n in lines)}" if lines else edge.relation)


def cell(value: Any) -> str:
    """One cell in one line."""
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case float():
            return f"{value:g}"
        case GraphNode():
            return _node(value)
        case GraphEdge():
            lines = value.properties.get("lines") or ()
            at = f" (line {', '.join(str(n) for n in lines)})" if lines else ""
            return clean(f"{value.source} -{value.relation}-> {value.target}{at}")
        case GraphPath():
            return " → ".join(_node(node) for node in value.nodes)
        case list():
            return ", ".join(cell(item) for item in value)
        case dict():
            return ", ".join(f"{clean(key)}: {cell(item)}" for key, item in value.items())
        case bytes():
            return value.hex()
    return clean(str(value))


def _node(node: GraphNode) -> str:
    properties = node.properties
    name = properties.get("qualified_name") or properties.get("name") or node.id
    path, line = properties.get("path"), properties.get("start_line")
    where = f" ({path}:{line})" if path and line else f" ({path})" if path else ""
    return clean(f"{name}{where}")


def plain(value: Any) -> Any:
    """A cell as JSON takes it."""
    match value:
        case GraphNode():
            return {"id": value.id, "labels": value.labels, "properties": plain(value.properties)}
        case GraphEdge():
            return {
                "relation": value.relation,
                "source": value.source,
                "target": value.target,
                "properties": plain(value.properties),
            }
        case GraphPath():
            return {"nodes": plain(list(value.nodes)), "edges": plain(list(value.edges))}
        case bytes():
            return value.hex()
        case list() | tuple():
            return [plain(item) for item in value]
        case dict():
            return {key: plain(item) for key, item in value.items()}
        case float() if value != value or value in (float("inf"), float("-inf")):
            return str(value)  # JSON has no such number
    return value


# -- times and memories ---------------------------------------------------------------------------------


def as_of(value: AsOf) -> dict[str, str | None]:
    """The instants of an answer as JSON."""
    return {
        "valid": value.valid.isoformat() if value.valid else None,
        "recorded": value.recorded.isoformat() if value.recorded else None,
    }


def as_of_notes(value: AsOf) -> list[str]:
    """What times in words were taken for, in this machine's zone."""
    named = (("what was true", value.valid), ("what was known", value.recorded))
    return [f"{what} at {local(time)}" for what, time in named if time]


def local(time: datetime) -> str:
    """A time in this machine's zone, with its offset."""
    return time.astimezone().isoformat(sep=" ", timespec="seconds")


def memories(entries: Sequence[MemoryEntry], out: Console, *, whole: bool = False) -> None:
    """Each memory: a headline, then its first lines, or all of them."""
    repos = {entry.repo for entry in entries}
    for number, entry in enumerate(entries):
        if number:
            out.print()
        out.print(_memory_headline(entry, with_repo=len(repos) > 1))
        _text(entry.content, out, whole=whole)


def matches(found: Sequence[MemoryMatch], out: Console) -> None:
    """As `memories`, best first with scores."""
    for number, match in enumerate(found, 1):
        if number > 1:
            out.print()
        head = Text(f"{number:>2}. ")
        head.append(_memory_headline(match.entry, with_repo=True))
        head.append(f"  {match.score:.2f}", style="green")
        out.print(head)
        _text(match.entry.content, out)


def _memory_headline(entry: MemoryEntry, *, with_repo: bool) -> Text:
    text = Text(str(entry.id), style="bold cyan")
    where = [entry.repo] if with_repo else []
    where += [part for part in (entry.agent_id, entry.metadata.session_key) if part]
    if where:
        text.append(f"  {clean(' / '.join(where))}", style="magenta")
    text.append(f"  {entry.type} {clean(entry.kind)}", style="dim")
    if entry.path or entry.symbol:
        text.append(f"  {clean(entry.symbol or entry.path)}", style="bold")
    if entry.metadata.tags:
        text.append(f"  #{clean(' #'.join(entry.metadata.tags))}", style="yellow")
    if entry.created_at:
        text.append(f"  {local(entry.created_at)}", style="dim")
    if entry.superseded_at:
        text.append(f"  closed {local(entry.superseded_at)}", style="red")
    return text


def _text(content: str, out: Console, *, whole: bool = False) -> None:
    if whole:
        out.print(Text("\n".join(clean(line) for line in content.splitlines())))
        return
    lines = [line for line in content.splitlines() if line.strip()]
    for line in lines[:SNIPPET_LINES]:
        out.print(Text(f"    {clean(line)[:400]}"))
    if len(lines) > SNIPPET_LINES:
        more = counted(len(lines) - SNIPPET_LINES, "more line")
        out.print(Text(f"    … {more}", style="dim"))


def entry_json(entry: MemoryEntry) -> dict[str, Any]:
    """A memory as JSON."""
    meta = entry.metadata
    times = ("valid_from", "valid_to", "created_at", "updated_at", "superseded_at")
    return {
        "id": str(entry.id),
        "repo": entry.repo,
        "agent_id": entry.agent_id,
        "content": entry.content,
        "type": str(entry.type),
        "kind": entry.kind,
        "source": str(meta.source),
        "session_key": meta.session_key,
        "tags": list(meta.tags),
        "importance": meta.importance,
        "custom": dict(meta.custom),
        "path": entry.path,
        "symbol": entry.symbol,
        "pinned": entry.pinned,
        "tokens": entry.tokens,
        "version": entry.version,
        "superseded_by": str(entry.superseded_by) if entry.superseded_by else None,
        **{name: _iso(getattr(entry, name)) for name in times},
    }


def _iso(time: datetime | None) -> str | None:
    return time.isoformat() if time else None
