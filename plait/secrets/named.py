"""Credentials that are known by what stands beside them: a key's block, a header, a URL, a name.

Every function takes a text and returns spans `(start, end, rule)`, which hold neither a quote, a backslash
nor a line end, so that JSON stays JSON, code parses and a diff keeps its lines. Linear in the text's length.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator

Span = tuple[int, int, str]

# `\\*["']?` is a quote, escaped as often as JSON in JSON has it.
_QUOTE = r"(?:\\{0,8}[\"'`])?"
_HEADER = re.compile(
    r"(?i)(authorization" + _QUOTE + r"[ \t]{0,4}[:=,][ \t]{0,4}" + _QUOTE
    + r"(?:(?:bearer|basic|token|digest|apikey)[ \t]{1,4})?)([A-Za-z0-9+/=._~-]{8,4000})"
)  # fmt: skip
_BEARER = re.compile(r"(?i)(bearer[ \t]{1,4})([A-Za-z0-9+/=._~-]{20,4000})")
_URL_PASSWORD = re.compile(r"([^\s/:@\"'`\\<>]{0,200}:)([^\s/@\"'`\\<>]{1,200})(?=@)")
# What stands for any password: `user:password@host`, `my_secret1`.
_EXAMPLE = re.compile(
    r"(?i)(?:(?:my|your|new|old|fake|test|some|a|the|aws|db|user|uri|api|example|dummy|default)[_-]?){0,3}"
    r"(?:pass(?:word|wd|phrase)?|secret|token|key|pwd?|changeme|guest|foo|bar|baz|xxx+)s?[_-]?(?:key|here|value)?\d{0,3}"
)
_NAMES = ("key", "token", "secret", "password", "passwd", "passphrase", "pwd")
_ALONE = ("password", "passwd", "passphrase", "pwd")  # the others need a word before them
_BEFORE = re.compile(
    r"(?:api|access|secret|auth|private|client|encryption|signing|account|session)[_-]?(?:access[_-]?)?\Z"
)
_SEPARATOR = (
    r"(?:_?[A-Za-z]{0,8}\d{0,2})?" + _QUOTE + r"\]?[ \t]{0,12}(?:=>|:=|==|[=:,])[ \t]{0,12}"
)
_QUOTED = re.compile(
    r"(" + _SEPARATOR + r"(?:[bruf@]{0,2}|new String\(|String\()?\\{0,8}([\"'`]))([^\s\"'`\\]{8,500})(?=\\{0,8}\2)"
)  # fmt: skip
_BARE = re.compile(
    r"("
    + _QUOTE
    + r"[ \t]{0,4}(?:=>|:=|[=:>])[ \t]{0,4})([A-Za-z0-9+/=_.~!@#%^&*$-]{8,500})(?![\w(\[])"
)
_KEY_EDGE = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
# A key's own characters; what stands before them in a diff, or as an escaped line end, is stepped over.
_KEY_PART = re.compile(r"(?m)^[+-]|\\{1,8}[rn]|([A-Za-z0-9+/=]{2,})")
_KEY_LINE = re.compile(
    r"[\s\"'`,+\\rn>|#*-]{0,40}[A-Za-z0-9+/=]{16,}|\s*$|.{0,20}(?:Proc-Type|DEK-Info)"
)
MAX_KEY = 20_000  # characters of one key
MARKER = "[redacted"
# A value that is code or a placeholder, not a credential: `password=os.environ`, `token: xxxxxxxx`.
_PLAIN = re.compile(
    r"[A-Za-z_]{1,100}|(?:[A-Za-z_]\w{0,80}\.){1,8}\w{1,80}|[*xX.#-]{1,500}|\d{1,500}"
)
_TEMPLATE = re.compile(
    r"\$\{|\$\(|\{\{|\{[\w.!:]*\}|%\(|%[sdr]|<[^>]*>|^\$[A-Za-z_]\w*$|^[/~.]|://"
)
_DIGIT, _LETTER = re.compile(r"\d"), re.compile(r"[A-Za-z]")
_PIECE = re.compile(r"[A-Za-z0-9+]{12,}")
_CLASS = re.compile(r"[a-z]+|[A-Z]+|\d+")


def key_blocks(text: str) -> list[Span]:
    """The insides of private keys. One that has no end is taken as far as its lines read like a key."""
    if "PRIVATE KEY" not in text:
        return []
    out: list[Span] = []
    begin = -1
    for edge in _KEY_EDGE.finditer(text):
        if edge[1] == "END":
            if begin >= 0 and edge.start() - begin <= MAX_KEY:
                out += _key_parts(text, begin, edge.start())
                begin = -1
            continue
        if begin >= 0:
            out += _key_parts(text, begin, _open_end(text, begin))
        begin = edge.end()
    if begin >= 0:
        out += _key_parts(text, begin, _open_end(text, begin))
    return out


def _open_end(text: str, begin: int) -> int:
    """Where the lines that read like a key end, from `begin` on."""
    end, most = begin, min(len(text), begin + MAX_KEY)
    while end < most:
        line = text.find("\n", end, most)
        line = most if line < 0 else line
        if end > begin and not _KEY_LINE.match(text, end, line):
            break
        end = line + 1
    return min(end, most)


def _key_parts(text: str, begin: int, end: int) -> list[Span]:
    parts = [m.span(1) for m in _KEY_PART.finditer(text, begin, end) if m.lastindex]
    if not any(stop - start >= 16 for start, stop in parts):
        return []  # three dots, or words about a key
    return [(start, stop, "private-key") for start, stop in parts]


def headers(text: str, lowered: str) -> list[Span]:
    """What is sent as `Authorization`, and behind `Bearer`."""
    out = []
    for what, pattern in (("authorization", _HEADER), ("bearer", _BEARER)):
        for at in places(lowered, what):
            match = pattern.match(text, at)
            if match is not None and any(c.isdigit() for c in match[2]):
                out.append((match.start(2), match.end(2), what))
    return out


def url_passwords(text: str) -> list[Span]:
    """`hunter2` of `https://ana:hunter2@host`."""
    out = []
    for at in places(text, "://"):
        match = _URL_PASSWORD.match(text, at + 3)
        if match is None or not _is_password(match[1][:-1], match[2]):
            continue
        out.append((match.start(2), match.end(2), "url-password"))
    return out


def _is_password(user: str, password: str) -> bool:
    """Not a port, a placeholder, the user's name again, or a short word in lower case."""
    if password == user or _EXAMPLE.fullmatch(password) or _TEMPLATE.search(password):
        return False
    if _is_masked(password) or password[0] in "${%" or (password.isdigit() and len(password) <= 5):
        return False
    return len(password) >= 8 or not (password.isalpha() and password.islower())


