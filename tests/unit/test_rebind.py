"""Binding after edits equals binding anew, in each language that binds calls.

`python -m benchmarks.rebind DIR --rounds 300` does the same with the sources of a real project.
"""

from __future__ import annotations

import random

import pytest

from benchmarks.rebind import EDITS, Incremental, Tree, differing
from etl.facts import FileFacts
from etl.languages import extractor, language_of
from etl.languages.names import module_name
from etl.resolve import Bindings, resolve

PYTHON = {
    "pkg/__init__.py": "from .base import *\nfrom .child import Child as Kid\n__all__ = ['Base', 'Kid']\n",
    "pkg/base.py": (
        "from pkg import child\n\nclass Base:\n    def __init__(self, other=None):\n"
        "        self.other = other or child.Child(self)\n\n    def run(self):\n"
        "        return self.other.run() or self.step()\n\n    def step(self):\n"
        "        raise NotImplementedError\n\n\ndef make(cls):\n    return cls()\n"
    ),
    "pkg/child.py": (
        "from pkg.base import Base, make\n\nclass Child(Base):\n    def step(self):\n"
        "        return helper(self)\n\n    def rest(self):\n        return super().run()\n\n\n"
        "def helper(one):\n    one.rest()\n    return make(Child).run()\n"
    ),
    "pkg/sub/__init__.py": "",
    "pkg/sub/deco.py": (
        "def logged(f):\n    def inner(*a):\n        return f(*a)\n    return inner\n\n\n"
        "class Meta(type):\n    def named(cls):\n        return cls\n"
    ),
    "pkg/sub/use.py": (
        "import pkg\nfrom ..base import make\nfrom .deco import logged, Meta\n\n"
        "class Third(pkg.Kid, metaclass=Meta):\n    @logged\n    def step(self):\n"
        "        return [each.run() for each in (self, make(pkg.Base))]\n\n\n"
        "def loop(x):\n    y = loop(x)\n    return y.run() or x.rest()\n\n\nloop(Third())\n"
    ),
    "scripts/tool.py": "from deco import logged\nfrom base import Base\n\n@logged\ndef main():\n    Base().run()\n",
    "tests/conftest.py": "import pytest\nfrom pkg import Kid\n\n@pytest.fixture\ndef kid():\n    return Kid()\n",
    "tests/test_all.py": "def test_run(kid):\n    assert kid.run()\n    kid.step()\n",
}
SCRIPTS = {
    "web/a.ts": (
        "import { B, make, type Shape } from './b';\nimport * as all from './index';\n"
        "export class A extends B {\n  held: Shape;\n  run() { return this.step() || this.held.area(); }\n}\n"
        "export function go() { return make().run() || all.deep.inner(); }\n"
    ),
    "web/b.ts": (
        "export * from './c';\nexport { go as gone } from './a';\n"
        "export interface Shape { area(): number }\nexport type Kind = Shape;\n"
        "export class B { step() { return 1; } run(): this { return this; } }\n"
        "export function make() { return new B(); }\nexport function shaped(): Kind { return null; }\n"
    ),
    "web/c.js": (
        "import { go, shaped } from './b';\nexport function c() { return go() || shaped().area(); }\n"
        "export const deep = { inner() { return c(); }, more: { c } };\n"
    ),
    "web/index.ts": "export * from './b';\nexport * from './c';\nexport { A as default } from './a';\n",
    "web/old/main.js": (
        "const lib = require('../lib');\nfunction Point(x) { this.x = x; }\n"
        "Point.prototype.move = function () { return lib.twice(this.x); };\n"
        "new Point(1).move();\nlib.more.once();\nmodule.exports = Point;\n"
    ),
    "web/lib/index.js": (
        "exports.twice = function (x) { return x; };\nexports.more = { once() { return 1; } };\n"
    ),
    "web/view.tsx": (
        "import A, { shaped } from '.';\nimport Point from './old/main';\n"
        "export const View = () => <Inner a={new A()} />;\n"
        "function Inner() { const p = new Point(2); p.move(); return shaped().area(); }\n"
    ),
}
JAVA = {
    "src/main/java/x/One.java": (
        "package x;\nimport x.y.*;\npublic class One implements Shape {\n  Inner held = new Inner();\n"
        "  public int run(int a) { return new Two().twice(a) + held.deep().area(); }\n"
        "  public int run(String s) { return Tools.help(s); }\n  public int area() { return run(1); }\n"
        "  public static class Inner { public Shape deep() { return null; } }\n}\n"
    ),
    "src/main/java/x/Two.java": (
        "package x;\nclass Two extends One {\n  public int twice(int a) { return run(a) + super.run(a); }\n"
        "  public int area() { return new One.Inner().deep().area(); }\n}\n"
    ),
    "src/main/java/x/y/Shape.java": "package x.y;\npublic interface Shape {\n  public int area();\n}\n",
    "src/main/java/x/y/Tools.java": (
        "package x.y;\nimport x.One;\npublic class Tools {\n"
        "  public static int help(Object o) { return with(new One()); }\n"
        "  public static int help(Shape s) { return s.area(); }\n"
        "  public static int with(Shape s) { return help(s); }\n}\n"
    ),
    "src/main/java/z/User.java": (
        "package z;\nimport static x.y.Tools.help;\nimport static x.y.Tools.*;\nimport x.y.Shape;\nimport x.One;\n"
        "public class User {\n  private final One one;\n  public User(One one) { this.one = one; }\n"
        "  public int all(Shape s) { return help(s) + with(one) + one.held.deep().area(); }\n"
        "  public x.y.Shape made() { return x.y.Tools.help(one) > 0 ? one : null; }\n}\n"
    ),
    "src/test/java/z/UserTest.java": (
        "package z;\nimport org.junit.Test;\nimport x.*;\npublic class UserTest {\n"
        "  @Test public void runs() { new User(new One()).made().area(); }\n}\n"
    ),
}
GO = {
    "go/a/a.go": (
        'package a\n\nimport (\n\t"m.io/go/b"\n\tother "m.io/go/c"\n)\n\n'
        "type A struct {\n\tb.T\n\theld *other.C\n}\n\n"
        "func Do(a *A) { b.B().Run(); a.Run(); a.held.Go().Run(); local() }\n"
    ),
    "go/a/more.go": "package a\n\nfunc local() { made.Run() }\n\nfunc (a *A) Own() { a.T.Run() }\n",
    "go/a/a_test.go": (
        'package a_test\n\nimport (\n\t. "m.io/go/a"\n\t"testing"\n)\n\n'
        "func TestDo(t *testing.T) { Do(&A{}); x := A{}; x.Own() }\n"
    ),
    "go/a/value.go": 'package a\n\nimport "m.io/go/b"\n\nvar made = b.B()\n',
    "go/b/b.go": "package b\n\ntype T struct{}\n\nfunc (t T) Run() {}\n\nfunc B() T { return T{} }\n",
    "go/b/alias.go": "package b\n\ntype Same = T\n\ntype Many []T\n\nfunc All(m Many) { m[0].Run() }\n",
    "go/c/c.go": (
        'package c\n\nimport "m.io/go/b"\n\ntype C struct{ b.Same }\n\n'
        "func (c *C) Go() b.Same { return c.Same }\n\ntype Runner interface {\n\tRun()\n}\n\n"
        "func Each(r Runner) { r.Run() }\n"
    ),
}
DECLARED = {
    "lib/x.rb": "class X\n  def a\n  end\nend\n",
    "lib/y.rb": "class Y < X\nend\n\nmodule In\n  class Z < Y\n  end\nend\n",
    "lib/z.rb": "class W < In::Z\nend\n",
    "lib/base.cs": "namespace N { class Base { } class Other : Base { } }\n",
    "lib/child.cs": "namespace N { class Child : Base { } }\n",
}
FAMILIES = {"scripts": SCRIPTS, "java": JAVA, "go": GO, "declared": DECLARED}


