"""What the Java binder binds, in small repositories given as sources by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from etl.facts import Parameter
from etl.languages import extractor
from etl.languages.java.resolve_overloads import choose
from etl.resolve import FilePart, resolve
from plait.domain.graph import Edge


def parts_of(sources: Mapping[str, str]) -> list[FilePart]:
    java = extractor("java")
    return list(resolve("r", [java.extract(s.encode(), path, "") for path, s in sources.items()]))


def edges(sources: Mapping[str, str], relation: str = "CALLS") -> dict[tuple[str, str], Edge]:
    """(source, target) without the repository's prefix → edge."""
    return {
        (edge.source[2:], edge.target[2:]): edge
        for part in parts_of(sources)
        for edge in part.edges
        if edge.relation == relation
    }


def calls(*sources: str) -> set[tuple[str, str]]:
    """The calls of sources in one package `p`, without that package's name."""
    files = {f"p/F{i}.java": f"package p; {source}" for i, source in enumerate(sources)}
    return {(a.removeprefix("p."), b.removeprefix("p.")) for a, b in edges(files)}


@pytest.mark.parametrize(
    ("title", "sources", "expected"),
    [
        ("own methods", ["class A { void f() { g(); this.g(); } void g() {} }"], {("A.f", "A.g")}),
        ("inherited", ["class A extends B { void f() { g(); super.h(); } void h() {} }", "class B { void g() {} void h() {} }"], {("A.f", "B.g"), ("A.f", "B.h")}),
        ("of the outer class", ["class A { void g() {} class B { void f() { g(); A.this.g(); } } }"], {("A.B.f", "A.g")}),
        ("from an anonymous class", ["class A { void g() {} void f() { new B() { void h() { g(); k(); } }; } }", "class B { void k() {} }"], {("A.f", "B"), ("A.f.B$1.h", "A.g"), ("A.f.B$1.h", "B.k")}),
        ("static", ["class A { void f() { B.g(); p.B.g(); } }", "class B { static void g() {} }"], {("A.f", "B.g")}),
        ("parameters, locals, fields", ["class A { B b; void f(B c) { b.g(); c.g(); B d = c; d.g(); var e = new B(); e.g(); this.b.g(); } }", "class B { B() {} void g() {} }"], {("A.f", "B.g"), ("A.f", "B.B")}),
        ("results", ["class A { B b() { return null; } void f() { b().g().g(); } }", "class B { B g() { return this; } }"], {("A.f", "A.b"), ("A.f", "B.g")}),
        ("elements of collections", ["class A { java.util.List<B> l; void f() { for (B b : l) b.g(); l.get(0).g(); } }", "class B { void g() {} }"], {("A.f", "B.g")}),
        ("constants of enums", ["class A { void f() { E.X.g(); } }", "enum E { X; void g() {} }"], {("A.f", "E.g")}),
        ("accessors of records", ["class A { void f(R r) { r.b().g(); } }", "record R(B b) {}", "class B { void g() {} }"], {("A.f", "B.g")}),
        ("method references", ["class A { void f() { h(B::g); h(B::new); h(this::k); } void k() {} }", "class B { B() {} void g() {} }"], {("A.f", "B.g"), ("A.f", "B.B"), ("A.f", "A.k")}),
        ("constructors of this and super", ["class A extends B { A() { this(1); } A(int a) { super(a); } }", "class B { B(int a) {} }"], {("A.A", "A.A#2"), ("A.A#2", "B.B")}),
        ("overloads by count", ["class A { void f() { g(); g(1); g(1, 2, 3); } void g() {} void g(int a) {} void g(int... a) {} }"], {("A.f", "A.g"), ("A.f", "A.g#2"), ("A.f", "A.g#3")}),
        ("overloads by type", ['class A { void f(B b) { g("s"); g(1); g(b); } void g(String a) {} void g(long a) {} void g(B b) {} }', "class B {}"], {("A.f", "A.g"), ("A.f", "A.g#2"), ("A.f", "A.g#3")}),
        ("overloads by subclass", ["class A { void f(C c) { g(c); } void g(B b) {} void g(D d) {} }", "class B {} class C extends B {} class D {}"], {("A.f", "A.g")}),
        ("a method and a variable of one name", ["class A { B g() { return null; } void f() { B g = g(); g.h(); } }", "class B { void h() {} }"], {("A.f", "A.g"), ("A.f", "B.h")}),
        ("bounds of type parameters", ["class A<T extends B> { T t; void f() { t.g(); } }", "class B { void g() {} }"], {("A.f", "B.g")}),
        ("an interface's method", ["class A { void f(I i) { i.g(); } }", "interface I { void g(); }"], {("A.f", "I.g")}),
    ],
)  # fmt: skip
def test_calls(title: str, sources: list[str], expected: set[tuple[str, str]]) -> None:
    assert calls(*sources) == expected, title


