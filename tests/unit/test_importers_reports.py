"""JUnit XML, diffs and mails of many programs: what comes of each."""

from __future__ import annotations

import io

import pytest

from etl.ingest.importers import registry
from etl.ingest.importers.draft import Options
from etl.ingest.importers.unified import split
from plait.domain.values import ArtifactKind, Episode
from plait.text.diff import parse_diff
from plait.text.test_names import parse_name


def read(text: str | bytes, name: str = "x", repo: str = "app") -> list[Episode]:
    data = text.encode() if isinstance(text, str) else text
    format_ = registry.detect(data[:65536], name)
    out = []
    for one in registry.read_all(io.BytesIO(data), name, format_, Options(repo=repo)):
        assert one.episode is not None, one.error
        out.append(one.episode)
    return out


def results_of(episode: Episode) -> list[tuple[str, str]]:
    return [
        (t["name"], t["status"])
        for a in episode.artifacts
        if a.kind is ArtifactKind.TEST_RESULT
        for t in a.meta["tests"]
    ]


PYTEST = """<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest"
errors="0" failures="1" skipped="1" tests="3" time="0.5" timestamp="2026-03-02T10:00:00.5+01:00" hostname="h">
<properties><property name="python" value="3.12"/></properties>
<testcase classname="tests.test_a.TestA" name="test_one[x-1]" time="0.001"/>
<testcase classname="tests.test_a" name="test_two" time="0.002"><failure message="assert 1 == 2">def test_two():
&gt;       assert 1 == 2
E       assert 1 == 2

tests/test_a.py:9: AssertionError</failure><system-out>noise &lt;here&gt;</system-out></testcase>
<testcase classname="tests.test_a" name="test_three" time="0"><skipped type="pytest.skip" message="no"/></testcase>
</testsuite></testsuites>"""


def test_pytests_report() -> None:
    (run,) = read(PYTEST, "report.xml")
    assert results_of(run) == [
        ("tests.test_a.TestA.test_one[x-1]", "passed"),
        ("tests.test_a.test_two", "failed"),
        ("tests.test_a.test_three", "skipped"),
    ]
    assert run.outcome.status == "failure"
    assert run.outcome.metrics["tests_failed"] == 1
    assert run.started_at is not None
    assert run.started_at.isoformat() == "2026-03-02T09:00:00.500000+00:00"
    failing, whole = run.artifacts
    assert failing.content.startswith("FAILED: tests.test_a.test_two\ndef test_two")
    assert "noise <here>" in failing.content
    assert failing.meta["test"]["status"] == "failed"
    assert whole.meta["properties"] == {"python": "3.12"}
    assert run.evidence[0].body == PYTEST.encode()


def test_xunit1_names_files() -> None:
    (run,) = read(
        '<testsuite name="pytest"><testcase classname="tests.unit.test_a.TestA" file="tests/unit/test_a.py"'
        ' line="3" name="test_one" time="0.1"><error message="boom">trace</error></testcase></testsuite>'
    )
    assert results_of(run) == [("tests/unit/test_a.py::TestA::test_one", "error")]
    assert run.artifacts[0].path == "tests/unit/test_a.py"


def test_surefires_report() -> None:
    (run,) = read(
        '<?xml version="1.0" encoding="UTF-8"?>\n<testsuite xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        ' name="com.a.BTest" time="1,234.5" tests="3" errors="1" skipped="0" failures="0">'
        '<properties><property name="java.version" value="21"/></properties>'
        '<testcase name="testOk" classname="com.a.BTest" time="0.01"/>'
        '<testcase name="testBad" classname="com.a.BTest" time="0.02"><error message="x"'
        ' type="java.lang.NullPointerException"><![CDATA[java.lang.NullPointerException: x\n\tat com.a.B.c(B.java:7)]]>'
        "</error></testcase>"
        '<testcase name="testFlaky" classname="com.a.BTest" time="0.3"><flakyFailure message="once" type="E">t'
        "<stackTrace>s</stackTrace></flakyFailure></testcase></testsuite>"
    )
    assert results_of(run) == [
        ("com.a.BTest.testOk", "passed"),
        ("com.a.BTest.testBad", "error"),
        ("com.a.BTest.testFlaky", "passed"),
    ]
    assert "at com.a.B.c(B.java:7)" in run.artifacts[0].content
    assert run.outcome.metrics["seconds"] == 1234.5