@pytest.mark.parametrize("seed", range(20))
def test_edited_python_equals_clean(seed: int) -> None:
    edit(PYTHON, seed, rounds=6)


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("family", FAMILIES)
def test_an_edited_family_equals_clean(family: str, seed: int) -> None:
    edit(FAMILIES[family], seed, rounds=8)


@pytest.mark.parametrize("seed", range(6))
def test_edited_trees_of_many_languages_equal_clean(seed: int) -> None:
    edit(PYTHON | SCRIPTS | JAVA | GO | DECLARED, seed, rounds=5)


def edit(files: dict[str, str], seed: int, rounds: int) -> None:
    rng = random.Random(seed)
    tree = Tree(files)
    incremental = Incremental(tree)
    assert differing(incremental, tree) == []
    for _ in range(rounds):
        names, touched = [], set[str]()
        for _ in range(rng.choice((1, 1, 2, 4))):
            each = rng.choice(EDITS)
            names.append(each.__name__)
            touched |= each(rng, tree.files, rng.choice(sorted(tree.files)))
        incremental.update(*tree.refresh(touched))
        assert differing(incremental, tree) == [], names


def facts(path: str, text: str) -> FileFacts:
    language = language_of(path)
    return extractor(language).extract(text.encode(), path, module_name(path, language))


