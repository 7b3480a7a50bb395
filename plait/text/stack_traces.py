"""Stack traces as runtimes and test runners print them → frames, errors, and the text round them.

Line by line, each looked at by a few anchored patterns and only where a cheap test says it may match, so
time is linear in the text. What no pattern knows stays in the prose.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

MAX_LINES = 20_000
MAX_LINE = 1_000  # characters of a line that are looked at
MAX_FRAMES = 400  # read; recursion prints thousands
MAX_ERRORS = 8
MAX_ERROR = 300


@dataclass(frozen=True, slots=True)
class Frame:
    """One call. `path` as printed, with `/`; `function` as printed, without arguments; `line` 0: unknown.

    `depth`: calls away from where its own trace was raised, 0 is that place."""

    path: str
    line: int = 0
    function: str = ""
    depth: int = 0


@dataclass(frozen=True, slots=True)
class Trace:
    """`frames`: innermost first; of several traces in one text the last one's first. `prose`: the lines
    that belong to none."""

    frames: tuple[Frame, ...] = ()
    errors: tuple[str, ...] = ()
    prose: str = ""


@dataclass(frozen=True, slots=True)
class _Read:
    """A frame as read, and whether its runtime prints the innermost one last."""

    frame: Frame
    upwards: bool


_PY = re.compile(r'\s*File "([^"\n]{1,600})", line (\d{1,7})(?:, in (.{1,200}))?')
_IPY = re.compile(r"File (\S{1,600}?):(\d{1,7}), in ([\w.<>]{1,200})")
_IPY_OLD = re.compile(r"(\S{1,600}\.pyx?) in ([\w.<>]{1,200})\(")
_PYTEST = re.compile(r"(\S{1,600}\.pyi?):(\d{1,7}): (?:in ([\w.<>]{1,200})|[A-Z]\w{0,80})\s*\Z")
_JS = re.compile(
    r"at (?:async )?(?:(?:new )?([\w.$<>\[\] ]{1,200}?) (?:\[as [\w$]{1,80}\] )?\()?"
    r"((?:file://|webpack://|https?://)?[^\s()]{1,600}?):(\d{1,7}):\d{1,7}\)?\Z"
)
_FIREFOX = re.compile(r"([\w.$/<*]{0,200})@(\S{1,600}?):(\d{1,7}):\d{1,7}\Z")
_JAVA = re.compile(
    r"at (?:[\w.@-]{0,100}/){0,2}([\w.$]{1,300})\.([\w$<>]{1,200})\(([\w$-]{1,100}\.\w{1,10}):(\d{1,7})\)"
)
_CSHARP = re.compile(r"at ([\w.`+<>]{1,300})\([^()]{0,400}\) in (.{1,600}):line (\d{1,7})\Z")
_GO_FUNCTION = re.compile(
    r"(?:created by )?((?:[\w.~-]{1,100}/){0,12}[\w.~*()\[\]-]{1,200}?)"
    r"(?:\([^()]{0,500}\)| in goroutine \d{1,9})?\Z"
)
_GO_PLACE = re.compile(r"\s*(\S{1,600}\.(?:go|s)):(\d{1,7})(?: \+0x[0-9a-f]{1,16})?\Z")
_RUST_FUNCTION = re.compile(r"\d{1,5}:\s+(?:0x[0-9a-f]{1,16} - )?([^\s].{0,300})\Z")
_RUST_PLACE = re.compile(r"at (\S{1,600}\.rs):(\d{1,7})(?::\d{1,7})?\Z")
_RUST_PANIC = re.compile(
    r"thread '[^']{0,200}' .{0,40}?panicked at (?:'(.{0,300})', )?(\S{1,600}):(\d{1,7}):\d{1,7}"
)
_RUBY = re.compile(
    r"(?:from )?(\S{1,600}\.rb):(\d{1,7}):in [`'](?:block .{0,40}?in )?([^'`]{1,200})'"
)
_PHP = re.compile(r"#\d{1,4} (\S{1,600}\.php)\((\d{1,7})\): ([\w\\:>-]{1,300})")
_NATIVE = re.compile(
    r"#\d{1,4}\s+(?:0x[0-9a-f]{1,16} )?(?:in )?([\w:~<>.]{1,200})(?: ?\(.{0,400}?\))?"
    r" (?:at )?(\S{1,600}\.\w{1,4}):(\d{1,7})(?::\d{1,7})?\Z"
)
# `pkg.SomeError: text`, as Python, JavaScript, Java, Ruby and .NET print it; pytest puts `E` before it.
_ERROR = re.compile(
    r"(?:E\s{1,8})?(?:Uncaught |Unhandled |Caused by: |Exception in thread \"[^\"]{0,100}\" )?"
    r"((?:[A-Za-z_][\w$]{0,80}\.){0,10}[A-Z]\w{0,80}(?:Error|Exception|Warning|Exit|Interrupt|Failure|Fault))"
    r"(?::\s{1,4}(.{0,400}))?\Z"
)
_RAISED = re.compile(r"((?:[A-Za-z_]\w{0,80}\.){0,10}[A-Z]\w{0,80})(?:: (.{0,400}))?\Z")
_PANIC = re.compile(r"(?:panic|fatal error): (.{1,400})\Z")
_BLOCK = (
    "Traceback (most recent call last)",
    "Exception Group Traceback (most recent call last)",
    "During handling of the above exception",
    "The above exception was the direct cause",
    "goroutine ",
)
# Python draws a margin beside the exceptions of a group.
_IN_GROUP = re.compile(r"^ {0,60}(?:[|+] )+")
_SAME = ("stack backtrace:", "note: run with `RUST_BACKTRACE")


def parse_traces(text: str) -> Trace:
    """The frames and errors in `text`. Nothing raises."""
    lines = text.split("\n")[:MAX_LINES]
    if "Exception Group Traceback" in text:
        lines = [_IN_GROUP.sub("", line) for line in lines]
    reader = _Reader(lines)
    reader.read()
    return Trace(
        tuple(_innermost_first(reader.blocks)),
        tuple(dict.fromkeys(reader.errors))[:MAX_ERRORS],
        "\n".join(reader.prose).strip() if reader.blocks else text,
    )


def _innermost_first(blocks: list[list[_Read]]) -> Iterator[Frame]:
    """By distance from where it was raised; of equals the later trace's first."""
    ordered: list[tuple[int, int, Frame]] = []
    for age, block in enumerate(reversed(blocks)):
        frames = [read.frame for read in block]
        if block[0].upwards:
            frames.reverse()
        ordered += [(depth, age, frame) for depth, frame in enumerate(frames)]
    ordered.sort(key=lambda one: one[:2])
    for depth, _, frame in ordered:
        yield replace(frame, depth=depth)


