"""What the extractor finds in TypeScript beyond JavaScript."""

from __future__ import annotations

import pytest

from etl.facts import FileFacts
from etl.languages import extractor
from tests.unit.fact_texts import exported, imported, target


def facts(source: str, path: str = "src/a.ts", language: str = "typescript") -> FileFacts:
    return extractor(language).extract(source.encode(), path, "src.a")


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("interfaces", "interface I extends J, K<L> { m(): Foo; p: () => void; x: number }", {"I": "interface", "I.m": "method", "I.p": "method"}),
        ("type aliases", "type T = A | B; type O = { m(): void }", {"T": "type", "O": "type", "O.m": "method"}),
        ("enums", "const enum E { A }", {"E": "enum"}),
        ("namespaces", "namespace N { export function f() {} }", {"N": "module", "N.f": "function"}),
        ("overload signatures are no definitions of their own", "function f(a: string): void\nfunction f(a: any) {}", {"f": "function"}),
        ("ambient declarations are", "declare function f(): void\ndeclare class C { m(): void }", {"f": "function", "C": "class", "C.m": "method"}),
        ("abstract methods", "abstract class A { abstract m(): void }", {"A": "class", "A.m": "method"}),
    ],
)  # fmt: skip
def test_definitions(title: str, source: str, expected: dict[str, str]) -> None:
    assert {d.qualname: d.kind for d in facts(source).definitions[1:]} == expected, title


def test_bases_are_written_without_type_arguments() -> None:
    found = facts("class A extends b.B<C> implements D, e.E {}\ninterface I extends J<K> {}")
    assert [d.bases for d in found.definitions[1:]] == [("b.B", "D", "e.E"), ("J",)]


@pytest.mark.parametrize(
    ("title", "source", "chain"),
    [
        ("parameter", "function f(a: Foo) { a.m() }", "Foo().m"),
        ("nullable parameter", "function f(a?: Foo | null) { a!.m() }", "Foo().m"),
        ("array", "function f(a: Foo[]) { for (const x of a) x.m() }", "Foo().m"),
        ("generic array", "function f(a: ReadonlyArray<Foo>) { a[0].m() }", "Foo().m"),
        ("promise", "async function f(p: Promise<Foo>) { const a = await p; a.m() }", "Foo().m"),
        ("cast", "function f(a: unknown) { (a as Foo).m() }", "Foo().m"),
        ("union", "function f(a: Foo | Bar) { a.m() }", "?.m"),
        ("any", "function f(a: any) { a.m() }", "?.m"),
        ("local", "function f() { let a: Foo; a.m() }", "Foo().m"),
        ("destructured", "function f({ a }: Props) { a.m() }", "Props().a.m"),
    ],
)
def test_annotations_tell_what_names_stand_for(title: str, source: str, chain: str) -> None:
    assert [r.chain for r in facts(source).references] == [chain], title


def test_fields_have_their_types() -> None:
    source = "class A { a: Foo; b = new Bar(); constructor(private c: Baz, d: Qux) { this.e = new E() } }"
    bindings = {target(b): (b.value, b.kind) for b in facts(source).bindings}
    assert bindings == {
        "self.a": ("Foo", "type"),
        "self.c": ("Baz", "type"),
    }  # Bar and E are globals here: nothing in the file binds them
    source = "import { Bar, E } from './m'\n" + source
    bindings = {target(b): (b.value, b.kind) for b in facts(source).bindings}
    assert bindings["self.b"] == ("Bar()", "alias")
    assert bindings["self.e"] == ("E()", "alias")


def test_decorators_are_uses_of_their_own_kind() -> None:
    found = facts("@a.dec()\nclass A { @log m() {} }")
    assert [(r.chain, r.line, r.kind) for r in found.references] == [
        ("a.dec", 1, "decorator"),
        ("log", 2, "decorator"),
    ]


def test_tsx_has_elements() -> None:
    found = facts("const f = () => <Foo<T> a={b} />", "a.tsx", "tsx")
    assert [(r.chain, r.kind) for r in found.references] == [("Foo", "jsx")]
    assert found.language == "tsx"


def test_type_imports_and_import_require() -> None:
    found = facts("import type { A } from './a'\nimport fs = require('fs')\nexport = fs")
    assert [imported(i) for i in found.imports] == [
        ("./a", "A", "A"),
        ("fs", "", "fs"),
    ]
    assert [exported(e) for e in found.exports] == ["module.exports=fs"]
