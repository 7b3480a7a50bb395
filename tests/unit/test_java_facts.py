"""What the Java extractor finds: one small source a promise."""

from __future__ import annotations

import pytest

from etl.facts import FileFacts, decode, encode
from etl.languages import extractor
from tests.unit.fact_texts import arguments, imported, parameters, target


def facts(source: str, path: str = "src/main/java/com/x/Foo.java") -> FileFacts:
    return extractor("java").extract(source.encode(), path, "com.x.Foo")


def symbols(found: FileFacts) -> dict[str, str]:
    return {d.qualname: d.kind for d in found.definitions[1:]}


def method(body: str) -> FileFacts:
    return facts(f"package com.x; class A {{ List<Foo> items; void m(Foo p) {{ {body} }} }}")


def test_the_module_is_the_package_and_the_file_a_definition_of_its_own() -> None:
    found = facts("package com.x;\nclass Foo {}")
    assert (found.module, found.definitions[0].qualname) == ("com.x", "Foo_java")
    assert facts("class Foo {}").module == "default"


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("class", "class A { A() {} void m() {} int f; }", {"A": "class", "A.A": "constructor", "A.m": "method"}),
        ("interface", "interface I { void m(); default void d() {} }", {"I": "interface", "I.m": "method", "I.d": "method"}),
        ("enum", "enum E { A, B { void m() {} }; void m() {} }", {"E": "enum", "E.B": "class", "E.B.m": "method", "E.m": "method"}),
        ("record", "record R(int a) { R { } void m() {} }", {"R": "class", "R.R": "constructor", "R.m": "method"}),
        ("annotation", "@interface A { int value(); }", {"A": "interface", "A.value": "method"}),
        ("nested", "class A { static class B { void m() {} } }", {"A": "class", "A.B": "class", "A.B.m": "method"}),
        ("local class", "class A { void m() { class B {} } }", {"A": "class", "A.m": "method", "A.m.B": "class"}),
        ("anonymous", "class A { void m() { new Runnable() { public void run() {} }; } }", {"A": "class", "A.m": "method", "A.m.Runnable$1": "class", "A.m.Runnable$1.run": "method"}),
        ("overloads", "class A { void m() {} void m(int a) {} }", {"A": "class", "A.m": "method", "A.m#2": "method"}),
    ],
)  # fmt: skip
def test_definitions(title: str, source: str, expected: dict[str, str]) -> None:
    assert symbols(facts(source)) == expected, title


def test_bases_the_superclass_first_without_type_arguments() -> None:
    found = facts("class A<T> extends b.B<T> implements I, J<T> {} interface K extends I, J {}")
    assert [d.bases for d in found.definitions[1:]] == [("b.B", "I", "J"), ("I", "J")]


def test_imports() -> None:
    source = "import a.b.C; import a.b.*; import static a.B.m; import static a.B.*;"
    assert [imported(i) for i in facts(source).imports] == [
        ("a.b.C", "", "C"),
        ("a.b", "", "all:"),
        ("a.B", "m", "m"),
        ("a.B", "", "static all:"),
    ]


@pytest.mark.parametrize(
    ("title", "body", "expected"),
    [
        ("unqualified", "n();", [("n", "call", "")]),
        ("parameter", "p.n();", [("Foo().n", "call", "")]),
        ("local", "Bar b; b.n();", [("Bar().n", "call", "")]),
        ("var", "var b = new Bar(1); b.n();", [("Bar", "new", ":int"), ("Bar().n", "call", "")]),
        ("field", "items.n(); this.items.n();", [("items.n", "call", ""), ("this.items.n", "call", "")]),
        ("a method is no variable of its name", "Foo n = n(); n.k();", [("n", "call", ""), ("Foo().k", "call", "")]),
        ("for each", "for (Bar b : items) b.n();", [("Bar().n", "call", "")]),
        ("collections", "List<Bar> l; l.get(0).n();", [("Bar[]().get().n", "call", ""), ("Bar[]().get", "call", ":int")]),
        ("super and outer", "super.n(); A.this.n();", [("super().n", "call", ""), ("A.this.n", "call", "")]),
        ("static chain", "a.b.C.n();", [("a.b.C.n", "call", "")]),
        ("cast and pattern", "((Bar) p).n(); if (p instanceof Baz z) z.n();", [("Bar().n", "call", ""), ("Baz().n", "call", "")]),
        ("lambda parameters are unknown", "f(x -> x.n());", [("f", "call", ":lambda"), ("?.n", "call", "")]),
        ("method references", "f(Bar::n); f(Bar::new); f(this::m);", [("f", "call", ":lambda"), ("Bar.n", "method reference", ""), ("f", "call", ":lambda"), ("Bar", "method reference", ""), ("f", "call", ":lambda"), ("this.m", "method reference", "")]),
        ("arguments", 'n(1, 2L, "s", null, p, p.k, g());', [("n", "call", ":int,:long,:String,:null,Foo(),Foo().k,g()"), ("g", "call", "")]),
    ],
)  # fmt: skip
def test_uses(title: str, body: str, expected: list[tuple[str, str, str]]) -> None:
    assert [(r.chain, r.kind, arguments(r)) for r in method(body).references] == expected, title


def test_type_parameters_stand_for_their_bounds() -> None:
    found = facts(
        "class A<T extends Foo, U> { T t; <V extends Bar> void m(V v, U u) { v.n(); u.n(); } }"
    )
    assert [r.chain for r in found.references] == ["Bar().n", "?.n"]
    assert [(target(b), b.value) for b in found.bindings] == [("self.t", "Foo")]
    assert parameters(found.definitions[2]) == "Bar,Object"


def test_parameters_of_each_callable_are_kept_for_overloads() -> None:
    found = facts("class A { A(int a, String... b) {} void m() {} } record R(int a) { R {} }")
    assert [parameters(d) for d in found.definitions[2:4]] == ["int,String...", ""]
    assert parameters(found.definitions[-1]) == "-"


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("@Test void adds() {}", True),
        ("@org.junit.Test public void adds() {}", True),
        ("@ParameterizedTest void adds(int a) {}", True),
        ("public void testAdds() {}", True),
        ("void helper() {}", False),
        ("@Override public void testAdds() {}", False),
    ],
)
def test_tests(source: str, expected: bool) -> None:
    found = facts(f"class ATest {{ {source} }}", "src/test/java/ATest.java")
    assert found.definitions[2].is_test is expected


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\xef\xbb\xbfclass A { void m() { n(); } }\r\n",
        b"\xff\xfe\x00 class A { void m( }",
        b"class A{" * 5000,
        b"class A{int x=" + b"(" * 5000 + b"1" + b")" * 5000 + b";}",
        b"class A{int x=a" + b".b()" * 5000 + b";}",
        b"class A{int x=new A(){int y=" * 2000,
        b"package a" + b".b" * 5000 + b";",
    ],
)
def test_no_source_is_too_odd(source: bytes) -> None:
    found = extractor("java").extract(source, "A.java", "A")
    assert decode(encode(found)) == found
    for definition in found.definitions:
        assert 0 <= definition.start_byte <= definition.end_byte <= len(source)
        assert 1 <= definition.start_line <= definition.end_line