class _Reader:
    def __init__(self, lines: list[str]) -> None:
        self.lines = lines
        self.at = 0
        self.blocks: list[list[_Read]] = []
        self.errors: list[str] = []
        self.prose: list[str] = []
        self.frames = 0
        self.fresh = True  # the next frame begins a block
        self.prose_since = False  # lines that are no frame stand behind the last one
        self.function = ""  # what the line above named: Go and Rust print it there

    def read(self) -> None:
        while self.at < len(self.lines):
            raw = self.lines[self.at]
            line = raw.strip()[:MAX_LINE]
            self.at += 1
            if not line:
                self.prose.append("")
            elif (found := self._frame(raw[:MAX_LINE], line)) is not None:
                self._add(found)
            elif not self._mark(line):
                self.prose.append(raw)
                self.prose_since = True

    def _frame(self, raw: str, line: str) -> _Read | None:
        for may, read in _READERS:
            if may(line) and (found := read(self, raw, line)) is not None:
                return found
        return None

    def _add(self, found: _Read) -> None:
        # Frames of one trace stand together and agree on their order.
        if self.fresh or not self.blocks or self.blocks[-1][0].upwards != found.upwards:
            self.blocks.append([])
        self.fresh = self.prose_since = False
        if self.frames < MAX_FRAMES:
            self.frames += 1
            self.blocks[-1].append(found)
        elif not self.blocks[-1]:
            self.blocks.pop()

    def _mark(self, line: str) -> bool:
        """Errors and headings between frames. True: the line is no prose."""
        error = _error(line) or self._raised(line)
        if error:
            self.errors.append(error)
            self.fresh = True
            return False  # what went wrong is the best of the prose
        if line.startswith(_BLOCK):
            self.fresh = True
            return True
        # Rust's belongs to the place that panicked, which it prints above.
        return line.startswith(_SAME)

    def _raised(self, line: str) -> str:
        """What follows Python's frames at once: an exception whose name does not say that it is one."""
        if self.fresh or not self.blocks or not self.blocks[-1][-1].upwards or self.prose_since:
            return ""
        match = _RAISED.match(line)
        if match is None:
            return ""
        name = match[1].rpartition(".")[2]
        return (f"{name}: {match[2].strip()}" if match[2] else name)[:MAX_ERROR]

    # -- one runtime each ---------------------------------------------------------------------------

    def python(self, raw: str, line: str) -> _Read | None:
        match = _PY.match(line) or _IPY.match(line)
        if match is None:
            return None
        self._skip_code(raw)
        function = (match[3] or "").strip().partition("(")[0]
        return _Read(_frame(match[1], match[2], function), upwards=True)

    def _skip_code(self, raw: str) -> None:
        """The source line that Python prints below a frame, and its `^^^^` marks."""
        indent = len(raw) - len(raw.lstrip())
        for _ in range(2):
            if self.at >= len(self.lines):
                return
            below = self.lines[self.at][:MAX_LINE]
            bare = below.strip()
            deeper = len(below) - len(below.lstrip()) > indent
            if not bare or not deeper or bare.startswith('File "'):
                return
            self.at += 1
            # A second line is a mark or nothing.
            if self.at < len(self.lines) and set(self.lines[self.at].strip()) - set("^~"):
                return

    def ipython(self, raw: str, line: str) -> _Read | None:
        match = _IPY_OLD.match(line)
        if match is None:
            return None
        number = 0
        for offset in range(12):  # the line itself is marked by `----> 12`
            if self.at + offset >= len(self.lines):
                break
            marked = re.match(r"-{2,8}> (\d{1,7})", self.lines[self.at + offset].strip()[:60])
            if marked:
                number = int(marked[1])
                break
        return _Read(Frame(_slashes(match[1]), number, match[2]), upwards=True)

    def pytest(self, raw: str, line: str) -> _Read | None:
        match = _PYTEST.match(line)
        if match is None:
            return None
        return _Read(_frame(match[1], match[2], match[3] or ""), upwards=True)

    def at_line(self, raw: str, line: str) -> _Read | None:
        """`at …`: Java, C#, JavaScript, Rust."""
        if match := _JAVA.match(line):
            owner = match[1].split("$")[0]
            package, _, cls = owner.rpartition(".")
            folder = package.replace(".", "/") + "/" if package else ""
            name = _java_method(match[2])
            path, function = f"{folder}{match[3]}", f"{cls}.{name}" if name else cls
            return _Read(_frame(path, match[4], function), upwards=False)
        if match := _CSHARP.match(line):
            function = ".".join(match[1].replace("+", ".").split(".")[-2:])
            return _Read(_frame(match[2], match[3], function), upwards=False)
        if match := _RUST_PLACE.match(line):
            function, self.function = self.function, ""
            if function and self.prose:
                self.prose.pop()  # the line above, which named it
            return _Read(_frame(match[1], match[2], function), upwards=False)
        if match := _JS.match(line):
            return _Read(
                _frame(_url_path(match[2]), match[3], _js_function(match[1])), upwards=False
            )
        return None

    def firefox(self, raw: str, line: str) -> _Read | None:
        match = _FIREFOX.match(line)
        if match is None:
            return None
        function = _js_function(match[1].split("/")[0])
        return _Read(_frame(_url_path(match[2]), match[3], function), upwards=False)

    def go(self, raw: str, line: str) -> _Read | None:
        match = _GO_PLACE.match(line)
        if match is None:
            return None
        above = self.lines[self.at - 2].strip()[:MAX_LINE] if self.at >= 2 else ""
        named = _GO_FUNCTION.match(above)
        if named is not None and self.prose and self.prose[-1].strip()[:MAX_LINE] == above:
            self.prose.pop()
        function = _go_function(named[1]) if named else ""
        return _Read(_frame(match[1], match[2], function), upwards=False)

    def rust(self, raw: str, line: str) -> _Read | None:
        if match := _RUST_PANIC.match(line):
            message = match[1] or (self.lines[self.at].strip() if self.at < len(self.lines) else "")
            self.errors.append(message[:MAX_ERROR])
            self.fresh = True
            return _Read(_frame(match[2], match[3], ""), upwards=False)
        if (match := _RUST_FUNCTION.match(line)) and self._below().startswith("at "):
            self.function = _rust_function(match[1])
        return None

    def ruby(self, raw: str, line: str) -> _Read | None:
        match = _RUBY.match(line)
        if match is None:
            return None
        function = re.split(r"[.#:]", match[3])[-1].removesuffix(">")
        return _Read(_frame(match[1], match[2], function), upwards=False)

    def numbered(self, raw: str, line: str) -> _Read | None:
        """`#0 …`: PHP and native code."""
        if match := _PHP.match(line):
            function = re.sub(r"->|::", ".", match[3]).rpartition("\\")[2]
            return _Read(_frame(match[1], match[2], function), upwards=False)
        if match := _NATIVE.match(line):
            return _Read(_frame(match[2], match[3], match[1].replace("::", ".")), upwards=False)
        return None

    def _below(self) -> str:
        return self.lines[self.at].strip()[:MAX_LINE] if self.at < len(self.lines) else ""


