"""Diffs of every make to files and hunks, and any text at all without harm."""

from __future__ import annotations

import difflib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.diff import MAX_HUNKS, Diff, FileDiff, parse_diff, touched

GIT = """\
From 3f2c9ab Mon Sep 17 00:00:00 2001
Subject: [PATCH] Fix only()

Fixes #12
---
 a.py | 2 +-
 1 file changed

diff --git a/pkg/a.py b/pkg/a.py
index 111..222 100644
--- a/pkg/a.py
+++ b/pkg/a.py
@@ -1,3 +1,3 @@ class Query:
 one
-two
+TWO
 three
@@ -10 +10,2 @@ def only(self):
 ten
+eleven
diff --git a/old name.py b/new name.py
similarity index 90%
rename from old name.py
rename to new name.py
--- a/old name.py
+++ b/new name.py
@@ -1 +1 @@
-x
+y
\\ No newline at end of file
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1,2 +0,0 @@
-a
--- b
diff --git a/empty.py b/empty.py
new file mode 100644
index 000..e69
diff --git a/run.sh b/run.sh
old mode 100644
new mode 100755
diff --git a/logo.png b/logo.png
index 1..2 100644
Binary files a/logo.png and b/logo.png differ
diff --git "a/caf\\303\\251 \\"x\\".py" "b/caf\\303\\251 \\"x\\".py"
--- "a/caf\\303\\251 \\"x\\".py"
+++ "b/caf\\303\\251 \\"x\\".py"
@@ -1 +1 @@
-1
+2
--\x20
2.40.0

"""


def shape(diff: Diff) -> list[tuple[str, str, str, int]]:
    return [(f.old, f.new, f.status, len(f.hunks)) for f in diff.files]


def test_a_git_mail_with_every_kind_of_change() -> None:
    diff = parse_diff(GIT)
    assert shape(diff) == [
        ("pkg/a.py", "pkg/a.py", "modified", 2),
        ("old name.py", "new name.py", "renamed", 1),
        ("gone.py", "", "deleted", 1),
        ("", "empty.py", "added", 0),
        ("run.sh", "run.sh", "mode", 0),
        ("logo.png", "logo.png", "modified", 0),
        ('café "x".py', 'café "x".py', "modified", 1),
    ]
    assert diff.problems == 0
    assert "Fixes #12" in diff.prose
    first, second = diff.files[0].hunks
    assert (first.heading, second.heading) == ("class Query:", "def only(self):")
    assert (second.old_start, second.old_lines, second.new_start, second.new_lines) == (
        10,
        1,
        10,
        2,
    )
    assert first.before() == ["one", "two", "three"]
    assert first.after() == ["one", "TWO", "three"]
    assert diff.files[2].hunks[0].before() == ["a", "-- b"]
    assert diff.files[5].binary


PATHS = [
    ("--- a/x.py\n+++ b/x.py\n", ("x.py", "x.py")),
    ("--- x.py\t2026-01-01 10:00\n+++ x.py\t2026-01-02\n", ("x.py", "x.py")),
    ("--- a/x.py\n+++ a/x.py\n", ("a/x.py", "a/x.py")),
    ("--- i/x.py\n+++ w/x.py\n", ("x.py", "x.py")),
    ("--- /dev/null\n+++ b/x.py\n", ("", "x.py")),
    ("--- a/x.py\n+++ /dev/null\n", ("x.py", "")),
    ("--- ./x.py\n+++ ./x.py\n", ("x.py", "x.py")),
    ("Index: x.py\n=====\n--- x.py\t(revision 1)\n+++ x.py\t(working copy)\n", ("x.py", "x.py")),
    ("diff --git a/x b/y z.py b/x b/y z.py\n", ("x b/y z.py", "x b/y z.py")),
    ("--- a/x.py\r\n+++ b/x.py\r\n", ("x.py", "x.py")),
    ('--- "a/t\\tb"\n+++ "b/t\\tb"\n', ("t\tb", "t\tb")),
]


@pytest.mark.parametrize(("names", "paths"), PATHS, ids=[n for n, _ in PATHS])
def test_paths(names: str, paths: tuple[str, str]) -> None:
    (file,) = parse_diff(f"{names}@@ -1 +1 @@\n-a\n+b\n").files
    assert (file.old, file.new) == paths


