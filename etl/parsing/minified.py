"""Which JavaScript is written for machines: minified and bundled, its symbols named `a`, `b` and `Qe`.

Measured on 2,688 files of 16 npm packages and of Django (docs/experiments/indexing.md): of the 148 that are
mostly long lines, the 84 with the marks below are what a minifier wrote, and the others are tables, lists of
exports, and maps and binaries as text. No file that a person wrote had them.
"""

from __future__ import annotations

from etl.languages.registry import language

LONG = 300  # bytes of a line. Closure's compiler breaks lines at 500
_MOSTLY = 0.8  # of a file's bytes are in long lines; of which
_BLANKS = 0.08  # at most are spaces and tabs: minifiers leave .01 to .07, people .15 to .35
_STATEMENTS = 0.012  # at least are `{`, `}` and `;`: tables and maps hold fewer than .005
_CALLS = 0.02  # at least are `(` and `)`: JSON has none
_FAMILY = "etl.languages.javascript"

# What of such a file is searched: its licence, and the names that its first functions use.
MAX_CHARS = 20_000


def is_minified(source: bytes, language_id: str) -> bool:
    """True for JavaScript or TypeScript that a minifier wrote. Linear in the length of `source`."""
    if language(language_id).family != _FAMILY:
        return False
    long = b"".join([line for line in source.split(b"\n") if len(line) >= LONG])
    if not long or len(long) < _MOSTLY * len(source):
        return False
    return (
        _share(long, b" \t") <= _BLANKS
        and _share(long, b"{};") >= _STATEMENTS
        and _share(long, b"()") >= _CALLS
    )


def _share(text: bytes, characters: bytes) -> float:
    return 1.0 - len(text.translate(None, characters)) / len(text)