# By what a line must hold to be looked at; in this order.
_READERS: tuple[tuple[Callable[[str], bool], Callable[[_Reader, str, str], _Read | None]], ...] = (
    (lambda line: line.startswith("File "), _Reader.python),
    (lambda line: ".py" in line and " in " in line, _Reader.ipython),
    (lambda line: ".py" in line and ": " in line, _Reader.pytest),
    (lambda line: line.startswith("at "), _Reader.at_line),
    (lambda line: ".go:" in line or ".s:" in line, _Reader.go),
    (lambda line: line.startswith("thread '") or line[0].isdigit(), _Reader.rust),
    (lambda line: ".rb:" in line, _Reader.ruby),
    (lambda line: line[0] == "#" and line[1:2].isdigit(), _Reader.numbered),
    (lambda line: "@" in line and line[-1:].isdigit(), _Reader.firefox),
)


def _frame(path: str, line: str, function: str) -> Frame:
    function = "" if function.startswith("<") else function
    return Frame(_slashes(path), int(line), function)


def _slashes(path: str) -> str:
    return path.replace("\\", "/")


def _url_path(path: str) -> str:
    """Without scheme, host and query: `webpack:///./src/a.js?1` is `src/a.js`."""
    if "://" in path:
        path = path.partition("://")[2].partition("/")[2].partition("?")[0]
    return path.removeprefix("./")


