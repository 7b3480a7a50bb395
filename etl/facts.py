"""What an extractor finds in one file: plain facts, before anything is bound to anything.

Extractors (`etl/languages/*/extract.py`) write facts; resolvers (`etl/languages/*/resolve.py`) read the
facts of the whole repository and bind them. The truth store keeps each file's facts as msgpack, so that
a later run binds unchanged files again without parsing them. A change of shape here raises
`FACTS_VERSION`, which makes every file parse again.

A `Chain` is an expression as a path of steps, written in the notation of `etl.languages.kit.chains`,
which is the one module that writes and reads it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from enum import StrEnum

import msgspec

FACTS_VERSION = 4

Chain = str


class SymbolKind(StrEnum):
    """What a definition is."""

    MODULE = "module"
    CLASS = "class"
    INTERFACE = "interface"
    ENUM = "enum"
    STRUCT = "struct"
    TRAIT = "trait"
    INSTANCE = "instance"
    TYPE = "type"
    NAMESPACE = "namespace"
    FUNCTION = "function"
    METHOD = "method"
    CONSTRUCTOR = "constructor"
    MACRO = "macro"


class Parameter(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A parameter as overloads differ by it: its type without type arguments, "?" for an unknown one."""

    type: str
    is_variadic: bool = False


class Definition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A symbol. Definition 0 of a file is its module; `parent` is an index into the same list.

    `qualname` is dotted inside the module ("Class.method", "outer.inner", "" for the module); a second
    definition of the same qualname in one file gets "#2". Lines are 1-based; `start_line` is the line of
    `def`/`class`. Bytes span the whole source of the symbol, decorators and leading comment included.
    """

    name: str
    qualname: str
    kind: SymbolKind
    parent: int
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    bases: tuple[str, ...] = ()  # as written, dotted
    returns: str = ""  # the type of its result, as `Binding.value` of the kind TYPE
    is_test: bool = False
    doc_end_byte: int = 0  # end of signature + docstring; 0 when unknown
    # As written, without arguments ("app.route()", "property").
    decorators: tuple[Chain, ...] = ()
    is_abstract: bool = False  # a function that is there to be overridden: its body only raises
    parameters: tuple[Parameter, ...] | None = None  # where overloads are; None: not declared


class ImportKind(StrEnum):
    """How much of a module an import binds."""

    MODULE = "module"  # the module itself, as `alias`
    NAME = "name"  # its `name`, as `alias`
    ALL = "all"  # every name it has
    STATIC_ALL = "static all"  # every static member of the class `module`
    REEXPORT = "reexport"  # nothing here: its `name` ("": the module) is exported as `alias`
    REEXPORT_ALL = "reexport all"  # nothing here: every name it has is exported


class Import(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Names bound from elsewhere.

    `module` is as written ("os.path", "./util", "java.util.List", "net/http"); `level` counts Python's
    leading dots. `alias` is the local name it binds ("" when it binds none, as `import "x"` in JS).
    """

    scope: int
    module: str
    name: str
    alias: str
    level: int
    line: int
    kind: ImportKind = ImportKind.NAME


