"""What the JavaScript and TypeScript binder binds, in small repositories given as sources by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from etl.languages import extractor, language_of
from etl.languages.names import module_name
from etl.resolve import FilePart, resolve
from plait.domain.graph import Edge


def parts_of(sources: Mapping[str, str]) -> list[FilePart]:
    facts = []
    for path, source in sources.items():
        language = language_of(path)
        module = module_name(path, language)
        facts.append(extractor(language).extract(source.encode(), path, module))
    return list(resolve("r", facts))


def edges(sources: Mapping[str, str], relation: str = "CALLS") -> dict[tuple[str, str], Edge]:
    """(source, target) without the repository's prefix → edge."""
    return {
        (edge.source[2:], edge.target[2:]): edge
        for part in parts_of(sources)
        for edge in part.edges
        if edge.relation == relation
    }


def unresolved(sources: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for part in parts_of(sources):
        found.update(part.unresolved)
    return found


@pytest.mark.parametrize(
    ("title", "sources", "expected"),
    [
        ("in the file", {"a.js": "function f() { g() }\nfunction g() {}"}, {("a.f", "a.g")}),
        ("hoisted, nested, shadowing", {"a.js": "function g() {}\nfunction f() { g(); function g() {} }"}, {("a.f", "a.f.g")}),
        ("a parameter shadows a function", {"a.js": "function g() {}\nfunction f(g) { g() }"}, set()),
        ("named import", {"a.js": "import { f as g } from './b'\ng()", "b.js": "export function f() {}"}, {("a", "b.f")}),
        ("default import", {"a.js": "import f from './b'\nf()", "b.js": "export default function g() {}"}, {("a", "b.g")}),
        ("anonymous default", {"a.js": "import f from './b'\nf()", "b.js": "export default () => 1"}, {("a", "b.default")}),
        ("namespace", {"a.ts": "import * as b from './b'\nb.f()", "b.ts": "export const f = () => 1"}, {("a", "b.f")}),
        ("re-exported", {"a.js": "import { h, k } from './i'\nh(); k()", "i/index.js": "export { f as h } from '../b'\nexport * from '../c'", "b.js": "export function f() {}", "c.js": "export function k() {}"}, {("a", "b.f"), ("a", "c.k")}),
        ("namespace re-exported", {"a.js": "import { ns } from './i'\nns.f()", "i.js": "export * as ns from './b'", "b.js": "export function f() {}"}, {("a", "b.f")}),
        ("re-exports in a circle", {"a.js": "import { f } from './b'\nf()", "b.js": "export * from './c'", "c.js": "export * from './b'"}, set()),
        ("CommonJS names", {"a.js": "const b = require('./b'); b.f(); require('./b').f()", "b.js": "exports.f = function () {}"}, {("a", "b.f")}),
        ("CommonJS destructured", {"a.js": "const { f } = require('./b'); f()", "b.js": "function f() {}\nmodule.exports = { f }"}, {("a", "b.f")}),
        ("CommonJS function", {"a.js": "const b = require('./b'); b()", "b.js": "module.exports = f\nfunction f() {}"}, {("a", "b.f")}),
        ("CommonJS passed on", {"index.js": "module.exports = require('./lib/b')", "a.js": "const b = require('.'); b.f()", "lib/b.js": "exports.f = () => 1"}, {("a", "lib.b.f")}),
        ("dynamic import", {"a.js": "async function f() { const b = await import('./b'); b.g() }", "b.js": "export function g() {}"}, {("a.f", "b.g")}),
        ("TypeScript behind .js", {"a.ts": "import { f } from './b.js'\nf()", "b.ts": "export function f() {}"}, {("a", "b.f")}),
        ("members of an object", {"a.js": "import u from './u'\nu.f(); u.g()", "u.js": "function f() {}\nexport default { f, g() {} }"}, {("a", "u.f"), ("a", "u.default.g")}),
        ("this in an object", {"a.js": "const o = { f() { this.g() }, g() {} }"}, {("a.o.f", "a.o.g")}),
        ("this on an assigned member", {"a.js": "var app = module.exports = {}\napp.f = function () { this.g() }\napp.g = function () {}"}, {("a.app.f", "a.app.g")}),
        ("prototypes", {"a.js": "function A() { this.f() }\nA.prototype.f = function () {}\nconst a = new A(); a.f()"}, {("a.A", "a.A.f"), ("a", "a.A"), ("a", "a.A.f")}),
        ("static", {"a.js": "class A { static f() { } }\nA.f()"}, {("a", "a.A.f")}),
        ("new and inherited constructors", {"a.js": "class A { constructor() {} }\nclass B extends A {}\nclass C {}\nnew B(); new C()"}, {("a", "a.A.constructor"), ("a", "a.C")}),
        ("super", {"a.js": "class A { constructor() {} m() {} }\nclass B extends A { constructor() { super() } m() { super.m() } }"}, {("a.B.constructor", "a.A.constructor"), ("a.B.m", "a.A.m")}),
        ("inherited over files", {"a.ts": "import { B } from './b'\nclass A extends B { f() { this.g() } }", "b.ts": "export class B { g() {} }"}, {("a.A.f", "b.B.g")}),
        ("fields", {"a.ts": "import { B } from './b'\nclass A { b: B; c = new B(); f() { this.b.g(); this.c.h() } }", "b.ts": "export class B { g() {} h() {} }"}, {("a.A.f", "b.B.g"), ("a.A.f", "b.B.h"), ("a.A", "b.B")}),
        ("results", {"a.ts": "class B { g(): B { return this } }\nfunction make(): B { return new B() }\nfunction f() { make().g().g() }"}, {("a.f", "a.make"), ("a.f", "a.B.g"), ("a.make", "a.B")}),
        ("inferred results", {"a.js": "class B { g() {} }\nfunction make() { return new B() }\nfunction f() { make().g() }"}, {("a.f", "a.make"), ("a.f", "a.B.g"), ("a.make", "a.B")}),
        ("interfaces", {"a.ts": "interface I { m(): void }\nfunction f(i: I) { i.m() }"}, {("a.f", "a.I.m")}),
        ("type aliases", {"a.ts": "class B { m() {} }\ntype T = B\nfunction f(t: T) { t.m() }"}, {("a.f", "a.B.m")}),
        ("namespaces", {"a.ts": "namespace N { export function f() { g() }\nfunction g() {} }\nN.f()"}, {("a", "a.N.f"), ("a.N.f", "a.N.g")}),
        ("JSX", {"a.jsx": "import { B } from './b'\nconst f = () => <B><div/></B>", "b.jsx": "export const B = () => null"}, {("a.f", "b.B")}),
        ("callbacks", {"a.js": "function g() {}\nconst n = 1\nlist.map(g, n)"}, {("a", "a.g")}),
        ("call and bind", {"a.js": "function g() {}\ng.call(null); g.bind(null)"}, {("a", "a.g")}),
        ("a function called bind", {"a.js": "function bind() {}\nbind()"}, {("a", "a.bind")}),
    ],
)  # fmt: skip
def test_calls(title: str, sources: Mapping[str, str], expected: set[tuple[str, str]]) -> None:
    assert set(edges(sources)) == expected, title


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("packages", "import x from 'x'\nx(); x.y().z()", {"external": 3}),
        ("globals", "console.log(JSON.parse(1))", {"builtin": 2}),
        ("parameters", "function f(a) { a.b() }", {"unknown receiver": 1}),
        ("names nobody declares", "nope()", {"unknown name": 1}),
        ("a member that is not there", "class A {}\nnew A().b()", {"unknown attribute": 1}),
        ("a member of an external base", "import B from 'b'\nclass A extends B { f() { this.g() } }", {"external": 1}),
        ("a file that is not there", "import { f } from './nope'\nf()", {"missing module": 1}),
        ("callbacks are no misses", "import x from 'x'\nlet a = [x].map(x)", {"unknown receiver": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_is_counted(title: str, source: str, expected: dict[str, int]) -> None:
    found = unresolved({"a.js": source})
    assert {reason: found[reason] for reason in expected} == expected, title
    assert not {c for c in edges({"a.js": source}) if c[1] != "a.A"}, title


def test_two_stars_with_one_name_are_ambiguous() -> None:
    sources = {
        "a.js": "import { f } from './i'\nf()",
        "i.js": "export * from './b'\nexport * from './c'",
        "b.js": "export function f() {}",
        "c.js": "export function f() {}",
    }
    assert not edges(sources)
    assert unresolved(sources) == {"ambiguous": 1}


def test_every_call_site_has_its_line() -> None:
    edge = edges({"a.js": "function g() {}\nfunction f() {\n  g()\n  g(); g()\n}"})[("a.f", "a.g")]
    assert (edge.lines, edge.resolver, edge.confidence) == ((3, 4, 4), "local", 1.0)


def test_imports_inheritance_and_overrides() -> None:
    sources = {
        "a.ts": "import { B, I } from './b'\nclass A extends B implements I { m() {} n() {} }",
        "b.ts": "export class B { m() {} }\nexport interface I { n(): void }",
    }
    assert set(edges(sources, "IMPORTS")) == {("a", "b")}
    assert set(edges(sources, "INHERITS")) == {("a.A", "b.B"), ("a.A", "b.I")}
    assert set(edges(sources, "OVERRIDES")) == {("a.A.m", "b.B.m"), ("a.A.n", "b.I.n")}


def test_tests_validate_what_they_call() -> None:
    sources = {
        "a.js": "export function f() {}",
        "a.test.js": "import { f } from './a'\ndescribe('a', () => { it('works', () => { f() }) })",
    }
    assert set(edges(sources, "VALIDATED_BY")) == {("a.f", "a_test.a works")}
