"""From what people call a symbol to its node: an id, a qualified name, a path, or the end of one. Pure."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence

import numpy as np

from plait.domain.errors import AmbiguousSymbol, UnknownSymbol
from plait.domain.graph import Label
from plait.ports import CodeGraph

_SHOWN = 10
_NEAR = 5


def node(graph: CodeGraph, text: str, *, files: bool = False) -> int:
    """The row of what `text` names; with `files`, of a file alone. An exact id or qualified name wins over a
    name that ends alike.

    Raises: UnknownSymbol with near names, AmbiguousSymbol with the candidates.
    """
    found = exact(graph, text, files=files) or ending(graph, text, files=files)
    if not found:
        raise unknown(graph, text, files=files)
    if len(found) > 1:
        raise ambiguous(text, [f"{graph.repo}:{graph.ids[row]}" for row in found])
    return found[0]


def exact(graph: CodeGraph, text: str, *, files: bool = False) -> list[int]:
    """Rows whose id, qualified name or path is `text`."""
    own = text.removeprefix(f"{graph.repo}:")
    names = dict.fromkeys((own, text, f"/{text}"))
    rows = [graph.row[name] for name in names if name in graph.row]
    return [row for row in rows if not files or _is(graph, row, Label.FILE)]


def ending(graph: CodeGraph, text: str, *, files: bool = False) -> list[int]:
    """Rows whose qualified name or path ends with `text`, by id."""
    path = f"/{text.lstrip('/')}"
    found = [
        row
        for row in _called(graph, path.rpartition("/")[2])
        if _is(graph, row, Label.FILE) and graph.paths[row].endswith(path)
    ]
    if not files:
        tail = f".{text}"
        # A module's own name may be its file's, and not the last part of its qualified name.
        ids, other = graph.ids, graph.qualified.get
        modules = _of(graph, Label.MODULE)
        found += [row for row in modules if (other(row) or ids[row]).endswith(tail)]
        found += [
            row
            for row in _called(graph, text.rpartition(".")[2])
            if _is_symbol(graph, row) and f".{named(graph, row)}".endswith(tail)
        ]
    return sorted(found, key=lambda row: graph.ids[row])


def named(graph: CodeGraph, row: int) -> str:
    """The qualified name."""
    return graph.qualified.get(row) or graph.ids[row]


def ambiguous(text: str, ids: Sequence[str]) -> AmbiguousSymbol:
    shown = ", ".join(ids[:_SHOWN])
    more = f" and {len(ids) - _SHOWN} more" if len(ids) > _SHOWN else ""
    return AmbiguousSymbol(
        f"{text!r} can be any of {len(ids)}: {shown}{more}; give one of these ids, "
        "or more of the qualified name",
        field="parameters",
        symbol=text,
    )


def unknown(graph: CodeGraph, text: str, *, files: bool = False) -> UnknownSymbol:
    """With the names nearest to it among those that begin alike."""
    name = text.rpartition("/")[2] if files else text.replace("/", ".").rpartition(".")[2]
    name = name or text
    start = name[:2].lower()
    rows: Iterable[int] = _of(graph, Label.FILE) if files else range(len(graph.ids))
    near = {graph.names[row] for row in rows}
    alike = sorted(one for one in near if one[:2].lower() == start)
    close = difflib.get_close_matches(name, alike, n=_NEAR, cutoff=0.6)
    hint = f"near it: {', '.join(close)}" if close else "`plait search` finds symbols by words"
    return UnknownSymbol(
        f"nothing is called {text!r} in the repository {graph.repo!r}; {hint}", symbol=text
    )


def _of(graph: CodeGraph, label: Label) -> list[int]:
    rows: list[int] = np.flatnonzero(graph.label == graph.labels.index(label.value)).tolist()
    return rows


def _is_symbol(graph: CodeGraph, row: int) -> bool:
    return not _is(graph, row, Label.FILE) and not _is(graph, row, Label.MODULE)


def _is(graph: CodeGraph, row: int, label: Label) -> bool:
    return graph.labels[int(graph.label[row])] == label.value


def _called(graph: CodeGraph, name: str) -> list[int]:
    """The rows of that name: the last part of a qualified name or path."""
    word = graph.word.get(name)
    return [] if word is None else np.flatnonzero(graph.name == word).tolist()
