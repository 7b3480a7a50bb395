"""The parse tree of a statement. `at`: the index of the token that a node of it begins with."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Expr:
    at: int


# -- expressions -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """Null, a truth value, a number or a text. `value` is None for null."""

    value: bool | int | float | str | None


@dataclass(frozen=True, slots=True)
class Parameter(Expr):
    name: str


@dataclass(frozen=True, slots=True)
class Variable(Expr):
    name: str


@dataclass(frozen=True, slots=True)
class Property(Expr):
    of: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Subscript(Expr):
    of: Expr
    index: Expr


@dataclass(frozen=True, slots=True)
class Slice(Expr):
    of: Expr
    start: Expr | None
    end: Expr | None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    """`operator`: NOT, `-`, `+`, IS NULL, or `:` for a test of labels."""

    operator: str
    of: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    operator: str
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class ListOf(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class MapOf(Expr):
    entries: tuple[tuple[str, Expr], ...]


@dataclass(frozen=True, slots=True)
class MapProjection(Expr):
    """`n {.id, .*, first: n.start_line}`; `whole`: it has `.*`."""

    of: Variable
    entries: tuple[tuple[str, Expr], ...]
    whole: bool


@dataclass(frozen=True, slots=True)
class Comprehension(Expr):
    """`[variable IN over WHERE where | result]`."""

    variable: str
    over: Expr
    where: Expr | None
    result: Expr | None


@dataclass(frozen=True, slots=True)
class Quantifier(Expr):
    """`any(variable IN over WHERE where)`, and all, none, single."""

    variable: str
    over: Expr
    where: Expr


@dataclass(frozen=True, slots=True)
class Reduce(Expr):
    """`reduce(total = start, variable IN over | body)`."""

    total: str
    start: Expr
    variable: str
    over: Expr
    body: Expr


@dataclass(frozen=True, slots=True)
class Call(Expr):
    """A function; `name` in lower case. `count(*)` has no arguments."""

    name: str
    arguments: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Case(Expr):
    operand: Expr | None
    branches: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None


@dataclass(frozen=True, slots=True)
class Subquery(Expr):
    """`EXISTS { … }`, `COUNT { … }`, `COLLECT { … }`."""

    name: str
    query: Query


@dataclass(frozen=True, slots=True)
class PatternTest(Expr):
    """A pattern where an expression stands: `WHERE (a)-->(b)`."""

    path: Path


@dataclass(frozen=True, slots=True)
class PatternComprehension(Expr):
    path: Path
    where: Expr | None
    result: Expr


# -- patterns --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodePattern:
    """`(name:Label {…} WHERE …)`; `end`: the closing bracket's token."""

    at: int
    end: int
    name: str
    properties: Expr | None
    where: Expr | None
    where_at: int  # the first token behind WHERE, -1 without one


@dataclass(frozen=True, slots=True)
class Hops:
    """How often a relationship or a group is repeated. `most` None: without end.

    `first` to `last`: its tokens, `*1..3`, `+` or `{1,3}`; `star`: written as `*` in brackets.
    """

    first: int
    last: int
    least: int
    most: int | None
    star: bool


@dataclass(frozen=True, slots=True)
class RelationshipPattern:
    """`-[name:TYPE*1..3 {…}]->`; `name_at`: where a name stands or would; -1 for `--`."""

    at: int
    name: str
    name_at: int
    properties: Expr | None
    where: Expr | None
    hops: Hops | None


@dataclass(frozen=True, slots=True)
class Group:
    """`((a)-->(b) WHERE …){1,3}`: a quantified path; without `hops` it is a bracket."""

    at: int
    path: Path
    where: Expr | None
    hops: Hops | None


Element = NodePattern | RelationshipPattern | Group


@dataclass(frozen=True, slots=True)
class Path:
    """`selector`: "shortestpath", "allshortestpaths" or "". `end`: the token behind it."""

    at: int
    end: int
    name: str
    selector: str
    elements: tuple[Element, ...]


# -- clauses ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Match:
    """`end`: the token behind the clause."""

    at: int
    paths: tuple[Path, ...]
    where: Expr | None
    where_at: int
    end: int


@dataclass(frozen=True, slots=True)
class Unwind:
    at: int
    of: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Item:
    of: Expr
    name: str


@dataclass(frozen=True, slots=True)
class Projection:
    """WITH or RETURN. `star`: the token of its `*`, -1 without one."""

    at: int
    distinct: bool
    star: int
    items: tuple[Item, ...]
    order: tuple[Expr, ...]
    skip: Expr | None
    limit: Expr | None
    where: Expr | None


@dataclass(frozen=True, slots=True)
class CallQuery:
    """`CALL { … }` and `CALL (a, b) { … }`; `imports` None: those of the WITH inside; "*": all."""

    at: int
    imports: tuple[str, ...] | None
    query: Query


@dataclass(frozen=True, slots=True)
class CallProcedure:
    """`CALL db.labels() YIELD label AS name`; `name` "" without YIELD; `last`: its last token."""

    at: int
    last: int
    procedure: str
    name: str


Clause = Match | Unwind | Projection | CallQuery | CallProcedure


@dataclass(frozen=True, slots=True)
class Query:
    """The branches of a UNION."""

    at: int
    branches: tuple[tuple[Clause, ...], ...]
