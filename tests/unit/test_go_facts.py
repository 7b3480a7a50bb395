"""What the Go extractor finds: one small source a promise."""

from __future__ import annotations

import pytest

from etl.facts import FileFacts, decode, encode
from etl.languages import extractor
from tests.unit.fact_texts import imported, target


def facts(source: str, path: str = "pkg/a.go") -> FileFacts:
    return extractor("go").extract(("package pkg\n" + source).encode(), path, "pkg.a")


def body(source: str) -> list[tuple[str, str]]:
    found = facts(f"func f(p *S, q []T, r map[string]U) {{\n{source}\n}}")
    return [(r.chain, r.kind) for r in found.references]


@pytest.mark.parametrize(
    ("path", "clause", "module"),
    [
        ("a.go", "tool", "tool"),
        ("internal/x/a.go", "x", "internal.x"),
        ("x/a_test.go", "x", "x"),
        ("x/a_test.go", "x_test", "x_test"),
        ("a_test.go", "tool_test", "tool_test"),
    ],
)
def test_the_module_is_the_package(path: str, clause: str, module: str) -> None:
    found = extractor("go").extract(f"package {clause}".encode(), path, "ignored")
    assert found.module == module


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("functions", "func F() {}", {"F": "function"}),
        ("methods above their type", "func (s *S) M() {}\ntype S struct{}", {"S": "struct", "S.M": "method"}),
        ("methods of another file's type", "func (s T) M() {}", {"T.M": "method"}),
        ("generic receivers", "type S[K any] struct{}\nfunc (s *S[K]) M() {}", {"S": "struct", "S.M": "method"}),
        ("interfaces", "type I interface { M() error; J }", {"I": "interface", "I.M": "method"}),
        ("types", "type (\n A = B\n C func()\n)", {"A": "type", "C": "type"}),
        ("functions in variables", "var F = func() {}", {"F": "function"}),
        ("local types", "func F() { type T struct{} }", {"F": "function", "F.T": "struct"}),
        ("several init", "func init() {}\nfunc init() {}", {"init": "function", "init#2": "function"}),
    ],
)  # fmt: skip
def test_definitions(title: str, source: str, expected: dict[str, str]) -> None:
    assert {d.qualname: d.kind for d in facts(source).definitions[1:]} == expected, title


def test_embedding_and_fields() -> None:
    found = facts("type S struct { *T; p.V; a, b *W; c []X; d map[string]*Y; e int }")
    assert found.definitions[1].bases == ("T", "p.V")
    assert {target(b): b.value for b in found.bindings} == {
        "self.T": "T",
        "self.V": "p.V",
        "self.a": "W",
        "self.b": "W",
        "self.c": "X[]",
        "self.d": "Y[]",
        "self.e": "int",
    }


def test_imports() -> None:
    found = facts(
        'import (\n"fmt"\nm "net/http"\n. "x.y/z"\n_ "q"\n"gopkg.in/yaml.v3"\n"a.b/go-c/v2")'
    )
    assert [imported(i) for i in found.imports] == [
        ("fmt", "", "fmt"),
        ("net/http", "", "m"),
        ("x.y/z", "", "all:"),
        ("q", "", ""),
        ("gopkg.in/yaml.v3", "", "yaml"),
        ("a.b/go-c/v2", "", "c"),
    ]


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("package", "m.F()", [("m.F", "call")]),
        ("parameters", "p.M(); q[0].M(); r[`a`].M()", [("S().M", "call"), ("T().M", "call"), ("U().M", "call")]),
        ("fields", "p.a.b.M()", [("S().a.b.M", "call")]),
        ("composite literals", "x := &A{}; x.M()", [("A().M", "call")]),
        ("results", "x, err := New(); x.M(); err.Error()", [("New", "call"), ("New().M", "call"), ("?.Error", "call")]),
        ("new and make", "x := new(A); x.M(); y := make([]B, 1); y[0].M()", [("new", "call"), ("A().M", "call"), ("make", "call"), ("B().M", "call")]),
        ("ranges", "for _, t := range q { t.M() }", [("T().M", "call")]),
        ("assertions", "p.(*A).M(); if x, ok := p.(B); ok { x.M() }", [("A().M", "call"), ("B().M", "call")]),
        ("type switches", "switch t := p.(type) { case *A: t.M(); case B, C: t.M() }", [("A().M", "call"), ("?.M", "call")]),
        ("blocks shadow", "x := A{}; { x := B{}; x.M() }; x.M()", [("B().M", "call"), ("A().M", "call")]),
        ("redeclared as itself", "x := A{}; { x := x; x.M() }", [("A().M", "call")]),
        ("go and defer", "go p.M(); defer n()", [("S().M", "call"), ("n", "call")]),
        ("closures", "fn := func(a *A) { a.M() }; fn(nil)", [("A().M", "call"), ("?", "call")]),
        ("generic calls", "f[int](1); a.F[B](2)", [("f", "call"), ("a.F", "call")]),
        ("callbacks", "use(handler, p.M, 1, nil)", [("use", "call"), ("handler", "callback"), ("S().M", "callback")]),
    ],
)  # fmt: skip
def test_uses(title: str, source: str, expected: list[tuple[str, str]]) -> None:
    assert body(source) == expected, title


def test_type_parameters_are_no_types() -> None:
    found = facts("func F[T any](x T) T { x.M(); return x }")
    assert [r.chain for r in found.references] == ["?.M"]
    assert found.definitions[1].returns == ""


def test_results_and_package_variables() -> None:
    found = facts("func F() (*S, error) { return nil, nil }\nvar v, w = F(), 1\nvar u *T")
    assert found.definitions[1].returns == "S"
    assert {target(b): b.value for b in found.bindings} == {"v": "F()", "u": "T()"}


@pytest.mark.parametrize(
    ("name", "path", "expected"),
    [
        ("TestA", "pkg/a_test.go", True),
        ("Test_a", "pkg/a_test.go", True),
        ("BenchmarkA", "pkg/a_test.go", True),
        ("Testing", "pkg/a_test.go", False),
        ("helper", "pkg/a_test.go", False),
        ("TestA", "pkg/a.go", False),
    ],
)
def test_tests(name: str, path: str, expected: bool) -> None:
    found = facts(f"func {name}(t *testing.T) {{}}", path)
    assert found.definitions[1].is_test is expected


def test_the_source_of_a_symbol_holds_its_comment() -> None:
    source = "package pkg\n\n// F does.\n// Twice.\nfunc F() {}\n"
    found = extractor("go").extract(source.encode(), "pkg/a.go", "")
    f = found.definitions[1]
    assert source[f.start_byte : f.end_byte] == "// F does.\n// Twice.\nfunc F() {}"
    assert f.start_line == 5


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\xef\xbb\xbfpackage a\r\nfunc f() { g() }\r\n",
        b"\xff\xfe\x00 func f( {",
        b"package a\nfunc f(){" + b"{" * 5000,
        b"package a\nvar x=a" + b".b()" * 5000,
        b"package a\nfunc f(){" + b"func(){" * 5000 + b"}()" * 5000 + b"}",
        b"package a\ntype A " + b"[]" * 5000 + b"int",
    ],
)
def test_no_source_is_too_odd(source: bytes) -> None:
    found = extractor("go").extract(source, "a/a_test.go", "")
    assert decode(encode(found)) == found
    for definition in found.definitions:
        assert 0 <= definition.start_byte <= definition.end_byte <= len(source)
        assert 1 <= definition.start_line <= definition.end_line