def test_gotestsums_report_and_nested_suites() -> None:
    (run,) = read(
        '<testsuites><testsuite name="outer"><testsuite name="example.com/m/pkg">'
        '<testcase classname="example.com/m/pkg" name="TestParse/empty_input" time="0.000000"/>'
        '<testcase classname="example.com/m/pkg" name="TestRun" time="0.0"><skipped/></testcase>'
        "</testsuite></testsuite></testsuites>"
    )
    assert results_of(run)[0] == ("example.com/m/pkg.TestParse/empty_input", "passed")
    assert parse_name(results_of(run)[0][0]).name == "TestParse"
    assert run.outcome.status == "success"


def test_jest_junits_report() -> None:
    (run,) = read(
        '<testsuites name="jest tests" tests="2" failures="1" time="1.2">'
        '<testsuite name="math" file="src/math.test.js"><testcase classname="math adds" name="math adds" time="0.01">'
        '</testcase><testcase classname="math" name="math subs" time="0.01"><failure>Error: expect(received)'
        "</failure></testcase></testsuite></testsuites>"
    )
    assert results_of(run) == [
        ("src/math.test.js > math adds", "passed"),
        ("src/math.test.js > math > subs", "failed"),
    ]


def test_a_large_report_is_listed_in_parts_that_fit() -> None:
    cases = "".join(
        f'<testcase classname="m.T" name="test_{i:05}" time="0.1"/>' for i in range(9_000)
    )
    (run,) = read(f'<testsuite name="m">{cases}</testsuite>')
    assert len(run.artifacts) > 5
    assert len(results_of(run)) == 9_000
    assert run.outcome.metrics["tests_passed"] == 9_000


def test_failures_beyond_a_bound_are_only_in_the_list() -> None:
    cases = "".join(
        f'<testcase classname="m.T" name="t{i}"><failure>no</failure></testcase>'
        for i in range(300)
    )
    (run,) = read(f'<testsuite name="m">{cases}</testsuite>')
    assert len(results_of(run)) == 300
    assert len(run.artifacts) == 200 + 1
    assert "100 more failing tests" in run.artifacts[-1].content


# -- diffs -----------------------------------------------------------------------------------------------

GIT = """diff --git a/a.py b/a.py
index 1..2 100644
--- a/a.py
+++ b/a.py
@@ -1,3 +1,3 @@ def f():
 one
--- two
+-- three
 four
@@ -9 +9 @@
-x
+y
diff --git a/old name.txt b/new name.txt
similarity index 100%
rename from old name.txt
rename to new name.txt
diff --git a/pic.png b/pic.png
index 3..4 100644
Binary files a/pic.png and b/pic.png differ
diff --git a/gone.py b/gone.py
deleted file mode 100644
--- a/gone.py
+++ /dev/null
@@ -1 +0,0 @@
-bye
\\ No newline at end of file
"""
PLAIN = """--- src/a.c\t2026-03-02 10:00:00 +0000
+++ src/a.c\t2026-03-02 10:01:00 +0000
@@ -1 +1 @@
-a
+b
--- src/b.c
+++ src/b.c
@@ -1,0 +2 @@
+c
"""
SVN = """Index: trunk/a.c
===================================================================
--- trunk/a.c\t(revision 41)
+++ trunk/a.c\t(working copy)
@@ -1 +1 @@
-a
+b

Property changes on: trunk/a.c
___________________________________________________________________
Added: svn:eol-style
   + native
Index: trunk/b.c
===================================================================
--- trunk/b.c\t(revision 41)
+++ trunk/b.c\t(working copy)
@@ -1 +1 @@
-a
+b
"""


@pytest.mark.parametrize(
    ("text", "paths"),
    [
        (GIT, ["a.py", "new name.txt", "pic.png", "gone.py"]),
        (PLAIN, ["src/a.c", "src/b.c"]),
        (SVN, ["trunk/a.c", "trunk/b.c"]),
        (GIT.replace("\n", "\r\n"), ["a.py", "new name.txt", "pic.png", "gone.py"]),
    ],
    ids=["git", "plain", "svn", "crlf"],
)
def test_a_diff_is_an_artifact_a_file(text: str, paths: list[str]) -> None:
    (one,) = read(text)
    assert [a.path for a in one.artifacts] == paths
    assert one.outcome.metrics["files_changed"] == len(paths)
    for artifact in one.artifacts:
        assert [f.path for f in parse_diff(artifact.content).files] == [artifact.path]


def test_splitting_a_diff_loses_nothing_of_it() -> None:
    files, prose = split(GIT)
    assert "\n".join(f.text for f in files) + "\n" == GIT
    assert prose == ""


