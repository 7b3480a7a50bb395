"""Make text safe for a context: on one line, quoted, fenced, shortened. All input is untrusted.

No item can close a fence, begin a bullet or imitate a heading of the context.
"""

from __future__ import annotations

import re
import unicodedata

from plait.domain.display import visible as visible

MAX_NAME = 160  # characters of a path or symbol
MAX_REASON = 80
MAX_SENTENCE = 200

_BLANKS = re.compile(r"\s+")
_TICKS = re.compile(r"`+")
_PLAIN = re.compile(r"[^\W\d][\w.:$]*")
_BEGINS = re.compile(r"[-+*#>|=~<_]|\d+[.)]|`{3}")
_PATH = re.compile(r"[\w./@+-]*")
_END = re.compile(r"[.!?](?=\s|$)|[。！？]")
# Bidirectional overrides and other invisible characters; the joiners of emoji and scripts are allowed.
_UNSEEN = frozenset(["Cc", "Cf", "Cs", "Co", "Cn"])
_JOINERS = frozenset("\u200c\u200d")
# A line that could be taken for one of the context's own: headings of both kinds, bullets with a score, fences and
# quotes, rules, tags, and markers that end or begin a conversation's turn.
_STRUCTURE = re.compile(
    r"^[ \t>]*(?:#{1,6}(?:\s|$)|[-*+•][ \t]+\[\s*score|`{3}|~{3}|={3,}\s*$|-{3,}\s*$|\*{3,}\s*$|_{3,}\s*$"
    r"|</?[a-z!?|\[]|\[/?[A-Z]{2,}\]|>|\W{0,3}end of (?:the )?(?:context|memor|quot|data))"
    r"|relevant memories|repository map|\[score:|\([a-z]{4,14}, (?:repository|test-passed|agent-claimed|external)\)|<\|",
    re.IGNORECASE | re.MULTILINE,
)


def one_line(text: str, limit: int) -> str:
    """`text` without line ends and invisible characters, at most `limit` characters; "…" marks a cut."""
    text = text[: 4 * limit]
    if len(text) <= limit and text.isascii() and text.isprintable() and "  " not in text:
        return text.strip()
    if not (text.isascii() and text.isprintable()):
        text = "".join(
            c if c in _JOINERS or unicodedata.category(c) not in _UNSEEN else " " for c in text
        )
    text = _BLANKS.sub(" ", text).strip()
    if len(text) <= limit:
        return text
    cut = text[: limit - 1]
    head, _, _ = cut.rpartition(" ")
    return f"{head if len(head) > limit // 2 else cut}…"


def code(text: str, limit: int = MAX_NAME) -> str:
    """`text` as a code span that backticks inside it cannot close."""
    line = one_line(text, limit)
    ticks = "`" * (_longest(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{pad}{line}{pad}{ticks}"


def plain(name: str) -> bool:
    """Whether `name` is safe outside a code span: the title of a test may be any text."""
    return _PLAIN.fullmatch(name) is not None


def inside(line: str) -> str:
    """`line` as the start of a line that begins no bullet, heading or quote."""
    return f"… {line}" if _BEGINS.match(line) else line


def fenced(text: str, language: str = "") -> str:
    """`text` in a fence longer than any run of backticks in it; ends with a line end."""
    text = visible(text)
    fence = "`" * max(3, _longest(text) + 1)
    label = "".join(c for c in language[:20] if c.isascii() and (c.isalnum() or c in "+-#"))
    return f"{fence}{label}\n{text.rstrip()}\n{fence}\n"


def imitates(text: str) -> bool:
    """Whether a line of `text`, indented under a bullet, could be taken for one of the context's own."""
    return _STRUCTURE.search(visible(text)) is not None


def spot(path: str, limit: int) -> str:
    """A path in running text: unchanged if it has only path characters, else as a code span."""
    line = one_line(path, limit)
    return line if _PATH.fullmatch(line) else code(line, limit)


def quoted(text: str) -> str:
    """Every line of `text` behind `> `, whatever ends its lines; ends with a line end."""
    return "".join(f"> {line}".rstrip() + "\n" for line in visible(text).strip().splitlines())


def indented(text: str) -> str:
    """Every line of `text` behind two spaces: part of its bullet."""
    return "".join(f"  {line}".rstrip() + "\n" for line in visible(text).strip().splitlines())


def first_paragraph(text: str) -> str:
    """The lines before the first blank one."""
    lines: list[str] = []
    for line in text.strip().splitlines():
        if not line.strip():
            break
        lines.append(line)
    return "\n".join(lines)


def first_sentence(text: str, limit: int = MAX_SENTENCE) -> str:
    """The first sentence of `text` on one line."""
    line = one_line(text, 4 * limit)
    end = _END.search(line)
    return one_line(line[: end.end()] if end else line, limit)


def _longest(text: str) -> int:
    """The longest run of backticks."""
    return max(map(len, _TICKS.findall(text)), default=0)
