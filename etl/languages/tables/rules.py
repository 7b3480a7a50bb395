"""What a language's table says: which syntax nodes are definitions, and how to read them.

`etl.languages.tables.definitions` walks any grammar by such a table. A rule is a function from a node to what
it defines, so the common case is one line (`simple("class")`) and the odd one is plain Python.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Language, Node

from etl.languages.kit.nodes import text_of

_SEPARATORS = re.compile(r"\s*(?:::|\\|->|\?\.|\.)\s*")
# A name in quotes, which may hold anything: of Scala and Swift, of Zig, of Julia.
_QUOTED = re.compile(r'`([^`]*)`|(?:@|var)"([^"]*)"')
_RAW = re.compile(r"\br#(?=\w)")  # Rust's `r#type` is called `type`
_ARGUMENTS = re.compile(r"<[^<>]*>|\[[^\[\]]*\]|\([^()]*\)")
_NAME = re.compile(r"[^\W\d][\w$'!?=-]*")
_MAX_BASES = 32
MEMBERS = "members"  # as the kind of a head: what adds members to a type, as `impl Foo`


@dataclass(slots=True)
class File:
    """The file at hand, as rules see it."""

    source: bytes
    path: str
    in_tests: bool
    newlines: list[int] = field(default_factory=list)  # their bytes
    package: str = ""  # its package, where the table reads one
    skip: set[int] = field(default_factory=set)  # ids of nodes that another rule has dealt with

    def newlines_in(self, begin: int, end: int) -> int:
        return bisect_left(self.newlines, end) - bisect_left(self.newlines, begin)


@dataclass(frozen=True, slots=True)
class Found:
    """What a node defines. `kind` "" is a namespace: no symbol, its name stands before those inside.

    `owner`: the type it is a member of, when it is written apart from it (`void Foo::bar()`).
    `bases`: of a namespace, what the type of that name inherits besides (Rust's `impl Base for Foo`).
    """

    name: str  # without its owner; dots in it part segments
    kind: str
    at: Node | None = None  # whose line is the symbol's, default: the node
    body: Node | None = None  # where the signature ends
    until: Node | None = None  # where the definition ends, when not with the node
    owner: str = ""
    bases: tuple[str, ...] = ()
    is_test: bool = False
    since: int = -1  # first byte, when not the node's
    joins: str = (
        ""  # definitions of one name and one such mark in a row are one: clauses, equations
    )
    members: bool = False  # functions inside a namespace are methods


def newlines_of(source: bytes) -> list[int]:
    return [match.start() for match in re.finditer(b"\n", source)]


Rule = Callable[[Node, File], Found | None]


@dataclass(frozen=True, slots=True)
class Table:
    """All that one language needs.

    `leading`: nodes that stand before a definition and belong to it: comments, attributes. `wrappers`:
    nodes round one, whose source is the definition's. `test_mark` is looked for in what stands before a
    symbol's name (`@Test`), `test_name` in the names of functions in test files. `package` gives the
    module's name where sources declare one. `patterns` narrows what is asked of the parser for a kind
    of node, as a query with the capture `@n`. `prepare` gives what is parsed instead of a source, byte for
    byte of the same length; `repair` rewrites a source that does not parse into one of the same length that may. `dialect` names
    the language by whose table a file (source, path) is read instead; "" for this one.
    `heads`: what first lines of definitions look like, for `etl.languages.tables.salvage`, which reads errors and
    the nodes `opaque`, whose inside is not parsed. `bounded`: a definition with an error inside is believed
    to end where its indentation says.
    """

    load: Callable[[], Language]
    rules: Mapping[str, Rule]
    leading: frozenset[str] = frozenset({"comment"})
    wrappers: frozenset[str] = frozenset()
    owners: frozenset[str] = frozenset({"class", "interface", "enum", "struct", "trait"})
    test_mark: re.Pattern[bytes] | None = None
    test_name: re.Pattern[str] | None = None
    package: Callable[[Node, File], str] | None = None
    patterns: Mapping[str, str] = field(default_factory=dict)
    prepare: Callable[[bytes, str], bytes] | None = None
    repair: Callable[[bytes], bytes] | None = None
    dialect: Callable[[bytes, str], str] | None = None
    heads: Sequence[tuple[str, re.Pattern[bytes]]] = ()
    opaque: frozenset[str] = frozenset()
    bounded: bool = True


def simple(
    kind: str,
    *,
    name: str = "name",
    body: str = "body",
    bases: Iterable[str] = (),
    need_body: bool = False,
) -> Rule:
    """A rule for nodes with fields `name` and `body`. `bases`: types of children that hold base types.

    `need_body`: without one it only declares, and is no definition.
    """
    clauses = frozenset(bases)

    def rule(node: Node, file: File) -> Found | None:
        del file
        named, block = node.child_by_field_name(name), node.child_by_field_name(body)
        if named is None or (need_body and block is None):
            return None
        return Found(
            dotted(text_of(named, 300)),
            kind,
            at=named,
            body=block,
            bases=bases_of(node, clauses) if clauses else (),
        )

    return rule


def namespace(*, name: str = "name", members: bool = False) -> Rule:
    """A rule for nodes that only put a name before what is inside."""

    def rule(node: Node, file: File) -> Found | None:
        del file
        return Found(dotted(text_of(node.child_by_field_name(name), 300)), "", members=members)

    return rule


def head(kind: str, pattern: str) -> tuple[str, re.Pattern[bytes]]:
    """An entry of `Table.heads`: `pattern` is for a line without its indentation.

    The kind "" is a namespace's, `MEMBERS` that of what adds members to a type.
    """
    return kind, re.compile(pattern.encode())


def dotted(text: str) -> str:
    """`a::b`, `A\\B`, `a.b<T>` as one dotted path: `a.b`; names as they are written otherwise.

    What stands in quotes is one segment."""
    if quoted := _QUOTED.fullmatch(text.strip()):
        return segment(quoted[quoted.lastindex or 0])
    text = _RAW.sub("", text)
    for _ in range(4):  # nested type arguments, from the innermost
        shorter = _ARGUMENTS.sub("", text)
        if shorter == text:
            break
        text = shorter
    return _SEPARATORS.sub(".", text.strip()).strip(".")


def bases_of(node: Node, clauses: frozenset[str]) -> tuple[str, ...]:
    """The base types in `node`'s children of the types `clauses`, dotted, without their arguments."""
    found: dict[str, None] = {}
    for clause in node.named_children:
        if clause.type not in clauses:
            continue
        for part in clause.named_children[:_MAX_BASES]:
            base = base_name(part)
            if base:
                found[base] = None
    return tuple(found)


def base_name(node: Node) -> str:
    """A type as written, as a dotted name; "" for what is none."""
    text = dotted(text_of(node, 200))
    parts = text.split(".")
    return text if parts and all(_NAME.fullmatch(part) for part in parts) else ""


def segment(text: str) -> str:
    """A name as one segment of a qualified name."""
    return re.sub(r"[\s.#@:]+", "_", text.strip()).strip("_") or "_"
