"""Binding after edits equals binding anew, in each language that binds calls.

`python -m benchmarks.rebind DIR --rounds 300` does the same with the sources of a real project.
"""

from __future__ import annotations

import random

import pytest

from benchmarks.rebind import EDITS, Incremental, Tree, differing
from etl.facts import FileFacts
from etl.languages import extractor
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
OTHERS = {
    "web/a.ts": (
        "import { B, make } from './b';\nexport class A extends B {\n  run() { return this.step(); }\n}\n"
        "export function go() { return make().run(); }\n"
    ),
    "web/b.ts": (
        "export * from './c';\nexport class B { step() { return 1; } }\n"
        "export function make() { return new B(); }\n"
    ),
    "web/c.js": "import { go } from './a';\nexport function c() { return go(); }\n",
    "src/x/One.java": (
        "package x;\npublic class One {\n  int run(int a) { return new Two().twice(a); }\n"
        "  int run(String s) { return 0; }\n}\n"
    ),
    "src/x/Two.java": (
        "package x;\nclass Two extends One {\n  int twice(int a) { return run(a) + super.run(a); }\n}\n"
    ),
    "go/a/a.go": 'package a\n\nimport "m.io/go/b"\n\nfunc A() { b.B().Run() }\n',
    "go/b/b.go": "package b\n\ntype T struct{}\n\nfunc (t T) Run() {}\n\nfunc B() T { return T{} }\n",
    "lib/x.rb": "class X\n  def a\n  end\nend\n",
    "lib/y.rb": "class Y < X\nend\n",
}


@pytest.mark.parametrize("seed", range(20))
def test_edited_python_equals_clean(seed: int) -> None:
    edit(PYTHON, seed, rounds=6)


@pytest.mark.parametrize("seed", range(6))
def test_edited_trees_of_many_languages_equal_clean(seed: int) -> None:
    edit(PYTHON | OTHERS, seed, rounds=5)


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
    return extractor("python").extract(text.encode(), path, module_name(path, "python"))


def updated(changed: dict[str, str], *, before: dict[str, str]) -> set[str]:
    """The files that are bound again after a change."""
    bindings = Bindings("r")
    bindings.update({path: facts(path, text) for path, text in before.items()}, ())
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
