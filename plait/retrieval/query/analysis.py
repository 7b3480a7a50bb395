"""The query of a caller, and its analysis: phrases, identifiers, kind, terms."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain, islice
from typing import Literal

from plait.domain.deadline import Deadline
from plait.domain.errors import InvalidInput
from plait.domain.values import Filter, ItemId
from plait.text.issue_forms import plain
from plait.text.tokenize import STOP_WORDS, query_terms, words

MAX_QUERY_BYTES = 8192
# A patch or traceback about one thing; callers cut larger ones.
MAX_ATTACHED_BYTES = 262_144
MAX_K = 200
# Enough for a pasted page; each further term costs the store a posting list.
MAX_TERMS = 256
MAX_IDENTIFIERS = 8
MAX_PHRASES = 4
MAX_EXACT = 8
# So many plain words may be one name in code.
MAX_JOINED = 6


class Mode(StrEnum):
    FAST = "fast"  # no stage that calls a language model
    FULL = "full"


class QueryKind(StrEnum):
    """What the weights of the arms depend on."""

    IDENTIFIERS = "identifiers"  # contains a name in code style
    PLAIN = "plain"  # plain language


@dataclass(frozen=True, slots=True)
class SearchQuery:
    """One search. `k` 0 and `fusion` None: as the settings say. `min_score` cuts after fusion.

    `off`: stages to skip. `why_not`: items whose absence is to be explained. `attached`: a diff or a stack trace that
    `text` is about; with one `text` may be empty."""

    text: str
    where: Filter = field(default_factory=Filter)
    k: int = 0
    min_score: float = 0.0
    mode: Mode = Mode.FAST
    fusion: Literal["minmax", "rrf"] | None = None
    explain: bool = False
    deadline: Deadline | None = None
    off: tuple[str, ...] = ()
    why_not: tuple[ItemId, ...] = ()
    attached: str = ""


@dataclass(frozen=True, slots=True)
class Analysis:
    """`text`: without NULs and half characters, which no store or model accepts, and without the
    form of an issue template; of a query with nothing but an attachment its beginning. `attached`: the diff or stack trace beside it, cleaned alike.
    `joined`: the words as one name, `parse_header_value`, in lower case; see `joined()`.

    `identifiers` are dotted names (`Session.get`), as written but for calls and separators. `weights`: of the
    terms that count more or less than another.
    """

    text: str
    kind: QueryKind
    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    identifiers: tuple[str, ...]
    words: int
    attached: str = ""
    joined: tuple[str, ...] = ()
    weights: Mapping[str, float] = field(default_factory=dict)

    @property
    def exact(self) -> tuple[str, ...]:
        """Terms with a digit in them, of three characters or more: numbers of runs, issues and versions,
        dates. Embeddings hardly distinguish them, but they are what the query is about."""
        found = (t for t in self.terms if len(t) > 2 and any(map(str.isdigit, t)))
        return tuple(islice(found, MAX_EXACT))


# For a query with a vector and no text.
NO_TEXT = Analysis("", QueryKind.PLAIN, (), (), (), 0)


def analyse(query: SearchQuery) -> Analysis:
    """Raises: InvalidInput, for a query that is empty, too long, or out of range."""
    attached = _attached(query)
    text = plain(_checked(query, attached))
    names = identifiers(text)
    return Analysis(
        text=text,
        kind=QueryKind.IDENTIFIERS if names else QueryKind.PLAIN,
        terms=tuple(query_terms(text)[:MAX_TERMS]),
        phrases=phrases(text),
        identifiers=names,
        words=len(text.split()),
        attached=attached,
        joined=joined(text),
    )


def joined(text: str) -> tuple[str, ...]:
    """A few plain words as one name in code, joined by `_`: all of them, and all but the stop words. "where is the header value" is `header_value`, and `read with default` has its `with`."""
    if len(text.split(maxsplit=2 * MAX_JOINED)) > 2 * MAX_JOINED:
        return ()
    parts = [word.decode() if isinstance(word, bytes) else word for word in words(text)]
    if not all(word.isascii() and word.isalnum() for word in parts):
        return ()  # contains code already
    whole = [word.lower() for word in parts]
    content_words = [word for word in whole if word not in STOP_WORDS]
    runs = (run for run in (whole, content_words) if 2 <= len(run) <= MAX_JOINED)
    return tuple(dict.fromkeys("_".join(run) for run in runs))


def phrases(text: str) -> tuple[str, ...]:
    """The texts in double quotes."""
    return tuple(_PHRASE.findall(text)[:MAX_PHRASES])


_PHRASE = re.compile(r'"([^"\s][^"\n]{1,200}[^"\s])"')
# A word that may be code: letters, digits, _ and the joints of a qualified name. No nesting of
# repeats, so 8 KB of anything is matched in linear time.
_WORD = re.compile(r"[^\W\d][\w.:#>$-]*(?:\(\))?", re.UNICODE)
_JOINT = re.compile(r"::|->|#|\.")
_CAMEL = re.compile(r"[a-z0-9][A-Z]|[A-Z]{2}[a-z]")
_BACKTICKS = re.compile(r"`([^`\n]{1,200})`")


def identifiers(text: str) -> tuple[str, ...]:
    """Words of `text` in code style: snake_case, camelCase, `a.b`, `f()`, `in backticks`,
    or the single word of a one-word query."""
    quoted = (match[1] for match in _BACKTICKS.finditer(text))
    found = chain(
        (name for part in quoted for name in _names(part, any_word=True)),
        _names(text, any_word=len(text.split(maxsplit=1)) == 1),
    )
    # Stop early: a page of an issue has hundreds.
    first: dict[str, None] = {}
    for name in found:
        first[name] = None
        if len(first) == MAX_IDENTIFIERS:
            break
    return tuple(first)


def _names(text: str, *, any_word: bool) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = match[0]
        if not any_word and word.isalpha() and (word.islower() or word.istitle()):
            continue  # most words; it halves the time
        called = word.endswith("()")
        name = _JOINT.sub(".", word.removesuffix("()")).strip(".:>-$")
        parts = [part for part in name.split(".") if part]
        if not parts or not all(part.isidentifier() for part in parts):
            continue  # `e-mail`, `1.2.3`, `a:b`
        written_as_code = (
            called
            or "_" in name.strip("_")
            or (len(parts) > 1 and min(map(len, parts)) > 1)  # not `e.g.`
            or _CAMEL.search(name) is not None
        )
        if written_as_code or any_word:
            yield ".".join(parts)


def _attached(query: SearchQuery) -> str:
    size = len(query.attached.encode("utf-8", "replace"))
    if size > MAX_ATTACHED_BYTES:
        raise InvalidInput(
            f"attached has {size} bytes, more than {MAX_ATTACHED_BYTES}; send the part that matters: the "
            "innermost frames, or the hunks of one change",
            field="attached",
            size=size,
            limit=MAX_ATTACHED_BYTES,
        )
    return _clean(query.attached) if query.attached.strip() else ""


def _clean(text: str) -> str:
    # Forms on web pages send CRLF: to what reads line by line a fence would never end.
    lines = text.replace("\r\n", "\n").replace("\x00", " ")
    return lines.encode("utf-8", "replace").decode("utf-8")


def _checked(query: SearchQuery, attached: str) -> str:
    size = len(query.text.encode("utf-8", "replace"))
    if size > MAX_QUERY_BYTES:
        raise InvalidInput(
            f"the query has {size} bytes, more than {MAX_QUERY_BYTES}; search for its key "
            "sentences, and attach the rest",
            field="query",
            size=size,
            limit=MAX_QUERY_BYTES,
        )
    text = _clean(query.text)
    if not text.strip():
        text = attached.encode()[:MAX_QUERY_BYTES].decode("utf-8", "ignore")
    if not text.strip():
        raise InvalidInput("the query is empty; say what to look for", field="query")
    if not 0 <= query.k <= MAX_K:
        raise InvalidInput(
            f"k is {query.k}; it must be 1 to {MAX_K}, or 0 for the default", field="k", k=query.k
        )
    if not 0.0 <= query.min_score <= 1.0:
        raise InvalidInput(
            f"min_score is {query.min_score}; it must be 0 to 1",
            field="min_score",
            value=query.min_score,
        )
    return text.strip()
