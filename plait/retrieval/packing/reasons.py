"""Why an item is in a context, in plain words, the strongest reason first."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from itertools import islice

from plait.domain.values import Item
from plait.retrieval.packing import wording
from plait.retrieval.query.analysis import Analysis
from plait.retrieval.search_context import SearchContext
from plait.text.tokenize import query_terms

MAX_SAID = 2  # words that a reason lists
MAX_WORDS = 40  # of the query that are looked for
MIN_WORD = 3
MAX_PLACES = 20  # of a word in a text that are looked at
MAX_CHARS = 20_000  # of a text that are looked through

# What an arm that found an item says of it, where nothing better is known.
_ARMS = {
    "anchors": "the query names its place",
    "identifiers": "has a name like one in the query",
    "phrase": "has the quoted words",
    "exact": "has the number",
    "relations": "linked to the best matches",
    "semantic": "close in meaning",
    "lexical": "shares words with the query",
}
# These say more than common words do.
_TELLING = ("anchors", "identifiers", "phrase", "exact")
_WORD = re.compile(r"[^\W_]+")
# What a word goes on with: to its end, or the next part of a name in camelCase.
_REST = re.compile(r"[a-z]*")
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=\S)")
MAX_REPLIED = 4_000  # characters of what a turn replies to that are read
MAX_QUOTED = wording.MAX_REASON - len("after “”")


@dataclass(frozen=True, slots=True)
class Words:
    """A query's telling words, as written and as they begin, in their order; its identifiers' ends; and what
    the repository and its package are called, which is no reason for anything in them."""

    stems: Mapping[str, str]
    names: Mapping[str, str]
    own: Collection[str] = ()


def words_of(asked: Analysis, own: Collection[str] = ()) -> Words:
    """Words that search ranks by too: stop words are none, nor are `own` names."""
    telling = set(query_terms(asked.text))
    stems: dict[str, str] = {}
    for word in _WORD.findall(asked.text):
        low = word.casefold()
        if low in own:
            continue
        if len(low) >= MIN_WORD and not telling.isdisjoint(query_terms(word)):
            stems.setdefault(_stem(low), low)
        if len(stems) == MAX_WORDS:
            break
    ends = (name.rpartition(".")[2] for name in asked.identifiers)
    names = {end.casefold(): end for end in ends}
    return Words(stems, names, own)


def replies_to(text: str) -> str:
    """`after “Which of the two?”`: the last question of `text`, else the beginning of its first line; "" where
    it says nothing that can be seen."""
    head = text[:MAX_REPLIED]
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    asked = next((line for line in reversed(lines) if line.endswith("?")), "")
    # A dot inside of a name ends no sentence.
    said = _SENTENCE_END.split(asked)[-1] if asked else "".join(lines[:1])
    quoted = wording.one_line(said, MAX_QUOTED).replace("”", "'")
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
    named = _in(_name(item, words.own), words.stems.items())
    others = [(stem, word) for stem, word in words.stems.items() if word not in named]
    says = _in(item.content[:MAX_CHARS], others)
    said = [f"name matches {' and '.join(named.values())}"] if named else []
    return [*said, f"mentions {' and '.join(says.values())}"] if says else said


def _name(item: Item, own: Collection[str]) -> str:
    """Path and symbol, without the package that everything here is in."""
    parts = [part for part in item.path.split("/") if part.casefold() not in own]
    symbol = [part for part in item.symbol.split(".") if part.casefold() not in own]
    return f"{'/'.join(parts)} {'.'.join(symbol)}"


def _in(text: str, words: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first words, given with their stems, that `text` has, and how they stand there: other forms of them
    only where none stands as it is."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters have longer small forms
        text = folded
    has = {word: form for stem, word in words if (form := _form(text, folded, stem, word))}
    exact = {word: form for word, form in has.items() if word == form}
    return dict(islice((exact or has).items(), MAX_SAID))


def _form(text: str, folded: str, stem: str, word: str) -> str:
    """`word`, if it is a word of `text` or a part of one in camelCase; else such a one that begins with `stem`
    and is no longer than a form of it may be: a `debugger` says no "bug", a `redirect` no "redis"; else "".
    Scripts without blanks have no such places."""
    if not stem.isascii():
        return word if stem in folded else ""
    found = ""
    at = folded.find(stem)
    for _ in range(MAX_PLACES):
        if at < 0 or found == word:
            break
        before = text[at - 1] if at else " "
        if not before.isalpha() or (before.islower() and text[at].isupper()):
            form = _REST.match(text, at + len(stem)).group()  # type: ignore[union-attr]
            if len(form) <= len(word) + 2 - len(stem):
                form = folded[at : at + len(stem)] + form
                found = form if form == word or not found else found
        at = folded.find(stem, at + 1)
    return found


def _stem(word: str) -> str:
    """Its beginning, which its other forms share. Only to say what was shared: no rank hangs on it."""
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word
