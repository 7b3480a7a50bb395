"""Why an item is in a context, for people, the strongest reason first."""

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

MAX_LISTED = 2  # words that a reason lists
MAX_WORDS = 40  # of the query, searched for
MIN_WORD = 3
MAX_PLACES = 20  # occurrences of a word in a text that are examined
MAX_CHARS = 20_000  # of a text, searched

# The reason for an item by the arm that found it, used when there is no better one.
_ARMS = {
    "anchors": "the query names its place",
    "identifiers": "has a name like one in the query",
    "phrase": "has the quoted words",
    "exact": "has the number",
    "relations": "linked to the best matches",
    "semantic": "close in meaning",
    "lexical": "shares words with the query",
}
# More specific than shared common words.
_SPECIFIC = ("anchors", "identifiers", "phrase", "exact")
_WORD = re.compile(r"[^\W_]+")
# The rest of a word: to its end, or to the next part of a camelCase name.
_REST = re.compile(r"[a-z]*")
_SENTENCE_END = re.compile(r"(?<=[.!?]) (?=\S)")
MAX_REPLIED = 4_000  # characters read of the turn that another replies to
MAX_QUOTED = wording.MAX_REASON - len("after “”")


@dataclass(frozen=True, slots=True)
class Words:
    """`stems`: the query's content words by stem, in order; `names`: the last part of each identifier; `own`: the names
    of the repository and its package, which are no reason for an item in them."""

    stems: Mapping[str, str]
    names: Mapping[str, str]
    own: Collection[str] = ()


def words_of(analysis: Analysis, own: Collection[str] = ()) -> Words:
    """The words that search ranks by, too: neither stop words nor `own` names."""
    terms = set(query_terms(analysis.text))
    stems: dict[str, str] = {}
    for word in _WORD.findall(analysis.text):
        low = word.casefold()
        if low in own:
            continue
        if len(low) >= MIN_WORD and not terms.isdisjoint(query_terms(word)):
            stems.setdefault(_stem(low), low)
        if len(stems) == MAX_WORDS:
            break
    ends = (name.rpartition(".")[2] for name in analysis.identifiers)
    names = {end.casefold(): end for end in ends}
    return Words(stems, names, own)


def replies_to(text: str) -> str:
    """`after “Which of the two?”`: the last question in `text`, else the start of its first line; "" without any
    letter or digit."""
    head = text[:MAX_REPLIED]
    lines = [line.strip() for line in head.splitlines() if line.strip()]
    question = next((line for line in reversed(lines) if line.endswith("?")), "")
    # A dot inside a name does not end a sentence.
    sentence = _SENTENCE_END.split(question)[-1] if question else "".join(lines[:1])
    quoted = wording.one_line(sentence, MAX_QUOTED).replace("”", "'")
    return f"after “{quoted}”" if any(map(str.isalnum, quoted)) else ""


def reasons(
    ctx: SearchContext, item: Item, arms: Mapping[str, float], words: Words
) -> tuple[str, ...]:
    """The reasons given by the stages, else the words that its name and text share with the query, else the reason of
    the arm that found it."""
    found = list(ctx.reasons.get(item.id, ()))
    own = item.symbol.partition("#")[0].rpartition(".")[2].casefold()
    if own in words.names:
        found.insert(0, f"defines {words.names[own]}")
        arms = {arm: score for arm, score in arms.items() if arm != "identifiers"}
    found += [_ARMS[arm] for arm in _SPECIFIC if arm in arms and not ctx.reasons.get(item.id)]
    if not found:
        found = _shared(item, words)
    if not found:
        found = [text for arm, text in _ARMS.items() if arm in arms][:1]
    return tuple(dict.fromkeys(found))


def _shared(item: Item, words: Words) -> list[str]:
    named = _in(_name(item, words.own), words.stems.items())
    others = [(stem, word) for stem, word in words.stems.items() if word not in named]
    mentioned = _in(item.content[:MAX_CHARS], others)
    found = [f"name matches {' and '.join(named.values())}"] if named else []
    return [*found, f"mentions {' and '.join(mentioned.values())}"] if mentioned else found


def _name(item: Item, own: Collection[str]) -> str:
    """Path and symbol without the parts that are in `own`."""
    parts = [part for part in item.path.split("/") if part.casefold() not in own]
    symbol = [part for part in item.symbol.split(".") if part.casefold() not in own]
    return f"{'/'.join(parts)} {'.'.join(symbol)}"


def _in(text: str, words: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The first of `words`, given with their stems, that occur in `text`, with the form that occurs; inflected forms
    count only if no word occurs as written."""
    folded = text.lower()
    if len(folded) != len(text):  # a few letters have a longer lower-case form
        text = folded
    has = {word: form for stem, word in words if (form := _form(text, folded, stem, word))}
    exact = {word: form for word, form in has.items() if word == form}
    return dict(islice((exact or has).items(), MAX_LISTED))


def _form(text: str, folded: str, stem: str, word: str) -> str:
    """`word` if it is a word of `text` or part of a camelCase name; else a word that begins with `stem` and is short
    enough to be an inflection (`debugger` does not match "bug", nor `redirect` "redis"); else "". Stems that are not
    ASCII match anywhere, because some scripts do not separate words by blanks."""
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
    """The prefix that inflected forms share. Used for reasons only, not for ranking."""
    return word[: max(4, len(word) - 2)] if len(word) > 4 else word
