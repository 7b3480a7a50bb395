"""A place in a statement's tokens, and what may be taken there."""

from __future__ import annotations

from graph.guard.statement import Statement
from graph.guard.tokens import Kind
from graph.guard.words import CLAUSES, OPERATORS
from plait.domain.errors import CypherRefused

RESERVED = CLAUSES | OPERATORS | {"NULL", "TRUE", "FALSE"}


class Cursor:
    """A place in a statement's tokens."""

    def __init__(self, statement: Statement) -> None:
        self.s = statement
        self.at = 0

    def word(self, *names: str) -> bool:
        """Whether the next token is one of these words. Keys of maps and properties, which may be spelled
        as keywords, are read by `name`."""
        return self.s.word(self.at, *names)

    def symbol(self, *texts: str) -> bool:
        return self.s.symbol(self.at, *texts)

    def take_word(self, *names: str) -> bool:
        found = self.word(*names)
        self.at += found
        return found

    def take(self, *texts: str) -> bool:
        found = self.symbol(*texts)
        self.at += found
        return found

    def need(self, text: str) -> None:
        if not self.take(text):
            raise self.unexpected(f"`{text}`")

    def need_word(self, name: str) -> None:
        if not self.take_word(name):
            raise self.unexpected(name)

    def name(self, *, reserved: bool = False) -> str:
        """A name; keywords only where `reserved`."""
        token = self.s.at(self.at)
        if token is not None and token.kind is Kind.QUOTED:
            self.at += 1
            return token.name
        if (
            token is not None
            and token.kind is Kind.WORD
            and (reserved or token.name not in RESERVED)
        ):
            self.at += 1
            return token.text
        raise self.unexpected("a name (a keyword goes in backticks)")

    def is_name(self, at: int) -> bool:
        token = self.s.at(at)
        return token is not None and (
            token.kind is Kind.QUOTED or (token.kind is Kind.WORD and token.name not in RESERVED)
        )

    def unexpected(self, expected: str) -> CypherRefused:
        at = min(self.at, len(self.s.tokens) - 1)
        found = f"`{self.s.tokens[at].text[:40]}`" if self.at == at else "the end"
        return self.s.refuse(at, f"{found} is not understood here", f"expected {expected}")
