"""What the Python resolver binds, in small repositories given as sources by path."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from etl.facts import FileFacts
from etl.languages import extractor
from etl.languages.names import module_name
from etl.resolve import FilePart, OtherFile, resolve
from plait.domain.graph import Edge, encode_edges, encode_nodes


def facts_of(sources: Mapping[str, str]) -> list[FileFacts]:
    packages = frozenset(
        path.rpartition("/")[0] for path in sources if path.endswith("__init__.py")
    )
    python = extractor("python")
    return [
        python.extract(source.encode(), path, module_name(path, "python", packages))
        for path, source in sources.items()
    ]


def parts_of(sources: Mapping[str, str]) -> list[FilePart]:
    return list(resolve("r", facts_of(sources)))


def edges(sources: Mapping[str, str], relation: str = "CALLS") -> dict[tuple[str, str], Edge]:
    """(source, target) without the repository's prefix → edge."""
    return {
        (edge.source[2:], edge.target[2:]): edge
        for part in parts_of(sources)
        for edge in part.edges
        if edge.relation == relation
    }


def calls(source: str, **others: str) -> set[tuple[str, str]]:
    """The calls of module `m` and of others (`p__q` is p/q.py), without the "m." of m's own names."""
    sources = {"m.py": source} | {
        name.replace("__", "/") + ".py": text for name, text in others.items()
    }
    return {(a.removeprefix("m."), b.removeprefix("m.")) for a, b in edges(sources)}


def test_nodes_and_containment_of_one_file() -> None:
    sources = {"p/__init__.py": "", "p/m.py": "class A:\n    def f(self):\n        def g(): pass\n"}
    part = parts_of(sources)[1]
    assert [(n.id, n.label, n.kind) for n in part.nodes] == [
        ("r:/p/m.py", "File", "file"),
        ("r:p.m", "Module", "module"),
        ("r:p.m.A", "Class", "class"),
        ("r:p.m.A.f", "Function", "method"),
        ("r:p.m.A.f.g", "Function", "function"),
    ]
    assert [(e.source, e.target) for e in part.edges] == [
        ("r:", "r:/p/m.py"),
        ("r:/p/m.py", "r:p.m"),
        ("r:p.m", "r:p.m.A"),
        ("r:p.m.A", "r:p.m.A.f"),
        ("r:p.m.A.f", "r:p.m.A.f.g"),
    ]


def test_other_files_get_a_node_and_their_edge() -> None:
    (part,) = resolve("r", [], [OtherFile("docs/a.md", "markdown", 12)])
    assert (part.nodes[0].id, part.nodes[0].end_line) == ("r:/docs/a.md", 12)
    assert part.edges == [Edge("CONTAINS", "r:", "r:/docs/a.md")]


def test_modules_of_one_name_are_told_apart_by_path() -> None:
    sources = {"src/m.py": "def f(): pass\n", "lib/m.py": "def f(): pass\n"}
    ids = {node.id for part in parts_of(sources) for node in part.nodes if node.label != "File"}
    assert ids == {"r:m", "r:m.f", "r:m@src/m.py", "r:m.f@src/m.py"}