def test_git_show_tells_its_commit() -> None:
    head = f"commit {'ab' * 20}\nAuthor: Ana <a@b.c>\nDate:   Mon Mar 2 10:00:00 2026 +0100\n\n    Fix #12\n\n"
    (one,) = read(head + GIT)
    assert one.outcome.commit == "ab" * 20
    assert one.outcome.summary == "Fix #12"
    assert one.started_at is not None
    assert one.started_at.isoformat() == "2026-03-02T09:00:00+00:00"


def commit(letter: str, message: str, diff: str) -> str:
    head = f"commit {letter * 40}\nAuthor: Ana <a@b.c>\nDate:   Mon Mar 2 10:00:00 2026 +0100\n"
    return f"{head}\n    {message}\n" + (f"\n{diff}" if diff else "")


def test_git_log_is_an_episode_a_commit() -> None:
    renamed = "diff --git a/x b/y\nsimilarity index 100%\nrename from x\nrename to y\n"
    parts = [
        commit("a", "Fixes #1", GIT),
        commit("b", "Merge branch 'x'", ""),
        commit("c", "Rename", renamed),
        commit("d", "Fixes #2", GIT),
    ]
    found = read("\n".join(parts))
    assert [(one.outcome.commit[0], one.outcome.summary) for one in found] == [
        ("a", "Fixes #1"),
        ("c", "Rename"),
        ("d", "Fixes #2"),
    ]
    assert [a.path for a in found[1].artifacts] == ["y"]
    # A longer log, or `git show`, tells of the same commits by the same bytes.
    alone = [one for part in parts for one in (read(part) if "diff --git" in part else [])]
    assert [one.request_id for one in alone] == [one.request_id for one in found]
    assert [one.artifacts for one in alone] == [one.artifacts for one in found]


# -- mails -----------------------------------------------------------------------------------------------


def mail(sha: str, n: int, extra: str = "", body: str = "Because.\n\nFixes #7") -> str:
    return f"""From {sha} Mon Sep 17 00:00:00 2001
From: =?UTF-8?q?Zo=C3=AB?= <zoe@example.com>
Date: Mon, 2 Mar 2026 10:00:0{n} +0100
Subject: [PATCH v2 {n}/2] parser: =?UTF-8?q?handle=20=C3=BC?=
 and long subjects
Message-ID: <{n}@example.com>
{extra}
{body}
---
 a.py | 2 +-
 1 file changed, 1 insertion(+), 1 deletion(-)

diff --git a/a.py b/a.py
--- a/a.py
+++ b/a.py
@@ -1 +1 @@
-From me
+From you
--\x20
2.39.5

"""


def test_a_series_is_an_episode_a_patch() -> None:
    a, b = "a" * 40, "b" * 40
    reply = "In-Reply-To: <1@example.com>\nReferences: <1@example.com>\n"
    one, two = read(mail(a, 1) + mail(b, 2, reply), "series.mbox")
    assert (one.outcome.commit, two.outcome.commit) == (a, b)
    assert one.outcome.summary == "parser: handle ü and long subjects\n\nBecause.\n\nFixes #7"
    assert one.started_at is not None
    assert one.started_at.isoformat() == "2026-03-02T09:00:01+00:00"
    assert one.session_key == two.session_key == "1@example.com"
    note, diff = one.artifacts
    assert note.kind is ArtifactKind.NOTE
    assert note.meta["author"] == "Zoë <zoe@example.com>"
    assert diff.path == "a.py"
    assert parse_diff(diff.content).files[0].hunks[0].lines == ("-From me", "+From you")


def test_the_same_patch_in_a_series_and_alone_is_one_request() -> None:
    alone = read(mail("a" * 40, 1).rstrip("\n") + "\n")
    series = read(mail("a" * 40, 1) + mail("b" * 40, 2))
    assert alone[0].request_id == series[0].request_id


def test_encoded_and_attached_patches_are_read() -> None:
    text = (
        "From: a@b\nSubject: [PATCH] x\nMIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=Q\n\n"
        "--Q\nContent-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: quoted-printable\n\n"
        "It =C3=BCbersetzt.\n--Q\nContent-Type: text/x-patch\nContent-Transfer-Encoding: base64\n\n"
        "LS0tIGEvYS5weQorKysgYi9hLnB5CkBAIC0xICsxIEBACi14Cit5Cg==\n--Q--\n"
    )
    (one,) = read(text)
    assert "übersetzt" in one.outcome.summary
    (diff,) = [a for a in one.artifacts if a.kind is ArtifactKind.DIFF]
    assert diff.path == "a.py"
