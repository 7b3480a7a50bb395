"""Put one entry into a JSON text, or take it out again: the only bytes that change are the entry's own.

What makes it reversible without a record is the layout:
- a container that is already there and empty gets the entry right behind its bracket, with no space;
- a container that is made for the entry has a line break there, and goes when the entry goes;
- any other container gets the entry last, in the style of its neighbour (trailing comma or none).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from server.install import jsonc
from server.install.jsonc import Container, Document, Entry
from server.install.refusal import Refused, line_of

Path = Sequence[str | int]
_LINE_BREAK = re.compile(r"\r\n|\n|\r")
_BLANK = " \t\r\n"


def add(text: str, path: Sequence[str], value: Any, *, to_array: bool = False) -> str:
    """`text` with `value` at `path`, whose last key is new; with `to_array`, appended to the array there.
    Containers on the way are made. Raises: Refused."""
    document = jsonc.parse(text)
    here, way = document.root, list(path)
    while way:
        entry = jsonc.inner(document, here, way[0])
        if entry is None:
            return _insert(document, here, way[0], nested(way[1:], value, to_array=to_array))
        wanted: type = list if to_array and len(way) == 1 else dict
        if not isinstance(entry.value, wanted):
            kind = "a list, written [ … ]" if wanted is list else "an object, written { … }"
            raise Refused(f'"{way[0]}" must be {kind}', line_of(text, entry.value_start))
        here = jsonc.container(document, entry.value_start)
        way.pop(0)
    return _insert(document, here, "", value)


def remove(text: str, path: Path) -> str | None:
    """`text` without the entry at `path`, and without the containers that were made for it; None when the
    whole text was. Raises: Refused."""
    document = jsonc.parse(text)
    line: list[tuple[Container, Entry]] = []
    here = document.root
    for step in path:
        entry = _step(document, here, step)
        line.append((here, entry))
        if isinstance(entry.value, dict | list):
            here = jsonc.container(document, entry.value_start)
    while len(line) > 1 and _made_for(document, *line[-1]):
        line.pop()
    if len(line) == 1 and _made_for(document, *line[0]):
        return unwritten(text)
    return _cut(document, *line[-1])


def remove_seeded(text: str, path: Path, seed: Mapping[str, str | int]) -> str | None:
    """As `remove`; where no more than `seed` is left of a text that was made with it, that goes too.

    A new text has the seed behind the entry; one that was there has the entry last.
    """
    left = remove(text, path)
    if left is None or not seed or jsonc.is_blank(left):
        return left
    rest = {entry.key: entry.value for entry in jsonc.parse(left).root.entries}
    first = jsonc.parse(text).root.entries[0].key
    made = first == path[0] and rest == {key: str(value) for key, value in seed.items()}
    return unwritten(left) if made else left


def replace(text: str, path: Path, value: Any) -> str:
    """`text` with another value at `path`."""
    document = jsonc.parse(text)
    here, entry = document.root, None
    for step in path:
        entry = _step(document, here, step)
        if isinstance(entry.value, dict | list):
            here = jsonc.container(document, entry.value_start)
    if entry is None:
        raise ValueError("no path")
    written = _rendered(value, _unit(document), _line_indent(text, entry.start), eol_of(text))
    return text[: entry.value_start] + written + text[entry.end :]


def fresh(text: str | None, value: Any) -> str:
    """The text of a new file; of one that is there and blank, the value behind the blanks."""
    if text is None:
        return _rendered(value, "  ", "", "\n") + "\n"
    return text + _rendered(value, "  ", "", eol_of(text))


def unwritten(text: str) -> str | None:
    """What was there before `fresh`: None of a new file, the blanks of one that was there."""
    document = jsonc.parse(text)
    root = document.root
    before, after = text[: root.open], text[root.close + 1 :]
    made = not before and after and not after.strip(_BLANK)
    return None if made else before + after


def nested(path: Sequence[str], value: Any, *, to_array: bool = False) -> Any:
    """`value` inside the objects that `path` names; with `to_array`, in a list at its end."""
    out = [value] if to_array else value
    for key in reversed(path):
        out = {key: out}
    return out


def eol_of(text: str) -> str:
    """The first line end of a text; a text of one line gets \\n."""
    found = _LINE_BREAK.search(text)
    return found[0] if found else "\n"


def _step(document: Document, here: Container, step: str | int) -> Entry:
    entry = here.entries[step] if isinstance(step, int) else jsonc.inner(document, here, step)
    if entry is None:
        raise KeyError(step)
    return entry


# -- putting in -----------------------------------------------------------------------------------


def _insert(document: Document, here: Container, key: str, value: Any) -> str:
    text, eol, unit = document.text, eol_of(document.text), _unit(document)
    name = f"{json.dumps(key, ensure_ascii=False)}: " if here.is_object else ""
    if not here.entries:
        indent = _line_indent(text, here.open)
        at = here.open + 1
        return text[:at] + name + _rendered(value, unit, indent, eol) + text[at:]
    last = here.entries[-1]
    comma = _comma(document, last.end, here.close)
    at, after_comment = _behind(document, last.end if comma is None else comma + 1)
    if _LINE_BREAK.search(text, here.open, here.entries[0].start):
        indent = _line_indent(text, last.start)
        gap = eol + indent
    else:
        indent = _line_indent(text, here.open)
        gap = eol + indent if after_comment else " "
    entry = gap + name + _rendered(value, unit, indent, eol)
    if comma is not None:
        return text[:at] + entry + "," + text[at:]
    return text[: last.end] + "," + text[last.end : at] + entry + text[at:]


def _behind(document: Document, at: int) -> tuple[int, bool]:
    """Past the comments that stand on the same line, and whether the last of them ends with the line."""
    text = document.text
    starts = {start: end for end, start in document.comments.items() if start >= at}
    while True:
        here = at
        while text[here : here + 1] in (" ", "\t"):
            here += 1
        end = starts.get(here)
        if end is None or _LINE_BREAK.search(text, here, end):
            return at, False
        at = end
        if text.startswith("//", here):
            return at, True


def _comma(document: Document, start: int, end: int) -> int | None:
    found = document.plain.find(",", start, end)
    return found if found >= 0 else None


def _unit(document: Document) -> str:
    """One level of indentation: that of the first member of the text, else two spaces."""
    root = document.root
    if not root.entries or not _LINE_BREAK.search(document.text, root.open, root.entries[0].start):
        return "  "
    return _line_indent(document.text, root.entries[0].start) or "  "


def _line_indent(text: str, at: int) -> str:
    start = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at)) + 1
    found = re.compile(r"[ \t]*").match(text, start, at)
    return found[0] if found else ""


def _rendered(value: Any, unit: str, indent: str, eol: str) -> str:
    """A value over several lines, lists of plain values in one."""
    deeper = indent + unit
    if isinstance(value, dict) and value:
        rows = [
            f"{json.dumps(k, ensure_ascii=False)}: {_rendered(v, unit, deeper, eol)}"
            for k, v in value.items()
        ]
        return "{" + "".join(eol + deeper + r + "," for r in rows)[:-1] + eol + indent + "}"
    if isinstance(value, list) and any(isinstance(v, dict) for v in value):
        rows = [_rendered(v, unit, deeper, eol) for v in value]
        return "[" + "".join(eol + deeper + r + "," for r in rows)[:-1] + eol + indent + "]"
    return json.dumps(value, ensure_ascii=False)


# -- taking out -----------------------------------------------------------------------------------


def _made_for(document: Document, here: Container, entry: Entry) -> bool:
    """Whether the container came with its only entry: blank space before it, and nothing else."""
    before = document.text[here.open + 1 : entry.start]
    after = document.text[entry.end : here.close]
    return len(here.entries) == 1 and before != "" and not (before + after).strip(_BLANK + ",")


def _cut(document: Document, here: Container, entry: Entry) -> str:
    text, index = document.text, here.entries.index(entry)
    start = entry.start
    while start > here.open + 1 and text[start - 1] in _BLANK:
        start -= 1
    next_start = here.entries[index + 1].start if index + 1 < len(here.entries) else here.close
    comma = _comma(document, entry.end, next_start)
    tail = entry.end if comma is None else comma + 1
    if comma is not None and start == here.open + 1 == entry.start:
        while (
            text[tail] in _BLANK
        ):  # a first entry without space before stays one: see the layout above
            tail += 1
    rest = text[entry.end : comma] if comma is not None else ""
    if _ends_line_comment(document, start) and (rest + text[tail:])[:1] not in ("\n", "\r"):
        rest = eol_of(text) + rest  # the comment must not swallow what follows
    if comma is None and index > 0:
        before = _comma(document, here.entries[index - 1].end, entry.start)
        if before is not None:
            return text[:before] + text[before + 1 : start] + rest + text[tail:]
    return text[:start] + rest + text[tail:]


def _ends_line_comment(document: Document, at: int) -> bool:
    comment = document.comments.get(at)
    return comment is not None and document.text.startswith("//", comment)