@pytest.mark.parametrize(
    ("title", "head"),
    [
        ("single import", "import q.B; import static q.B.s;"),
        ("wildcards", "import q.*; import static q.B.*;"),
    ],
)
def test_imports_bind_across_packages(title: str, head: str) -> None:
    sources = {
        "src/main/java/p/A.java": f"package p; {head} class A {{ void f(B b) {{ b.g(); s(); }} }}",
        "src/main/java/q/B.java": "package q; public class B { void g() {} static void s() {} }",
    }
    assert set(edges(sources)) == {("p.A.f", "q.B.g"), ("p.A.f", "q.B.s")}, title
    assert set(edges(sources, "IMPORTS")) == {("p.A_java", "q.B_java")}, title


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("java.lang", 'class A { void f(String s) { s.trim(); System.out.println(s); } }', {"builtin": 2}),
        ("other libraries", "import x.Y; class A { void f(Y y) { y.z(); new Y(); } }", {"external": 2}),
        ("overloads that tie", "class A { void f(Object o) { g(o.x); } void g(String s) {} void g(int i) {} }", {"ambiguous": 1}),
        ("an external base may have it", "class A extends x.Y { void f() { g(); } }", {"external": 1}),
        ("nobody has it", "class A { void f() { g(); } }", {"unknown name": 1}),
        ("the wrong number of arguments", "class A { void f() { g(1); } void g() {} }", {"unknown name": 1}),
    ],
)  # fmt: skip
def test_what_cannot_be_bound_is_counted(title: str, source: str, expected: dict[str, int]) -> None:
    (part,) = parts_of({"A.java": source})
    assert Counter(part.unresolved) == expected, title
    assert not [e for e in part.edges if e.relation == "CALLS"], title


def test_inheritance_and_overrides() -> None:
    sources = {
        "p/A.java": "package p; class A extends B implements I { void m(int a) {} void n() {} }",
        "p/B.java": "package p; class B { void m(int a) {} void m() {} }",
        "p/I.java": "package p; interface I { void n(); }",
    }
    assert set(edges(sources, "INHERITS")) == {("p.A", "p.B"), ("p.A", "p.I")}
    assert set(edges(sources, "OVERRIDES")) == {("p.A.m", "p.B.m"), ("p.A.n", "p.I.n")}


def test_of_two_classes_of_one_name_the_nearer_path_is_meant() -> None:
    a = "package p; class A { void f() { B.g(); } }"
    b = "package p; class B { static void g() {} }"
    sources = {"x/p/A.java": a, "x/p/B.java": b, "y/p/B.java": b}
    assert set(edges(sources)) == {("p.A.f", "p.B.g")}


@pytest.mark.parametrize(
    ("arguments", "candidates", "expected"),
    [
        (["int"], ["long", "Object"], [0]),  # widening before boxing
        (["int"], ["Integer", "String"], [0]),
        (["int"], ["String", "boolean"], []),
        (["null"], ["int", "String"], [1]),
        (["?"], ["int", "String"], [0, 1]),
        (["String"], ["CharSequence", "Object"], [0, 1]),
        (["String"], ["Object", "String"], [1]),
        (["int", "int"], ["int", "int..."], [1]),
        ([], ["", "int..."], [0]),
        (["lambda"], ["String", "Runnable"], [1]),
    ],
)
def test_overloads(arguments: list[str], candidates: list[str], expected: list[int]) -> None:
    declared = [(number, _parameters(written)) for number, written in enumerate(candidates)]
    assert choose(arguments, declared, lambda _a, _b: None) == expected


def _parameters(written: str) -> list[Parameter]:
    parts = written.split(",") if written else []
    return [Parameter(part.removesuffix("..."), part.endswith("...")) for part in parts]
