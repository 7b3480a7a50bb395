"""The templates of `GraphQuery`: their names, what they answer, and their parameters."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from plait.domain.errors import InvalidInput, UnknownTemplate
from plait.domain.memory import AsOf

_LONGEST_NAME = 1000


class Kind(StrEnum):
    SYMBOL = "symbol"  # a function, class, module or file: by id, qualified name or the end of one
    FILE = "file"  # by id, path or the end of it
    ANYTHING = "anything"  # as symbol, and an issue, commit, episode, memory or diff
    INT = "int"


@dataclass(frozen=True, slots=True)
class Param:
    """The numbers are an int's."""

    name: str
    kind: Kind
    default: int = 0
    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    """Every template takes `repo` too, which says in whose code names are looked up. `memory`: it reads what
    episodes and memories say, as of two times."""

    name: str
    title: str
    params: tuple[Param, ...]
    memory: bool = False

    def check(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """`given` with defaults filled in. Raises: InvalidInput, naming the parameter."""
        known = {param.name for param in self.params} | {"repo"}
        for name in given:
            if name not in known:
                raise InvalidInput(
                    f"the template {self.name!r} has no parameter {name!r}; "
                    f"it takes {', '.join(sorted(known))}",
                    field="parameters",
                    parameter=name,
                )
        out: dict[str, Any] = {"repo": self._name("repo", given.get("repo", ""), required=False)}
        for param in self.params:
            value = given.get(param.name)
            if param.kind is Kind.INT:
                out[param.name] = self._number(param, value)
            else:
                out[param.name] = self._name(param.name, value, required=True)
        return out

    def check_time(self, as_of: AsOf) -> None:
        """Raises: InvalidInput, for a template of code with a time: it would not be answered as of it."""
        if as_of and not self.memory:
            raise InvalidInput(
                f"the template {self.name!r} shows code as it is published now and takes no as_of; "
                "history, chain and causes do",
                field="as_of",
                template=self.name,
            )

    def _number(self, param: Param, value: Any) -> int:
        if value is None:
            return param.default
        if isinstance(value, str) and value.strip().isdecimal():
            value = int(value)
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._bad(param.name, f"must be a whole number, not {value!r}")
        if not param.least <= value <= param.most:
            raise self._bad(param.name, f"must be in {param.least}..{param.most}, not {value}")
        return value

    def _name(self, name: str, value: Any, *, required: bool) -> str:
        if value is None or value == "":
            if required:
                raise self._bad(name, "is missing; give an id, a qualified name, a name or its end")
            return ""
        if not isinstance(value, str):
            raise self._bad(name, f"must be text, not {type(value).__name__}")
        if len(value) > _LONGEST_NAME or not value.isprintable():
            raise self._bad(name, f"must be printable text of at most {_LONGEST_NAME} characters")
        return value

    def _bad(self, name: str, what: str) -> InvalidInput:
        return InvalidInput(
            f"the parameter {name!r} of the template {self.name!r} {what}",
            field="parameters",
            parameter=name,
        )


_SYMBOL = Param("symbol", Kind.SYMBOL)
_ISSUE = Param("issue", Kind.ANYTHING)
_FAR = Param("depth", Kind.INT, 8, 1, 8)

_ALL = (
    Template(
        "callees",
        "What a symbol calls directly: one row a callee, with the call sites.",
        (_SYMBOL,),
    ),
    Template(
        "callers", "Who calls a symbol directly: one row a caller, with the call sites.", (_SYMBOL,)
    ),
    Template(
        "causes",
        "What caused an issue: commits, diffs and functions that a text or a test run names, the most "
        "certain first, each with its run.",
        (_ISSUE,),
        memory=True,
    ),
    Template(
        "chain",
        "How an issue was fixed: each diff that fixes it, the code it touches, the tests that showed it.",
        (_ISSUE,),
        memory=True,
    ),
    Template(
        "history",
        "What happened to a symbol, file, issue or commit: runs, diffs and memories that touch or name "
        "it, newest first.",
        (Param("thing", Kind.ANYTHING),),
        memory=True,
    ),
    Template(
        "impact",
        "What a change of a symbol can reach: its callers, their callers, and so on, each once, nearest first.",
        (_SYMBOL, Param("depth", Kind.INT, 3, 1, 8)),
    ),
    Template(
        "importers",
        "What imports a module, file, class or function, or anything inside it.",
        (_SYMBOL,),
    ),
    Template(
        "outline",
        "The symbols of a file in source order, each with the one that contains it.",
        (Param("file", Kind.FILE),),
    ),
    Template(
        "overrides",
        "Methods that override a method, directly or through others, nearest first.",
        (_SYMBOL, _FAR),
    ),
    Template(
        "path",
        "A shortest chain of calls from one symbol to another; no row when there is none.",
        (Param("source", Kind.SYMBOL), Param("target", Kind.SYMBOL), _FAR),
    ),
    Template(
        "subclasses",
        "Classes that inherit from a class, directly or through others, nearest first.",
        (_SYMBOL, _FAR),
    ),
    Template(
        "tests_of",
        "Tests that exercise a symbol, or anything inside it when it is a class, module or file.",
        (_SYMBOL,),
    ),
)
CATALOGUE: Mapping[str, Template] = {template.name: template for template in _ALL}


def find(name: str) -> Template:
    """Raises: UnknownTemplate, listing what there is."""
    if name in CATALOGUE:
        return CATALOGUE[name]
    near = difflib.get_close_matches(name, CATALOGUE, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UnknownTemplate(
        f"there is no template {name!r}{hint}; there are {', '.join(CATALOGUE)}",
        field="template",
        template=name,
    )
