"""What a query says of time, and whose session asks: priors for agents' items. Code has neither."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

from plait.domain.errors import TimeNotUnderstood
from plait.domain.values import ItemId
from plait.ports import Place
from plait.retrieval.query.code_references import Span
from plait.retrieval.ranking.weights import DEFAULT
from plait.text import time_expressions

MAX_READ = 4_000  # characters; what a question is about is said early
WEIGHTS = DEFAULT.memories
# The caller's zone is not known here, and what was done "yesterday" is often written down the day after.
SLACK = timedelta(hours=14)

_DAYS = "mon|tues|wednes|thurs|fri|satur|sun"
_MONTHS = (
    "january|february|march|april|may|june|july|august|september|october|november|december"
    "|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec"
)
_UNITS = "second|minute|hour|day|week|fortnight|month|quarter|year"
_NUMBERS = r"\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|a couple"
_YEAR = r"(?:19|20|21)\d\d"
# What may name a time; `timewords` then says whether it does, and which.
_WORDS = re.compile(
    r"\b(?:(?P<bound>since|after|before|until|till|by|from)\s{1,3}(?:the\s{1,3})?)?(?P<words>"
    r"(?:the\s)?day before yesterday|yesterday(?: (?:morning|afternoon|evening|night))?"
    r"|today|tonight|last night|this (?:morning|afternoon|evening)"
    rf"|(?:last|previous|this) (?:(?:{_DAYS})day|(?:{_MONTHS})\b|day|week|month|quarter|year)"
    rf"|(?:{_NUMBERS})(?: of)? (?:{_UNITS})s? ago"
    rf"|(?:{_UNITS}) before last"
    rf"|(?:on|in|during) (?:(?:{_DAYS})day|(?:{_MONTHS})(?: {_YEAR})?|q[1-4] {_YEAR}|{_YEAR})\b"
    rf"|(?:{_DAYS})day"
    rf"|(?:{_MONTHS}) \d{{1,2}}(?:st|nd|rd|th)?(?:,? {_YEAR})?"
    rf"|\d{{1,2}}(?:st|nd|rd|th)? (?:of )?(?:{_MONTHS})(?: {_YEAR})?"
    rf"|{_YEAR}-\d\d(?:-\d\d)?"
    r")\b",
    re.IGNORECASE | re.ASCII,
)
_MAY = re.compile(
    rf"ago\b|last|yesterday|today|tonight|this|previous|{_DAYS}|20\d\d|19\d\d|in |on |during|since|before"
    rf"|after|until|till|{_MONTHS}",
    re.IGNORECASE,
)
_EARLIEST = datetime(1970, 1, 1, tzinfo=UTC)


def span(text: str, now: datetime) -> Span | None:
    """The first time that `text` names, as a period around it: "last week", "since Tuesday", "in March".
    None where it names none. Zones are UTC."""
    text = text[:MAX_READ]
    if _MAY.search(text) is None:
        return None
    for match in _WORDS.finditer(text):
        words = " ".join(match["words"].split())
        # `may` and `march` are verbs, and dates stand in code: only with a word that says when.
        found = _resolved(words, (match["bound"] or "").lower(), now)
        if found is not None:
            return found
    return None


def _resolved(words: str, bound: str, now: datetime) -> Span | None:
    try:
        start = time_expressions.resolve(words, now, UTC, bound=True)
        end = time_expressions.resolve(words, now, UTC)
    except TimeNotUnderstood:
        return None
    if end < start:
        start, end = end, start
    if words.lower().endswith("ago"):
        # "two weeks ago" is no instant but about then: half the distance to either side.
        around = min((now - start) / 4, timedelta(days=60))
        start, end = start - around, end + around
    if bound in ("since", "after", "from"):
        end = max(now, start)
    elif bound in ("before", "until", "till", "by"):
        start, end = _EARLIEST, start
    return Span(start, end, words)


def in_time(places: Mapping[ItemId, Place], named: Span | None) -> dict[ItemId, float]:
    """Of agents' items from outside the time that the query names, `OUTSIDE`."""
    if named is None:
        return {}
    first, last = named.start - min(SLACK, named.start - _EARLIEST), named.end + SLACK
    return {
        id_: WEIGHTS.outside_time
        for id_, p in places.items()
        if p.ts is not None and not first <= p.ts <= last
    }


def in_scope(
    places: Mapping[ItemId, Place], session_key: str, agent_id: str
) -> dict[ItemId, float]:
    """How near an item's writer is to who asks; nothing where nobody says who that is."""
    if not (session_key or agent_id):
        return {}
    out: dict[ItemId, float] = {}
    for id_, p in places.items():
        if session_key and p.session_key == session_key:
            out[id_] = WEIGHTS.same_session
        elif agent_id and p.agent_id not in ("", agent_id):
            out[id_] = WEIGHTS.other_agent
    return out
