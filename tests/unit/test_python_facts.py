"""What the Python extractor finds, source by source."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.facts import Definition, FileFacts, decode, encode
from etl.languages import extractor
from tests.unit.fact_texts import arguments, exported, imported, target


def extract(source: str | bytes, path: str = "pkg/mod.py", module: str = "pkg.mod") -> FileFacts:
    raw = source.encode() if isinstance(source, str) else source
    return extractor("python").extract(raw, path, module)


def symbols(facts: FileFacts) -> dict[str, Definition]:
    return {d.qualname: d for d in facts.definitions[1:]}


def calls(facts: FileFacts) -> set[tuple[str, str, int]]:
    """(scope's qualified name, chain, line) of every call."""
    names = [d.qualname for d in facts.definitions]
    return {(names[r.scope], r.chain, r.line) for r in facts.references if r.kind == "call"}


def bound(source: str, name: str) -> list[tuple[str, str]]:
    """(kind, value) of every binding of `name`."""
    return [(b.kind, b.value) for b in extract(source).bindings if target(b) == name]


def test_definitions_have_kinds_parents_and_lines() -> None:
    facts = extract(
        "class A(Base, m.Other, Generic[T], metaclass=M):\n"
        "    x = 1\n"
        "    async def m(self):\n"
        "        def inner():\n"
        "            pass\n"
        "\n"
        "def f() -> list[A]:\n"
        "    pass\n"
    )
    found = symbols(facts)
    assert {name: d.kind for name, d in found.items()} == {
        "A": "class",
        "A.m": "method",
        "A.m.inner": "function",
        "f": "function",
    }
    assert found["A"].bases == ("Base", "m.Other", "Generic")
    assert (found["A.m"].start_line, found["A.m"].end_line) == (3, 5)
    assert facts.definitions[found["A.m"].parent].qualname == "A"
    assert found["f"].returns == "list[A]"
    assert facts.definitions[0].kind == "module"
    assert facts.definitions[0].name == "mod"


def test_the_bytes_span_decorators_and_the_comment_above() -> None:
    source = "x = 1\n\n# why\n# so\n@deco(1)\n@a.b\ndef f():\n    '''doc'''\n    return 1\n"
    definition = symbols(extract(source))["f"]
    assert source[definition.start_byte : definition.end_byte].startswith("# why\n# so\n@deco")
    assert source[: definition.doc_end_byte].endswith("'''doc'''")
    assert definition.start_line == 7
    assert definition.decorators == ("deco()", "a.b")


def test_definitions_of_one_name_are_numbered() -> None:
    facts = extract(
        "if a:\n    def f(): pass\nelse:\n    def f(): pass\n"
        "class C:\n"
        "    @property\n    def x(self): pass\n"
        "    @x.setter\n    def x(self, v): pass\n"
    )
    assert list(symbols(facts)) == ["f", "f#2", "C", "C.x", "C.x#2"]


def test_tests_are_functions_of_test_files_by_name() -> None:
    source = "def test_a(): pass\ndef helper(): pass\nclass T:\n    def test_b(self): pass\n"
    in_tests = symbols(extract(source, "tests/test_x.py"))
    assert [name for name, d in in_tests.items() if d.is_test] == ["test_a", "T.test_b"]
    assert not any(d.is_test for d in symbols(extract(source, "pkg/x.py")).values())


def test_imports_keep_what_is_written() -> None:
    facts = extract(
        "import a.b.c, d as e\n"
        "from . import x\n"
        "from ..p.q import (r as s, t)\n"
        "from z import *\n"
        "from __future__ import annotations\n"
        "def f():\n    import lazy\n"
        "try:\n    import fast\nexcept ImportError:\n    fast = None\n"
    )
    assert [(*imported(i), i.level, i.line) for i in facts.imports] == [
        ("a.b.c", "", "a", 0, 1),
        ("d", "", "e", 0, 1),
        ("", "x", "x", 1, 2),
        ("p.q", "r", "s", 2, 3),
        ("p.q", "t", "t", 2, 3),
        ("z", "", "all:", 0, 4),
        ("lazy", "", "lazy", 0, 7),
        ("fast", "", "fast", 0, 9),
    ]
    assert [i.scope for i in facts.imports if i.module == "lazy"] == [1]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("f()", {("", "f", 1)}),
        ("a.b.c()", {("", "a.b.c", 1)}),
        ("a.b().c()", {("", "a.b", 1), ("", "a.b().c", 1)}),
        ("f(g(h()))", {("", "f", 1), ("", "g", 1), ("", "h", 1)}),
        ("x[0].y()", {("", "x[].y", 1)}),
        ("f()()", {("", "f", 1), ("", "f()", 1)}),
        ("'a'.join(b)", {("", "str().join", 1)}),
        ("(lambda: f())()", {("", "f", 1), ("", "function()", 1)}),
        ("(x := f()).g()", {("", "f", 1), ("", "f().g", 1)}),
        ("[f(x) for x in g() if h(x)]", {("", "f", 1), ("", "g", 1), ("", "h", 1)}),
        ("f'{a.b()!r:>{w()}}'", {("", "a.b", 1), ("", "w", 1)}),
        ("await_ = 1\nasync def f():\n    await g()\n", {("f", "g", 3)}),
        ("def f(x=g()): h()", {("", "g", 1), ("f", "h", 1)}),
        ("@d(1)\ndef f(): pass", {("", "d", 1)}),
        ("class A(b()):\n    x = c()\n", {("", "b", 1), ("A", "c", 2)}),
        ("if __name__ == '__main__':\n    main()\n", {("", "main", 2)}),
        (
            "type(self)().m()",
            {("", "type", 1), ("", "self.__class__", 1), ("", "self.__class__().m", 1)},
        ),
        ("getattr(x, 'go')()", {("", "getattr", 1), ("", "x.go", 1)}),
        ("super(A, self).m()", {("", "super", 1), ("", "super().m", 1)}),
        ("with f() as a, g(a): pass", {("", "f", 1), ("", "g", 1)}),
        ("(a or b)()", {("", "?", 1)}),
        (
            "q.filter(\n    x=1,\n).exclude(\n)\n",
            {("", "q.filter", 1), ("", "q.filter().exclude", 3)},
        ),
        ("print f(x)\n", {("", "f", 1)}),
    ],
)
def test_calls_are_found_with_scope_and_line(
    source: str, expected: set[tuple[str, str, int]]
) -> None:
    assert calls(extract(source)) == expected


