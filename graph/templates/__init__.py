"""Named queries: Cypher files whose header declares their parameters.

    // What it answers, in one line.
    // param symbol: symbol              a node, by id, qualified name, name or suffix; required
    // param file: file                  a file, by id, path or the end of it; required
    // param depth: int = 3 in 1..8      a whole number with default and bounds
    // walk: depth                       repeat from $frontier, breadth first, `depth` times
    // param thing: anything             as symbol, and an issue, commit, episode, memory or diff
    // memory                            of episodes and memories: takes $valid_as_of, $recorded_as_of

`{{depth}}` puts a checked number into the text, where Cypher takes no parameter. Every template
takes `repo` too, which says in whose code names are looked up.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from plait.domain.errors import InvalidInput, UnknownTemplate

_PARAM = re.compile(r"// param (\w+): (symbol|file|anything|int)(?: = (\d+) in (\d+)\.\.(\d+))?")
_LONGEST_NAME = 1000
# `{{alive r}}`: that a link is of the times asked for; the edges of code are of the one revision.
_ALIVE = re.compile(r"\{\{alive (\w+)\}\}")
ALIVE = """(r.link_id IS NULL
  OR (r.recorded_from <= $recorded_as_of AND coalesce(r.recorded_to, $recorded_as_of + 1) > $recorded_as_of
      AND coalesce(r.valid_from, $valid_as_of) <= $valid_as_of
      AND coalesce(r.valid_to, $valid_as_of + 1) > $valid_as_of))"""


@dataclass(frozen=True, slots=True)
class Param:
    """`kind`: symbol, file, anything or int; the numbers are an int's."""

    name: str
    kind: str
    default: int = 0
    least: int = 0
    most: int = 0


@dataclass(frozen=True, slots=True)
class Template:
    name: str
    title: str
    params: tuple[Param, ...]
    body: str
    memory: bool = False  # reads episodes and memories, as of two times
    walk: str = ""  # the int parameter that says how often to repeat; "" for a plain query

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
            if param.kind == "int":
                out[param.name] = self._number(param, value)
            else:
                out[param.name] = self._name(param.name, value, required=True)
        return out

    def text(self, given: Mapping[str, Any]) -> str:
        """The Cypher to send, with checked numbers put in."""
        text = self.body
        for param in self.params:
            if param.kind == "int":
                text = text.replace("{{" + param.name + "}}", str(int(given[param.name])))
        return text

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


@cache
def catalogue() -> Mapping[str, Template]:
    """Every template, by name."""
    found: dict[str, Template] = {}
    for entry in sorted(files(__package__).iterdir(), key=lambda entry: entry.name):
        if entry.name.endswith(".cypher"):
            name = entry.name.removesuffix(".cypher")
            found[name] = parse(name, entry.read_text(encoding="utf-8"))
    return found


def find(name: str) -> Template:
    """Raises: UnknownTemplate, listing what there is."""
    templates = catalogue()
    if name in templates:
        return templates[name]
    near = difflib.get_close_matches(name, templates, n=1)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    raise UnknownTemplate(
        f"there is no template {name!r}{hint}; there are {', '.join(templates)}",
        field="template",
        template=name,
    )


def parse(name: str, text: str) -> Template:
    """A template file. Raises: ValueError, for a header that is none."""
    lines = text.splitlines()
    header = [line for line in lines if line.startswith("//")]
    if not header:
        raise ValueError(f"{name}.cypher has no header")
    params: list[Param] = []
    walk, memory = "", False
    for line in header[1:]:
        if match := _PARAM.fullmatch(line):
            params.append(Param(match[1], match[2], *(int(n) for n in match.groups()[2:] if n)))
        elif line.startswith("// walk: "):
            walk = line.removeprefix("// walk: ")
        elif line == "// memory":
            memory = True
        else:
            raise ValueError(f"{name}.cypher: header line {line!r} says nothing known")
    body = "\n".join(line for line in lines if not line.startswith("//")).strip()
    for variable in _ALIVE.findall(body):
        body = body.replace("{{alive " + variable + "}}", ALIVE.replace("r.", f"{variable}."))
    return Template(name, header[0].removeprefix("// "), tuple(params), body, memory, walk)
