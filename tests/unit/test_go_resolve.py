"""What the Go binder binds, in small repositories given as sources by path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from etl.languages import extractor
from etl.resolve import FilePart, resolve
from plait.domain.graph import Edge


def parts_of(sources: Mapping[str, str]) -> list[FilePart]:
    go = extractor("go")
    return list(resolve("r", [go.extract(s.encode(), path, "") for path, s in sources.items()]))


def edges(sources: Mapping[str, str], relation: str = "CALLS") -> dict[tuple[str, str], Edge]:
    """(source, target) without the repository's prefix → edge."""
    return {
        (edge.source[2:], edge.target[2:]): edge
        for part in parts_of(sources)
        for edge in part.edges
        if edge.relation == relation
    }


TYPES = "type S struct{ t *T; ts []T; m map[string]*T }\ntype T struct{}\nfunc (t *T) M() *T { return t }\n"


def calls(source: str, **others: str) -> set[tuple[str, str]]:
    """The calls of a file of package p, and of other files of it."""
    sources = {"p/a.go": f"package p\n{source}"}
    sources |= {f"p/{name}.go": f"package p\n{text}" for name, text in others.items()}
    return {(a.removeprefix("p."), b.removeprefix("p.")) for a, b in edges(sources)}


@pytest.mark.parametrize(
    ("title", "body", "expected"),
    [
        ("functions", "g()", {("f", "g")}),
        ("parameters", "s.t.M()", {("f", "T.M")}),
        ("elements", "s.ts[0].M(); s.m[`x`].M(); for _, t := range s.ts { t.M() }", {("f", "T.M")}),
        ("results", "g().M().M()", {("f", "g"), ("f", "T.M")}),
        ("literals", "(&T{}).M(); x := T{}; x.M(); y := new(T); y.M()", {("f", "T.M")}),
        ("package variables", "v.M()", {("f", "T.M")}),
        ("a local shadows", "g := 1; g.M(); v := 2; v.M()", set()),
        ("conversions are no calls", "T(s); x := T(s); x.M()", {("f", "T.M")}),
        ("callbacks", "use(g, s.t.M)", {("f", "g"), ("f", "T.M")}),
        ("functions in variables", "h()", {("f", "h")}),
    ],
)
def test_calls(title: str, body: str, expected: set[tuple[str, str]]) -> None:
    rest = f"{TYPES}func g() *T {{ return nil }}\nvar v = g()\nvar h = func() {{}}"
    found = calls(f"func f(s *S) {{ {body} }}", b=rest)
    assert {c for c in found if c[0] == "f"} == expected, title


def test_methods_are_promoted_shallowest_first() -> None:
    source = """
type A struct{}
func (A) M() {}
func (A) N() {}
type B struct{ A }
func (B) M() {}
type C struct{ *B }
func f(c C) { c.M(); c.N(); c.A.M() }
"""
    assert calls(source) == {("f", "B.M"), ("f", "A.N"), ("f", "A.M")}


def test_two_promoted_from_one_depth_are_ambiguous() -> None:
    source = "type A struct{}\nfunc (A) M() {}\ntype B struct{}\nfunc (B) M() {}\ntype C struct{ A; B }\nfunc f(c C) { c.M() }"
    assert calls(source) == set()


def test_interfaces_and_what_they_embed() -> None:
    source = "type I interface { J }\ntype J interface { M() }\nfunc f(i I) { i.M() }"
    assert calls(source) == {("f", "J.M")}


def test_aliases_and_named_slices() -> None:
    source = TYPES + "type A = T\ntype Ts []T\nfunc f(a A, ts Ts) { a.M(); ts[0].M() }"
    assert ("f", "T.M") in calls(source)


@pytest.mark.parametrize(
    ("title", "path", "spec", "use", "bound"),
    [
        ("by suffix", "x/q/q.go", '"example.com/me/x/q"', "q.G()", True),
        ("aliased", "x/q/q.go", 'z "example.com/me/x/q"', "z.G()", True),
        ("dot", "x/q/q.go", '. "example.com/me/x/q"', "G()", True),
        ("the standard library is none of ours", "http/q.go", '"net/http"', "http.G()", False),
        ("another folder of that name", "x/q/q.go", '"example.com/other/y"', "y.G()", False),
    ],
)
def test_imports(title: str, path: str, spec: str, use: str, bound: bool) -> None:
    package = path.split("/")[-2]
    sources = {
        "p/a.go": f"package p\nimport {spec}\nfunc f() {{ {use} }}",
        path: f"package {package}\nfunc G() {{}}",
        path.replace("q.go", "q_test.go"): f"package {package}",
    }
    target = path.rpartition("/")[0].replace("/", ".")
    assert set(edges(sources)) == ({("p.f", f"{target}.G")} if bound else set()), title
    imported = {("p.a_go", f"{target}.q_go")} if bound else set()
    assert set(edges(sources, "IMPORTS")) == imported, title


def test_an_import_that_two_folders_could_mean_is_not_bound() -> None:
    sources = {
        "p/a.go": 'package p\nimport "example.com/q"\nfunc f() { q.G() }',
        "x/q/q.go": "package q\nfunc G() {}",
        "y/q/q.go": "package q\nfunc G() {}",
    }
    assert not edges(sources)


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("builtins", "func f() { panic(len(nil)) }", {"builtin": 2}),
        ("other modules", 'import "fmt"\nfunc f() { fmt.Println() }', {"external": 1}),
        ("their types", 'import "bytes"\nfunc f(b bytes.Buffer) { b.Len() }', {"external": 1}),
        ("closures", "func f() { g := func() {}; g() }", {"unknown receiver": 1}),
        ("no such method", "type T struct{}\nfunc f(t T) { t.M() }", {"unknown attribute": 1}),
        ("no such name", "func f() { g() }", {"unknown name": 1}),
    ],
)
def test_what_cannot_be_bound_is_counted(title: str, source: str, expected: dict[str, int]) -> None:
    (part,) = parts_of({"p/a.go": f"package p\n{source}"})
    assert Counter(part.unresolved) == expected, title
    assert not [e for e in part.edges if e.relation == "CALLS"], title


def test_embedding_is_inheritance_and_tests_validate() -> None:
    sources = {
        "p/a.go": "package p\ntype A struct{}\ntype B struct{ *A }\nfunc F() {}",
        "p/a_test.go": "package p\nfunc TestF(t *testing.T) { t.Run(`x`, func(t *testing.T) { F() }) }",
    }
    assert set(edges(sources, "INHERITS")) == {("p.B", "p.A")}
    assert set(edges(sources, "VALIDATED_BY")) == {("p.F", "p.TestF")}


def test_a_type_that_embeds_what_is_found_through_itself_ends() -> None:
    source = "package a\n\ntype A struct {\n\tB.x\n}\n\ntype B struct {\n\tA.y\n}\n"
    assert edges({"a/a.go": source}, "INHERITS") == {}