@pytest.mark.parametrize(
    ("title", "source", "expected"),
    [
        ("module level", "def f(): pass\nf()\n", {("m", "f")}),
        ("before it is defined", "def f(): g()\ndef g(): pass\n", {("f", "g")}),
        ("a local hides it", "def g(): pass\ndef f(g): g()\n", set()),
        ("an assigned local hides it", "def g(): pass\ndef f():\n    g = 1\n    g()\n", set()),
        ("a nested function", "def f():\n    def g(): pass\n    g()\n", {("f", "f.g")}),
        (
            "a class is no scope of its methods",
            "def g(): pass\nclass A:\n    def g(self): pass\n    def f(self): g()\n",
            {("A.f", "g")},
        ),
        ("self", "class A:\n    def f(self): self.g()\n    def g(self): pass\n", {("A.f", "A.g")}),
        (
            "self of another name",
            "class A:\n    def f(me): me.g()\n    def g(me): pass\n",
            {("A.f", "A.g")},
        ),
        (
            "self in a nested function",
            "class A:\n    def f(self):\n        def h(): self.g()\n    def g(self): pass\n",
            {("A.f.h", "A.g")},
        ),
        (
            "inherited",
            "class B:\n    def g(self): pass\nclass A(B):\n    def f(self): self.g()\n",
            {("A.f", "B.g")},
        ),
        (
            "super",
            "class B:\n    def f(self): pass\nclass A(B):\n    def f(self): super().f()\n",
            {("A.f", "B.f")},
        ),
        (
            "method resolution order",
            "class R:\n    def f(self): pass\nclass X(R): pass\nclass Y(R):\n    def f(self): pass\n"
            "class Z(X, Y): pass\nZ().f()\n",
            {("m", "Y.f"), ("m", "Z")},
        ),
        ("a class without __init__", "class A: pass\nA()\n", {("m", "A")}),
        (
            "an inherited __init__",
            "class B:\n    def __init__(self): pass\nclass A(B): pass\nA()\n",
            {("m", "B.__init__")},
        ),
        (
            "__new__ and __init__",
            "class A:\n    def __new__(cls): pass\n    def __init__(self): pass\nA()\n",
            {("m", "A.__new__"), ("m", "A.__init__")},
        ),
        (
            "cls",
            "class A:\n    @classmethod\n    def make(cls): return cls()\n    def f(self): pass\n"
            "A.make().f()\n",
            {("m", "A.make"), ("m", "A.f"), ("A.make", "A")},
        ),
        (
            "a subclass's classmethod makes the subclass",
            "class A:\n    @classmethod\n    def make(cls): return cls()\n"
            "class B(A):\n    def f(self): pass\nB.make().f()\n",
            {("m", "A.make"), ("m", "B.f"), ("A.make", "A")},
        ),
        (
            "a fluent method returns the subclass",
            "class A:\n    def on(self): return self\n"
            "class B(A):\n    def f(self): pass\nB().on().f()\n",
            {("m", "B"), ("m", "A.on"), ("m", "B.f")},
        ),
        (
            "type(self)",
            "class A:\n    def f(self): return type(self)().g()\n    def g(self): pass\n",
            {("A.f", "A"), ("A.f", "A.g")},
        ),
        (
            "an attribute from __init__",
            "class B:\n    def g(self): pass\nclass A:\n    def __init__(self): self.b = B()\n"
            "    def f(self): self.b.g()\n",
            {("A.__init__", "B"), ("A.f", "B.g")},
        ),
        (
            "an annotated field, inherited",
            "class B:\n    def g(self): pass\nclass P:\n    b: 'B'\nclass A(P):\n"
            "    def f(self): self.b.g()\n",
            {("A.f", "B.g")},
        ),
        (
            "a parameter's annotation",
            "class B:\n    def g(self): pass\ndef f(b: B | None): b.g()\n",
            {("f", "B.g")},
        ),
        (
            "a declared return type",
            "class B:\n    def g(self): pass\ndef make() -> 'B': ...\nmake().g()\n",
            {("m", "make"), ("m", "B.g")},
        ),
        (
            "an inferred return type",
            "class B:\n    def g(self): pass\ndef make():\n    b = B()\n    return b\nmake().g()\n",
            {("make", "B"), ("m", "make"), ("m", "B.g")},
        ),
        (
            "a property's type",
            "class B:\n    def g(self): pass\nclass A:\n    @property\n    def b(self) -> B: ...\n"
            "    @b.setter\n    def b(self, v): ...\n    def f(self): self.b.g()\n",
            {("A.f", "B.g")},
        ),
        (
            "elements of a declared list",
            "class B:\n    def g(self): pass\nclass A:\n    bs: list[B]\n"
            "    def f(self):\n        for b in self.bs: b.g()\n        self.bs[0].g()\n",
            {("A.f", "B.g")},
        ),
        (
            "values of a declared dict",
            "class B:\n    def g(self): pass\ndef f(d: dict[str, B]):\n    for k, b in d.items():\n"
            "        b.g()\n    d.get(1).g()\n    [x.g() for x in d.values()]\n",
            {("f", "B.g")},
        ),
        (
            "with",
            "class B:\n    def __enter__(self): return self\n    def g(self): pass\n"
            "def f():\n    with B() as b:\n        b.g()\n",
            {("f", "B"), ("f", "B.g")},
        ),
        (
            "a context manager function",
            "from contextlib import contextmanager\nclass B:\n    def g(self): pass\n"
            "@contextmanager\ndef made():\n    yield B()\ndef f():\n    with made() as b:\n        b.g()\n",
            {("made", "B"), ("f", "made"), ("f", "B.g")},
        ),
        (
            "isinstance narrows",
            "class B:\n    def g(self): pass\ndef f(x):\n    if isinstance(x, B):\n        x.g()\n",
            {("f", "B.g")},
        ),
        (
            "isinstance narrows no further than its branch",
            "class B:\n    def g(self): pass\nclass C:\n    def g(self): pass\ndef f(x):\n"
            "    if isinstance(x, B):\n        pass\n    else:\n        x.g()\n",
            set(),
        ),
        (
            "both branches",
            "class B:\n    def g(self): pass\nclass C:\n    def g(self): pass\ndef f(a):\n"
            "    if a:\n        x = B()\n    else:\n        x = C()\n    x.g()\n",
            {("f", "B"), ("f", "C"), ("f", "B.g"), ("f", "C.g")},
        ),
        (
            "the last assignment",
            "class B:\n    def g(self): pass\nclass C:\n    def g(self): pass\ndef f():\n"
            "    x = B()\n    x = C()\n    x.g()\n",
            {("f", "B"), ("f", "C"), ("f", "C.g")},
        ),
        (
            "a function passed as an argument is called by its parameter",
            "def run(job): job()\ndef task(): pass\nrun(task)\n",
            {("m", "run"), ("run", "task")},
        ),
        (
            "an object passed as an argument",
            "class B:\n    def g(self): pass\nclass C:\n    def g(self): pass\n"
            "def use(b, k=None): b.g()\nuse(k=1, b=B())\n",
            {("m", "B"), ("m", "use"), ("use", "B.g")},
        ),
        (
            "a decorator and the wrapper it makes",
            "def deco(f):\n    def wrapper(): return f()\n    return wrapper\n"
            "@deco\ndef job(): pass\njob()\n",
            {("m", "deco"), ("m", "job"), ("m", "deco.wrapper"), ("deco.wrapper", "job")},
        ),
        (
            "a decorator with arguments",
            "def deco(n):\n    def inner(f): return f\n    return inner\n@deco(1)\ndef job(): pass\n",
            {("m", "deco"), ("m", "deco.inner")},
        ),
        ("a call in a default", "def g(): pass\ndef f(x=g()): pass\n", {("m", "g")}),
        ("a call in a class body", "def g(): pass\nclass A:\n    x = g()\n", {("A", "g")}),
        ("a method as class attribute", "class A:\n    def f(self): pass\n    h = f\nA().h()\n", {("m", "A"), ("m", "A.f")}),
        ("an instance that is called", "class A:\n    def __call__(self): pass\na = A()\na()\n", {("m", "A"), ("m", "A.__call__")}),
        ("a builtin", "print(1)\nlen([])\n'a'.join([])\n", set()),
        ("a local that is called like a class's method", "class A:\n    def get(self): pass\ndef f(x): x.get()\n", set()),
        ("an alias", "def f(): pass\ng = f\ng()\n", {("m", "f")}),
        ("a global set by a function", "class A:\n    def g(self): pass\nx = None\ndef init():\n    global x\n    x = A()\ndef f(): x.g()\n", {("init", "A"), ("f", "A.g")}),
        ("a lambda's parameter hides", "def g(): pass\nh = lambda g: g()\n", set()),
        ("walrus", "class A:\n    def g(self): pass\nif (a := A()):\n    a.g()\n", {("m", "A"), ("m", "A.g")}),
        ("a cycle of assignments", "def f(x):\n    y = x\n    x = y\n    x.g()\n", set()),
        ("a class that is its own base", "class A(A): pass\nA().f()\n", {("m", "A")}),
        ("bases in a circle", "class A(B): pass\nclass B(A):\n    def f(self): self.f()\n", {("B.f", "B.f")}),
    ],
)  # fmt: skip
def test_calls(title: str, source: str, expected: set[tuple[str, str]]) -> None:
    assert calls(source) == expected


