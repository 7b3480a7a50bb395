"""What the graph gets of languages of which only definitions are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import pytest

from etl.languages import extractor, language_of
from etl.languages.names import module_name
from etl.resolve import FilePart, resolve
from tests.definition_sources import SOURCES


def parts_of(sources: Mapping[str, str]) -> list[FilePart]:
    facts = []
    for path, text in sources.items():
        language = language_of(path)
        module = module_name(path, language)
        facts.append(extractor(language).extract(text.encode(), path, module))
    return list(resolve("r", facts))


def ids(sources: Mapping[str, str]) -> set[str]:
    return {node.id[2:] for part in parts_of(sources) for node in part.nodes}


def inherits(sources: Mapping[str, str]) -> dict[tuple[str, str], float]:
    return {
        (edge.source[2:], edge.target[2:]): edge.confidence
        for part in parts_of(sources)
        for edge in part.edges
        if edge.relation == "INHERITS"
    }


def test_every_symbol_is_contained_once_and_no_id_is_taken_twice() -> None:
    parts = parts_of({f"{s.language}/{s.path}": s.text for s in SOURCES})
    nodes = Counter(node.id for part in parts for node in part.nodes)
    assert max(nodes.values()) == 1
    held = Counter(e.target for p in parts for e in p.edges if e.relation == "CONTAINS")
    assert held == nodes
    assert {e.source for p in parts for e in p.edges if e.relation == "CONTAINS"} <= {*nodes, "r:"}


@pytest.mark.parametrize(
    ("title", "sources", "expected"),
    [
        (
            "a header and its source",
            {"src/a.h": "struct s { int a; };", "src/a.c": "void f(void) {}"},
            {"/src/a.h", "src.a_h", "src.a_h.s", "/src/a.c", "src.a", "src.a.f"},
        ),
        (
            "a script beside a module whose path comes later",
            {"build.c": "void f(void) {}", "build.py": "def f(): pass"},
            {"/build.py", "build", "build.f", "/build.c", "build@build.c", "build.f@build.c"},
        ),
        (
            "one class in two files of a package",
            {"a/X.kt": "package p\nclass C", "b/X.kt": "package p\nclass C"},
            {"/a/X.kt", "p.X_kt", "p.C", "/b/X.kt", "p.X_kt@b/X.kt", "p.C@b/X.kt"},
        ),
    ],
)
def test_names_that_meet(title: str, sources: dict[str, str], expected: set[str]) -> None:
    assert ids(sources) == expected, title


BASE = {"a.rb": "module Shop\n  class Base\n  end\nend\n"}


@pytest.mark.parametrize(
    ("title", "sources", "expected"),
    [
        ("in its own file", {"a.cpp": "class A {};\nclass B : public A {};"}, {("a.B", "a.A")}),
        ("in another file", {**BASE, "b.rb": "class B < Shop::Base\nend"}, {("b.B", "a.Shop.Base")}),
        ("another's of that name", {**BASE, "b.rb": "class B < ActiveRecord::Base\nend"}, set()),
        ("in its package first", {
            "x/A.cs": "namespace X;\nclass A {}", "y/A.cs": "namespace Y;\nclass A {}",
            "y/B.cs": "namespace Y;\nclass B : A {}",
         }, {("Y.B", "Y.A")}),
        ("two that fit", {
            "a.swift": "class A {}", "b.swift": "class A {}", "c.swift": "class B: A {}",
         }, set()),
        ("only one in a test", {
            "tests/a_test.dart": "class A {}", "lib/b.dart": "class B extends A {}",
         }, set()),
        ("across C and C++", {
            "a.h": "struct A { int x; };", "b.cpp": "struct B : A {};",
         }, {("b.B", "a_h.A")}),
        ("an impl", {"a.rs": "trait T {}\nstruct S;\nimpl T for S {}"}, {("a.S", "a.T")}),
        ("itself", {"a.swift": "extension A: P {}\nclass A: A {}"}, set()),
        ("another language's", {"a.py": "class A: pass", "b.scala": "class B extends A"}, set()),
    ],
)  # fmt: skip
def test_bases(title: str, sources: dict[str, str], expected: set[tuple[str, str]]) -> None:
    found = inherits(sources)
    assert set(found) == expected, title
    assert all(0.9 <= confidence <= 1 for confidence in found.values())


def test_what_is_not_bound_is_counted() -> None:
    file = "package p\nclass B"
    part, *_ = parts_of({"a.kt": "package p\nclass A : Activity(), B", "b.kt": file, "c.kt": file})
    assert part.unresolved == {"ambiguous": 1, "external": 1}
