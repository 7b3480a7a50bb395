"""The outline of a piece of code: its signature and the first sentence of its doc comment, read from the chunk.

Three styles cover the supported languages: blocks after a colon (Python), blocks in braces, and definitions that end
with their line. Lines are scanned once, not parsed: a chunk may begin or end anywhere, so any text must be accepted.
At most `MAX_LINES` lines are read.

A long symbol is split into several chunks with the same name; only the first contains the signature. A later chunk
begins with an arbitrary line; it is recognised because that line does not contain the symbol's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from plait.domain.values import Item
from plait.retrieval.packing.wording import first_sentence, one_line

MAX_LINES = 40  # lines read
MAX_SIGNATURE = 240  # characters
MAX_NAMES = 6  # names listed for module-level code

COLON = frozenset(["python", "cython", "nim"])
# fmt: off
LINE_ENDS = frozenset([
    "ruby", "lua", "shell", "elixir", "erlang", "haskell", "ocaml", "julia", "r", "fsharp", "clojure",
    "perl", "sql", "batch", "powershell", "make", "cmake", "dockerfile", "yaml", "toml", "ini",
])
_HASH = frozenset([
    "ruby", "shell", "elixir", "r", "julia", "perl", "make", "cmake", "dockerfile", "yaml", "toml",
    "ini", "powershell",
])
# fmt: on
_DASHES = frozenset(["lua", "haskell", "sql"])
_PERCENT = frozenset(["erlang"])

_PYTHON_DEF = re.compile(r"\s*(?:async\s+def|def|class|cdef|cpdef|proc|func)\b")
_DOCSTRING = re.compile(r"""\s*[rRbBuUfF]{0,2}(\"\"\"|'\"'|'''|"|')""")
_IMPORT = re.compile(r"\s*(?:import|from|using|use|package|require|include|#include)\b")
_SLASHES = re.compile(r"\s*(?://[/!]?|/\*[*!]?|\*/|\*(?!\w))\s?")
_ATTRIBUTE = re.compile(r"\s*(?:@[A-Za-z_][\w.]*|#!?\[|\[[A-Z]\w*(?:\(|\]))")
_PYTHON_NAME = re.compile(r"\s*(?:async\s+def|def|class|cdef|cpdef)\s+([^\W\d]\w*)")
_COPY = re.compile(r"#\d+$")  # of the second and later definitions of one name
_WORD = re.compile(r"\w+")
_LOOSE = re.compile(r"[^\W\d][\w.]{0,80}")
_CALLED = re.compile(r"[A-Za-z_~][\w:~]* ?\(")  # at the very start of a line
_ELIXIR_DEF = re.compile(r"\s*(?:def\w*|test|describe)\b")
_ELIXIR_DOC = re.compile(r'\s*@(?:module|type)?doc\s+(?:~[sS])?("""|")')
_TAG = re.compile(r"\s*[@\\](?:param|return|returns|throws|brief|see|type)\b")


@dataclass(frozen=True, slots=True)
class Outline:
    """`line`: where the signature begins, 1-based in the file. Both texts are single lines, possibly empty.
    `part`: the chunk begins in the middle of its symbol and has no signature."""

    signature: str
    doc: str
    line: int
    part: bool = False


def outline(item: Item) -> Outline:
    """The outline of a chunk of code; of other text its first lines."""
    lines = item.content.split("\n", MAX_LINES)[:MAX_LINES]
    if item.kind == "module":
        at, signature, doc = _module(lines)
    elif item.language in COLON:
        at, signature, doc = _colon(lines)
    elif item.language == "elixir":
        at, signature, doc = _elixir(lines)
    elif item.language in LINE_ENDS:
        at, signature, doc = _line_ends(lines, _marks(item.language))
    else:
        at, signature, doc = _braces(lines)
    if item.kind != "module" and not _names(signature, item.symbol):
        return Outline("", _defined(lines), item.start_line, part=True)
    return Outline(one_line(signature, MAX_SIGNATURE), first_sentence(doc), item.start_line + at)


def own_name(symbol: str) -> str:
    """`get` of `app.http.Session.get#2`; "" for an operator or nothing."""
    words = _WORD.findall(_COPY.sub("", symbol))
    return words[-1] if words else ""


def _names(signature: str, symbol: str) -> bool:
    """Whether `signature` is that of `symbol`. A default export has no name of its own."""
    name = own_name(symbol)
    words = _WORD.findall(signature.casefold())
    return name in ("", "default") or name.casefold() in words


def _defined(lines: list[str]) -> str:
    """`defines a, b`: the definitions in a later part of a class."""
    found = [match.group(1) for line in lines if (match := _PYTHON_NAME.match(line))]
    more = ", …" if len(found) > MAX_NAMES else ""
    return f"defines {', '.join(found[:MAX_NAMES])}{more}" if found else ""


def _colon(lines: list[str]) -> tuple[int, str, str]:
    start = next((i for i, line in enumerate(lines) if _PYTHON_DEF.match(line)), None)
    if start is None:
        return _first_line(lines)
    depth = 0
    for end in range(start, len(lines)):
        depth += _depth(lines[end])
        if depth <= 0 and lines[end].split("#")[0].rstrip().endswith((":", "=")):
            break
    else:
        end = start
    signature = " ".join(line.split("  #")[0].strip() for line in lines[start : end + 1])
    return start, _tight(signature.rstrip(":= ")), _docstring(lines[end + 1 :])


def _docstring(lines: list[str]) -> str:
    """The first paragraph of a docstring at the start of `lines`, or ""."""
    while lines and not lines[0].strip():
        lines = lines[1:]
    opened = _DOCSTRING.match(lines[0]) if lines else None
    if opened is None:
        return ""
    mark = opened.group(1)
    doc: list[str] = []
    for i, line in enumerate(lines):
        text = line[opened.end() :] if i == 0 else line
        body, closed, _ = text.partition(mark)
        doc.append(body.strip())
        if closed or (not body.strip() and any(doc)) or len(mark) == 1:
            break
    return " ".join(doc)


def _braces(lines: list[str]) -> tuple[int, str, str]:
    """Comments before the definition are its doc; its signature ends where its block begins."""
    comments: list[str] = []
    start = None
    inside = False  # a block comment
    for i, line in enumerate(lines):
        bare = line.strip()
        if inside or bare.startswith(("//", "/*")):
            if not _TAG.match(_SLASHES.sub("", line, count=1)):
                comments.append(_SLASHES.sub("", line, count=1).replace("*/", " ").strip())
            inside = (inside or bare.startswith("/*")) and "*/" not in bare
        elif bare and not (_ATTRIBUTE.match(line) and not _opens(bare)):
            start = i
            break
    if start is None:
        return _first_line(lines)
    depth = 0
    taken: list[str] = []
    for at, line in enumerate(lines[start:], start + 1):
        head, opened = _before_block(line, depth)
        taken.append(head.strip())
        depth += _depth(head)
        if not opened and "(" not in line and at < len(lines) and _CALLED.match(lines[at]):
            continue  # in C the return type may be on the line before
        if opened or (depth <= 0 and not line.rstrip().endswith((",", "(", "=", "&&", "|"))):
            break
    signature = " ".join(taken).rstrip(" ;=").removesuffix("=>")
    return start, _tight(signature), " ".join(_to_blank(comments))


def _before_block(line: str, depth: int) -> tuple[str, bool]:
    """`line` up to a brace that opens a block, and whether there is one."""
    for i, c in enumerate(line):
        if c in "([":
            depth += 1
        elif c in ")]":
            depth -= 1
        elif depth <= 0 and (c in "{;" or line[i : i + 2] == "=>"):
            return line[:i], True
    return line, False


def _opens(bare: str) -> bool:
    """Whether a line that begins with an annotation also begins the annotated definition."""
    return bare.endswith("{") or bool(re.search(r"\)\s+\w|^@\w+\s+\w", bare))


def _line_ends(lines: list[str], marks: tuple[str, ...]) -> tuple[int, str, str]:
    comments: list[str] = []
    for i, line in enumerate(lines):
        bare = line.strip()
        if marks and bare.startswith(marks) and not bare.startswith("#!"):
            comments.append(bare.lstrip("#-%;\"' "))
        elif bare and not bare.startswith("#!"):
            taken, depth = [bare], _depth(bare)
            for more in lines[i + 1 :]:
                if depth <= 0:
                    break
                taken.append(more.strip())
                depth += _depth(more)
            return i, _tight(" ".join(taken)), " ".join(_to_blank(comments))
        elif comments and not bare:
            comments.append("")
    return _first_line(lines)


def _elixir(lines: list[str]) -> tuple[int, str, str]:
    """`@doc` is the doc wherever it appears; `@spec` and similar attributes are ignored."""
    start = next((i for i, line in enumerate(lines) if _ELIXIR_DEF.match(line)), None)
    doc = next((i for i, line in enumerate(lines) if _ELIXIR_DOC.match(line)), None)
    text_of_doc = ""
    if doc is not None:
        text = lines[doc].partition("doc")[2].strip().removeprefix("~S").removeprefix("~s")
        text_of_doc = _docstring([text, *lines[doc + 1 :]])
    if start is None:
        at, signature, found = _line_ends(lines, ("#",))
        return (at, "" if doc == at else signature, text_of_doc or found)
    inner = _line_ends(lines[start:], ("#",))
    above = "" if text_of_doc else _line_ends(lines, ("#",))[2]
    return start + inner[0], inner[1], text_of_doc or above


def _marks(language: str) -> tuple[str, ...]:
    if language in _HASH:
        return ("#",)
    if language in _DASHES:
        return ("--",)
    return ("%",) if language in _PERCENT else ()


def _module(lines: list[str]) -> tuple[int, str, str]:
    """Module-level code: the docstring of the file and the first names that it assigns or calls."""
    doc = _docstring(lines)
    if not doc:
        _, _, doc = (
            _braces(lines) if lines and lines[0].lstrip()[:2] in ("//", "/*") else (0, "", "")
        )
    named = [
        (i, found.group())
        for i, line in enumerate(lines)
        if (found := _LOOSE.match(line))
        and not _IMPORT.match(line)
        and ("=" in line or "(" in line)
    ]
    if not named:
        return (0, "", doc) if doc else _first_line(lines)
    return named[0][0], ", ".join(dict.fromkeys(name for _, name in named[:MAX_NAMES])), doc


def _first_line(lines: list[str]) -> tuple[int, str, str]:
    return next(
        ((i, line.strip(), "") for i, line in enumerate(lines) if line.strip()), (0, "", "")
    )


def _to_blank(texts: list[str]) -> list[str]:
    """The first run of non-empty texts."""
    while texts and not texts[0]:
        texts = texts[1:]
    return texts[: texts.index("")] if "" in texts else texts


def _depth(text: str) -> int:
    return sum((c in "([") - (c in ")]") for c in text)


def _tight(signature: str) -> str:
    """A joined signature without blanks just inside its brackets or a comma before a closing bracket."""
    return re.sub(r"([(\[]) | ?,? ([)\]])", lambda m: m.group(1) or m.group(2), signature)
