"""What RETURN and WITH project: the items, their column names, and ArcadeDB's broken ones."""

from __future__ import annotations

from collections.abc import Sequence

from graph.guard.clauses import ends_operand
from graph.guard.statement import Limits, Statement
from graph.guard.tokens import Kind, tokenize
from graph.guard.words import AGGREGATES, OPENING, QUANTIFIERS

# Under these ArcadeDB 26.10 loses the grouping of an aggregate in the same projected item.
_BREAKING = frozenset(["IS", "IN", "STARTS", "ENDS", "CONTAINS", "NOT", "AND", "OR", "XOR"])


def aggregate_predicates(s: Statement) -> None:
    """Refuse what ArcadeDB answers with silently wrong rows: an aggregate under a predicate."""
    if s.limits.aggregate_predicates:
        return
    for i, token in s.words():
        if (
            token.name in ("RETURN", "WITH")
            and not s.is_name(i)
            and not s.word(i - 1, "STARTS", "ENDS")
        ):
            for item in _items(s, i):
                _check_item(s, item)


def _items(s: Statement, clause: int, *, order: bool = True) -> list[list[int]]:
    """The projected items of RETURN or WITH, ORDER BY's too, as token indices."""
    level = s.inside[clause]
    items: list[list[int]] = [[]]
    for i in range(clause + 1, len(s.tokens)):
        here = s.inside[i] == level
        if here and s.symbol(i, ")", "]", "}") and s.open_of.get(i) == level:
            break
        if i == s.close.get(level):
            break
        if here and (
            _next_clause(s, i) or (not order and s.word(i, "ORDER") and ends_operand(s, i - 1))
        ):
            break
        if here and s.symbol(i, ","):
            items.append([])
        else:
            items[-1].append(i)
    return items


def _next_clause(s: Statement, i: int) -> bool:
    """Whether a clause begins at `i`: `RETURN call, limit` names two variables."""
    if not (ends_operand(s, i - 1) or s.symbol(i - 1, "*")):
        return False
    return (
        s.word(i, *OPENING, "WHERE", "SKIP", "OFFSET", "LIMIT", "UNION")
        and not s.is_name(i)
        and not s.word(i - 1, "STARTS", "ENDS")
    )


def _check_item(s: Statement, item: list[int]) -> None:
    aggregate = -1
    breaking = -1
    skip_to = -1
    for i in item:
        token = s.tokens[i]
        if token.kind is Kind.WORD and token.name.lower() in AGGREGATES and s.symbol(i + 1, "("):
            if aggregate < 0:
                aggregate = i
            skip_to = max(skip_to, s.close[i + 1])
            if s.symbol(skip_to + 1, "[") and s.symbol(s.close[skip_to + 1] + 1, "."):
                breaking = s.close[skip_to + 1] + 1
            continue
        if _loop_in(s, i):
            continue
        if i > skip_to and (
            (token.kind is Kind.WORD and token.name in _BREAKING and not s.is_name(i))
            or token.is_symbol("=~", "::")
        ):
            breaking = i
    if aggregate >= 0 and breaking >= 0:
        raise s.refuse(
            breaking,
            f"`{s.tokens[breaking].text}` on {s.tokens[aggregate].text}() in one item",
            "this server answers it with wrong rows; aggregate first: "
            "WITH g, max(x) AS m RETURN g, m IS NOT NULL",
        )


def _loop_in(s: Statement, i: int) -> bool:
    """Whether token `i` is the IN of a loop: `[x IN list …`, `any(x IN list …`."""
    if not s.word(i, "IN"):
        return False
    opener = i - 2
    return s.symbol(opener, "[") or (
        s.symbol(opener, "(") and s.word(opener - 1, *(name.upper() for name in QUANTIFIERS))
    )


def columns(text: str) -> tuple[str, ...]:
    """The column names of a guarded statement; () for `RETURN *`.

    ArcadeDB names a result's columns by its first row, so an empty result has none.
    """
    tokens, clean = tokenize(text)
    s = Statement.of(clean, tokens, {}, Limits())
    for i, token in s.words():
        if token.name == "RETURN" and s.inside[i] < 0 and not s.is_name(i):
            names = [_column(s, item) for item in _items(s, i, order=False) if item]
            return () if "*" in names else tuple(names)
    return ()


def _column(s: Statement, item: Sequence[int]) -> str:
    """`AS name`, or the expression as written."""
    if len(item) > 1 and s.word(item[-2], "AS"):
        alias = s.tokens[item[-1]]
        return alias.name if alias.kind is Kind.QUOTED else alias.text
    start = 1 if s.word(item[0], "DISTINCT") and len(item) > 1 else 0
    first, last = s.tokens[item[start]], s.tokens[item[-1]]
    text = s.text[first.at : last.at + len(last.text)]
    return last.name if first is last and first.kind is Kind.QUOTED else text
