"""Token counts by model, exact and offline: the tables come with the `quicktok-v1` package.

Plait's own token figures (memories, summaries) are o200k_base counts. A caller may name its
model: public tokenizers count exactly; for the others o200k_base counts and a margin is reserved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Protocol, cast

from plait.domain.recall import TokenCount

O200K = "o200k_base"
MAX_MODEL = 200  # characters of a model's name

# Model names, matched from their beginning after vendor prefixes (`openai/`, `us.anthropic.`, …), the
# first that fits: (pattern, encoding).
_PUBLIC = (
    (r"(?:chatgpt-|ft:)?gpt-(?:4o|4\.1|4\.5|5|6)|chatgpt|o[1-9]\b|codex|o200k", O200K),
    (r"gpt-oss", "o200k_harmony"),
    (r"(?:ft:)?gpt-(?:4|3\.5|35)|text-embedding-(?:3|ada-002)|cl100k", "cl100k_base"),
    (r"(?:meta-)?llama-?3", "llama3"),
    (r"qwen-?(?:2|3)|qwq", "qwen3"),
)
# Tokenizers that are not public, or whose tables are not here: the share of the budget that is
# reserved. Against o200k over windows of 16 kB (250 Python files, 250 C headers, 46 others) the one Claude
# tokenizer that was published (Claude 2) gives 1.09 and 1.22 times as many, 1.44 at the 95th percentile;
# published comparisons with later ones say 1.2 to 1.5. A share of 0.3 covers 1.43. SentencePiece
# vocabularies of 128k to 256k entries are published as within 15 %; 0.2 covers 1.25.
_PRIVATE = (
    (r"claude", "claude", 0.3),
    (r"gemini|gemma|palm", "gemini", 0.2),
    (r"llama|mistral|mixtral|codestral|devstral|deepseek|grok|command|kimi|glm|phi|nova", "", 0.2),
)
_UNKNOWN_MARGIN = 0.3
_VENDOR = re.compile(r"(?:[a-z0-9_.-]{1,40}/|(?:us|eu|apac|global|anthropic|meta|qwen)\.)")


class _Tokenizer(Protocol):
    def count(self, text: str) -> int: ...

    def encode_ordinary(self, text: str) -> list[int]: ...

    def decode_bytes(self, ids: list[int]) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Counter:
    """Counts by one encoding. `counted`: the tokenizer, and how near its count is to the model's own."""

    encoding: str
    counted: TokenCount

    def count(self, text: str) -> int:
        """Tokens of `text`, as `count` below."""
        return _tokenizer(self.encoding).count(_encodable(text))

    def usable(self, budget: int) -> int:
        """What of `budget` may be filled by this count."""
        return int(budget * (1.0 - self.counted.margin))


_read: set[str] = set()  # encodings whose tables are in memory


@cache
def _tokenizer(encoding: str) -> _Tokenizer:
    """0.2 to 0.4 s and 60 MB, so at the first count and not at import."""
    import quicktok

    # Not `get_encoding`, which keeps every table to the end of the process.
    found = cast(_Tokenizer, quicktok.Tokenizer(encoding, ""))
    _read.add(encoding)
    return found


def forget() -> bool:
    """Free the tables, some 60 MB; the next count reads them again. False when none was read."""
    held = bool(_read)
    _tokenizer.cache_clear()
    _read.clear()
    return held


def is_warm(encoding: str) -> bool:
    """Whether the next count reads no table."""
    return encoding in _read


def counter(model: str = "") -> Counter:
    """The counter for `model`; "" is o200k_base. An unknown name gets o200k_base too, with the widest
    margin, and the answer reports that. Reads no table; the first count does."""
    name = model[:MAX_MODEL].strip().lower()
    if not name:
        return Counter(O200K, TokenCount(O200K, exact=True))
    bare = name
    while prefix := _VENDOR.match(bare):
        bare = bare[prefix.end() :]
    for pattern, encoding in _PUBLIC:
        if re.match(pattern, bare):
            return Counter(encoding, TokenCount(encoding, exact=True))
    for pattern, family, margin in _PRIVATE:
        if found := re.match(pattern, bare):
            label = f"{O200K} for {family or found.group()}"
            return Counter(O200K, TokenCount(label, exact=False, margin=margin))
    label = f"{O200K}; no tokenizer is known for {_named(model)!r}"
    return Counter(O200K, TokenCount(label, exact=False, margin=_UNKNOWN_MARGIN))


def counter_for(counted: TokenCount) -> Counter:
    """The counter that made `counted`; o200k_base for an encoding that is not known here."""
    known = counted.exact and counted.tokenizer in {encoding for _, encoding in _PUBLIC}
    return Counter(counted.tokenizer if known else O200K, counted)


def _named(model: str) -> str:
    return "".join(c if c.isprintable() else " " for c in model[:60]).strip()


def warm(model: str = "") -> None:
    """Read the tables that `model` needs, in a thread of the caller's."""
    counter(model).count("warm")


def count(text: str) -> int:
    """o200k_base tokens of `text`; what looks like a special token is plain text. 1 MB takes 3 to
    60 ms whatever it holds. Half surrogate pairs count as the replacement character."""
    return _tokenizer(O200K).count(_encodable(text))


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
    tokenizer = _tokenizer(O200K)
    ids = tokenizer.encode_ordinary(_encodable(text))
    # A prefix of the tokens may be tokenized anew into more of them: then one less is tried.
    for n in range(max(0, budget), 0, -1):
        prefix = tokenizer.decode_bytes(ids[:n]).decode("utf-8", "ignore")
        if count(prefix) <= budget:
            return prefix
    return ""


def _encodable(text: str) -> str:
    """The tokenizer takes UTF-8 only."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