def updated(changed: dict[str, str], *, before: dict[str, str]) -> set[str]:
    """The files that are bound again after a change."""
    bindings = Bindings("r")
    for path in bindings.update({path: facts(path, text) for path, text in before.items()}, ()):
        bindings.part(path)
    return bindings.update({path: facts(path, text) for path, text in changed.items()}, ())


def test_a_change_inside_a_body_binds_only_its_file() -> None:
    before = {"a.py": "def f():\n    return 1\n", "b.py": "from a import f\n\nf()\n"}
    assert updated({"a.py": "\n\ndef f():\n    print(2)\n    return 1\n"}, before=before) == {
        "a.py"
    }


def test_what_a_function_returns_reaches_those_who_use_it() -> None:
    before = {
        "a.py": "class A:\n    def go(self): ...\n\nclass B:\n    def go(self): ...\n\ndef f():\n    return A()\n",
        "b.py": "from a import f\n\nf().go()\n",
        "c.py": "from a import A\n\nA().go()\n",
    }
    after = before["a.py"].replace("return A()", "return B()")
    assert updated({"a.py": after}, before=before) == {"a.py", "b.py"}


def test_a_name_that_was_missing_is_found_when_it_comes() -> None:
    before = {"b.py": "from a import f\n\nf()\n", "c.py": "def g(): ...\n"}
    assert updated({"a.py": "def f(): ...\n"}, before=before) == {"a.py", "b.py"}


def test_a_chain_of_many_functions_is_bound_to_its_end() -> None:
    """Each gives what the next one gives: questions wait for one another five thousand deep."""
    count = 5_000
    lines = [f"def f{i}():\n    return f{i + 1}()\n" for i in range(count)]
    source = "class End:\n    def go(self): ...\n\n" + "".join(lines)
    source += f"def f{count}():\n    return End()\n\nf0().go()\n"
    (part,) = resolve("r", [facts("m.py", source)])
    assert any(e.source == "r:m" and e.target == "r:m.End.go" for e in part.edges)


