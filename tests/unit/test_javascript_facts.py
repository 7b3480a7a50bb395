"""What the JavaScript extractor finds: one small source a promise."""

from __future__ import annotations

import pytest

from etl.facts import FileFacts, decode, encode
from etl.languages import extractor
from tests.unit.fact_texts import exported, imported


def facts(source: str, path: str = "src/a.js") -> FileFacts:
    return extractor("javascript").extract(source.encode(), path, "src.a")


def symbols(found: FileFacts) -> dict[str, str]:
    return {d.qualname: d.kind for d in found.definitions[1:]}


def uses(found: FileFacts) -> list[tuple[str, str, int, str]]:
    return [
        (found.definitions[r.scope].qualname, r.chain, r.line, r.kind) for r in found.references
    ]


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("functions", "function f() { function g() {} }", {"f": "function", "f.g": "function"}),
        ("arrows bound to names", "const f = () => 1, g = x => x", {"f": "function", "g": "function"}),
        ("generators and async", "function* f() {}\nasync function g() {}", {"f": "function", "g": "function"}),
        (
            "classes",
            "class A extends B { constructor() {} get x() {} static s() {} #p() {} h = () => 1 }",
            {
                "A": "class",
                "A.constructor": "constructor",
                "A.x": "method",
                "A.s": "method",
                "A.#p": "method",
                "A.h": "method",
            },
        ),
        ("class expressions", "const A = class { m() {} }", {"A": "class", "A.m": "method"}),
        ("prototypes", "function A() {}\nA.prototype.m = function () {}", {"A": "function", "A.m": "method"}),
        ("a prototype object", "A.prototype = { m() {}, n: function () {} }", {"A.m": "method", "A.n": "method"}),
        ("object members", "const o = { a() {}, b: () => 1, c: { d() {} } }", {"o.a": "method", "o.b": "method", "o.c.d": "method"}),
        ("functions put on objects", "app.use = function use() {}", {"app.use": "method"}),
        ("CommonJS exports", "exports.f = function () {}\nmodule.exports.g = () => 1", {"f": "function", "g": "function"}),
        ("module.exports = object", "module.exports = { f() {}, g: () => 1 }", {"f": "function", "g": "function"}),
        ("anonymous default function", "export default function () {}", {"default": "function"}),
        ("anonymous default arrow", "export default () => 1", {"default": "function"}),
        ("anonymous default class", "export default class { m() {} }", {"default": "class", "default.m": "method"}),
        ("default object", "export default { m() {} }", {"default.m": "method"}),
        ("this.f = function", "class A { constructor() { this.f = function () {} } }", {"A": "class", "A.constructor": "constructor", "A.f": "method"}),
        ("a second definition of one name", "function f() {}\nfunction f() {}", {"f": "function", "f#2": "function"}),
        ("callbacks have no name", "a.map(function () { return b() })", {}),
        ("named function expressions", "on('x', function handler() {})", {"handler": "function"}),
    ],
)  # fmt: skip
def test_definitions(title: str, source: str, expected: dict[str, str]) -> None:
    assert symbols(facts(source)) == expected, title


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("default, named and aliased", "import D, { a, b as c } from './m'", [("./m", "default", "D"), ("./m", "a", "a"), ("./m", "b", "c")]),
        ("namespace", "import * as ns from 'm'", [("m", "", "ns")]),
        ("for its effect", "import './m'", [("./m", "", "")]),
        ("require", "const m = require('./m')", [("./m", "", "m")]),
        ("destructured require", "const { a, b: c } = require('./m')", [("./m", "a", "a"), ("./m", "b", "c")]),
        ("a member of require", "var a = require('./m').b", [("./m", "b", "a")]),
        ("require in an expression", "require('./m').f()", [("./m", "", "require:1")]),
        ("dynamic import", "const m = await import('./m')", [("./m", "", "require:1")]),
        ("re-exports", "export * from './m'\nexport { a as b } from './n'\nexport * as q from './o'", [("./m", "", "reexport all:"), ("./n", "a", "reexport:b"), ("./o", "", "reexport:q")]),
    ],
)  # fmt: skip
def test_imports(title: str, source: str, expected: list[tuple[str, str, str]]) -> None:
    assert [imported(i) for i in facts(source).imports] == expected, title


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("declarations", "export const a = 1, b = 2\nexport function f() {}\nexport class C {}", ["a", "b", "f", "C"]),
        ("clauses", "export { a, b as c }", ["a", "c=b"]),
        ("default", "export default f", ["default=f"]),
        ("CommonJS names", "exports.a = b\nmodule.exports.c = c", ["a=b", "c"]),
        ("CommonJS whole", "module.exports = f", ["module.exports=f"]),
        ("CommonJS object", "module.exports = { a, b: c }", ["a", "b=c"]),
        ("CommonJS chain", "var app = exports = module.exports = {}", ["module.exports=app"]),
    ],
)  # fmt: skip
def test_exports(title: str, source: str, expected: list[str]) -> None:
    assert [exported(e) for e in facts(source).exports] == expected, title


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("module code", "f()", [("", "f", 1, "call")]),
        ("the line is the name's", "a\n  .b()\n  .c()", [("", "a.b().c", 3, "call"), ("", "a.b", 2, "call")]),
        ("new", "new a.Foo()", [("", "a.Foo", 1, "new")]),
        ("optional chaining", "a?.b?.()", [("", "a.b", 1, "call")]),
        ("tagged templates", "tag`x`", [("", "tag", 1, "call")]),
        ("JSX", "const f = () => <Foo><a.B /><div /></Foo>", [("f", "Foo", 1, "jsx"), ("f", "a.B", 1, "jsx")]),
        ("callbacks that can be functions", "function g() {}\nlet n = 1\na.map(g, n, 1)", [("", "a.map", 3, "call"), ("", "g", 3, "callback")]),
        ("this in a method", "class A { m() { this.n() } n() {} }", [("A.m", "this.n", 1, "call")]),
        ("this in an arrow in a method", "class A { m() { f(() => this.n()) } }", [("A.m", "f", 1, "call"), ("A.m", "this.n", 1, "call")]),
        ("this in a callback is unknown", "class A { m() { f(function () { this.n() }) } }", [("A.m", "f", 1, "call"), ("A.m", "?.n", 1, "call")]),
        ("super", "class A extends B { constructor() { super(); super.m() } }", [("A.constructor", "super().constructor", 1, "call"), ("A.constructor", "super().m", 1, "call")]),
        ("local variables are resolved", "function f() { const a = new Foo(); const b = a; b.m() }", [("f", "Foo", 1, "new"), ("f", "Foo().m", 1, "call")]),
        ("parameters are unknown", "function f(a) { a.m(); a() }", [("f", "?.m", 1, "call"), ("f", "?", 1, "call")]),
        ("a block shadows", "const a = new A(); { const a = new B(); a.m() } a.m()", [("", "A", 1, "new"), ("", "B", 1, "new"), ("", "B().m", 1, "call"), ("", "A().m", 1, "call")]),
        ("two values say nothing", "let a = new A(); a = new B(); a.m()", [("", "A", 1, "new"), ("", "B", 1, "new"), ("", "?.m", 1, "call")]),
        ("null says nothing", "let a = null; a = new A(); a.m()", [("", "A", 1, "new"), ("", "A().m", 1, "call")]),
        ("destructured locals", "function f() { const { m } = ns; m() }", [("f", "ns.m", 1, "call")]),
        ("elements", "function f() { for (const x of xs()) x.m() }", [("f", "xs", 1, "call"), ("f", "xs()[].m", 1, "call")]),
        ("self = this", "class A { m() { const self = this; f(function () { self.n() }) } }", [("A.m", "f", 1, "call"), ("A.m", "this.n", 1, "call")]),
        ("immediately called", "(function () { f() })()", [("", "?", 1, "call"), ("", "f", 1, "call")]),
    ],
)  # fmt: skip
def test_uses(title: str, source: str, expected: list[tuple[str, str, int, str]]) -> None:
    assert uses(facts(source, "src/a.jsx")) == expected, title


