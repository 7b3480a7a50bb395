"""A small interpreter of Cypher expressions, to hold what the guard foretells against what happens.

It knows numbers, texts, lists and maps, and counts a step for every expression that it evaluates and every
item that it walks over.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from graph.cypher import tree


class Interpreter:
    def __init__(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = parameters
        self.steps = 0

    def value(self, e: tree.Expr, names: Mapping[str, Any]) -> Any:
        self.steps += 1
        match e:
            case tree.Literal():
                return e.value
            case tree.Parameter():
                return self._parameters.get(e.name)
            case tree.Variable():
                return names[e.name]
            case tree.ListOf():
                return [self.value(item, names) for item in e.items]
            case tree.MapOf():
                return {key: self.value(item, names) for key, item in e.entries}
            case tree.Property():
                of = self.value(e.of, names)
                return of.get(e.name) if isinstance(of, dict) else None
            case tree.Subscript():
                return self._at(self.value(e.of, names), self.value(e.index, names))
            case tree.Slice():
                return self._sliced(e, names)
            case tree.Binary():
                return self._binary(
                    e.operator, self.value(e.left, names), self.value(e.right, names)
                )
            case tree.Case():
                return self._case(e, names)
            case tree.Comprehension():
                return self._comprehension(e, names)
            case tree.Quantifier():
                return any(
                    self.value(e.where, {**names, e.variable: item})
                    for item in self._items(self.value(e.over, names))
                )
            case tree.Reduce():
                total = self.value(e.start, names)
                for item in self._items(self.value(e.over, names)):
                    total = self.value(e.body, {**names, e.total: total, e.variable: item})
                return total
            case tree.Call():
                return self._call(e.name, [self.value(argument, names) for argument in e.arguments])
        raise NotImplementedError(e)

    def _items(self, value: Any) -> list[Any]:
        items = value if isinstance(value, list) else []
        self.steps += len(items)
        return items

    def _case(self, e: tree.Case, names: Mapping[str, Any]) -> Any:
        for when, then in e.branches:
            if self.value(when, names):
                return self.value(then, names)
        return self.value(e.otherwise, names) if e.otherwise else None

    def _comprehension(self, e: tree.Comprehension, names: Mapping[str, Any]) -> list[Any]:
        out = []
        for item in self._items(self.value(e.over, names)):
            inner = {**names, e.variable: item}
            if e.where is None or self.value(e.where, inner):
                out.append(self.value(e.result, inner) if e.result else item)
        return out

    def _sliced(self, e: tree.Slice, names: Mapping[str, Any]) -> Any:
        of = self.value(e.of, names)
        start = self.value(e.start, names) if e.start else 0
        end = self.value(e.end, names) if e.end else None
        return of[start:end] if isinstance(of, list) else None

    def _at(self, of: Any, index: Any) -> Any:
        if isinstance(of, dict):
            return of.get(index)
        inside = isinstance(of, list) and isinstance(index, int) and -len(of) <= index < len(of)
        return of[index] if inside else None

    def _binary(self, operator: str, a: Any, b: Any) -> Any:
        if operator == "IN":
            self.steps += len(b) if isinstance(b, list) else 0
            return isinstance(b, list) and a in b
        if operator == "=":
            return a == b
        if a is None or b is None:
            return None
        if isinstance(a, list) or isinstance(b, list):
            return (a if isinstance(a, list) else [a]) + (b if isinstance(b, list) else [b])
        if isinstance(a, int) and isinstance(b, int):
            return a + b
        if isinstance(a, dict) or isinstance(b, dict):
            return None
        return str(a) + str(b)

    def _call(self, name: str, given: list[Any]) -> Any:
        first = given[0]
        match name:
            case "size":
                return len(first) if isinstance(first, (str, list)) else None
            case "split":
                return self._split(first, given[1])
            case "replace":
                texts = all(isinstance(part, str) for part in given)
                return first.replace(given[1], given[2]) if texts else None
            case "range":
                whole = all(isinstance(part, int) for part in given)
                return list(range(first, given[1] + 1)) if whole else None
            case "keys":
                return list(first) if isinstance(first, dict) else None
            case "head":
                return first[0] if isinstance(first, list) and first else None
            case "tail":
                return first[1:] if isinstance(first, list) else None
            case "reverse":
                return first[::-1] if isinstance(first, (str, list)) else None
            case "coalesce":
                return next((item for item in given if item is not None), None)
            case "left":
                return first[: given[1]] if isinstance(first, str) else None
        raise NotImplementedError(name)

    def _split(self, text: Any, by: Any) -> Any:
        if not isinstance(text, str) or not isinstance(by, str):
            return None
        return text.split(by) if by else list(text)


def taken(value: Any) -> int:
    """Bytes of a value, as `graph.cypher.sizes` counts them."""
    if isinstance(value, str):
        return 16 + len(value)
    if isinstance(value, list):
        return 16 + sum(16 + taken(item) for item in value)
    if isinstance(value, dict):
        return 16 + sum(16 + len(key) + taken(item) for key, item in value.items())
    return 16
