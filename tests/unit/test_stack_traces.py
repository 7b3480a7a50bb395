"""Stack traces of each runtime, as they are printed, to frames."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plait.text.stack_traces import MAX_FRAMES, Frame, parse_traces

PYTHON = """\
It fails on load:
Traceback (most recent call last):
  File "/home/ci/build/src/app/main.py", line 12, in main
    run(config)
    ^^^^^^^^^^^
  File "/usr/lib/python3.11/site-packages/app/core.py", line 640, in run
    raise Missing(key)
app.errors.Missing: no such key
What now?"""

CASES = [
    (
        "python, innermost last, code and marks are no prose",
        PYTHON,
        [
            Frame("/usr/lib/python3.11/site-packages/app/core.py", 640, "run", 0),
            Frame("/home/ci/build/src/app/main.py", 12, "main", 1),
        ],
        ["Missing: no such key"],
    ),
    (
        "python, the last of two chained traces comes first",
        'Traceback (most recent call last):\n  File "a.py", line 1, in f\n    x\nKeyError: 1\n\n'
        "During handling of the above exception, another exception occurred:\n\n"
        'Traceback (most recent call last):\n  File "b.py", line 2, in g\n    y\nValueError: 2',
        [Frame("b.py", 2, "g", 0), Frame("a.py", 1, "f", 0)],
        ["KeyError: 1", "ValueError: 2"],
    ),
    (
        "pytest, short",
        "tests/test_a.py:12: in test_foo\n    x()\nsrc/mod.py:5: ValueError",
        [Frame("src/mod.py", 5, "", 0), Frame("tests/test_a.py", 12, "test_foo", 1)],
        [],
    ),
    (
        "ipython, old and new",
        "~/lib/python3.7/site-packages/pandas/core/frame.py in __getitem__(self, key)\n     11 a\n---> 12 b\n",
        [Frame("~/lib/python3.7/site-packages/pandas/core/frame.py", 12, "__getitem__", 0)],
        [],
    ),
    (
        "ipython 8",
        "File ~/env/xarray/core/dataset.py:1200, in Dataset.chunk(self, x)",
        [Frame("~/env/xarray/core/dataset.py", 1200, "Dataset.chunk", 0)],
        [],
    ),
    (
        "javascript",
        "TypeError: x is undefined\n    at Object.handler (/app/src/handler.js:10:15)\n"
        "    at async Server.handle (file:///srv/src/server.ts:42:3)\n    at /app/index.js:1:1\n"
        "    at new Pool (webpack:///./src/pool.ts:7:9)\n    at Array.map (<anonymous>)",
        [
            Frame("/app/src/handler.js", 10, "handler", 0),
            Frame("srv/src/server.ts", 42, "Server.handle", 1),
            Frame("/app/index.js", 1, "", 2),
            Frame("src/pool.ts", 7, "Pool", 3),
        ],
        ["TypeError: x is undefined"],
    ),
    (
        "firefox",
        "render@http://localhost:8080/static/app.js:10:5",
        [Frame("static/app.js", 10, "render", 0)],
        [],
    ),
    (
        "java, the cause first",
        'Exception in thread "main" java.lang.IllegalStateException: bad\n'
        "\tat com.foo.Bar$Baz.lambda$run$0(Bar.java:42)\n\tat com.foo.Main.<init>(Main.java:3)\n"
        "Caused by: java.io.IOException: gone\n\tat app//com.foo.Io.read(Io.java:7)\n\t... 3 more",
        [
            Frame("com/foo/Io.java", 7, "Io.read", 0),
            Frame("com/foo/Bar.java", 42, "Bar.run", 0),
            Frame("com/foo/Main.java", 3, "Main", 1),
        ],
        ["IllegalStateException: bad", "IOException: gone"],
    ),
    (
        "c#",
        "   at My.Ns.Cls.Method(String a) in C:\\build\\src\\Cls.cs:line 42",
        [Frame("C:/build/src/Cls.cs", 42, "Cls.Method", 0)],
        [],
    ),
    (
        "go",
        "panic: index out of range [5]\n\ngoroutine 1 [running]:\n"
        "github.com/a/b/server.(*Server).Handle.func1(0xc000, {0x1, 0x2})\n"
        "\t/home/ci/server/server.go:42 +0x1d\nmain.main()\n\t/home/ci/main.go:10 +0x2",
        [
            Frame("/home/ci/server/server.go", 42, "Server.Handle", 0),
            Frame("/home/ci/main.go", 10, "main", 1),
        ],
        ["index out of range [5]"],
    ),
    (
        "rust",
        "thread 'main' panicked at src/main.rs:10:5:\ncalled `unwrap()` on a `None` value\n"
        "stack backtrace:\n   1: app::server::Server::handle\n             at ./src/server.rs:42:9",
        [Frame("src/main.rs", 10, "", 0), Frame("./src/server.rs", 42, "Server.handle", 1)],
        ["called `unwrap()` on a `None` value"],
    ),
    (
        "ruby",
        "app/models/user.rb:12:in `save'\n\tfrom app/run.rb:3:in `block in go'",
        [Frame("app/models/user.rb", 12, "save", 0), Frame("app/run.rb", 3, "go", 1)],
        [],
    ),
    (
        "php and native",
        "#0 /var/www/src/Foo.php(12): App\\Foo->bar()",
        [Frame("/var/www/src/Foo.php", 12, "Foo.bar", 0)],
        [],
    ),
    (
        "gdb",
        "#1  0x00007f in ns::parse (p=0x1) at src/parser.c:120",
        [Frame("src/parser.c", 120, "ns.parse", 0)],
        [],
    ),
    ("prose alone", "the parser at line 3: see File and at (x:1)", [], []),
]


@pytest.mark.parametrize(
    ("text", "frames", "errors"), [c[1:] for c in CASES], ids=[c[0] for c in CASES]
)
def test_frames_and_errors(text: str, frames: list[Frame], errors: list[str]) -> None:
    found = parse_traces(text)
    assert list(found.frames) == frames
    assert list(found.errors) == errors


def test_what_is_no_frame_stays_prose() -> None:
    prose = parse_traces(PYTHON).prose
    assert prose == "It fails on load:\napp.errors.Missing: no such key\nWhat now?"
    assert parse_traces("one\n\ntwo").prose == "one\n\ntwo"


def test_exceptions_of_a_group_are_read_without_their_margin() -> None:
    found = parse_traces(
        """\