def test_imports_lead_to_definitions() -> None:
    found = edges(
        {
            "src/p/__init__.py": "from .core import *\nfrom .core import f as g\nfrom . import sub\n",
            "src/p/core.py": "__all__ = ['f']\ndef f(): pass\ndef hidden(): pass\n",
            "src/p/sub/__init__.py": "",
            "src/p/sub/deep.py": "from ...p import core\nfrom ..core import f\ncore.f()\nf()\n",
            "use.py": "import p\nimport p.sub.deep\nimport p.core as c\nfrom p import g, sub\n"
            "p.f()\np.g()\nc.f()\ng()\nhidden()\np.core.hidden()\n",
            "star.py": "from p import *\nf()\nhidden()\n",
        }
    )
    assert {pair: edge.lines for pair, edge in found.items()} == {
        ("use", "p.core.f"): (5, 6, 7, 8),
        ("use", "p.core.hidden"): (10,),
        ("p.sub.deep", "p.core.f"): (3, 4),
        ("star", "p.core.f"): (2,),
    }


def test_imports_are_edges_between_modules() -> None:
    sources = {
        "p/__init__.py": "from .a import x\n",
        "p/a.py": "x = 1\nimport os, json\n",
        "p/b.py": "from . import a\nfrom p.a import x\nimport p.a\n",
    }
    found = {pair: edge.lines for pair, edge in edges(sources, "IMPORTS").items()}
    assert found == {("p", "p.a"): (1,), ("p.b", "p.a"): (1, 2, 3)}


