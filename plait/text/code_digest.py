"""What of a piece of code counts for whether it has changed: its tokens, without layout and comments.

A formatter that runs over a repository changes every file and no meaning, so a memory is compared by this
where the text itself differs. The reader knows no grammar: what it takes for a comment or a string is so in
the languages of a family. Where it errs, it does so alike for both sides of a comparison.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator

MAX_READ = 40_000  # characters of one piece of code
SIZE = 12  # bytes of a gist: a clash of two texts of one symbol is not to be feared

# What is opened and never closed reaches to the end, of its line for a string, so that all of it is read once.
_STRING = r'"(?:[^"\\\n]|\\.)*+"?' + r"|'(?:[^'\\\n]|\\.)*+'?"
_LONG = r'"""(?:[^"\\]|\\.|"(?!""))*+(?:""")?' + r"|'''(?:[^'\\]|\\.|'(?!''))*+(?:''')?"
_BLOCK = r"/\*(?:[^*]|\*(?!/))*+(?:\*/)?"
_REST = r"|(?P<line>\n[ \t]*)|\w+|\.\.\.|[^\w\s]"
_HASH = re.compile(rf"(?P<comment>#[^\n]*)|{_LONG}|{_STRING}{_REST}", re.DOTALL)
_SLASH = re.compile(
    rf"(?P<comment>//[^\n]*|{_BLOCK})|{_STRING}|`(?:[^`\\]|\\.)*+`?{_REST}", re.DOTALL
)
# Behind `/*` that nothing closes, as in a pattern's `[/*]`: it was no comment, nor is another one.
_UNCLOSED = re.compile(rf"(?P<comment>//[^\n]*)|{_STRING}|`(?:[^`\\]|\\.)*+`?{_REST}", re.DOTALL)
_PLAIN = re.compile(rf"(?P<comment>(?!)){_REST}")

# The languages whose symbols an index has, and what reads like them; others are taken word by word.
_READERS = {
    "python": _HASH, "cython": _HASH, "javascript": _SLASH, "typescript": _SLASH, "tsx": _SLASH,
    "java": _SLASH, "go": _SLASH, "c": _SLASH, "cpp": _SLASH, "csharp": _SLASH, "rust": _SLASH,
    "kotlin": _SLASH, "swift": _SLASH, "scala": _SLASH, "php": _SLASH, "ruby": _HASH,
}  # fmt: skip
# Where indentation ends a block; elsewhere it is layout.
_OFFSIDE = frozenset({"python", "cython"})
# Where `(a,)` is no `(a)`.
_TUPLES = frozenset({"python", "cython", "rust"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")
# Words before a bracket that call nothing: what is in it is a value.
_WORDS = frozenset(
    [
        "return",
        "in",
        "yield",
        "not",
        "and",
        "or",
        "if",
        "elif",
        "else",
        "is",
        "lambda",
        "assert",
        "await",
        "case",
        "match",
        "while",
    ]
)


def gist(code: str, language: str) -> bytes:
    """`SIZE` bytes that stay the same while only blanks, line breaks inside brackets, comments, the kind of
    quotes, or a comma before a closing bracket change, but for that of a tuple of one; where indentation means
    something, its depth counts.
    Linear in `code`."""
    offside, tuples = language in _OFFSIDE, language in _TUPLES
    out: list[str] = []
    commas: list[int] = []  # of each open bracket; from 1 of one that a lone comma makes a tuple
    indents = [0]
    pending = ""  # the line's start, until a token shows that the line is no comment's
    for match in _tokens(_READERS.get(language, _PLAIN), "\n" + code[:MAX_READ]):
        kind, text = match.lastgroup, match[0]
        if kind == "comment":
            continue
        if kind == "line":
            pending = text
            continue
        # A body of nothing is written behind its head as well as below it.
        if offside and not commas and pending and text != "...":
            out.append(_level(indents, len(pending.expandtabs(4)) - 1))
        pending = ""
        if text in _OPEN:
            commas.append(0 if tuples and _holds_a_value(text, out) else 1)
        elif text == "," and commas:
            commas[-1] += 1
        elif text in _CLOSE:
            seen = commas.pop() if commas else 0
            if out and out[-1] == "," and seen != 1:
                out.pop()
        out.append(_as_quoted(text))
    return hashlib.sha256("\0".join(out).encode("utf-8", "replace")).digest()[:SIZE]


def _tokens(reader: re.Pattern[str], code: str) -> Iterator[re.Match[str]]:
    for match in reader.finditer(code):
        if reader is _SLASH and match.lastgroup == "comment" and _is_open(match[0]):
            yield from _UNCLOSED.finditer(code, match.start() + 2)
            return
        yield match


def _is_open(comment: str) -> bool:
    return comment.startswith("/*") and not (len(comment) > 3 and comment.endswith("*/"))


def _holds_a_value(bracket: str, before: list[str]) -> bool:
    """Whether a lone comma behind one thing in `bracket` makes a tuple: of `(` that calls nothing, and of an
    index."""
    last = before[-1] if before else ""
    ends = last[-1:].isalnum() or last[-1:] in ("_", ")", "]", '"')
    called = ends and last not in _WORDS and not last.startswith("\n")
    return (bracket == "(" and not called) or (bracket == "[" and called)


def _level(indents: list[int], width: int) -> str:
    """How many blocks a line that is indented by `width` stands in, of those that are open."""
    while indents[-1] > width:
        indents.pop()
    if indents[-1] < width:
        indents.append(width)
    return f"\n{len(indents)}"


def _as_quoted(text: str) -> str:
    """A string alike in either kind of quotes, if it holds none."""
    if text[0] == "'" and len(text) > 1 and '"' not in text:
        return '"' * (3 if text.startswith("'''") else 1) + text.strip("'") + '"'
    return text