def test_a_merge_is_named_and_not_read() -> None:
    text = (
        "diff --cc m.py\nindex 1,2..3\n--- a/m.py\n+++ b/m.py\n@@@ -1,1 -1,1 +1,2 @@@\n++both\n"
        "diff --git a/n.py b/n.py\n--- a/n.py\n+++ b/n.py\n@@ -1 +1 @@\n-a\n+b\n"
    )
    assert shape(parse_diff(text)) == [
        ("m.py", "m.py", "combined", 0),
        ("n.py", "n.py", "modified", 1),
    ]


def test_counts_that_an_agent_got_wrong_are_mended_and_counted() -> None:
    text = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n+d\n e\n@@ -9,9 +9,9 @@\n f\n-g\n"
    diff = parse_diff(text)
    first, second = diff.files[0].hunks
    assert (first.before(), first.after()) == (["a", "b", "e"], ["a", "c", "d", "e"])
    assert (second.old_lines, second.new_lines) == (2, 1)
    assert diff.problems == 2


def test_prose_round_a_diff_is_no_hunk() -> None:
    text = "Plan:\n--- first\n- one\n```diff\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n```\n- list\n+ more\n"
    diff = parse_diff(text)
    assert shape(diff) == [("x", "x", "modified", 1)]
    assert diff.files[0].hunks[0].lines == ("-a", "+b")
    assert "- list" in diff.prose
    assert diff.problems == 0


def test_crlf_and_trimmed_blank_lines() -> None:
    text = "--- a/x\r\n+++ b/x\r\n@@ -1,3 +1,3 @@\r\n a\r\n\r\n-b\r\n+c\r\n"
    (hunk,) = parse_diff(text).files[0].hunks
    assert hunk.lines == (" a\r", " \r", "-b\r", "+c\r")


def test_several_commits_of_one_path_are_one_file() -> None:
    one = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
    assert shape(touched(parse_diff(one + "\n" + one))) == [("x", "x", "modified", 2)]


@pytest.mark.parametrize(
    "piece",
    ["@@ -1 +1 @@\n", "--- a\n", "--- a\n+++ b\n", "+\n", " \n", "\\\n", 'diff --git "a', "diff --cc x\n"],
)  # fmt: skip
def test_long_repeats_end(piece: str) -> None:
    parse_diff("--- a/x\n+++ b/x\n@@ -1 +1 @@\n" + piece * (1_000_000 // len(piece)))


def test_hunks_are_bounded() -> None:
    diff = parse_diff("--- a/x\n+++ b/x\n" + "@@ -1 +1 @@\n-a\n+b\n" * (MAX_HUNKS + 5))
    assert len(diff.files[0].hunks) == MAX_HUNKS
    assert diff.problems == 5


line = st.text(st.characters(exclude_characters="\n\r", codec="utf-8"), max_size=12)
files = st.lists(
    st.one_of(line, st.sampled_from(["--- a", "+++ b", "@@ -1 +1 @@", "-- ", ""])), max_size=30
)


def apply(old: list[str], file: FileDiff) -> list[str]:
    out, at = [], 0
    for hunk in file.hunks:
        start = hunk.old_start - 1 if hunk.old_lines else hunk.old_start
        out += old[at:start]
        assert old[start : start + hunk.old_lines] == hunk.before()
        out += hunk.after()
        at = start + hunk.old_lines
    return out + old[at:]


@given(files, files, st.integers(0, 3))
def test_what_difflib_writes_is_read_back(old: list[str], new: list[str], context: int) -> None:
    written = list(difflib.unified_diff(old, new, "a/f", "b/f", lineterm="", n=context))
    diff = parse_diff("\n".join(["some words", *written, "diff --git a/z b/z", ""]))
    assert diff.problems == 0
    if old == new:
        assert [f.path for f in diff.files] == ["z"]
    else:
        assert apply(old, diff.files[0]) == new
        assert diff.files[0].path == "f"


@given(st.text(st.sampled_from('@- +ab/1,\n\\"dif\tg\r'), max_size=300))
def test_any_text_is_read(text: str) -> None:
    for file in parse_diff(text).files:
        assert file.path
        for hunk in file.hunks:
            assert hunk.old_lines == len(hunk.before())
            assert hunk.new_lines == len(hunk.after())


@given(st.data())
def test_any_piece_of_a_diff_is_read(data: st.DataObject) -> None:
    start = data.draw(st.integers(0, len(GIT)))
    end = data.draw(st.integers(start, len(GIT)))
    parse_diff(GIT[start:end])
