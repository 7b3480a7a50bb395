"""Exact o200k_base tokens, offline: the tables come with the `quicktok-v1` package.

Models whose tokenizer is not public count differently; what is said in tokens is said in o200k's.
"""

from __future__ import annotations

from functools import cache
from typing import Protocol, cast


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...

    def encode_ordinary(self, text: str) -> list[int]: ...

    def decode_bytes(self, ids: list[int]) -> bytes: ...


@cache
def _tokenizer() -> _Tokenizer:
    """0.4 s and 20 MB, so at the first count and not at import."""
    import quicktok

    return cast(_Tokenizer, quicktok.get_encoding("o200k_base"))


def count(text: str) -> int:
    """o200k_base tokens of `text`; what looks like a special token is plain text. 1 MB takes 3 to
    60 ms whatever it holds. Half surrogate pairs count as the replacement character."""
    return _tokenizer().count(_encodable(text))


def fits(text: str, budget: int) -> bool:
    """Whether `text` has at most `budget` tokens. A token is at least one byte: short texts are not
    counted."""
    if len(text) * 4 <= budget:
        return True
    return count(text) <= budget


def cut(text: str, budget: int) -> str:
    """The longest prefix of whole tokens, ended at a whole character, that has at most `budget`."""
    if fits(text, budget):
        return text
    ids = _tokenizer().encode_ordinary(_encodable(text))
    # A prefix of the tokens may be tokenized anew into more of them: then one less is tried.
    for n in range(max(0, budget), 0, -1):
        prefix = _tokenizer().decode_bytes(ids[:n]).decode("utf-8", "ignore")
        if count(prefix) <= budget:
            return prefix
    return ""


def _encodable(text: str) -> str:
    """The tokenizer takes UTF-8 only."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