def _js_function(printed: str | None) -> str:
    name = (printed or "").strip()
    if not name or ("<anonymous>" in name and "." not in name.replace("<anonymous>", "")):
        return ""
    parts = [part for part in name.split(".") if part and not part.startswith("<")]
    # `Object.`, `Module.`, `Function.` say what kind of value it hangs on.
    if len(parts) > 1 and parts[0] in ("Object", "Module", "Function", "Array", "exports"):
        parts = parts[1:]
    return ".".join(parts[-2:])


def _java_method(printed: str) -> str:
    """`lambda$run$0` is in `run`; `<init>` in the class itself."""
    if printed.startswith("lambda$"):
        return printed.split("$")[1]
    return "" if printed.startswith("<") else printed


def _go_function(printed: str) -> str:
    """`github.com/a/b/server.(*Server).Handle.func1` is `Server.Handle`."""
    name = printed.rpartition("/")[2].partition(".")[2]
    parts = [re.sub(r"\[.*\]|[(*)]", "", part) for part in name.split(".")]
    names = [part for part in parts if part and not re.fullmatch(r"func\d+|\d+", part)]
    return ".".join(names[:2])


def _rust_function(printed: str) -> str:
    """`<app::Server as app::Handle>::run::{{closure}}::h0123` is `Server.run`."""
    bare = re.sub(
        r"<impl [^<>]{0,200}>|<(?=[\w:]{1,200} as )| as [^<>]{0,200}>|::h[0-9a-f]{16}\Z",
        "",
        printed,
    )
    parts = [re.sub(r"<.*", "", part) for part in bare.split("::")]
    names = [part for part in parts if part.isidentifier()]
    return ".".join(names[-2:] if len(names) > 1 and names[-2][:1].isupper() else names[-1:])


def _error(line: str) -> str:
    """The line, if it is an error message."""
    if match := _PANIC.match(line):
        return match[1][:MAX_ERROR]
    if (
        "Error" in line
        or "Exc" in line
        or "Warn" in line
        or "Fa" in line
        or "Inter" in line
        or "Exit" in line
    ):
        match = _ERROR.match(line)
        if match is not None:
            message = (match[2] or "").strip()
            name = match[1].rpartition(".")[2]
            return (f"{name}: {message}" if message else name)[:MAX_ERROR]
    return ""