def test_decorators_are_uses_of_what_they_decorate() -> None:
    facts = extract("@plain\n@made(1)\ndef f(): pass\n")
    found = [(r.chain, arguments(r), r.line) for r in facts.references if r.kind == "decorator"]
    assert found == [("plain", "f", 1), ("made()", "f", 2)]


def test_arguments_tell_what_is_passed() -> None:
    facts = extract("f(a, 1, self.b, k=C(), *rest)\ng(1, 'x')\nh(x, y=None)\n")
    assert {r.chain: arguments(r) for r in facts.references if r.kind == "call"} == {
        "f": "a,,self.b,k=C(),*",
        "g": "",
        "h": "x",
        "C": "",
    }


@pytest.mark.parametrize(
    ("source", "name", "expected"),
    [
        ("x = Foo(1)", "x", [("new", "Foo")]),
        ("x = a.b", "x", [("alias", "a.b")]),
        ("x: Foo = bar()", "x", [("type", "Foo")]),
        ("x = Foo() if a else Bar()", "x", [("new", "Foo"), ("new", "Bar")]),
        ("x = x or Foo()", "x", [("alias", "x"), ("new", "Foo")]),
        ("x = None", "x", [("unknown", "")]),
        ("x = a + b", "x", [("unknown", "")]),
        ("x, y = Foo(), 1", "x", [("new", "Foo")]),
        ("x = y = Foo()", "y", [("new", "Foo")]),
        ("for x in xs: pass", "x", [("iterated", "xs")]),
        ("for i, x in enumerate(xs): pass", "x", [("iterated", "xs")]),
        ("for k, x in d.items(): pass", "x", [("iterated", "d.values()")]),
        ("with open(p) as x: pass", "x", [("entered", "open()")]),
        ("try: pass\nexcept (A, b.C) as x: pass", "x", [("type", "A"), ("type", "b.C")]),
        ("def f(x: 'Foo', *x2, **x3): pass", "x", [("parameter", "'Foo'")]),
        ("def f(*x: Foo): pass", "x", [("type", "tuple[Foo]")]),
        ("class A:\n    def f(self): self.x = Foo()", "self.x", [("new", "Foo")]),
        ("class A:\n    def f(me): me.x = Foo()", "self.x", [("new", "Foo")]),
        ("def f():\n    return Foo()", "return", [("new", "Foo")]),
        ("def f():\n    yield Foo()", "yield", [("new", "Foo")]),
        ("def f():\n    global x\n    x = 1", "x", [("global", ""), ("new", "int")]),
        ("x = cast(Foo, y)", "x", [("type", "Foo"), ("alias", "y")]),
        ("T = TypeVar('T', bound='Foo')", "T", [("type variable", "'Foo'")]),
        ("if isinstance(x, (A, B)):\n    x.f()", "x", [("narrowed", "A"), ("narrowed", "B")]),
        ("match v:\n    case Foo() as x: pass", "x", [("type", "Foo")]),
    ],
)
def test_bindings_tell_types(source: str, name: str, expected: list[tuple[str, str]]) -> None:
    found = bound(source, name)
    assert sorted(found) == sorted(expected)


