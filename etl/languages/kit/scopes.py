"""Lexical scopes for brace languages: facts are collected in one pass, names resolved at its end.

JavaScript, Java and Go declare locals in nested blocks that shadow each other. Their extractors push
a `Frame` a block, declare what they see, and note uses; `finish` then rewrites each use's chain by
the frames round it, so that the facts hold no local variable at all:

    const a = new Foo(); a.b().c()        Foo().b().c
    function f(cb) { cb() }               ?            (a parameter nobody knows the type of)

See `etl.languages.kit.chains` for what chains are. So `x: Foo` makes `x` stand for `Foo()`, and
`x: Foo[]` for `Foo[]()`, whose elements are `Foo()`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import msgspec

from etl.facts import (
    Argument,
    Binding,
    BindingKind,
    Chain,
    Definition,
    Export,
    FileFacts,
    Import,
    Parameter,
    Reference,
    ReferenceKind,
    Slot,
    SymbolKind,
)
from etl.languages.kit import chains
from etl.languages.kit.chains import UNKNOWN

KEEP = "="  # the name stands for itself: a definition, an import, an object with members
NEAR = 200  # bytes between a comment and what it speaks of: indentation, `export default`, no more
MAX_HOPS = 20  # `a = b = c = value` is followed so far
_MAX_DEPTH = 100  # definitions inside definitions, and
_MAX_FRAMES = 500  # blocks inside blocks: deeper ones are taken for the one round them
_MAX_NAME = 400  # characters of what stands round a definition in its qualname
_MAX_ARGUMENT = 80  # characters of a chain that is passed; a longer one tells nothing
_MAX_HOPS = 8  # local variable → its value → that one's local variables …
_BLANK = Argument()
_TYPE = BindingKind.TYPE
_SPACE = re.compile(r"\s+")


class Frame:
    """A block of source with its own names. `values[name]` is a chain, KEEP, UNKNOWN, or "" (no value yet)."""

    __slots__ = ("depth", "end", "is_function", "owns", "parent", "scope", "this", "values")

    def __init__(
        self, parent: Frame | None, scope: int, end: int, this: str, is_function: bool
    ) -> None:
        self.parent = parent
        self.depth: int = parent.depth + 1 if parent is not None else 0
        self.scope = scope
        self.end = end
        self.this = this
        self.is_function = is_function
        self.owns = False  # the function whose body this is, is definition `scope` itself
        self.values: dict[str, str] = {}


def merge(old: str, new: str) -> str:
    """What a name with two assigned values stands for: the value both agree on, or nothing known."""
    if not new or old == new:
        return old
    return new if not old else UNKNOWN


def clean_title(text: str, limit: int = 120) -> str:
    """Free text as one segment of a qualified name: no dots, `#`, `@` or runs of white space."""
    text = _SPACE.sub(" ", text).strip()
    for char in ".#@:":
        text = text.replace(char, "_")
    return text[:limit].strip() or "_"


class FactsBuilder:
    """Collects one file's facts during a preorder walk."""

    def __init__(
        self,
        source: bytes,
        path: str,
        language: str,
        module: str,
        *,
        methods_apart: bool = False,
        one_type: bool = False,
    ) -> None:
        """`methods_apart`: a call without receiver never means a variable, as in Java. `one_type`: what is
        in a second definition of one name (a companion, a category) is named as if it were in the first."""
        self._apart = methods_apart
        self._one_type = one_type
        self.source = source
        self.path = path
        self.language = language
        self.module = module
        self.definitions: list[Definition] = []
        self.imports: list[Import] = []
        self.exports: list[Export] = []
        self.frame = Frame(None, 0, len(source) + 1, "", True)
        self.root = self.frame
        self._depths: list[int] = []
        self._copies: dict[str, int] = {}
        self._uses: list[tuple[Frame, Chain, int, ReferenceKind, tuple[Argument, ...]]] = []
        self._bindings: list[tuple[Frame, Binding]] = []
        self._assigned: list[tuple[Frame, str, str]] = []

    # -- what extractors call during the walk ------------------------------------------------------

    def leave(self, start_byte: int) -> None:
        """Close the frames that end before `start_byte`; call it for each node, in preorder."""
        frame = self.frame
        while frame.end <= start_byte and frame.parent is not None:
            frame = frame.parent
        self.frame = frame

    def enter(
        self, end_byte: int, scope: int | None = None, this: str = "", is_function: bool = False
    ) -> Frame:
        """Open a frame. `scope` is the definition whose body it is; `this` what `this` means in it."""
        parent = self.frame
        if parent.depth >= _MAX_FRAMES:
            return parent
        number = parent.scope if scope is None else scope
        self.frame = Frame(parent, number, end_byte, this or parent.this, is_function)
        return self.frame

    def define(
        self,
        name: str,
        kind: SymbolKind,
        parent: int,
        lines: tuple[int, int],
        span: tuple[int, int],
        *,
        path: str = "",
        bases: Iterable[str] = (),
        returns: str = "",
        is_test: bool = False,
        doc_end_byte: int = 0,
        parameters: tuple[Parameter, ...] | None = None,
    ) -> int:
        """Add a definition and return its index. `path`: its dotted name below `parent`, if not `name`.

        The first one is the module: its qualname is `path` ("" for most languages).
        """
        depth = self._depths[parent] + 1 if self._depths else 0
        if depth > _MAX_DEPTH:
            parent, depth = self.definitions[parent].parent, depth - 1
        self._depths.append(depth)
        outer = self.definitions[parent].qualname[:_MAX_NAME] if parent else ""
        if self._one_type:
            outer = outer.partition("#")[0]
        qualname = (path or name) if self.definitions else path
        if outer:
            qualname = f"{outer}.{qualname}"
        copies = self._copies.get(qualname, 0) + 1
        self._copies[qualname] = copies
        if copies > 1:
            qualname = f"{qualname}#{copies}"
        self.definitions.append(
            Definition(
                name,
                qualname,
                kind,
                parent,
                *lines,
                *span,
                tuple(bases),
                returns,
                is_test,
                doc_end_byte,
                parameters=parameters,
            )
        )
        return len(self.definitions) - 1

    def declare(self, name: str, value: str, frame: Frame | None = None) -> None:
        """Bring a name into a frame (the current one). A second value makes it unknown."""
        values = (frame or self.frame).values
        old = values.get(name)
        values[name] = value if old is None else merge(old, value)

    def assign(self, name: str, value: str) -> None:
        """`name = value`, for a name that a frame round here declares, before or after."""
        self._assigned.append((self.frame, name, value))

    def use(
        self,
        chain: Chain,
        line: int,
        kind: ReferenceKind = ReferenceKind.CALL,
        arguments: tuple[Argument, ...] = (),
    ) -> None:
        """Note a use of a callable, and what is passed to it."""
        self._uses.append((self.frame, chain, line, kind, arguments))

    def bind(self, scope: int, name: str, value: Chain, slot: Slot = Slot.NAME) -> None:
        """A value that other definitions or files need: a field, a module's variable, a result."""
        if value:
            binding = Binding(scope, name, value, BindingKind.ALIAS, slot=slot)
            self._bindings.append((self.frame, binding))

    def bind_type(self, scope: int, name: str, type_: str, slot: Slot = Slot.NAME) -> None:
        """As `bind`, for a type that is declared."""
        if type_:
            binding = Binding(scope, name, type_, BindingKind.TYPE, slot=slot)
            self._bindings.append((self.frame, binding))

    def function_frame(self) -> Frame:
        frame = self.frame
        while not frame.is_function and frame.parent is not None:
            frame = frame.parent
        return frame

    # -- the end of the walk ---------------------------------------------------------------------------

    def finish(
        self,
        has_error: bool,
        keep: Callable[[Chain, ReferenceKind, bool], bool] | None = None,
        *,
        globals_too: bool = True,
    ) -> FileFacts:
        """The facts. `keep(chain, kind, known)` drops uses that are not worth a row.

        `globals_too`: a name that no frame declares may be another file's, so values from it count.
        """
        for frame, name, value in self._assigned:
            where = _declaring(frame, name)
            if where is not None:
                where.values[name] = merge(where.values[name], value)
        references = []
        for frame, written, line, kind, arguments in self._uses:
            if self._apart and "." not in written:
                chain, known = written, False
            else:
                chain, known = resolve(frame, written, self._apart)
            if keep is None or keep(chain, kind, known):
                given = tuple([self._argument(frame, each) for each in arguments])
                references.append(Reference(frame.scope, chain, line, kind, given))
        return FileFacts(
            path=self.path,
            language=self.language,
            module=self.module,
            definitions=self.definitions,
            imports=self.imports,
            references=references,
            bindings=self._resolved_bindings(globals_too),
            exports=self.exports,
            has_error=has_error,
        )

    def _argument(self, frame: Frame, given: Argument) -> Argument:
        """An argument without local variables; one whose chain tells nothing is left blank."""
        if not given.chain:
            return given
        chain, _ = resolve(frame, given.chain, self._apart)
        tells = not chains.is_unknown(chain) and len(chain) <= _MAX_ARGUMENT
        return Argument(chain) if tells else _BLANK

    def _resolved_bindings(self, globals_too: bool) -> list[Binding]:
        """One a (scope, slot, name): a declared type wins, values that disagree say nothing."""
        found: dict[tuple[int, Slot, str], Binding] = {}
        for frame, written in self._bindings:
            binding = self._resolved(frame, written, globals_too)
            old = found.setdefault((binding.scope, binding.slot, binding.name), binding)
            if old.kind is _TYPE or old is binding:
                continue
            if binding.kind is _TYPE:
                found[binding.scope, binding.slot, binding.name] = binding
            elif old.value != binding.value:
                unknown = msgspec.structs.replace(binding, value=UNKNOWN)
                found[binding.scope, binding.slot, binding.name] = unknown
        return [binding for binding in found.values() if not chains.is_unknown(binding.value)]

    def _resolved(self, frame: Frame, binding: Binding, globals_too: bool) -> Binding:
        """A binding whose chain has no local variables; a type is the source's own word."""
        if binding.kind is _TYPE:
            return binding
        value, known = resolve(frame, binding.value, self._apart)
        if not (known or globals_too or value.startswith("this")):
            value = UNKNOWN
        return msgspec.structs.replace(binding, value=value)


def _declaring(frame: Frame | None, name: str) -> Frame | None:
    while frame is not None and name not in frame.values:
        frame = frame.parent
    return frame


def resolve(frame: Frame, chain: Chain, apart: bool = False) -> tuple[Chain, bool]:
    """`chain` without local variables, and whether its head names a definition or an import here.

    `apart`: the head `name()` is a method or a class, never a variable that is called.
    """
    here: Frame | None = frame
    for _ in range(_MAX_HOPS):
        head, suffix, rest = chains.split_head(chain)
        if apart and suffix.startswith(chains.CALL):
            return chains.shorten(chain), False
        where = _declaring(here, head)
        if where is None:
            return chains.shorten(chain), False
        value = where.values[head]
        if value == KEEP:
            return chains.shorten(chain), True
        if not value or chains.is_unknown(value):
            return chains.shorten(UNKNOWN + rest), False
        chain = chains.join(value, suffix) + rest
        # `x := x.next()` in an inner block speaks of the outer x.
        here = where.parent if chains.split_head(value)[0] == head else where
    return UNKNOWN + chains.split_head(chain)[2], False
