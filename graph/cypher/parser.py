"""Clauses and patterns of Cypher, by recursive descent; see `expressions`."""

from __future__ import annotations

from graph.cypher import tree
from graph.cypher.cursor import Cursor
from graph.cypher.expressions import Expressions
from graph.guard.statement import Statement
from graph.guard.tokens import Kind
from graph.guard.words import OPENING, PATTERN_FUNCTIONS

PROCEDURES = {
    "db.labels": "label",
    "db.relationshiptypes": "relationshipType",
    "db.propertykeys": "propertyKey",
}


def parse(statement: Statement) -> tree.Query:
    """Raises: CypherRefused, at the first token that the grammar does not have there."""
    return Parser(statement).whole()


class Parser:
    def __init__(self, statement: Statement) -> None:
        self._s = statement
        self._c = Cursor(statement)
        self._expressions = Expressions(self._c, self)

    def whole(self) -> tree.Query:
        query = self._query()
        if self._c.at < len(self._s.tokens):
            raise self._c.unexpected("a clause")
        return query

    # -- clauses -------------------------------------------------------------------------------------

    def _query(self) -> tree.Query:
        at = self._c.at
        branches = [self._clauses()]
        while self._c.take_word("UNION"):
            self._c.take_word("ALL", "DISTINCT")
            branches.append(self._clauses())
        return tree.Query(at, tuple(branches))

    def _clauses(self) -> tuple[tree.Clause, ...]:
        clauses: list[tree.Clause] = []
        while self._c.word(*OPENING):
            clauses.append(self._clause())
        if not clauses:
            raise self._c.unexpected("a clause")
        return tuple(clauses)

    def _clause(self) -> tree.Clause:
        c = self._c
        at = c.at
        if c.word("MATCH", "OPTIONAL"):
            c.take_word("OPTIONAL")
            c.need_word("MATCH")
            return self._match(at)
        if c.take_word("UNWIND"):
            of = self._expressions.expression()
            c.need_word("AS")
            return tree.Unwind(at, of, c.name())
        if c.take_word("CALL"):
            return self._call(at)
        c.at += 1  # WITH or RETURN
        return self._projection(at)

    def _match(self, at: int) -> tree.Match:
        c = self._c
        paths = [self.path(named=True)]
        while c.take(","):
            paths.append(self.path(named=True))
        where, where_at = None, -1
        if c.take_word("WHERE"):
            where_at = c.at
            where = self._expressions.expression()
        return tree.Match(at, tuple(paths), where, where_at, c.at)

    def _projection(self, at: int) -> tree.Projection:
        c = self._c
        distinct = c.take_word("DISTINCT")
        star = -1
        items: list[tree.Item] = []
        if c.symbol("*"):
            star = c.at
            c.at += 1
        if star < 0 or c.take(","):
            items.append(self._item())
            while c.take(","):
                items.append(self._item())
        order: list[tree.Expr] = []
        if c.take_word("ORDER"):
            c.need_word("BY")
            order.append(self._ordered())
            while c.take(","):
                order.append(self._ordered())
        skip = self._expressions.expression() if c.take_word("SKIP", "OFFSET") else None
        limit = self._expressions.expression() if c.take_word("LIMIT") else None
        where = self._expressions.expression() if c.take_word("WHERE") else None
        return tree.Projection(at, distinct, star, tuple(items), tuple(order), skip, limit, where)

    def _item(self) -> tree.Item:
        of = self._expressions.expression()
        if self._c.take_word("AS"):
            return tree.Item(of, self._c.name())
        return tree.Item(of, of.name if isinstance(of, tree.Variable) else "")

    def _ordered(self) -> tree.Expr:
        of = self._expressions.expression()
        self._c.take_word("ASC", "ASCENDING", "DESC", "DESCENDING")
        return of

    def _call(self, at: int) -> tree.Clause:
        c = self._c
        if not c.symbol("(", "{"):
            return self._procedure(at)
        imports: tuple[str, ...] | None = None
        if c.take("("):
            names: list[str] = []
            while not c.symbol(")"):
                names.append("*" if c.take("*") else c.name())
                if not c.take(","):
                    break
            c.need(")")
            imports = tuple(names)
        return tree.CallQuery(at, imports, self.subquery())

    def _procedure(self, at: int) -> tree.CallProcedure:
        c = self._c
        parts = [c.name()]
        while c.take("."):
            parts.append(c.name())
        procedure = ".".join(parts).lower()
        if procedure not in PROCEDURES:
            raise self._s.refuse(
                at,
                "CALL of a procedure",
                "only subqueries, CALL { … }, and db.labels(), db.relationshipTypes(), "
                "db.propertyKeys() are allowed; use a template",
            )
        c.need("(")
        c.need(")")
        name = ""
        if c.take_word("YIELD"):
            column = c.name()
            if column != PROCEDURES[procedure]:
                raise self._s.refuse(
                    c.at - 1, f"YIELD {column}", f"write YIELD {PROCEDURES[procedure]}"
                )
            name = c.name() if c.take_word("AS") else column
        return tree.CallProcedure(at, c.at - 1, procedure, name)

    def subquery(self) -> tree.Query:
        """`{ a query }`, or `{ a pattern WHERE … }` of EXISTS and COUNT."""
        c = self._c
        c.need("{")
        at = c.at
        query = self._query() if c.word(*OPENING) else tree.Query(at, ((self._match(at),),))
        c.need("}")
        return query

    # -- patterns ------------------------------------------------------------------------------------

    def path_ahead(self, at: int) -> bool:
        """Whether the bracket at `at` is the first node of a path: `(a)-[`, `(a)--`, `(a)<-`.

        `(a)--(b)` may be read as `a - -b` too, which costs nothing that a pattern would not.
        """
        s = self._s
        inner = s.at(at + 1)
        if inner is None or not (
            inner.kind in (Kind.WORD, Kind.QUOTED) or inner.is_symbol(")", ":", "{")
        ):
            return False
        if self._c.is_name(at + 1) and not s.symbol(at + 2, ")", ":", "{"):
            return s.word(at + 2, "WHERE")
        after = s.close[at] + 1
        if s.symbol(after, "-"):
            return s.symbol(after + 1, "[", "-")
        return s.symbol(after, "<") and s.symbol(after + 1, "-") and s.symbol(after + 2, "[", "-")

    def path(self, *, named: bool) -> tree.Path:
        """`p = (a)-->(b)`, `shortestPath((a)-[…]->(b))`, quantified groups; names where `named`."""
        c = self._c
        at = c.at
        name = ""
        if named and c.is_name(at) and c.s.symbol(at + 1, "="):
            name = c.name()
            c.at += 1
        token = c.s.at(c.at)
        if (
            token is not None
            and token.kind is Kind.WORD
            and token.text.lower() in PATTERN_FUNCTIONS - {"exists"}
        ):
            c.at += 1
            c.need("(")
            elements = self._elements()
            c.need(")")
            return tree.Path(at, c.at, name, token.text.lower(), elements)
        elements = self._elements()
        return tree.Path(at, c.at, name, "", elements)

    def _elements(self) -> tuple[tree.Element, ...]:
        c = self._c
        elements: list[tree.Element] = [self._node_or_group()]
        while True:
            if c.symbol("-", "<"):
                elements.append(self._relationship())
                elements.append(self._node_or_group())
            elif c.symbol("("):
                elements.append(self._node_or_group())  # `(a) ((x)-->(y)){1,2} (b)`
            else:
                return tuple(elements)

    def _node_or_group(self) -> tree.Element:
        c = self._c
        if not c.symbol("("):
            raise c.unexpected("a node, as in `(n:Function)`")
        if c.s.symbol(c.at + 1, "(") or (c.is_name(c.at + 1) and c.s.symbol(c.at + 2, "=")):
            return self._group()
        return self._node()

    def _group(self) -> tree.Group:
        c = self._c
        at = c.at
        c.at += 1
        path = self.path(named=True)
        where = self._expressions.expression() if c.take_word("WHERE") else None
        c.need(")")
        return tree.Group(at, path, where, self._quantifier())

    def _node(self) -> tree.NodePattern:
        c = self._c
        at = c.at
        c.need("(")
        name = c.name() if c.is_name(c.at) else ""
        if c.symbol(":"):
            self.labels()
        properties = self._properties()
        where, where_at = None, -1
        if c.take_word("WHERE"):
            where_at = c.at
            where = self._expressions.expression()
        c.need(")")
        return tree.NodePattern(at, c.at - 1, name, properties, where, where_at)

    def _properties(self) -> tree.Expr | None:
        """`{…}`; `$properties` whole is refused by name: not every server has it."""
        c = self._c
        if c.symbol("{"):
            return self._expressions.map()
        token = c.s.at(c.at)
        if token is not None and token.kind is Kind.PARAMETER:
            raise c.s.refuse(
                c.at, f"{token.text} for all properties", "write them out: {name: $name}"
            )
        return None

    def labels(self) -> None:
        """`:A|B&!(C)`, `:A:B`."""
        c = self._c
        while c.take(":"):
            self._label()
            while c.take("|", "&"):
                c.take(":")  # `:A|:B`, as relationship types were once written
                self._label()

    def _label(self) -> None:
        c = self._c
        while c.take("!"):
            pass
        if c.take("%"):
            return
        if c.take("("):
            self._label()
            while c.take("|", "&"):
                self._label()
            c.need(")")
            return
        c.name(reserved=True)

    def _relationship(self) -> tree.RelationshipPattern:
        """`-[r:TYPE*1..3 {…} WHERE …]->`, `--`, `<-->`, with a quantifier behind."""
        c = self._c
        at = c.at
        c.take("<")
        c.need("-")
        name, name_at = "", -1
        properties = where = None
        hops: tree.Hops | None = None
        if c.take("["):
            name_at = c.at
            name = c.name() if c.is_name(c.at) else ""
            if c.symbol(":"):
                self.labels()
            hops = self._star()
            properties = self._properties()
            where = self._expressions.expression() if c.take_word("WHERE") else None
            c.need("]")
        c.need("-")
        c.take(">")
        behind = self._quantifier()
        if hops is not None and behind is not None:
            raise self._s.refuse(behind.first, "a second quantifier", "leave one of the two out")
        return tree.RelationshipPattern(at, name, name_at, properties, where, hops or behind)

    def _star(self) -> tree.Hops | None:
        """`*`, `*2`, `*1..3`, `*..3`, `*2..` inside a relationship's brackets."""
        c = self._c
        first = c.at
        if not c.take("*"):
            return None
        least = self._whole_number()
        if c.take(".."):
            most = self._whole_number()
            return tree.Hops(first, c.at - 1, 1 if least is None else least, most, star=True)
        return tree.Hops(first, c.at - 1, 1 if least is None else least, least, star=True)

    def _quantifier(self) -> tree.Hops | None:
        """`+`, `*`, `{2}`, `{1,3}`, `{,3}`, `{1,}` behind a relationship or a group."""
        c = self._c
        first = c.at
        if c.take("+"):
            return tree.Hops(first, first, 1, None, star=False)
        if c.take("*"):
            return tree.Hops(first, first, 0, None, star=False)
        number = c.s.at(first + 1)
        if not c.symbol("{") or not (
            number is not None and (number.kind is Kind.NUMBER or number.is_symbol(","))
        ):
            return None
        c.at += 1
        least = self._whole_number()
        most = self._whole_number() if c.take(",") else least
        c.need("}")
        return tree.Hops(first, c.at - 1, least or 0, most, star=False)

    def _whole_number(self) -> int | None:
        token = self._s.at(self._c.at)
        if token is None or token.kind is not Kind.NUMBER:
            return None
        if not token.text.isdecimal():
            raise self._c.unexpected("a whole number")
        self._c.at += 1
        return int(token.text)
