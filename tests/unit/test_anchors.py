"""What a text names in code: traces, diffs, paths with lines, tests, symbols, issues."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.ports import Spot
from plait.retrieval.query.analysis import identifiers
from plait.retrieval.query.code_references import (
    MAX_HUNKS,
    MAX_PATHS,
    AnchorKind,
    Anchors,
    changed,
    find_references,
    own_path,
)
from plait.text.diff import Hunk

DIFF = """\
Handle empty keys

diff --git a/src/app/core.py b/src/app/core.py
--- a/src/app/core.py
+++ b/src/app/core.py
@@ -10,5 +10,6 @@ def load(key):
     a = 1
     b = 2
-    return store[key]
+    if not key:
+        return None
     c = 3
     d = 4
@@ -40,2 +41,3 @@ def dump():
 x = 1
+y = 2
 z = 3
"""
TRACE = """\
Loading fails:
Traceback (most recent call last):
  File "/home/ci/src/app/core.py", line 12, in load
    return store[key]
  File "/usr/lib/python3.11/site-packages/lib/store.py", line 5, in __getitem__
    raise KeyError(key)
KeyError: ''
"""


def named(text: str, kind: AnchorKind, attached: str = "") -> list[Spot]:
    found = find_references(text, attached, identifiers(text))
    return [anchor.spot for anchor in found.places if anchor.kind is kind]


@pytest.mark.parametrize(
    ("text", "spots"),
    [
        ("see src/app/core.py for it", [Spot("src/app/core.py")]),
        ("in core.py:12", [Spot("core.py", "", 12, 12)]),
        ("at ./core.py:12-20.", [Spot("core.py", "", 12, 20)]),
        ("(src/a.ts#L3-L9)", [Spot("src/a.ts", "", 3, 9)]),
        ("src\\win\\a.cs, line 7", [Spot("src/win/a.cs", "", 7, 7)]),
        ("/usr/lib/python3/dist-packages/requests/api.py", [Spot("requests/api.py")]),
        ("/opt/node_modules/pkg/index.js:1", [Spot("pkg/index.js", "", 1, 1)]),
        ("`src/a.py`, \"b/c.go\" and 'd.rs'", [Spot("src/a.py"), Spot("b/c.go"), Spot("d.rs")]),
        ("src/a.c:10:5: error: expected", [Spot("src/a.c", "", 10, 10)]),
        (
            "https://github.com/o/r/blob/main/src/a.py#L10-L12",
            [Spot("src/a.py", "", 10, 12)],
        ),
        ("https://example.org/docs/index.html", []),
        ("Node.js and e.g. this, version 1.2.py3", []),
        ("and/or, 1/2, TCP/IP", []),
    ],
)
def test_paths(text: str, spots: list[Spot]) -> None:
    assert named(text, AnchorKind.PATH) == spots


@pytest.mark.parametrize(
    ("text", "spots"),
    [
        ("QuerySet.get fails", [Spot("", "QuerySet.get")]),
        ("`self.load_all()` fails", [Spot("", "load_all")]),
        ("df.to_csv loses it", [Spot("", "df.to_csv"), Spot("", "to_csv")]),
        ("it is slow", []),
        ("setup.py runs", []),
    ],
)
def test_symbols(text: str, spots: list[Spot]) -> None:
    assert named(text, AnchorKind.SYMBOL) == spots


@pytest.mark.parametrize(
    ("text", "spots"),
    [
        ("tests/test_a.py::TestB::test_c[1-x] fails", [Spot("tests/test_a.py", "TestB.test_c")]),
        ("FAIL: test_c (tests.test_a.TestB)", [Spot("", "tests.test_a.TestB.test_c")]),
        ("std::vec::Vec", []),
    ],
)
def test_tests(text: str, spots: list[Spot]) -> None:
    assert named(text, AnchorKind.TEST) == spots


@pytest.mark.parametrize(
    ("printed", "own"),
    [
        ("./a/b.py", "a/b.py"),
        ("C:/build/a.cs", "/build/a.cs"),
        ("/x/site-packages/p/q.py", "p/q.py"),
        ("/home/ci/go/pkg/mod/github.com/a/b@v1.2.3/c.go", "github.com/a/b/c.go"),
        ("/usr/lib/python3.11/json/decoder.py", "json/decoder.py"),
        ("/usr/lib/python3.11/threading.py", ""),
        ("<frozen importlib._bootstrap>", ""),
        ("node:internal/process/task_queues", ""),
        ("", ""),
    ],
)
def test_where_other_peoples_code_is_installed(printed: str, own: str) -> None:
    assert own_path(printed) == own


def test_a_diff_names_the_lines_it_changes_in_the_old_file() -> None:
    for found in (find_references(DIFF), find_references("Handle empty keys", DIFF)):
        assert found.is_diff
        assert not found.is_trace
        assert [a.spot for a in found.places if a.kind is AnchorKind.HUNK] == [
            Spot("src/app/core.py", "", 12, 12),
            Spot("src/app/core.py", "", 40, 40),
        ]
        assert "Handle empty keys" in found.prose
        assert "@@" not in found.prose
        assert found.subject.startswith("src/app/core.py\nreturn store[key]\nif not key:")


def test_lines_only_added_belong_to_the_line_above() -> None:
    assert changed(Hunk(5, 2, 5, 4, "", (" a", "+b", "+c", " d"))) == (5, 5)
    assert changed(Hunk(5, 3, 5, 2, "", (" a", "-b", "-c"))) == (6, 7)
    assert changed(Hunk(0, 0, 1, 1, "", ("+a",))) == (1, 1)


def test_a_trace_names_frames_and_errors() -> None:
    found = find_references(TRACE)
    assert found.is_trace
    assert [(a.kind, a.spot.path, a.spot.symbol) for a in found.places] == [
        (AnchorKind.FRAME, "lib/store.py", "__getitem__"),
        (AnchorKind.FRAME, "/home/ci/src/app/core.py", "load"),
        (AnchorKind.SYMBOL, "", "KeyError"),
    ]
    assert found.places[0].weight > found.places[1].weight
    assert found.errors == ("KeyError: ''",)
    assert found.prose == "Loading fails:\nKeyError: ''"
    assert found.subject == "KeyError: ''"
    assert found.functions == ("__getitem__", "load")


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("KeyError: 'x' when loading", ("KeyError: 'x' when loading",)),
        ("it says\nE   app.errors.LoadError: gone\nsince then", ("LoadError: gone",)),
        ("panic: index out of range", ("index out of range",)),
        ("raise an Error if the Exception is lost", ()),
    ],
)
def test_errors_without_a_trace(text: str, errors: tuple[str, ...]) -> None:
    assert find_references(text).errors == errors


def test_an_attachment_alone_is_read_once() -> None:
    assert find_references(TRACE, TRACE) == find_references(TRACE)


def test_issues_that_a_text_names() -> None:
    assert find_references("fixes #12 as owner/repo#3 does").issues == ("#12", "owner/repo#3")
    assert find_references("nothing here").issues == ()


def test_plain_words_name_nothing() -> None:
    assert find_references("how does the scheduler pick a job?") == Anchors(
        prose="how does the scheduler pick a job?"
    )


def test_a_text_that_names_everything_is_cut() -> None:
    many = " ".join(f"src/file{n}.py:3" for n in range(1_000))
    assert len(named(many, AnchorKind.PATH)) == MAX_PATHS
    hunks = "".join(
        f"--- a/f{n}.py\n+++ b/f{n}.py\n@@ -1 +1 @@\n-a\n+b\n" for n in range(MAX_HUNKS + 50)
    )
    assert len(named(hunks, AnchorKind.HUNK)) == MAX_HUNKS


@given(st.text(alphabet=st.sampled_from("a./\\:#L12 ()`@-+\n\"'<>[]é"), max_size=300))
def test_any_text_is_read(text: str) -> None:
    found = find_references(text, "", identifiers(text))
    assert all(anchor.spot.path or anchor.spot.symbol for anchor in found.places)
    assert all(0.0 < anchor.weight <= 1.0 for anchor in found.places)
    assert len({anchor.spot for anchor in found.places}) == len(found.places)
