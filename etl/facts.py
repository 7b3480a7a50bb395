"""What an extractor finds in one file: plain facts, before anything is bound to anything.

Extractors (`etl/languages/`) write facts; resolvers (`etl/resolve/`) read the facts of the whole
repository and bind them. The truth store keeps each file's facts as msgpack, so that a later run
re-binds unchanged files without parsing them again. A change of shape here raises `FACTS_VERSION`,
which makes every file parse again.
"""

from __future__ import annotations

import msgspec

FACTS_VERSION = 2


class Definition(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A symbol. Definition 0 of a file is its module; `parent` is an index into the same list.

    `qualname` is dotted inside the module ("Class.method", "outer.inner", "" for the module); a second
    definition of the same qualname in one file gets "#2". Lines are 1-based; `start_line` is the line of
    `def`/`class`. Bytes span the whole source of the symbol, decorators and leading comment included.
    """

    name: str
    qualname: str
    # module class interface enum struct trait instance type namespace function method constructor macro
    kind: str
    parent: int
    start_line: int
    end_line: int
    start_byte: int
    end_byte: int
    bases: tuple[str, ...] = ()  # as written, dotted
    returns: str = ""  # return type as written, dotted head only ("list[Foo]" stays as written)
    is_test: bool = False
    doc_end_byte: int = 0  # end of signature + docstring; 0 when unknown
    decorators: tuple[
        str, ...
    ] = ()  # chains as written, without arguments ("app.route()", "property")


class Import(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A name bound from elsewhere. `name` "" binds the module, "*" everything in it.

    `module` is as written ("os.path", "./util", "java.util.List", "net/http"); `level` counts Python's
    leading dots. `alias` is the local name it binds ("" when it binds none, as `import "x"` in JS).
    """

    scope: int
    module: str
    name: str
    alias: str
    level: int
    line: int


class Reference(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A use of a callable inside definition `scope`.

    `chain` is the callee as a dotted path of segments; a segment may end in `()` (the result of calling
    it) and `[]` (an element of it), repeated: `a.b().c`, `items[].run`, `super().save`. Its head is a
    name, or `?` (an expression that has no name); a literal is the call of its type (`str().join`).
    The chain names the callee, so the call itself adds no `()`. `kind` is call, decorator, callback
    (a name passed as an argument, or stored) or new.
    """

    scope: int
    chain: str
    line: int
    kind: str = "call"
    args: str = ""  # the arguments, comma-separated; where overloads are: `:type`, a chain, or `?`;
    # Python: a chain, "" (tells nothing), "name=chain", or "*"; a decorator's: what it decorates


class Binding(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is known of a name's type in `scope`: `name` is "x", "self.x", or "return" for what a function
    returns ("yield" for what it yields).

    `how` says what `value` is: "new" (called expression: `x = value(...)`), "alias" (`x = value`),
    "type" (annotation: `x: value`), "iter" (element of value), "elements" (a
    container of these, comma-separated), "enter" (`with value as x`), "param" (a
    parameter; value is its annotation, or ""), "self" (a method's receiver of another name), "local" (bound here to something unknown), "lambda" (a
    lambda's parameter), "narrow" (an `isinstance` test passed), "bound" (a type variable of that bound), "global" (`global x`: the name is not
    this scope's), "abstract" (of "return": the body only raises). Values are chains, see `Reference`;
    annotations as written. The binding holds after `line`, to `until` at least (the end of its block).
    """

    scope: int
    name: str
    value: str
    how: str
    line: int = 0  # where it is bound; 0 when the order does not matter
    until: int = 0  # 0: the end of the scope


class FileFacts(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """All facts of one file. `module` is its qualified module name, see `etl/languages/names.py`."""

    path: str
    language: str
    module: str
    definitions: list[Definition]
    imports: list[Import]
    references: list[Reference]
    bindings: list[Binding]
    exports: list[str] = []  # `__all__`, or names exported by statement
    has_error: bool = False  # the parser met a syntax error and recovered
    version: int = FACTS_VERSION


def no_facts(path: str, language: str, module: str) -> FileFacts:
    """The facts of a file whose extractor failed: its module and nothing in it."""
    own = Definition(module.rpartition(".")[2], "", "module", 0, 1, 1, 0, 0)
    return FileFacts(path, language, module, [own], [], [], [], has_error=True)


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(FileFacts)


def encode(facts: FileFacts) -> bytes:
    return _encoder.encode(facts)


def decode(blob: bytes) -> FileFacts:
    """Raises: msgspec.DecodeError, for a blob of another version's shape."""
    return _decoder.decode(blob)