def test_an_arrow_has_the_this_of_what_is_round_it() -> None:
    source = "class A { f = () => this.g(); m() { o.p = () => this.g(); this.q = () => this.g() } }"
    chains = {found: chain for found, chain, _, _ in uses(facts(source))}
    assert chains == {"A.f": "this.g", "A.m.o.p": "?.g", "A.q": "this.g"}


def test_each_test_block_is_a_test_and_owns_its_calls() -> None:
    source = "describe('math', () => {\n  describe('v1.2', () => {\n    it('adds #1', () => { add() })\n  })\n})\n"
    found = facts(source, "src/math.test.js")
    (test,) = [d for d in found.definitions if d.is_test]
    assert (test.name, test.qualname) == ("adds _1", "math v1_2 adds _1")
    assert (test.start_line, test.end_line) == (3, 3)
    assert ("math v1_2 adds _1", "add", 3, "call") in uses(found)


def test_the_same_block_outside_a_test_file_is_none() -> None:
    assert not any(d.is_test for d in facts("it('adds', () => {})").definitions)


def test_the_source_of_a_symbol_holds_its_comment_and_its_export() -> None:
    source = "x()\n\n// Adds.\n// Twice.\nexport const f = () => 1;\n"
    (f,) = facts(source).definitions[1:]
    assert source[f.start_byte : f.end_byte] == "// Adds.\n// Twice.\nexport const f = () => 1;"
    assert (f.start_line, f.end_line) == (5, 5)


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\xef\xbb\xbfexport const f = () => g()\r\n",
        b"\xff\xfe\x00 function f() { g( }",
        b"(" * 5000 + b")" * 5000,
        b"function f(){" * 5000,
        b"a" + b".b()" * 5000,
        b"x=y=" * 5000 + b"1",
        b"{" * 30_000,
        b"it('x',()=>{" * 3000,
    ],
)
def test_no_source_is_too_odd(source: bytes) -> None:
    found = extractor("javascript").extract(source, "a.test.js", "a_test")
    assert decode(encode(found)) == found
    for definition in found.definitions:
        assert 0 <= definition.start_byte <= definition.end_byte <= len(source)
        assert 1 <= definition.start_line <= definition.end_line


def test_a_syntax_error_is_told_and_the_rest_is_found() -> None:
    found = facts("function f() {}\na b c;\nfunction g() {}")
    assert found.has_error
    assert {"f", "g"} <= set(symbols(found))