class Argument(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What a call passes. Nothing set: neither a type nor a function is known."""

    chain: Chain = ""
    type: str = ""  # a type known on the spot, where overloads are: of a literal, of a cast
    keyword: str = ""
    is_starred: bool = False  # `*args`: positions mean nothing from here on


class ReferenceKind(StrEnum):
    """How a callable is used."""

    CALL = "call"
    NEW = "new"  # `new Foo()`
    DECORATOR = "decorator"  # its argument is the name of what it decorates
    CALLBACK = "callback"  # a name passed as an argument, or stored
    JSX = "jsx"
    METHOD = "method reference"  # `Foo::bar`


class Reference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A use of a callable inside definition `scope`.

    The chain names the callee, so the call itself adds no step. `arguments` are those that tell
    something, up to the last such one.
    """

    scope: int
    chain: Chain
    line: int
    kind: ReferenceKind = ReferenceKind.CALL
    arguments: tuple[Argument, ...] = ()


class Slot(StrEnum):
    """What of its scope a binding is about."""

    NAME = "name"  # the variable `name`
    PATH = "path"  # a member of an object: `name` is dotted
    MEMBER = "member"  # the attribute `name` of instances: of the method's class, or of the class `scope`
    RESULT = "result"  # what the function `scope` returns
    YIELD = "yield"  # what it yields
    SELF = "self"  # what the type `scope` is another name for


class BindingKind(StrEnum):
    """What a binding's `value` is."""

    ALIAS = "alias"  # a chain: `x = value`
    NEW = "new"  # the chain of a callee: `x = value(…)`
    TYPE = "type"  # a type: `x: value`
    ITERATED = "iterated"  # a chain whose elements it takes: `for x in value`
    ELEMENTS = "elements"  # a container of each of `elements`
    ENTERED = "entered"  # the chain of a context manager: `with value as x`
    PARAMETER = "parameter"  # the type of a parameter, "" without one
    RECEIVER = "receiver"  # nothing: a method's first parameter, of another name than `self`
    LAMBDA = "lambda"  # nothing: a lambda's parameter
    NARROWED = "narrowed"  # the chain of a class that an `isinstance` test has found
    TYPE_VARIABLE = "type variable"  # the type that bounds it
    GLOBAL = "global"  # nothing: the name is not this scope's
    UNKNOWN = "unknown"  # nothing: bound here to something unknown


class Binding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The known type of a name in `scope`.

    A type is written as in the source ("Optional[list[Foo]]") by Python's extractor, and as `Foo` with
    one `[]` a collection round it by those of brace languages. The binding holds after `line`, to
    `until` at least (the end of its block).
    """

    scope: int
    name: str
    value: str
    kind: BindingKind
    line: int = 0  # where it is bound; 0 when the order does not matter
    until: int = 0  # 0: the end of the scope
    slot: Slot = Slot.NAME
    elements: tuple[Chain, ...] = ()


class Export(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is called `local` in this file is exported as `name`."""

    name: str
    local: str


class FileFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All facts of one file. `module` is its qualified module name, see `etl/languages/names.py`."""

    path: str
    language: str
    module: str
    definitions: list[Definition]
    imports: list[Import]
    references: Collection[Reference]
    bindings: list[Binding]
    exports: list[Export] = []  # `__all__`, or names exported by statement
    has_error: bool = False  # the parser met a syntax error and recovered
    version: int = FACTS_VERSION


def no_facts(path: str, language: str, module: str) -> FileFacts:
    """The facts of a file whose extractor failed: its module and nothing in it."""
    own = Definition(module.rpartition(".")[2], "", SymbolKind.MODULE, 0, 1, 1, 0, 0)
    return FileFacts(path, language, module, [own], [], [], [], has_error=True)


class PackedReferences(Collection[Reference]):
    """The references of stored facts, decoded anew each time they are gone through.

    They are half of the memory that facts take, and are looked at when their own file is bound, and
    then no more.
    """

    __slots__ = ("_count", "packed")

    def __init__(self, packed: bytes) -> None:
        self.packed = packed
        self._count = len(_untyped.decode(packed))

    def __iter__(self) -> Iterator[Reference]:
        return iter(_references.decode(self.packed))

    def __len__(self) -> int:
        return self._count

    def __contains__(self, reference: object) -> bool:
        return reference in _references.decode(self.packed)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, PackedReferences):
            return self.packed == other.packed
        return list(self) == other

    __hash__ = None  # type: ignore[assignment]  # as a list's


class _Stored(FileFacts, frozen=True, array_like=True, gc=False):
    """The same shape with the references as they are stored."""

    references: msgspec.Raw  # type: ignore[assignment]


def _packed(value: object) -> msgspec.Raw:
    assert isinstance(value, PackedReferences), type(value)
    return msgspec.Raw(value.packed)


_encoder = msgspec.msgpack.Encoder(enc_hook=_packed)
_decoder = msgspec.msgpack.Decoder(_Stored)
_references = msgspec.msgpack.Decoder(list[Reference])
_untyped = msgspec.msgpack.Decoder(list[msgspec.Raw])


def encode(facts: FileFacts) -> bytes:
    return _encoder.encode(facts)


def decode(blob: bytes) -> FileFacts:
    """Facts whose references stay packed (`PackedReferences`).

    Raises: msgspec.DecodeError, for a blob of another version's shape; what is wrong inside a reference
        shows when it is read.
    """
    found = _decoder.decode(blob)
    return FileFacts(
        found.path,
        found.language,
        found.module,
        found.definitions,
        found.imports,
        PackedReferences(bytes(found.references)),
        found.bindings,
        found.exports,
        found.has_error,
        found.version,
    )