@pytest.mark.parametrize(
    ("before", "changed", "again"),
    [
        pytest.param(
            SCRIPTS, ("web/b.ts", "return 1;", "\n\nreturn 2;"), set(), id="script: a body"
        ),
        pytest.param(
            SCRIPTS,
            ("web/b.ts", "make() { return new B()", "make(): Shape { return null"),
            {"web/a.ts"},
            id="script: a result",
        ),
        pytest.param(
            SCRIPTS,
            ("web/lib/index.js", "exports.more =", "exports.less ="),
            {"web/old/main.js"},
            id="script: a member that is gone",
        ),
        pytest.param(
            SCRIPTS,
            ("web/lib.ts", None, "export function twice() {}"),
            {"web/old/main.js"},
            id="script: a file that comes before the one that was found",
        ),
        pytest.param(
            JAVA,
            ("src/main/java/x/One.java", "return run(1)", "\n\nreturn run(2)"),
            set(),
            id="java: a body",
        ),
        pytest.param(
            JAVA,
            ("src/main/java/x/One.java", "Shape deep()", "Two deep()"),
            {"src/main/java/x/Two.java", "src/main/java/z/User.java"},
            id="java: a result",
        ),
        pytest.param(
            JAVA,
            ("src/main/java/x/y/Tools.java", "int with(Shape", "int within(Shape"),
            {"src/main/java/z/User.java"},
            id="java: a static member of a wildcard",
        ),
        pytest.param(
            JAVA,
            ("src/main/java/w/New.java", None, "package w;\nclass New {}\n"),
            set(),
            id="java: a class that nobody names",
        ),
        pytest.param(
            JAVA,
            ("Script.java", None, "class Script {}\n"),
            set(),
            id="java: the first class without a package",
        ),
        pytest.param(
            JAVA,
            ("src/main/java/z/Shape.java", None, "package z;\nclass Shape {}\n"),
            {"src/main/java/z/User.java", "src/main/java/x/y/Tools.java"},
            id="java: another class of a name",
        ),
        pytest.param(GO, ("go/b/b.go", "Run() {}", "Run() {\n\n}"), set(), id="go: a body"),
        pytest.param(
            GO,
            ("go/c/c.go", "Go() b.Same", "Go() *C"),
            {"go/a/a.go"},
            id="go: a result",
        ),
        pytest.param(
            GO,
            ("go/a/value.go", "b.B()", "b.Same{}"),
            {"go/a/more.go"},
            id="go: a value of the package",
        ),
        pytest.param(
            GO,
            ("go/b/new.go", None, "package b\n\nfunc New() {}\n"),
            {"go/a/a.go", "go/a/value.go", "go/c/c.go"},  # which import the package, file by file
            id="go: a file of an imported package",
        ),
        pytest.param(
            DECLARED, ("lib/x.rb", "def a", "def b"), set(), id="declared: no type has changed"
        ),
        pytest.param(
            DECLARED,
            ("lib/x.rb", "class X", "class Q"),
            {"lib/y.rb"},
            id="declared: a base that is gone",
        ),
    ],
)
def test_what_is_bound_again(
    before: dict[str, str], changed: tuple[str, str | None, str], again: set[str]
) -> None:
    path, old, new = changed
    assert old is None or old in before[path]
    after = new if old is None else before[path].replace(old, new)
    assert updated({path: after}, before=before) == {path} | again


def test_a_file_whose_part_nobody_asked_for_is_still_to_be_bound() -> None:
    bindings = Bindings("r")
    bindings.update({path: facts(path, text) for path, text in GO.items()}, ())
    assert bindings.update({"go/b/b.go": facts("go/b/b.go", GO["go/b/b.go"])}, ()) == set(GO)


def test_a_wildcards_package_comes_below_which_another_was_there() -> None:
    before = {
        "m/Main.java": "package m;\nimport com.a.*;\nclass Main {}\n",
        "com/a/b/Deep.java": "package com.a.b;\npublic class Deep {}\n",
    }
    new = {"com/a/Foo.java": "package com.a;\npublic class Foo {}\n"}
    assert updated(new, before=before) == {"com/a/Foo.java", "m/Main.java"}


def test_a_package_goes_below_which_another_stays() -> None:
    tree = Tree(
        {
            "m/Main.java": "package m;\nimport c.*;\nclass Main {}\n",
            "c/Only.java": "package c;\npublic class Only {}\n",
            "c/d/Deep.java": "package c.d;\npublic class Deep {}\n",
            "c.java": "public class c { public static class Inner {} }\n",
        }
    )
    incremental = Incremental(tree)
    del tree.files["c/Only.java"]
    incremental.update(*tree.refresh({"c/Only.java"}))
    assert differing(incremental, tree) == []