def test_a_binding_holds_to_the_end_of_its_block() -> None:
    facts = extract("def f():\n    if a:\n        x = A()\n    else:\n        x = B()\n    x.m()\n")
    found = {b.value: (b.line, b.until) for b in facts.bindings if b.name == "x"}
    assert found == {"A": (3, 3), "B": (5, 5)}


def test_exports_are_read_from_dunder_all() -> None:
    facts = extract("__all__ = ['a', \"b\"]\n__all__ += ['c']\n")
    assert [exported(e) for e in facts.exports] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("title", "source", "line"),
    [
        ("byte order mark", b"\xef\xbb\xbfx = 1\ndef f(): pass\n", 2),
        ("Windows line ends", b"x = 1\r\n\r\ndef f():\r\n    pass\r\n", 3),
        ("old Mac line ends", b"x = 1\r\rdef f():\r    pass\r", 3),
        ("form feed", b"x = 1\n\x0c\ndef f(): pass\n", 3),
        ("tabs", b"if 1:\n\tdef f():\n\t\tpass\n", 2),
        ("Latin-1", b"# caf\xe9\ns = '\xff\xfe'\ndef f(): pass\n", 3),
        ("a null byte", b"s = '\x00'\ndef f(): pass\n", 2),
        (
            "Python 2",
            b"print 'a', b\ntry:\n    pass\nexcept A, e:\n    raise B, c\ndef f(): pass\n",
            6,
        ),
        ("a broken line", b"x = = (\n\n\ndef f():\n    pass\n", 4),
        ("a name in another script", "été = 1\ndef f(): pass\n".encode(), 2),
    ],
)
def test_hostile_sources_give_right_lines(title: str, source: bytes, line: int) -> None:
    facts = extract(source)
    assert symbols(facts)["f"].start_line == line
    assert decode(encode(facts)) == facts


@pytest.mark.parametrize(
    "source",
    [
        b"",
        b"\n",
        b"\x00" * 100,
        b"\xff\xfe" + "def f(): pass".encode("utf-16-le"),
        b"(" * 20_000,
        b"[" * 5_000 + b"]" * 5_000,
        b"x = " + b"f(" * 5_000 + b")" * 5_000,
        b"x = a" + b".b()" * 5_000,
        b"x = " + b"not " * 5_000 + b"a",
        b"x = a" + b" or a()" * 5_000,
        b"".join(b" " * i + b"if a:\n" for i in range(900)) + b" " * 900 + b"f()\n",
        b"".join(b" " * i + b"def f():\n" for i in range(400)) + b" " * 400 + b"f()\n",
        b"x = '" + b"a" * 1_000_000 + b"'\n",
        b"x = [" + b"1, " * 300_000 + b"]\n",
        b"def f(" + b"a, " * 10_000 + b"): pass\n",
        b"@a\n" * 3_000 + b"def f(): pass\n",
        b"class A(" + b"B, " * 5_000 + b"): pass\n",
        b"x: " + b"list[" * 3_000 + b"int" + b"]" * 3_000 + b" = 1\n",
        b"from . import (",
        b"import\nfrom import x\nfrom a import\nimport a.\n@\nclass\ndef\nwith\nfor in\nreturn",
        b"lambda: (yield)\nglobal\nnonlocal x\ndel x\n*a, b = c\nx.y.z = 1\n(a.b)[1] = 2\n",
    ],
)
def test_no_source_raises(source: bytes) -> None:
    facts = extract(source)
    assert facts.definitions[0].kind == "module"
    assert decode(encode(facts)) == facts


@given(st.binary(max_size=400))
@settings(max_examples=150, deadline=None)
def test_any_bytes_give_facts(source: bytes) -> None:
    facts = extract(source)
    assert decode(encode(facts)) == facts


_WORDS = (
    "def_ class_ f ( ) : ~ ____ x = . , import_ from_ a return_ for_ in_ with_ as_ [ ] { } ' \" @ * "
    "lambda_ if_ else isinstance match_ case_ yield_ global_ := await_ None # async_ try except_"
)


@given(st.lists(st.sampled_from(_WORDS.split()), max_size=80))
@settings(max_examples=300, deadline=None)
def test_any_words_give_facts_with_places_inside_the_source(words: list[str]) -> None:
    source = "".join(words).replace("_", " ").replace("~", "\n")
    facts = extract(source)
    last = max(1, source.count("\n") + 1)
    for number, definition in enumerate(facts.definitions):
        assert 0 <= definition.start_byte <= definition.end_byte <= len(source.encode())
        assert 1 <= definition.start_line <= definition.end_line <= last
        assert definition.parent < number or number == 0
    for reference in facts.references:
        assert 0 <= reference.scope < len(facts.definitions)
        assert 1 <= reference.line <= last


def test_the_same_bytes_give_the_same_facts() -> None:
    source = "\n".join(f"x{i} = a.b(c, d=e)(f, [g, h]).i(j)" for i in range(60))
    assert {encode(extract(source)) for _ in range(5)} == {encode(extract(source))}