It fails
  + Exception Group Traceback (most recent call last):
  |   File "/srv/app/run.py", line 9, in run_all
  |     start()
  | ExceptionGroup: two (2 sub-exceptions)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "/srv/app/work.py", line 4, in divide
    |     2 / 0
    | ZeroDivisionError: division by zero
    +------------------------------------
"""
    )
    assert [frame.function for frame in found.frames] == ["divide", "run_all"]
    assert "ZeroDivisionError: division by zero" in found.errors
    assert found.prose.startswith("It fails")
    assert "start()" not in found.prose


def test_recursion_is_cut() -> None:
    frames = parse_traces('  File "a.py", line 1, in f\n    f()\n' * 3_000).frames
    assert len(frames) == MAX_FRAMES


_LINES = st.lists(
    st.sampled_from(
        [
            'File "a.py", line 1, in f', "at a.b(c.js:1:2)", "panic: x", "a.go:3 +0x1", "0: a::b",
            "at x.rs:1:2", "#0 a(b) at c.c:3", "x.rb:1:in `y'", "E  ValueError: z", "f@g:1:2", "", "prose",
            "goroutine 1 [running]:", "    ^^^^", "----> 3 x",
        ]
    )
    | st.text(string.printable, max_size=40),
    max_size=30,
)  # fmt: skip


@given(_LINES)
def test_any_text_is_read(lines: list[str]) -> None:
    found = parse_traces("\n".join(lines))
    assert len(found.frames) <= len(lines)
    assert all(frame.path and frame.line >= 0 for frame in found.frames)
