"""Python annotations as written, reduced to what matters for binding calls.

`parse("Optional[list[Foo]]")` is `(("box", (("name", "Foo"),)),)`: alternatives, each a name or a
container ("box") of its element's, a class ("type") of its instances', or a callable ("call") of its
result's alternatives.
"""

from __future__ import annotations

import re
from functools import lru_cache

Alternative = tuple[str, object]  # ("name", dotted) | (box, type or call, Parsed)
Parsed = tuple[Alternative, ...]


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOKEN = re.compile(r"[A-Za-z_][\w.]*|\[|\]|,|\||\.\.\.|\S")
_FIRST = _words(
    "List Set FrozenSet Sequence MutableSequence Iterable Iterator AsyncIterable AsyncIterator "
    "Collection Container Deque Tuple list set frozenset tuple deque Generator AsyncGenerator "
    "AbstractSet MutableSet Reversible KeysView ValuesView ContextManager AsyncContextManager "
    "AbstractContextManager AbstractAsyncContextManager"
)
_SECOND = _words("Dict Mapping MutableMapping DefaultDict OrderedDict dict defaultdict ItemsView")
_TRANSPARENT = _words(
    "Optional Union Annotated ClassVar Final Required NotRequired ReadOnly Awaitable InitVar"
)
_NOTHING = _words("None Any object NoReturn Never Literal TypeVar ParamSpec")
_MAX_DEPTH = 12


@lru_cache(maxsize=50_000)
def parse(text: str) -> Parsed:
    """The alternatives of an annotation; () when it says nothing, or is not a type."""
    text = text.strip()
    if text[:1] in "\"'" and text[:1] == text[-1:]:
        text = text[1:-1]
    if text.isidentifier():
        return () if text in _NOTHING else (("name", text),)
    tokens = _TOKEN.findall(text.replace('"', " ").replace("'", " "))
    found, _ = _union(tokens, 0, 0)
    return found


def _union(tokens: list[str], at: int, depth: int) -> tuple[Parsed, int]:
    found, at = _one(tokens, at, depth)
    while at < len(tokens) and tokens[at] == "|":
        more, at = _one(tokens, at + 1, depth)
        found += more
    return found, at


def _one(tokens: list[str], at: int, depth: int) -> tuple[Parsed, int]:
    if at >= len(tokens):
        return (), at
    name = tokens[at]
    if not (name[0].isalpha() or name[0] == "_"):
        return (), _skip(tokens, at)
    at += 1
    arguments: list[Parsed] = []
    if at < len(tokens) and tokens[at] == "[":
        if depth >= _MAX_DEPTH:
            return (), len(tokens)
        arguments, at = _arguments(tokens, at + 1, depth + 1)
    return _meaning(name, arguments), at


def _arguments(tokens: list[str], at: int, depth: int) -> tuple[list[Parsed], int]:
    found: list[Parsed] = []
    while at < len(tokens) and tokens[at] != "]":
        if tokens[at] == ",":
            at += 1
            continue
        one, after = _union(tokens, at, depth)
        found.append(one)
        at = max(after, at + 1)
    return found, at + 1


def _skip(tokens: list[str], at: int) -> int:
    """Past something that is no name: a bracketed list (of a Callable), a literal, `...`."""
    if tokens[at] != "[":
        return at + 1
    depth = 0
    while at < len(tokens):
        depth += (tokens[at] == "[") - (tokens[at] == "]")
        at += 1
        if depth == 0:
            break
    return at


def _meaning(name: str, arguments: list[Parsed]) -> Parsed:
    last = name.rpartition(".")[2]
    if last in _NOTHING:
        return ()
    if not arguments:
        return (("name", name),)
    if last in _TRANSPARENT:
        given = arguments if last in ("Optional", "Union") else arguments[:1]
        return tuple(alternative for one in given for alternative in one)
    if last == "Callable":
        return (("call", arguments[-1]),)
    if last in ("type", "Type"):
        return (("type", arguments[0]),)
    if last == "Coroutine":
        return arguments[-1]
    if last in ("tuple", "Tuple"):
        same = {one for one in arguments if one}
        return (("box", arguments[0] if len(same) == 1 else ()),)
    if last in _FIRST:
        return (("box", arguments[0]),)
    if last in _SECOND:
        return (("box", arguments[1] if len(arguments) > 1 else ()),)
    return (("name", name),)
