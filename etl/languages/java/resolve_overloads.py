"""Which overload a call means, as far as the arguments' types are known (JLS 15.12.2, simplified)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from etl.facts import Parameter
from etl.languages.java.syntax import FUNCTION_TYPE
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN

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
_TOP = frozenset({"Object", "Serializable", "Comparable", "Constable", UNKNOWN})
# Final classes of java.lang: an argument of one goes nowhere but to itself and what is above it.
_FINAL = {"String": {"CharSequence"}, "Class": {"Type", "AnnotatedElement", "GenericDeclaration"}}
_FINAL.update({box: {"Number"} for box in _BOXED})


def choose(
    arguments: Sequence[str],
    candidates: Sequence[tuple[int, Sequence[Parameter]]],
    related: Callable[[str, str], bool | None],
) -> list[int]:
    """The candidates `(number, parameters)` that fit best: one, several that tie, or none.

    `arguments` are type names, `?` for unknown ones; `parameters` as declared.
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
    declared: Sequence[Parameter],
    variadic: bool,
    related: Callable[[str, str], bool | None],
) -> int | None:
    """How many arguments match exactly; None when one cannot be passed."""
    parameters = _expanded(declared, len(arguments)) if variadic else _as_declared(declared)
    if parameters is None or len(arguments) != len(parameters):
        return None
    score = 0
    for argument, parameter in zip(arguments, parameters, strict=True):
        one = _passes(argument, parameter, related)
        if one is None:
            return None
        score += one
    return score


def _as_declared(declared: Sequence[Parameter]) -> list[str]:
    """The types of parameters; of a variadic one, an array."""
    return [chains.collection(p.type) if p.is_variadic else p.type for p in declared]


def _expanded(declared: Sequence[Parameter], count: int) -> list[str] | None:
    """The types that `count` arguments are passed as, the last parameter repeated if it is variadic."""
    if not declared or not declared[-1].is_variadic or count < len(declared) - 1:
        return None
    fixed = [p.type for p in declared[:-1]]
    return fixed + [declared[-1].type] * (count - len(fixed))


def _passes(
    argument: str, parameter: str, related: Callable[[str, str], bool | None]
) -> int | None:
    """2: the same type; 1: a primitive that widens, or a subclass; 0: may be passed; None: may not."""
    argument, parameter = argument.rpartition(".")[2], parameter.rpartition(".")[2]
    if argument == UNKNOWN:
        return 0
    if argument == parameter:
        return 2
    if argument in ("null", FUNCTION_TYPE):
        return _passes_untyped(argument, parameter)
    if argument in _WIDENS:
        return _passes_primitive(argument, parameter)
    if parameter in _WIDENS:
        unboxed = _BOXED.get(argument)
        return 0 if unboxed is not None and parameter in (unboxed, *_WIDENS[unboxed]) else None
    return _passes_object(argument, parameter, related)


def _passes_untyped(argument: str, parameter: str) -> int | None:
    """`null` and lambdas."""
    no_function = parameter in _FINAL or _is_array(parameter)
    refused = parameter in _WIDENS or (argument == FUNCTION_TYPE and no_function)
    return None if refused else 0


def _passes_primitive(argument: str, parameter: str) -> int | None:
    if parameter in _WIDENS:
        return 1 if parameter in _WIDENS[argument] else None
    return 0 if parameter in _TOP or parameter in (_BOXES[argument], "Number") else None


def _passes_object(
    argument: str, parameter: str, related: Callable[[str, str], bool | None]
) -> int | None:
    if parameter in _TOP:
        return 0
    if _is_array(argument) != _is_array(parameter):  # one is an array
        return None
    if argument in _FINAL:
        return 0 if parameter in _FINAL[argument] else None
    if parameter in _FINAL:
        return None if related(argument, argument) else 0
    known = related(argument, parameter)
    return 0 if known is None else 1 if known else None


def _is_array(type_: str) -> bool:
    return type_.endswith(chains.ELEMENT)
