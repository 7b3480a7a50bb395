"""A tokenised statement with what the guard's rules ask of it: groups, clauses, names."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from graph.guard.tokens import Kind, Token, refuse
from plait.domain.errors import CypherRefused

_PAIRS = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Limits:
    """What the guard allows; sizes in characters or items. Chosen by trying what both servers still
    end in time (docs/cypher-guard.md), not tuned further."""

    text: int = 20_000
    tokens: int = 4_000
    nesting: int = 40
    parameter_bytes: int = 1 << 18
    parameter_depth: int = 8
    string: int = 1 << 16
    list_items: int = 5_000
    hops: int = 15  # of one variable-length pattern, and of a shortest path without an end
    open_hops: int = 8  # what another pattern without an end is given
    expression_hops: int = 3  # of a pattern that stands in an expression
    range_items: int = 10_000  # of one range()
    steps: int = 1_000_000  # of one clause in one row: 1 to 2.5 s on ArcadeDB (docs/experiments/cypher-guard.md)
    value_bytes: int = 1 << 25
    gathered_bytes: int = 1 << 27  # what one ORDER BY, DISTINCT or grouping holds
    subqueries: int = 10
    # False on ArcadeDB, see `Dialect.broken_aggregate_predicates`.
    aggregate_predicates: bool = True


@dataclass(frozen=True, slots=True)
class Statement:
    """`close[i]`: the index of the bracket that closes the one at token i; `open_of`: the reverse.
    `inside[i]`: the index of the innermost bracket round token i, -1 at the top."""

    text: str
    tokens: Sequence[Token]
    parameters: Mapping[str, Any]
    limits: Limits
    close: Mapping[int, int]
    open_of: Mapping[int, int]
    inside: Sequence[int]

    @classmethod
    def of(
        cls, text: str, tokens: Sequence[Token], parameters: Mapping[str, Any], limits: Limits
    ) -> Statement:
        """Raises: CypherRefused, for brackets that do not match or nest too deep."""
        stack: list[int] = []
        close: dict[int, int] = {}
        inside: list[int] = []
        for i, token in enumerate(tokens):
            if token.kind is Kind.SYMBOL and token.text in (")", "]", "}"):
                if not stack or _PAIRS[tokens[stack[-1]].text] != token.text:
                    raise refuse(
                        text, token.at, f"`{token.text}` closes nothing", "balance brackets"
                    )
                close[stack.pop()] = i
            inside.append(stack[-1] if stack else -1)
            if token.kind is Kind.SYMBOL and token.text in _PAIRS:
                stack.append(i)
                if len(stack) > limits.nesting:
                    raise refuse(
                        text,
                        token.at,
                        f"brackets nested deeper than {limits.nesting}",
                        "flatten it",
                    )
        if stack:
            raise refuse(
                text, tokens[stack[-1]].at, f"`{tokens[stack[-1]].text}` is not closed", "close it"
            )
        return cls(
            text, tokens, parameters, limits, close, {c: o for o, c in close.items()}, inside
        )

    def refuse(self, i: int, what: str, fix: str) -> CypherRefused:
        """An error that points at token `i`."""
        return refuse(self.text, self.tokens[i].at, what, fix)

    def at(self, i: int) -> Token | None:
        return self.tokens[i] if 0 <= i < len(self.tokens) else None

    def symbol(self, i: int, *texts: str) -> bool:
        token = self.at(i)
        return token is not None and token.is_symbol(*texts)

    def word(self, i: int, *names: str) -> bool:
        token = self.at(i)
        return token is not None and token.is_word(*names)

    def is_name(self, i: int) -> bool:
        """Whether the word at `i` can only be a name: a property (`n.set`), a label or type
        (`:Set`, `:A|Set`), or a map's key (`{set: 1}`). Decided by its neighbours alone."""
        before, after = self.at(i - 1), self.at(i + 1)
        if before is None or before.kind is not Kind.SYMBOL:
            return False
        if before.text == ".":
            owner = self.at(i - 2)
            # `1.CREATE` might be a float and a clause to some lexer; `{.name}` is a map projection.
            return owner is not None and owner.kind is not Kind.NUMBER
        if before.text == ":":
            return not self._is_map_colon(i - 1)
        if before.text in ("|", "&", "!"):
            return self._in_labels(i - 1)
        return before.text in ("{", ",") and after is not None and after.is_symbol(":")

    def _is_map_colon(self, i: int) -> bool:
        """Whether the colon at `i` follows a map's key, so that a value comes after it."""
        opener = self.inside[i]
        if opener < 0 or not self.tokens[opener].is_symbol("{"):
            return False
        return self.symbol(i - 2, "{", ",")

    def _in_labels(self, i: int) -> bool:
        """Whether `|`, `&` or `!` at `i` stands in a label expression: `:A|B&!C`."""
        while i >= 0 and (
            self.symbol(i, "|", "&", "!", ":", "(", ")")
            or self.tokens[i].kind in (Kind.WORD, Kind.QUOTED)
        ):
            if self.symbol(i, ":"):
                return True
            if self.symbol(i, "(") and not self.symbol(i - 1, ":", "|", "&", "!"):
                return False
            i -= 1
        return False

    def group(self, opener: int) -> range:
        """Token indices between the bracket at `opener` and its end."""
        return range(opener + 1, self.close[opener])

    def parts(self, opener: int) -> list[range]:
        """The comma-separated parts of a bracket, as token indices."""
        cuts = [i for i in self.group(opener) if self.inside[i] == opener and self.symbol(i, ",")]
        edges = [opener, *cuts, self.close[opener]]
        return [
            range(start + 1, end) for start, end in itertools.pairwise(edges) if end > start + 1
        ]

    def words(self) -> Iterator[tuple[int, Token]]:
        for i, token in enumerate(self.tokens):
            if token.kind is Kind.WORD:
                yield i, token
