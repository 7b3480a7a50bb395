"""The work of an expression before it runs, in steps, and the size of its value.

A server stops a query between two rows and not inside an expression. So an expression that could take
more steps than `Limits.steps`, or make a value of more than `Limits.value_bytes`, is refused; a step is one
operator, one item of a loop, or 64 bytes copied. See docs/cypher-guard.md.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace

from graph.cypher import functions, sizes, tree
from graph.cypher.sizes import NUMBER, TRUTH, UNKNOWN, Kind, Size
from graph.cypher.tree import Expr
from graph.guard.statement import Statement
from graph.guard.words import AGGREGATES
from plait.domain.errors import CypherRefused

Names = Mapping[str, Size]

_LOOP = (
    "bound what it loops over, as in `list[..100]` or LIMIT before collect(), or UNWIND it: rows "
    "can be stopped, a loop inside one expression cannot"
)
_LARGE = "return the parts and join them in your own program"
_SIMULATED = 64  # turns of a reduce() that are followed one by one
_PATTERN_STEPS = 2_000  # a pattern in an expression: what a node's neighbourhood costs, guessed


class Costs:
    """Measures expressions of one statement. `steps` counts on; who measures a clause sets it to 0."""

    def __init__(self, statement: Statement, query: Callable[[tree.Query, Names], Size]) -> None:
        self._s = statement
        self._query = query  # measures a subquery
        self._parameters: dict[str, Size] = {}
        self.steps = 0
        self.rows = 1  # of the clause that is being measured: what collect() gathers

    def size(self, expr: Expr, names: Names) -> Size:
        """Raises: CypherRefused, for an expression that costs too much or makes too much."""
        value = self._size(expr, names)
        self.steps += 1
        if value.bytes > self._s.limits.value_bytes:
            raise self._s.refuse(
                expr.at, f"a value of up to {value.bytes:,} bytes", f"{self._allowed()}; {_LARGE}"
            )
        if self.steps > self._s.limits.steps:
            raise self._too_long(expr.at, self.steps)
        return value

    def _allowed(self) -> str:
        return f"{self._s.limits.value_bytes:,} are allowed"

    def _too_long(self, at: int, steps: int) -> CypherRefused:
        return self._s.refuse(
            at,
            f"an expression of up to {steps:,} steps",
            f"{self._s.limits.steps:,} are allowed; {_LOOP}",
        )

    def _size(self, e: Expr, names: Names) -> Size:
        match e:
            case tree.Literal():
                return self._literal(e)
            case tree.Parameter():
                return self._parameter(e.name)
            case tree.Variable():
                return names.get(e.name, UNKNOWN)
            case tree.Property():
                return self.size(e.of, names).field(e.name)
            case tree.Binary():
                return self._binary(e, names)
            case tree.Unary():
                return self._unary(e, names)
            case tree.Call():
                return self._call(e, names)
            case tree.ListOf():
                return sizes.literal_list([self.size(item, names) for item in e.items])
            case tree.MapOf():
                return sizes.mapped({key: self.size(item, names) for key, item in e.entries})
            case tree.MapProjection():
                return self._map_projection(e, names)
            case tree.Subscript():
                return self._subscript(e, names)
            case tree.Slice():
                return self._slice(e, names)
            case tree.Case():
                return self._case(e, names)
            case tree.Comprehension():
                return self._comprehension(e, names)
            case tree.Quantifier():
                over = self.size(e.over, names)
                self._loop(e.at, over, [e.where], {**names, e.variable: over.part()})
                return TRUTH
            case tree.Reduce():
                return self._reduce(e, names)
            case tree.Subquery():
                value = self._query(e.query, names)
                return value if e.name == "COLLECT" else NUMBER
            case tree.PatternTest():
                self._pattern(e.path, names)
                return TRUTH
            case tree.PatternComprehension():
                return self._pattern_comprehension(e, names)
        raise AssertionError(e)

    # -- values ----------------------------------------------------------------------------------------

    def _literal(self, e: tree.Literal) -> Size:
        if isinstance(e.value, str):
            return sizes.text(len(e.value))
        if isinstance(e.value, int) and not isinstance(e.value, bool):
            return sizes.number(e.value, e.value)
        return NUMBER

    def _parameter(self, name: str) -> Size:
        if name not in self._parameters:
            self._parameters[name] = sizes.of_value(self._s.parameters.get(name))
        return self._parameters[name]

    def _map_projection(self, e: tree.MapProjection, names: Names) -> Size:
        of = self.size(e.of, names)
        fields = {key: self.size(value, names) for key, value in e.entries}
        value = sizes.mapped(fields)
        if not e.whole:
            return value
        return replace(
            value,
            kind=of.kind if of.kind is Kind.ENTITY else Kind.MAP,
            items=value.items + of.items,
            bytes=value.bytes + of.bytes,
            mean=value.mean + of.mean,
            fields={**of.fields, **fields} if of.fields is not None else None,
        )

    def _subscript(self, e: tree.Subscript, names: Names) -> Size:
        of = self.size(e.of, names)
        self.size(e.index, names)
        if isinstance(e.index, tree.Literal) and isinstance(e.index.value, str):
            return of.field(e.index.value)
        return of.part()

    def _slice(self, e: tree.Slice, names: Names) -> Size:
        of = self.size(e.of, names)
        start = self.size(e.start, names) if e.start else sizes.number(0, 0)
        end = self.size(e.end, names) if e.end else NUMBER
        most = of.items
        if end.high is not None and end.low is not None and end.low >= 0:
            most = min(most, end.high)
            if start.low is not None and start.low > 0:
                most = min(most, max(0, end.high - start.low))
        self.steps += most
        each = of.part()
        if of.kind is Kind.TEXT:
            return of
        shorter = sizes.listed(most, each)
        return replace(
            shorter, bytes=min(of.bytes, shorter.bytes), mean=min(of.mean, shorter.bytes)
        )

    def _case(self, e: tree.Case, names: Names) -> Size:
        if e.operand is not None:
            self.size(e.operand, names)
        values = []
        for when, then in e.branches:
            self.size(when, names)
            values.append(self.size(then, names))
        if e.otherwise is not None:
            values.append(self.size(e.otherwise, names))
        return sizes.joined(values)

    # -- operators and functions --------------------------------------------------------------------------

    def _unary(self, e: tree.Unary, names: Names) -> Size:
        of = self.size(e.of, names)
        if e.operator != "-":
            return of if e.operator == "+" else TRUTH
        return sizes.number(
            None if of.high is None else -of.high, None if of.low is None else -of.low
        )

    def _binary(self, e: tree.Binary, names: Names) -> Size:
        # A long sum is a deep tree to the left: walked down without recursion.
        chain: list[tree.Binary] = []
        left: Expr = e
        while isinstance(left, tree.Binary):
            chain.append(left)
            left = left.left
        value = self.size(left, names)
        for link in reversed(chain):
            value = self._operated(link, value, self.size(link.right, names))
            if value.bytes > self._s.limits.value_bytes:
                raise self._s.refuse(
                    link.at,
                    f"a value of up to {value.bytes:,} bytes",
                    f"{self._allowed()}; {_LARGE}",
                )
        return value

    def _operated(self, e: tree.Binary, left: Size, right: Size) -> Size:
        match e.operator:
            case "+" | "||":
                value = sizes.added(left, right)
                self.steps += 1 + value.mean // functions.BYTES_A_STEP
                return value
            case "-" | "*":
                return _calculated(e.operator, left, right)
            case "/" | "%" | "^":
                return NUMBER
            case "AND" | "OR" | "XOR":
                self.steps += 1
                return TRUTH
            case "IN":
                self.steps += right.items * (1 + _compared(left, right.part()))
            case "=~":
                self.steps += self._matched(e, left)
            case _:
                self.steps += 1 + _compared(left, right)
        return TRUTH

    def _matched(self, e: tree.Binary, of: Size) -> int:
        """A pattern with k repetitions may try every k places of the text."""
        pattern = e.right.value if isinstance(e.right, tree.Literal) else None
        if isinstance(e.right, tree.Parameter):
            pattern = self._s.parameters.get(e.right.name)
        if not isinstance(pattern, str):
            return self._s.limits.steps  # another rule refuses it by name
        repeated = max(1, sum(pattern.count(sign) for sign in "*+{"))
        # Measured on Neo4j: 500 characters against three repetitions took 2.8 s, 250 against four 20 s.
        return 1 + int(functions.characters(of) ** repeated) // (8 * math.factorial(repeated))

    def _call(self, e: tree.Call, names: Names) -> Size:
        arguments = [self.size(argument, names) for argument in e.arguments]
        if e.name == "collect":
            return self._collected(e, arguments)
        if e.name == "range":
            return self._range(e, arguments)
        if e.name == "allshortestpaths" and e.arguments:
            raise self._s.refuse(e.at, "allShortestPaths() in an expression", "write it in MATCH")
        value = functions.value_of(e.name, arguments)
        self.steps += functions.work_of(e.name, arguments, value)
        if e.name in AGGREGATES and e.name not in ("min", "max", "percentiledisc"):
            return NUMBER
        return value

    def _collected(self, e: tree.Call, arguments: list[Size]) -> Size:
        each = arguments[0] if arguments else NUMBER
        value = replace(
            sizes.listed(self.rows, each), open=each.open or self.rows >= sizes.UNKNOWN_ROWS
        )
        if value.bytes > self._s.limits.value_bytes:
            raise self._s.refuse(
                e.at,
                f"collect() of up to {self.rows:,} values and {value.bytes:,} bytes",
                f"{self._allowed()}; collect less, or LIMIT the rows before it",
            )
        return value

    def _range(self, e: tree.Call, arguments: list[Size]) -> Size:
        s = self._s
        if len(arguments) not in (2, 3):
            raise s.refuse(e.at, "range() without two or three numbers", "write range(0, 10)")
        start, end = arguments[:2]
        step = arguments[2] if len(arguments) == 3 else sizes.number(1, 1)
        if step.low is None or step.low != step.high or step.low == 0:
            raise s.refuse(
                e.at, "range() with a step that is 0 or unknown", "write the step as a number"
            )
        if None in (start.low, start.high, end.low, end.high):
            raise s.refuse(
                e.at,
                "range() over an expression without a bound",
                "use whole numbers, parameters, or size(list) - 1",
            )
        assert start.low is not None
        assert start.high is not None
        assert end.low is not None
        assert end.high is not None
        span = end.high - start.low if step.low > 0 else start.high - end.low
        items = max(0, span // abs(step.low) + 1)
        if items > s.limits.range_items:
            raise s.refuse(
                e.at,
                f"range() of {items} items",
                f"{s.limits.range_items} are allowed; UNWIND a list or MATCH",
            )
        self.steps += items
        low, high = min(start.low, end.low), max(start.high, end.high)
        return sizes.listed(items, sizes.number(low, high))

    # -- loops ---------------------------------------------------------------------------------------------

    def _loop(self, at: int, over: Size, bodies: list[Expr], names: Names) -> list[Size]:
        """The sizes of `bodies` in one turn; their steps are counted for as many turns as `over` has
        items."""
        before, self.steps = self.steps, 0
        values = [self.size(body, names) for body in bodies]
        self.steps = before + over.items * (1 + self.steps)
        if self.steps > self._s.limits.steps:
            raise self._s.refuse(
                at,
                f"a loop over up to {over.items:,} items, {self.steps:,} steps in all",
                f"{self._s.limits.steps:,} are allowed; {_LOOP}",
            )
        return values

    def _comprehension(self, e: tree.Comprehension, names: Names) -> Size:
        over = self.size(e.over, names)
        each = over.part()
        bodies = [body for body in (e.where, e.result) if body is not None]
        values = self._loop(e.at, over, bodies, {**names, e.variable: each})
        if e.result is None:
            filtered = replace(over, fields=None)
            return replace(filtered, kind=Kind.LIST, each=each)
        return replace(sizes.listed(over.items, values[-1]), open=over.open)

    def _reduce(self, e: tree.Reduce, names: Names) -> Size:
        """Simulates the first turns: growth by a constant amount per turn is extrapolated; faster
        growth is simulated to the end, or refused when there are too many turns."""
        total = _whole(self.size(e.start, names))
        over = self.size(e.over, names)
        inner = {**names, e.variable: over.part()}
        before, turns = self.steps, over.items
        grown: list[int] = []
        for turn in range(min(turns, _SIMULATED)):
            self.steps = 0
            after = self.size(e.body, {**inner, e.total: total})
            grown.append(max(0, after.bytes - total.bytes))
            total = sizes.joined([total, _whole(after)])
            if turn > 2 and grown[-1] <= grown[-2] <= grown[-3]:
                break
        else:
            if turns > _SIMULATED:
                raise self._s.refuse(
                    e.at, "reduce() with a total that grows faster and faster", _LARGE
                )
        left = turns - len(grown)
        if left > 0:
            total = _enlarged(total, left * grown[-1])
            self.steps = 0
            # The list may be shorter than its bound, even empty: any turn's total may be the last.
            after = self.size(e.body, {**inner, e.total: total})
            total = sizes.joined([total, _whole(after)])
        self.steps = before + turns * (1 + self.steps)
        if self.steps > self._s.limits.steps:
            raise self._too_long(e.at, self.steps)
        return total

    # -- patterns ------------------------------------------------------------------------------------------

    def _pattern(self, path: tree.Path, names: Names) -> Names:
        """ArcadeDB cannot stop a pattern inside an expression, so it has to be short."""
        limit = self._s.limits.expression_hops
        hops = hops_of(path)
        if path.selector != "shortestpath" and (hops is None or hops > limit):
            raise self._s.refuse(
                path.at,
                f"a pattern of {'unbounded' if hops is None else hops} hops in an expression",
                f"{limit} are allowed; write EXISTS {{ MATCH … }} or COLLECT {{ MATCH … RETURN … }}, "
                "which can be stopped",
            )
        self.steps += _PATTERN_STEPS
        inner = {**names, **declared(path)}
        for expr in expressions_of(path):
            self.size(expr, inner)
        return inner

    def _pattern_comprehension(self, e: tree.PatternComprehension, names: Names) -> Size:
        inner = self._pattern(e.path, names)
        found = Size(Kind.LIST, _PATTERN_STEPS, each=sizes.ENTITY)
        bodies = [body for body in (e.where, e.result) if body is not None]
        values = self._loop(e.at, found, bodies, inner)
        return sizes.listed(found.items, values[-1])


def _whole(size: Size) -> Size:
    """Without what is known of its inside: the total of a reduce() changes from turn to turn."""
    return replace(size, fields=None, low=None, high=None)


def _enlarged(size: Size, more: int) -> Size:
    return replace(
        size,
        items=size.items + (more if size.kind is not Kind.LIST else more // sizes.REFERENCE),
        bytes=size.bytes + more,
        mean=size.mean + more,
    )


def _compared(a: Size, b: Size) -> int:
    return min(a.mean, b.mean) // functions.BYTES_A_STEP


def _calculated(operator: str, a: Size, b: Size) -> Size:
    if a.low is None or a.high is None or b.low is None or b.high is None:
        return NUMBER
    if operator == "-":
        return sizes.number(a.low - b.high, a.high - b.low)
    products = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
    return sizes.number(min(products), max(products))


def hops_of(path: tree.Path) -> int | None:
    """The most relationships that the path can have; None: without end."""
    total = 0
    for element in path.elements:
        if isinstance(element, tree.NodePattern):
            continue
        inner: int | None = 1
        if isinstance(element, tree.Group):
            inner = hops_of(element.path)
        times = element.hops.most if element.hops is not None else 1
        if inner is None or times is None:
            return None
        total += inner * times
    return total


def declared(path: tree.Path, *, repeated: int = 1) -> dict[str, Size]:
    """The names that a path gives to what it finds; inside a quantified group they are lists."""
    names: dict[str, Size] = {}
    for element in path.elements:
        if isinstance(element, tree.Group):
            most = (element.hops.most or 32) if element.hops else 1
            names |= declared(element.path, repeated=repeated * most if element.hops else repeated)
            continue
        if not element.name:
            continue
        size = sizes.ENTITY
        if isinstance(element, tree.RelationshipPattern) and element.hops is not None:
            size = sizes.listed(element.hops.most or 32, size)
        names[element.name] = size if repeated == 1 else sizes.listed(repeated, size)
    if path.name:
        hops = hops_of(path) or 32
        names[path.name] = Size(
            Kind.PATH, hops, (2 * hops + 1) * sizes.ENTITY.bytes, (2 * hops + 1) * sizes.ENTITY.mean
        )
    return names


def expressions_of(path: tree.Path) -> list[Expr]:
    """The maps and WHEREs inside a path's brackets."""
    found: list[Expr | None] = []
    for element in path.elements:
        if isinstance(element, tree.Group):
            found += [element.where, *expressions_of(element.path)]
        else:
            found += [element.properties, element.where]
    return [expr for expr in found if expr is not None]
