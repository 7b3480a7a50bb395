"""Cypher text to tokens: strings, backticks, comments and numbers told apart as the servers do.

Stricter than they are where they differ or surprise: `\\u` escapes (Neo4j decodes them before it
reads quotes and comments), characters outside ASCII between quotes' outsides (letters that a
server may fold to ASCII), control characters. Those are refused by name, never guessed at.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum, auto

from plait.domain.errors import CypherRefused


class Kind(Enum):
    WORD = auto()
    QUOTED = auto()  # `backticked name`
    STRING = auto()
    NUMBER = auto()
    PARAMETER = auto()
    SYMBOL = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """`text` as written; `name` in upper case for words, without quotes for the others."""

    kind: Kind
    text: str
    name: str
    at: int  # offset into the statement

    def is_word(self, *names: str) -> bool:
        return self.kind is Kind.WORD and self.name in names

    def is_symbol(self, *texts: str) -> bool:
        return self.kind is Kind.SYMBOL and self.text in texts


# Longest first. `..` before `.`, so that `*1..3` is three tokens; no float ends in a bare dot.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r\n\f]+)
  | (?P<line>//[^\r\n]*)
  | (?P<block>/\*.*?\*/)
  | (?P<string>'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")
  | (?P<quoted>`(?:[^`]|``)*`)
  | (?P<parameter>\$(?:[A-Za-z_][A-Za-z0-9_]*|[0-9]+|`(?:[^`]|``)*`))
  | (?P<number>0[xX][0-9a-fA-F]+|0[oO][0-7]+|(?:[0-9]+(?:\.(?!\.)[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)
  | (?P<word>[A-Za-z_][A-Za-z0-9_]*)
  | (?P<symbol>\.\.|<=|>=|<>|=~|\+=|\|\||::|/(?!\*)|[-+*%^=<>!|&:;,.()\[\]{}])
    """,
    re.VERBOSE | re.DOTALL,
)
_OPENERS = {"'": "string", '"': "string", "`": "backticked name", "/": "comment"}
_KINDS = {
    "word": Kind.WORD,
    "quoted": Kind.QUOTED,
    "string": Kind.STRING,
    "number": Kind.NUMBER,
    "parameter": Kind.PARAMETER,
    "symbol": Kind.SYMBOL,
}


def tokenize(text: str) -> tuple[list[Token], str]:
    """The tokens of `text`, and `text` with its comments blanked out (offsets stay).

    Raises: CypherRefused, with the line and column.
    """
    _no_tricks(text)
    tokens: list[Token] = []
    clean: list[str] = []
    at = 0
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _unreadable(text, at)
        kind, body = str(match.lastgroup), match.group()
        if kind in ("line", "block"):
            clean.append(re.sub(r"[^\r\n]", " ", body))
        else:
            clean.append(body)
            if kind != "space":
                tokens.append(Token(_KINDS[kind], body, _name(kind, body), at))
        at = match.end()
    return tokens, "".join(clean)


def where(text: str, at: int) -> str:
    """ "line 2, column 7" of an offset, counted from 1."""
    line = text.count("\n", 0, at) + 1
    return f"line {line}, column {at - (text.rfind(chr(10), 0, at) + 1) + 1}"


def refuse(text: str, at: int, what: str, fix: str) -> CypherRefused:
    return CypherRefused(
        f"{what} ({where(text, at)}); {fix}", field="cypher", position=where(text, at)
    )


def _name(kind: str, body: str) -> str:
    if kind == "word":
        return body.upper()
    if kind == "quoted":
        return body[1:-1].replace("``", "`")
    if kind == "parameter":
        name = body[1:]
        return name[1:-1].replace("``", "`") if name.startswith("`") else name
    return body


def _no_tricks(text: str) -> None:
    if escape := re.search(r"\\+[uU]", text):
        raise refuse(
            text,
            escape.start(),
            "a \\u escape",
            "Neo4j decodes it before it reads quotes and comments; write the character itself, "
            "or pass the text as a parameter",
        )
    for at, char in enumerate(text):
        if (char < " " and char not in "\t\r\n\f") or char == "\x7f":
            raise refuse(text, at, f"the control character {char!r}", "remove it")
        if "\ud800" <= char <= "\udfff":
            raise refuse(text, at, "half of a surrogate pair", "send valid UTF-8")


def _unreadable(text: str, at: int) -> CypherRefused:
    char = text[at]
    if char > "\x7f":
        return refuse(
            text,
            at,
            f"the character {char!r} (U+{ord(char):04X}) outside quotes",
            "put names that are not ASCII in backticks, and use plain spaces and operators",
        )
    if char in _OPENERS:
        return refuse(text, at, f"a {_OPENERS[char]} that does not end", "close it")
    return refuse(text, at, f"the character {char!r}", "it has no meaning in Cypher; remove it")