@pytest.mark.parametrize(
    "sources",
    [
        {"tests/helper.py": "def f(): pass\n", "tests/test_a.py": "from helper import f\nf()\n"},
        {"backend/app/x.py": "def f(): pass\n", "backend/run.py": "from app.x import f\nf()\n"},
        {
            "backend/app/__init__.py": "",
            "backend/app/x.py": "def f(): pass\n",
            "backend/app/y.py": "from app.x import f\nf()\n",
        },
    ],
)
def test_scripts_find_their_neighbours(sources: dict[str, str]) -> None:
    assert len(edges(sources)) == 1


def test_a_module_named_like_the_standard_librarys_does_not_take_its_calls() -> None:
    sources = {
        "p/__init__.py": "",
        "p/logging.py": "def info(): pass\n",
        "p/a.py": "import logging\nlogging.info()\n",
    }
    assert edges(sources) == {}


def test_try_and_except_imports_are_both_followed() -> None:
    found = calls(
        "try:\n    from fast import f\nexcept ImportError:\n    from slow import f\nf()\n",
        fast="def f(): pass\n",
        slow="def f(): pass\n",
    )
    assert found == {("m", "fast.f"), ("m", "slow.f")}


def test_imports_in_a_circle_end() -> None:
    assert calls("from n import f\nf()\n", n="from m import f\n") == set()
    assert calls("from n import *\nf()\n", n="from m import *\ndef f(): pass\n") == {("m", "n.f")}


def test_hierarchy_edges() -> None:
    sources = {
        "m.py": "class A:\n    def f(self): pass\n    def g(self): pass\n"
        "class B(A): pass\nclass C(B):\n    def f(self): pass\n"
    }
    assert set(edges(sources, "INHERITS")) == {("m.B", "m.A"), ("m.C", "m.B")}
    assert set(edges(sources, "OVERRIDES")) == {("m.C.f", "m.A.f")}


def test_an_abstract_method_may_be_its_overrides() -> None:
    found = edges(
        {
            "m.py": "class A:\n    def f(self): raise NotImplementedError\n    def run(self): self.f()\n"
            "class B(A):\n    def f(self): pass\n"
        }
    )
    assert found["m.A.run", "m.B.f"].resolver == "override"
    assert found["m.A.run", "m.B.f"].confidence < found["m.A.run", "m.A.f"].confidence


def test_tests_validate_what_they_call() -> None:
    sources = {
        "p/__init__.py": "",
        "p/m.py": "def f(): pass\n",
        "tests/test_m.py": "from p.m import f\ndef helper(): f()\ndef test_f():\n    f()\n    helper()\n",
    }
    assert set(edges(sources, "VALIDATED_BY")) == {("p.m.f", "tests.test_m.test_f")}
    labels = {n.id: n.label for part in parts_of(sources) for n in part.nodes}
    assert labels["r:tests.test_m.test_f"] == "Test"
    assert labels["r:tests.test_m.helper"] == "Function"


def test_pytest_fixtures_type_parameters() -> None:
    found = edges(
        {
            "p.py": "class A:\n    def go(self): pass\nclass B:\n    def go(self): pass\n",
            "tests/conftest.py": "import pytest\nfrom p import A\n@pytest.fixture\ndef a():\n    yield A()\n",
            "tests/unit/test_a.py": "def test_go(a): a.go()\n",
        }
    )
    assert ("tests.unit.test_a.test_go", "p.A.go") in found


