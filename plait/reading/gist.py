"""What of a piece of code counts for whether it has changed: its tokens, without layout and comments.

A formatter that runs over a repository changes every file and no meaning, so a memory is compared by this
where the text itself differs. The reader knows no grammar: what it takes for a comment or a string is so in
the languages of a family. Where it errs, it does so alike for both sides of a comparison.
"""

from __future__ import annotations

import hashlib
import re

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
_PLAIN = re.compile(rf"(?P<comment>(?!)){_REST}")

# The languages whose symbols an index has, and what reads like them; others are taken word by word.
_READERS = {
    "python": _HASH, "cython": _HASH, "javascript": _SLASH, "typescript": _SLASH, "tsx": _SLASH,
    "java": _SLASH, "go": _SLASH, "c": _SLASH, "cpp": _SLASH, "csharp": _SLASH, "rust": _SLASH,
    "kotlin": _SLASH, "swift": _SLASH, "scala": _SLASH, "php": _SLASH, "ruby": _HASH,
}  # fmt: skip
# Where indentation ends a block; elsewhere it is layout.
_OFFSIDE = frozenset({"python", "cython"})
_OPEN, _CLOSE = frozenset("([{"), frozenset(")]}")


def gist(code: str, language: str) -> bytes:
    """`SIZE` bytes that stay the same while only blanks, line breaks inside brackets, comments, the kind of
    quotes, or a comma before a closing bracket change; where indentation means something, its depth counts.
    Linear in `code`."""
    offside = language in _OFFSIDE
    out: list[str] = []
    depth = 0
    indents = [0]
    pending = ""  # the line's start, until a token shows that the line is no comment's
    for match in _READERS.get(language, _PLAIN).finditer("\n" + code[:MAX_READ]):
        kind, text = match.lastgroup, match[0]
        if kind == "comment":
            continue
        if kind == "line":
            pending = text
            continue
        # A body of nothing is written behind its head as well as below it.
        if offside and depth == 0 and pending and text != "...":
            out.append(_level(indents, len(pending.expandtabs(4)) - 1))
        pending = ""
        if text in _OPEN:
            depth += 1
        elif text in _CLOSE:
            depth = max(0, depth - 1)
            if out and out[-1] == ",":
                out.pop()
        out.append(_as_quoted(text))
    return hashlib.sha256("\0".join(out).encode("utf-8", "replace")).digest()[:SIZE]


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