def by_name(text: str, lowered: str, *, code: bool) -> list[Span]:
    """Values given to names such as `password` and `api_key`. In `code` quoted ones alone: what is bare
    there is an expression."""
    out = []
    for name in _NAMES:
        for at in places(lowered, name):
            end = at + len(name)
            match = _QUOTED.match(text, end)
            if match is not None:
                value, start, stop = match[3], match.start(3), match.end(3)
            elif code or (match := _BARE.match(text, end)) is None:
                continue
            else:
                value, start, stop = match[2], match.start(2), match.end(2)
            if not _is_literal(value) or _EXAMPLE.fullmatch(value):
                continue
            # `("API_KEY", "…")` sets one as often as it lists names.
            listed = "," in match[1]
            weighty = not listed and (
                name in _ALONE or _BEFORE.search(lowered, max(0, at - 24), at)
            )
            if weighty or looks_random(value):
                out.append((start, stop, name))
    return out


def _is_literal(value: str) -> bool:
    """Letters and digits mixed, and neither code nor a place to fill in."""
    if not (_DIGIT.search(value) and _LETTER.search(value)):
        return False
    return not (_is_masked(value) or _PLAIN.fullmatch(value) or _TEMPLATE.search(value))


def looks_random(value: str) -> bool:
    """Whether some part of `value` is no word, name or number: classes change often, letters hardly repeat."""
    for piece in _PIECE.findall(value):
        if not (any(c.isdigit() for c in piece) and any(c.isalpha() for c in piece)):
            continue
        changes = len(_CLASS.findall(piece)) - 1
        if changes >= 4 and entropy(piece) >= 2.8:
            return True
    return False


def entropy(text: str) -> float:
    """Shannon's, in bits a character."""
    n = len(text)
    return -sum(k / n * math.log2(k / n) for k in Counter(text).values())


def _is_masked(value: str) -> bool:
    return value.startswith(MARKER) or not value.strip("*")


def places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def lower(text: str) -> str:
    """In lower case and as long: a letter or two of Unicode grow, and places would be off."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if c.isascii() else c for c in text)
