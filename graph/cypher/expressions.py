"""Expressions of Cypher, by recursive descent. What the grammar here does not have is refused.

Stricter than the servers, never laxer: what they read in two ways is either read so that it costs
more, or refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from graph.cypher import tree
from graph.cypher.cursor import RESERVED, Cursor
from graph.cypher.tree import Expr
from graph.guard.tokens import Kind
from graph.guard.words import QUANTIFIERS, SUBQUERIES

_COMPARISONS = ("=", "<>", "<", ">", "<=", ">=", "=~")
_LITERALS: dict[str, bool | float | None] = {
    "NULL": None,
    "TRUE": True,
    "FALSE": False,
    "INF": float("inf"),
    "INFINITY": float("inf"),
    "NAN": float("nan"),
}


class Patterns(Protocol):
    """What expressions contain of the rest of the grammar; each begins at the cursor and moves it on."""

    def labels(self) -> None: ...

    def path_ahead(self, at: int) -> bool: ...

    def path(self, *, named: bool) -> tree.Path: ...

    def subquery(self) -> tree.Query: ...


class Expressions:
    """Reads expressions at `cursor`; `patterns` reads the patterns and queries inside them."""

    def __init__(self, cursor: Cursor, patterns: Patterns) -> None:
        self._c = cursor
        self._patterns = patterns

    def expression(self) -> Expr:
        return self._level("OR", lambda: self._level("XOR", lambda: self._level("AND", self._not)))

    def _level(self, word: str, lower: Callable[[], Expr]) -> Expr:
        left = lower()
        while self._c.word(word):
            at = self._c.at
            self._c.at += 1
            left = tree.Binary(at, word, left, lower())
        return left

    def _not(self) -> Expr:
        at, count = self._c.at, 0
        while self._c.take_word("NOT"):
            count += 1
        of = self._comparison()
        return tree.Unary(at, "NOT", of) if count else of

    def _comparison(self) -> Expr:
        left = self._sum()
        while True:
            at = self._c.at
            operator = self._comparing()
            if not operator:
                return left
            if operator == "IS NULL":
                left = tree.Unary(at, operator, left)
            else:
                left = tree.Binary(at, operator, left, self._sum())

    def _comparing(self) -> str:
        """The next comparison's name, its tokens taken; "" for none."""
        c = self._c
        for text in _COMPARISONS:
            if c.take(text):
                return text
        if c.take_word("IN"):
            return "IN"
        if c.take_word("CONTAINS"):
            return "CONTAINS"
        if c.word("STARTS", "ENDS"):
            word = c.s.tokens[c.at].name
            c.at += 1
            c.need_word("WITH")
            return word
        if c.take_word("IS"):
            c.take_word("NOT")
            c.need_word("NULL")
            return "IS NULL"
        return ""

    def _sum(self) -> Expr:
        return self._operators(("+", "-", "||"), self._product)

    def _product(self) -> Expr:
        return self._operators(("*", "/", "%"), self._power)

    def _power(self) -> Expr:
        return self._operators(("^",), self._unary)

    def _operators(self, texts: tuple[str, ...], lower: Callable[[], Expr]) -> Expr:
        left = lower()
        while self._c.symbol(*texts):
            at = self._c.at
            self._c.at += 1
            left = tree.Binary(at, self._c.s.tokens[at].text, left, lower())
        return left

    def _unary(self) -> Expr:
        at, sign = self._c.at, ""
        while self._c.symbol("-", "+"):
            sign = "+" if self._c.symbol("+") and sign != "-" else "-"
            self._c.at += 1
        of = self._postfix()
        return tree.Unary(at, sign, of) if sign else of

    def _postfix(self) -> Expr:
        c = self._c
        of = self._atom()
        while True:
            at = c.at
            if c.symbol(".") and not c.s.symbol(at + 1, "*"):
                c.at += 1
                of = tree.Property(at, of, c.name(reserved=True))
                if c.symbol("("):
                    raise c.s.refuse(
                        at, f"a call of `{of.name}`", "docs/cypher-guard.md lists the functions"
                    )
            elif c.take("["):
                of = self._indexed(at, of)
            elif c.symbol(":") and isinstance(of, tree.Variable | tree.Unary):
                self._patterns.labels()
                of = tree.Unary(at, ":", of)
            else:
                return of

    def _indexed(self, at: int, of: Expr) -> Expr:
        c = self._c
        start = None if c.symbol("..") else self.expression()
        if c.take(".."):
            end = None if c.symbol("]") else self.expression()
            c.need("]")
            return tree.Slice(at, of, start, end)
        c.need("]")
        if start is None:
            raise c.unexpected("an index")
        return tree.Subscript(at, of, start)

    # -- atoms ---------------------------------------------------------------------------------------

    def _atom(self) -> Expr:
        c = self._c
        token = c.s.at(c.at)
        if token is None:
            raise c.unexpected("an expression")
        match token.kind:
            case Kind.NUMBER:
                return self._number()
            case Kind.STRING:
                c.at += 1
                return tree.Literal(c.at - 1, token.text[1:-1])
            case Kind.PARAMETER:
                c.at += 1
                return tree.Parameter(c.at - 1, token.name)
            case Kind.SYMBOL:
                return self._bracket()
            case Kind.WORD | Kind.QUOTED:
                return self._named()

    def _number(self) -> Expr:
        at = self._c.at
        text = self._c.s.tokens[at].text
        self._c.at += 1
        try:
            return tree.Literal(at, int(text, 0) if text[:2].lower() in ("0x", "0o") else int(text))
        except ValueError:
            return tree.Literal(at, float(text))

    def _bracket(self) -> Expr:
        c = self._c
        at = c.at
        if c.symbol("("):
            if self._patterns.path_ahead(at):
                return tree.PatternTest(at, self._patterns.path(named=False))
            c.at += 1
            inner = self.expression()
            c.need(")")
            return inner
        if c.symbol("["):
            return self._list()
        if c.symbol("{"):
            return self.map()
        raise c.unexpected("an expression")

    def _list(self) -> Expr:
        """`[…]`: a list, a comprehension, or a comprehension of a pattern."""
        c = self._c
        at = c.at
        c.at += 1
        if c.is_name(c.at) and c.s.word(c.at + 1, "IN"):
            return self._comprehension(at)
        named = c.is_name(c.at) and c.s.symbol(c.at + 1, "=") and c.s.symbol(c.at + 2, "(")
        if named or (c.symbol("(") and self._patterns.path_ahead(c.at)):
            back = c.at
            path = self._patterns.path(named=True)
            if c.word("WHERE") or c.symbol("|"):
                where = self.expression() if c.take_word("WHERE") else None
                c.need("|")
                result = self.expression()
                c.need("]")
                return tree.PatternComprehension(at, path, where, result)
            c.at = back
        return self._items(at, [])

    def _items(self, at: int, items: list[Expr]) -> Expr:
        c = self._c
        while not c.symbol("]"):
            items.append(self.expression())
            if not c.take(","):
                break
        c.need("]")
        return tree.ListOf(at, tuple(items))

    def _comprehension(self, at: int) -> Expr:
        c = self._c
        variable = tree.Variable(c.at, c.name())
        c.at += 1
        over = self.expression()
        if c.take(","):  # `[x IN list, …]`: a list that begins with a test
            return self._items(at, [tree.Binary(at + 2, "IN", variable, over)])
        where = self.expression() if c.take_word("WHERE") else None
        result = self.expression() if c.take("|") else None
        c.need("]")
        return tree.Comprehension(at, variable.name, over, where, result)

    def map(self) -> tree.MapOf:
        c = self._c
        at = c.at
        c.need("{")
        entries = []
        while not c.symbol("}"):
            key = c.name(reserved=True)
            c.need(":")
            entries.append((key, self.expression()))
            if not c.take(","):
                break
        c.need("}")
        return tree.MapOf(at, tuple(entries))

    # -- names -----------------------------------------------------------------------------------------

    def _named(self) -> Expr:
        c = self._c
        at = c.at
        token = c.s.tokens[at]
        if token.kind is Kind.WORD:
            if token.name in SUBQUERIES and c.s.symbol(at + 1, "{"):
                c.at += 1
                return tree.Subquery(at, token.name, self._patterns.subquery())
            if token.name == "CASE":
                return self._case()
            if token.name in ("NULL", "TRUE", "FALSE"):
                c.at += 1
                return tree.Literal(at, _LITERALS[token.name])
            if (function := self._function_name()) is not None:
                return self._call(at, function)
        name = c.name()
        if c.symbol("{"):
            return self._projection(tree.Variable(at, name))
        return tree.Variable(at, name)

    def _function_name(self) -> str | None:
        """The dotted name before a bracket, in lower case, with the cursor behind it; None: no call."""
        c = self._c
        at, parts = c.at, []
        while (token := c.s.at(at)) is not None and token.kind is Kind.WORD:
            parts.append(token.text.lower())
            if c.s.symbol(at + 1, "("):
                if len(parts) == 1 and token.name in RESERVED - {"ALL"}:
                    return None
                c.at = at + 1
                return ".".join(parts)
            if not c.s.symbol(at + 1, "."):
                return None
            at += 2
        return None

    def _call(self, at: int, name: str) -> Expr:
        c = self._c
        c.need("(")
        if name in QUANTIFIERS and c.is_name(c.at) and c.s.word(c.at + 1, "IN"):
            return self._quantifier(at)
        if name == "reduce":
            return self._reduce(at)
        arguments: list[Expr] = []
        if not (name == "count" and c.take("*")):
            c.take_word("DISTINCT")
            while not c.symbol(")"):
                arguments.append(self.expression())
                if not c.take(","):
                    break
        c.need(")")
        return tree.Call(at, name, tuple(arguments))

    def _quantifier(self, at: int) -> Expr:
        c = self._c
        variable = c.name()
        c.at += 1
        over = self.expression()
        c.need_word("WHERE")
        where = self.expression()
        c.need(")")
        return tree.Quantifier(at, variable, over, where)

    def _reduce(self, at: int) -> Expr:
        c = self._c
        total = c.name()
        c.need("=")
        start = self.expression()
        c.need(",")
        variable = c.name()
        c.need_word("IN")
        over = self.expression()
        c.need("|")
        body = self.expression()
        c.need(")")
        return tree.Reduce(at, total, start, variable, over, body)

    def _projection(self, of: tree.Variable) -> Expr:
        """`n {.id, .*, other, key: expression}`."""
        c = self._c
        c.need("{")
        entries: list[tuple[str, Expr]] = []
        whole = False
        while not c.symbol("}"):
            at = c.at
            if c.take("."):
                if c.take("*"):
                    whole = True
                else:
                    key = c.name(reserved=True)
                    entries.append((key, tree.Property(at, of, key)))
            else:
                key = c.name(reserved=c.s.symbol(at + 1, ":"))
                value = self.expression() if c.take(":") else tree.Variable(at, key)
                entries.append((key, value))
            if not c.take(","):
                break
        c.need("}")
        return tree.MapProjection(of.at, of, tuple(entries), whole)

    def _case(self) -> Expr:
        c = self._c
        at = c.at
        c.at += 1
        operand = None if c.word("WHEN") else self.expression()
        branches = []
        while c.take_word("WHEN"):
            when = self.expression()
            while c.take(","):  # `WHEN 1, 2 THEN`: an extended simple CASE
                when = tree.Binary(c.at, "OR", when, self.expression())
            c.need_word("THEN")
            branches.append((when, self.expression()))
        otherwise = self.expression() if c.take_word("ELSE") else None
        c.need_word("END")
        if not branches:
            raise c.unexpected("WHEN … THEN … before END")
        return tree.Case(at, operand, tuple(branches), otherwise)
