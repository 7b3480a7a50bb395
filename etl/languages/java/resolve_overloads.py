"""Which overload a call means, as far as the arguments' types are known (JLS 15.12.2, simplified)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

# What each primitive widens to without a cast (JLS 5.1.2).
_WIDENS = {
    "byte": {"short", "int", "long", "float", "double"},
    "short": {"int", "long", "float", "double"},
    "char": {"int", "long", "float", "double"},
    "int": {"long", "float", "double"},
    "long": {"float", "double"},
    "float": {"double"},
    "double": set(),
    "boolean": set(),
}
_BOXES = {
    "byte": "Byte",
    "short": "Short",
    "char": "Character",
    "int": "Integer",
    "long": "Long",
    "float": "Float",
    "double": "Double",
    "boolean": "Boolean",
}
_BOXED = {box: primitive for primitive, box in _BOXES.items()}
_TOP = frozenset({"Object", "Serializable", "Comparable", "Constable", "?"})
# Final classes of java.lang: an argument of one goes nowhere but to itself and what is above it.
_FINAL = {"String": {"CharSequence"}, "Class": {"Type", "AnnotatedElement", "GenericDeclaration"}}
_FINAL.update({box: {"Number"} for box in _BOXED})


def choose(
    arguments: Sequence[str],
    candidates: Sequence[tuple[int, str]],
    related: Callable[[str, str], bool | None],
) -> list[int]:
    """The candidates `(number, parameters)` that fit best: one, several that tie, or none.

    `arguments` are type names, `?` for unknown ones; `parameters` as the binding `()` has them.
    `related(argument, parameter)` tells of two classes of the repository whether one is the other's
    subclass, None when it does not know both.
    """
    for variadic in (False, True):
        scores = []
        for number, parameters in candidates:
            score = _fit(arguments, parameters, variadic, related)
            if score is not None:
                scores.append((score, number))
        if scores:
            best = max(score for score, _ in scores)
            return [number for score, number in scores if score == best]
    return []


def _fit(
    arguments: Sequence[str],
    written: str,
    variadic: bool,
    related: Callable[[str, str], bool | None],
) -> int | None:
    """How many arguments match exactly; None when one cannot be passed."""
    parameters = [] if written == "-" else written.split(",")
    spread = bool(parameters) and parameters[-1].endswith("...")
    if variadic:
        if not spread or len(arguments) < len(parameters) - 1:
            return None
        last = parameters.pop()[:-3]
        parameters += [last] * (len(arguments) - len(parameters))
    else:
        if len(arguments) != len(parameters):
            return None
        if spread:
            parameters[-1] = parameters[-1][:-3] + "[]"
    score = 0
    for argument, parameter in zip(arguments, parameters, strict=True):
        one = _passes(argument, parameter, related)
        if one is None:
            return None
        score += one
    return score


def _passes(
    argument: str, parameter: str, related: Callable[[str, str], bool | None]
) -> int | None:
    """2: the same type; 1: a primitive that widens, or a subclass; 0: may be passed; None: may not."""
    argument, parameter = argument.rpartition(".")[2], parameter.rpartition(".")[2]
    if argument == "?":
        return 0
    if argument == parameter:
        return 2
    primitive = parameter in _WIDENS
    if argument in ("null", "lambda"):
        final = argument == "lambda" and (parameter in _FINAL or parameter.endswith("[]"))
        return None if primitive or final else 0
    if argument in _WIDENS:
        if primitive:
            return 1 if parameter in _WIDENS[argument] else None
        return 0 if parameter in _TOP or parameter in (_BOXES[argument], "Number") else None
    if primitive:
        unboxed = _BOXED.get(argument)
        return 0 if unboxed is not None and parameter in (unboxed, *_WIDENS[unboxed]) else None
    if parameter in _TOP:
        return 0
    if argument.endswith("[]") != parameter.endswith("[]"):
        return None
    if argument in _FINAL:
        return 0 if parameter in _FINAL[argument] else None
    if parameter in _FINAL:
        return None if related(argument, argument) else 0
    known = related(argument, parameter)
    return 0 if known is None else 1 if known else None
