"""Why an item is in a context, in plain words, the strongest reason first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from plait.domain.values import Item
from plait.retrieval.context import SearchContext
from plait.retrieval.packing import wording
from plait.retrieval.query import Analysis
from plait.retrieval.text import query_terms

MAX_SAID = 2  # words that a reason lists
MAX_WORDS = 40  # of the query that are looked for
MIN_WORD = 3
MAX_PLACES = 20  # of a word in a text that are looked at
MAX_CHARS = 20_000  # of a text that are looked through

# What an arm that found an item says of it, where nothing better is known.
_ARMS = {
    "anchors": "the query names its place",
    "identifiers": "has a name like that in the query",
    "phrase": "has the quoted words",
    "exact": "has the number",
    "relations": "linked to the best matches",
    "semantic": "close in meaning",
    "lexical": "shares words with the query",
}
# These say more than common words do.
_TELLING = ("anchors", "identifiers", "phrase", "exact")
_WORD = re.compile(r"[^\W_]+")
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=\S)")
MAX_REPLIED = 4_000  # characters of what a turn replies to that are read
MAX_QUOTED = wording.MAX_REASON - len("after “”")


@dataclass(frozen=True, slots=True)
class Words:
    """A query's telling words, as written and as they begin, in their order; and its identifiers' ends."""

    stems: Mapping[str, str]
    names: Mapping[str, str]


def words_of(asked: Analysis) -> Words:
    """Words that search ranks by too: stop words are none."""
    telling = set(query_terms(asked.text))
    stems: dict[str, str] = {}
    for word in _WORD.findall(asked.text):
        low = word.casefold()
        if len(low) >= MIN_WORD and not telling.isdisjoint(query_terms(word)):
            stems.setdefault(_stem(low), low)
        if len(stems) == MAX_WORDS:
            break
    ends = (name.rpartition(".")[2] for name in asked.identifiers)
    names = {end.casefold(): end for end in ends}
    return Words(stems, names)


def replies_to(text: str) -> str:
    """`after “Which of the two?”`: the last question of `text`, else the beginning of its first line; "" where
    it says nothing that can be seen."""
    head = text[:MAX_REPLIED]
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    asked = next((line for line in reversed(lines) if line.endswith("?")), "")
    # A dot inside of a name ends no sentence.
    said = _SENTENCE_END.split(asked)[-1] if asked else "".join(lines[:1])
    quoted = wording.one_line(said, MAX_QUOTED)
    return f"after “{quoted}”" if any(map(str.isalnum, quoted)) else ""


def reasons(
    ctx: SearchContext, item: Item, arms: Mapping[str, float], words: Words
) -> tuple[str, ...]:
    """What the stages say of an item; then what its name and text share with the query; else what the
    arms that found it do."""
    said = list(ctx.reasons.get(item.id, ()))
    own = item.symbol.partition("#")[0].rpartition(".")[2].casefold()
    if own in words.names:
        said.insert(0, f"defines {words.names[own]}")
        arms = {arm: score for arm, score in arms.items() if arm != "identifiers"}
    said += [_ARMS[arm] for arm in _TELLING if arm in arms and not ctx.reasons.get(item.id)]
    if not said:
        said = _shared(item, words)
    if not said:
        said = [text for arm, text in _ARMS.items() if arm in arms][:1]
    return tuple(dict.fromkeys(said))


def _shared(item: Item, words: Words) -> list[str]:
    name = f"{item.path} {item.symbol}"
    named = _in(name, words.stems.items())
    others = [(stem, word) for stem, word in words.stems.items() if word not in named]
    says = _in(item.content[:MAX_CHARS], others)
    said = [f"named for {', '.join(named)}"] if named else []
    return [*said, f"says {', '.join(says)}"] if says else said


def _in(text: str, words: Iterable[tuple[str, str]]) -> list[str]:
    """The first words, given with their stems, that `text` has in some form."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters have longer small forms
        text = folded
    has = (word for stem, word in words if _says(text, folded, stem, len(word) + 2))
    return list(islice(has, MAX_SAID))


def _says(text: str, folded: str, stem: str, longest: int) -> bool:
    """Whether a word, or a part of one in camelCase, begins with `stem` and is no longer than a form of it
    may be: a `debugger` says no "bug", a `redirect` no "redis". Scripts without blanks have no such places."""
    at = folded.find(stem)
    if at < 0 or not stem.isascii():
        return at >= 0
    for _ in range(MAX_PLACES):
        before = text[at - 1] if at else " "
        if not before.isalpha() or (before.islower() and text[at].isupper()):
            rest = text[at + len(stem) : at + longest + 1]
            if len(rest) <= longest - len(stem) or not rest.isalpha() or not rest.islower():
                return True
        at = folded.find(stem, at + 1)
        if at < 0:
            return False
    return False


def _stem(word: str) -> str:
    """Its beginning, which its other forms share. Only to say what was shared: no rank hangs on it."""
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word
