"""Whether a diff changes the signatures of functions so that their callers no longer fit. Pure.

Parameters in Python are compared by its call rules (a new one with a default breaks no caller), in other languages as
text.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from enum import StrEnum

from plait.text.diff import Hunk

MAX_PARAMETERS = 4_000  # characters of one list
MAX_LINES = 5_000  # of all hunks of a file
_NO_TYPE = frozenset(
    (
        "return",
        "await",
        "new",
        "throw",
        "else",
        "yield",
        "if",
        "for",
        "while",
        "case",
        "not",
        "and",
        "or",
    )
)
_OPENING, _CLOSING = "([{", ")]}"


class Change(StrEnum):
    """What happened to a definition from the view of its callers."""

    NONE = "none"
    PARAMETERS = "parameters"  # callers may no longer fit
    GONE = "gone"  # removed, or renamed


def change_of(name: str, path: str, hunks: Sequence[Hunk]) -> Change:
    """What `hunks`, all of `path`, do to the definition of `name` (unqualified)."""
    if not name.isidentifier() or sum(len(hunk.lines) for hunk in hunks) > MAX_LINES:
        return Change.NONE
    python = path.endswith((".py", ".pyi"))
    before = [found for h in hunks for found in _signatures(name, h.before(), python)]
    after = [found for h in hunks for found in _signatures(name, h.after(), python)]
    if not before:
        return Change.NONE
    if not after:
        return Change.GONE
    # Several of one name: methods of two classes, or overloads; the lines cannot tell them apart.
    if len(before) != 1 or len(after) != 1:
        return Change.NONE
    return Change.NONE if _fits(before[0], after[0], python) else Change.PARAMETERS


def _signatures(name: str, lines: Sequence[str], python: bool) -> list[str]:
    """The parameter list of each definition of `name`, as written."""
    own = re.escape(name)
    # `def name(`, `func (r *T) name(`, `fn name<T>(`, `function name(`.
    worded = re.compile(
        rf"\s*(?:[\w()]+\s+)*?(?:def|func|fn|fun|function\*?|sub)\s+(?:\([^()]*\)\s*)?{own}\s*"
        r"(?:<[^()]*>|\[[^()]*\])?\s*(?=\()"
    )
    typed = re.compile(rf"\s*((?:[\w<>\[\],.?*&]+\s+){{0,6}}){own}\s*(?:<[^()]*>)?\s*(?=\()")
    found = []
    for number, line in enumerate(lines):
        match = worded.match(line[:500])
        if match is None and not python:
            match = typed.match(line[:500])
            if match is not None and not _opens(match[1].split(), line[match.end() :]):
                match = None
        if match is not None:
            rest = "\n".join([line[match.end() :], *lines[number + 1 : number + 60]])
            found.append(_balanced(rest))
    return found


def _opens(words: Sequence[str], rest: str) -> bool:
    """Whether `Type name(…) {` is a definition and not a call: a body follows the brackets, or types precede the name
    and the list continues on the next line."""
    if not _NO_TYPE.isdisjoint(words):
        return False
    inner = _balanced(rest)
    closed = len(inner) + 2 <= len(rest)
    if closed:
        return rest[len(inner) + 2 :].rstrip().endswith("{")
    return bool(words) and rest.rstrip().endswith((",", "("))


def _balanced(text: str) -> str:
    """The text between the opening bracket of `text` and its closing one; all of it if the diff shows no closing
    bracket."""
    depth = 0
    for place, char in enumerate(text[:MAX_PARAMETERS]):
        depth += (char in _OPENING) - (char in _CLOSING)
        if depth == 0:
            return text[1:place]
    return text[1:MAX_PARAMETERS]


def _fits(before: str, after: str, python: bool) -> bool:
    """Whether every call valid for `before` is valid for `after`."""
    if _plain(before) == _plain(after):
        return True
    if not python:
        return False
    old, new = _arguments(before), _arguments(after)
    return old is not None and new is not None and _accepts(old, new)


def _plain(parameters: str) -> str:
    return "".join(parameters.split()).rstrip(",")


def _arguments(parameters: str) -> ast.arguments | None:
    try:
        tree = ast.parse(f"def f({parameters}\n): pass")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    first = tree.body[0]
    return first.args if isinstance(first, ast.FunctionDef) else None


def _accepts(old: ast.arguments, new: ast.arguments) -> bool:
    """Whether every call of `old` is a call of `new`: positions and names stay, new parameters are optional."""
    if (old.vararg and not new.vararg) or (old.kwarg and not new.kwarg):
        return False
    return _accepts_positions(old, new) and _accepts_keywords(old, new)


def _accepts_positions(old: ast.arguments, new: ast.arguments) -> bool:
    was = [a.arg for a in (*old.posonlyargs, *old.args)]
    now = [a.arg for a in (*new.posonlyargs, *new.args)]
    if now[: len(was)] != was or len(new.posonlyargs) > len(old.posonlyargs):
        return False
    if len(now) - len(new.defaults) > len(was) - len(old.defaults):
        return False
    # A further parameter would take what `*args` took.
    return len(now) == len(was) or old.vararg is None


def _accepts_keywords(old: ast.arguments, new: ast.arguments) -> bool:
    optional = dict.fromkeys([a.arg for a in new.args], True)
    keywords = list(zip(new.kwonlyargs, new.kw_defaults, strict=True))
    optional |= {a.arg: default is not None for a, default in keywords if a.arg not in optional}
    for argument, default in zip(old.kwonlyargs, old.kw_defaults, strict=True):
        if argument.arg not in optional or (default is not None and not optional[argument.arg]):
            return False
    given = {a.arg for a in old.kwonlyargs}
    return all(default is not None or a.arg in given for a, default in keywords)