def test_repeated_calls_keep_their_lines_and_the_surest_rule() -> None:
    edge = edges({"m.py": "def f(): pass\ndef g():\n    f(); f()\n    f()\n"})["m.g", "m.f"]
    assert edge.lines == (3, 3, 4)
    assert edge.resolver == "local"
    assert 0.9 < edge.confidence <= 1


def test_what_is_not_bound_is_counted_by_reason() -> None:
    source = "import requests\ndef f(x):\n    requests.get()\n    x.unknown()\n    len(x)\n    nobody()\n"
    (part,) = parts_of({"m.py": source})
    assert part.unresolved == {
        "builtin": 1,
        "external": 1,
        "unknown name": 1,
        "unknown receiver": 1,
    }


_PROJECT = {
    "p/__init__.py": "from .a import A\nfrom .b import *\n",
    "p/a.py": "from .b import B\nfrom . import c\nclass A(B):\n    def f(self):\n        return c.make(self).g()\n",
    "p/b.py": "from p import c\nclass B:\n    def g(self): return self.f()\n    def f(self): raise TypeError\n",
    "p/c.py": "import p\nfrom .a import A\ndef make(x):\n    x.f()\n    return p.A()\ndef run(cb): cb(make)\n",
    "src/p/c.py": "def make(): pass\n",
    "tests/test_p.py": "from p import A\nfrom p.c import run\ndef test_a():\n    A().f()\n    run(A().g)\n",
}


@given(st.permutations(sorted(_PROJECT)))
@settings(max_examples=40, deadline=None)
def test_the_order_of_files_changes_nothing(paths: list[str]) -> None:
    assert _bytes({path: _PROJECT[path] for path in paths}) == _bytes(_PROJECT)


def _bytes(sources: Mapping[str, str]) -> list[tuple[str, bytes, bytes, Mapping[str, int]]]:
    return [
        (p.path, encode_nodes(p.nodes), encode_edges(p.edges), p.unresolved)
        for p in parts_of(sources)
    ]


_LINES = (
    "import p{n}|from p{n} import *|from p{n} import f, A as B|from . import p{n}|class A(B):|"
    "class B(p{n}.A):|    def f(self):|        self.f().g()|        return self|def f(x):|"
    "    x = f(x)|    return x.f(A)|    x = p{n}.f|A = f(B)|B = A().f|f(f)|@f|@p{n}.f()|"
    "def g(y: 'A'): return y.f()|x: list[A] = f()|for A in x: A.f()|    yield x|    global A|"
    "        super().f()|with f() as B: B.f()"
)


@given(st.integers(min_value=0, max_value=10**9))
@settings(max_examples=60, deadline=None)
def test_any_tangle_of_files_resolves(seed: int) -> None:
    chance = random.Random(seed)
    lines = _LINES.split("|")
    sources = {
        f"p{n}.py": "\n".join(
            chance.choice(lines).format(n=chance.randrange(4)) for _ in range(chance.randrange(30))
        )
        for n in range(4)
    }
    first = _bytes(sources)
    assert first == _bytes(dict(reversed(sources.items())))
    ids = Counter(node.id for part in parts_of(sources) for node in part.nodes)
    assert max(ids.values()) == 1
    for part in parts_of(sources):
        for edge in part.edges:
            assert edge.target in ids
            assert edge.source in ids or edge.source == "r:"
            assert list(edge.lines) == sorted(edge.lines)
            assert 0 < edge.confidence <= 1


def test_long_chains_of_modules_and_names_end() -> None:
    sources = {f"m{i}.py": f"from m{i + 1} import f\n" for i in range(300)}
    sources["m300.py"] = "def f(): pass\n"
    sources["use.py"] = "from m0 import f\nf()\n"
    parts_of(sources)
    names = "".join(f"x{i} = x{i - 1}\n" for i in range(1, 3000))
    parts_of({"m.py": f"def x0(): pass\n{names}x2999()\n"})
    classes = "".join(f"class C{i}(C{i - 1}): pass\n" for i in range(1, 1500))
    parts_of({"m.py": f"class C0:\n    def f(self): pass\n{classes}C1499().f()\n"})
