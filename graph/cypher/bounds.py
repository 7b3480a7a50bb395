"""The guard's rule on size: every clause of a statement is measured before it runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from graph.cypher import sizes, tree
from graph.cypher.costs import Costs, Names, declared, expressions_of
from graph.cypher.sizes import UNKNOWN_ROWS, Kind, Size
from graph.guard.statement import Statement
from graph.guard.words import AGGREGATES


def measure(statement: Statement, query: tree.Query) -> None:
    """Raises: CypherRefused, for an expression or a value that could be too large."""
    _Bounds(statement).whole(query)


@dataclass(frozen=True, slots=True)
class _State:
    """`rows`: as far as it is known; `UNKNOWN_ROWS` behind a MATCH."""

    names: Mapping[str, Size]
    rows: int


class _Bounds:
    def __init__(self, statement: Statement) -> None:
        self._s = statement
        self._costs = Costs(statement, self._subquery)

    def whole(self, query: tree.Query) -> None:
        for branch in query.branches:
            self._branch(branch, _State({}, 1), nested=False)

    def _subquery(self, query: tree.Query, names: Names) -> Size:
        """What COLLECT { … } gathers. Its steps are added to those of the expression round it."""
        outer = self._costs.rows
        ends = [self._branch(branch, _State(names, 1), nested=True) for branch in query.branches]
        self._costs.rows = outer
        rows = sum(end.rows for end in ends)
        each = sizes.joined(size for end in ends for size in end.names.values())
        return replace(sizes.listed(rows, each), open=rows >= UNKNOWN_ROWS)

    def _branch(self, clauses: tuple[tree.Clause, ...], state: _State, *, nested: bool) -> _State:
        for clause in clauses:
            before = self._costs.steps
            self._costs.steps = 0
            self._costs.rows = state.rows
            rows = state.rows
            state = self._clause(clause, state)
            self._fits(clause, state)
            # A subquery's rows are stopped like others; its expressions count once a row.
            self._costs.steps = before + (self._costs.steps + min(rows, 100) if nested else 0)
        return state

    def _fits(self, clause: tree.Clause, state: _State) -> None:
        """All names together: each may be as large as a value may."""
        together = sum(size.mean for size in state.names.values())
        if together > 2 * self._s.limits.value_bytes:
            raise self._s.refuse(
                clause.at,
                f"a row of up to {together:,} bytes",
                f"{2 * self._s.limits.value_bytes:,} are allowed; carry on less in WITH",
            )

    def _clause(self, clause: tree.Clause, state: _State) -> _State:
        match clause:
            case tree.Match():
                return self._match(clause, state)
            case tree.Unwind():
                of = self._costs.size(clause.of, state.names)
                return _State({**state.names, clause.name: of.part()}, _unwound(state.rows, of))
            case tree.Projection():
                return self._projection(clause, state)
            case tree.CallQuery():
                return self._call(clause, state)
            case tree.CallProcedure():
                found = sizes.INTROSPECTED[clause.procedure]
                names = {clause.name: sizes.NAME} if clause.name else {}
                return _State({**state.names, **names}, state.rows * len(found))

    def _match(self, clause: tree.Match, state: _State) -> _State:
        names = dict(state.names)
        for path in clause.paths:
            names |= declared(path)
        for path in clause.paths:
            for expr in expressions_of(path):
                self._costs.size(expr, names)
        if clause.where is not None:
            self._costs.size(clause.where, names)
        return _State(names, max(state.rows, UNKNOWN_ROWS))

    def _call(self, clause: tree.CallQuery, state: _State) -> _State:
        names: Names = state.names
        if clause.imports is not None and "*" not in clause.imports:
            names = {name: state.names.get(name, sizes.UNKNOWN) for name in clause.imports}
        ends = [
            self._branch(branch, _State(names, 1), nested=False) for branch in clause.query.branches
        ]
        rows = state.rows * max(1, sum(end.rows for end in ends))
        if state.rows == UNKNOWN_ROWS or any(end.rows == UNKNOWN_ROWS for end in ends):
            rows = UNKNOWN_ROWS
        found = {name: end.names[name] for end in ends for name in end.names}
        return _State({**state.names, **found}, rows)

    # -- WITH and RETURN -----------------------------------------------------------------------------------

    def _projection(self, clause: tree.Projection, state: _State) -> _State:
        made: dict[str, Size] = dict(state.names) if clause.star >= 0 else {}
        fresh: list[Size] = []
        grouped = aggregated = False
        for number, item in enumerate(clause.items):
            made[item.name or f" {number}"] = self._costs.size(item.of, state.names)
            if _aggregates(item.of):
                aggregated = True
            else:
                grouped = True
                if not isinstance(item.of, tree.Variable):  # that value is there already
                    fresh.append(made[item.name or f" {number}"])
        both = {**state.names, **made}
        rows = 1 if aggregated and not grouped and clause.star < 0 else state.rows
        limited = self._limited(clause, both, rows)
        for expr in clause.order:
            key = self._costs.size(expr, both)
            if not isinstance(expr, tree.Variable):
                fresh.append(key)
        if clause.order or clause.distinct or aggregated:
            self._gathered(clause, min(state.rows, limited) if clause.order else state.rows, fresh)
        if clause.where is not None:
            self._costs.size(clause.where, both)
        return _State(made, min(rows, limited))

    def _limited(self, clause: tree.Projection, names: Names, rows: int) -> int:
        skip = self._costs.size(clause.skip, names).high if clause.skip else 0
        limit = self._costs.size(clause.limit, names).high if clause.limit else None
        if limit is None or skip is None:
            return rows
        return max(0, limit) + max(0, skip)

    def _gathered(self, clause: tree.Projection, rows: int, values: list[Size]) -> None:
        """ORDER BY, DISTINCT and groups hold all their rows at once."""
        total = rows * sum(value.mean for value in values)
        if total > self._s.limits.gathered_bytes:
            raise self._s.refuse(
                clause.at,
                f"up to {rows:,} rows and {total:,} bytes to be sorted or grouped",
                f"{self._s.limits.gathered_bytes:,} are allowed; order by a property, and make what is "
                "large behind it",
            )


def _unwound(rows: int, of: Size) -> int:
    """Rows behind UNWIND. A list of the store, or one that was collected, gives back no more rows than
    went into it; others multiply."""
    if of.kind not in (Kind.LIST, Kind.ANY):
        return rows
    if of.open:
        return max(rows, UNKNOWN_ROWS)
    return rows * max(1, of.items)


def _aggregates(expr: tree.Expr) -> bool:
    return any(isinstance(e, tree.Call) and e.name in AGGREGATES for e in walked(expr))


def walked(expr: tree.Expr) -> Iterator[tree.Expr]:
    """`expr` and the expressions in it; not those of subqueries and patterns."""
    stack = [expr]
    while stack:
        e = stack.pop()
        yield e
        for name in e.__dataclass_fields__:
            value = getattr(e, name)
            if isinstance(value, tree.Expr):
                stack.append(value)
            elif isinstance(value, tuple):
                for item in value:
                    parts = item if isinstance(item, tuple) else (item,)
                    stack += [part for part in parts if isinstance(part, tree.Expr)]
