"""Credentials in text and bytes, covered in place: `[redacted:github-token]****`, as long as what it covers.

Lines, columns and lengths stay, so symbols, spans and diffs of a masked text fit the file it came from.
Linear in the text's length; what it costs is in docs/experiments/secrets.md. A text without a credential is returned as
it is.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from ahocorasick_rs import BytesAhoCorasick, Implementation

from plait.secrets import named
from plait.secrets.forms import FORMS, PLUGINS, WIDE
from plait.secrets.named import MARKER, Span
from plait.secrets.rules import BUILT_IN, Rules

# detect-secrets' patterns are not bounded in time: each sees this much around the text that calls for it.
_BEHIND, _AHEAD = 200, 500
_ESCAPE = re.compile(
    r"\\[nrt]|%[0-9A-Fa-f]{2}"
)  # `\nghp_…`: the letter before is no part of a word
_ALLOWED = re.compile(r"pragma:? ?(?:allow|white)list[ -]?(nextline)?[ -]?secret")
_NEAR = 1_000  # characters from a credential to the words that allow it
_UTF16 = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}


@dataclass(frozen=True, slots=True)
class _Form:
    rule: str
    start: str
    pattern: re.Pattern[str]
    whole: bool  # nothing of a word may come before


@dataclass(frozen=True, slots=True)
class _Plugin:
    rule: str
    literal: str
    module: str
    kind: str


def _literals() -> dict[str, list[_Form | _Plugin]]:
    out: dict[str, list[_Form | _Plugin]] = {}
    for rule, starts, rest in FORMS:
        for start in starts:
            form = _Form(rule, start, re.compile(re.escape(start) + rest), start[0].isalnum())
            out.setdefault(start, []).append(form)
    for rule, module, kind, literals in PLUGINS:
        for literal in literals:
            out.setdefault(literal, []).append(_Plugin(rule, literal, module, kind))
    return out


def _automaton(literals: Iterable[str]) -> BytesAhoCorasick:
    """Finds all of some hundred texts in one pass: 400 MB/s, where a search for each took 10 MB/s."""
    return BytesAhoCorasick([one.encode() for one in literals], implementation=Implementation.DFA)


_WITH = _literals()
# Literals of plugins in lower case are looked for in lower-cased text.
_LOWERED_LITERALS = [
    t for t, all_ in _WITH.items() if t == t.lower() and isinstance(all_[0], _Plugin)
]
_EXACT_LITERALS = [t for t in _WITH if t not in _LOWERED_LITERALS]
_LOWERED, _EXACT = _automaton(_LOWERED_LITERALS), _automaton(_EXACT_LITERALS)


@dataclass(frozen=True, slots=True)
class Masked:
    """`count`: credentials that were covered."""

    text: str
    count: int


class Masker:
    """Finds and covers credentials by the built-in rules and `rules`. Safe to share between threads."""

    def __init__(self, rules: Rules = BUILT_IN) -> None:
        self._off = frozenset(rules.disable)
        self._own = tuple((p.name, p.literal, re.compile(p.regex)) for p in rules.patterns)
        self._allow = tuple(re.compile(one) for one in rules.allow)

    def find(self, text: str, *, code: bool = False) -> list[Span]:
        """Where credentials are, in order, never overlapping. `code`: `text` is a file of source code."""
        body = text.encode("utf-8", "surrogatepass")
        return self._find(text, named.lower(text), body, body.lower(), code)

    def text(self, text: str, *, code: bool = False) -> Masked:
        """`text` with every credential covered."""
        spans = self.find(text, code=code)
        return Masked(_covered(text, spans), count(spans)) if spans else Masked(text, 0)

    def body(self, body: bytes, *, code: bool = False) -> tuple[bytes, int]:
        """As `text`, for bytes of UTF-16 with its mark, or of any encoding that writes ASCII as ASCII."""
        encoding = _UTF16.get(body[:2], "")
        if encoding and len(body) % 2 == 0:
            done = self.text(body.decode(encoding, "surrogatepass"), code=code)
            return (
                (done.text.encode(encoding, "surrogatepass"), done.count)
                if done.count
                else (body, 0)
            )
        text = body.decode("latin-1")
        lowered = body.lower()
        spans = self._find(text, lowered.decode("latin-1"), body, lowered, code)
        return (_covered(text, spans).encode("latin-1"), count(spans)) if spans else (body, 0)

    def _find(
        self, text: str, lowered: str, body: bytes, lowered_body: bytes, code: bool
    ) -> list[Span]:
        """`body`: the text in an encoding that writes ASCII as ASCII."""
        found = [
            *named.key_blocks(text),
            *self._by_literal(text, lowered, body, lowered_body),
            *self._by_own(text),
            *named.headers(text, lowered),
            *named.url_passwords(text),
            *named.by_name(text, lowered, code=code),
        ]
        marked = "pragma" in text
        return _apart(
            [
                span
                for span in found
                if span[2] not in self._off
                and not _is_covered(value := text[span[0] : span[1]])
                and not self._is_allowed(value)
                and not (marked and _says_allowed(text, span))
            ]
        )

    # -- kinds of rules ------------------------------------------------------------------------------

    def _by_literal(
        self, text: str, lowered: str, body: bytes, lowered_body: bytes
    ) -> Iterator[Span]:
        """By form and by plugin: the literals that the text holds say which patterns to try."""
        for i in sorted({n for n, _, _ in _EXACT.find_matches_as_indexes(body, overlapping=True)}):
            for what in _WITH[_EXACT_LITERALS[i]]:
                yield from (
                    _form(text, what) if isinstance(what, _Form) else _plugin(text, text, what)
                )
        for i in sorted(
            {n for n, _, _ in _LOWERED.find_matches_as_indexes(lowered_body, overlapping=True)}
        ):
            for what in _WITH[_LOWERED_LITERALS[i]]:
                assert isinstance(what, _Plugin)
                yield from _plugin(text, lowered, what)

    def _by_own(self, text: str) -> Iterator[Span]:
        for name, literal, pattern in self._own:
            if literal and literal not in text:
                continue
            group = "secret" if "secret" in pattern.groupindex else 0
            for match in pattern.finditer(text):
                start, end = match.span(group)
                for line in re.finditer(r"[^\r\n]+", text[start:end]):
                    yield start + line.start(), start + line.end(), name

    def _is_allowed(self, value: str) -> bool:
        return any(pattern.fullmatch(value) for pattern in self._allow)


def _says_allowed(text: str, span: Span) -> bool:
    """Whether the line of `span`, or the one before it, says that it is no secret."""
    start = max(text.rfind("\n", 0, span[0]) + 1, span[0] - _NEAR)
    end = text.find("\n", span[1], span[1] + _NEAR)
    mark = _ALLOWED.search(text, start, end if end >= 0 else span[1] + _NEAR)
    if mark and not mark[1]:
        return True
    above = max(text.rfind("\n", 0, max(0, start - 1)) + 1, start - _NEAR)
    mark = _ALLOWED.search(text, above, max(0, start - 1))
    return bool(mark and mark[1])


@lru_cache(maxsize=8)
def masker(rules: Rules = BUILT_IN) -> Masker:
    """The masker of `rules`, made once."""
    return Masker(rules)


def _begins(text: str, at: int, form: _Form) -> bool:
    """Whether a word begins at `at`."""
    if not form.whole or at == 0:
        return True
    before = text[at - 1]
    if form.rule == "jwt" and before == "-":
        return False  # also keeps `eyJ-eyJ-…` linear: its run is read once
    if not (before.isalnum() or before == "_"):
        return True
    return _ESCAPE.fullmatch(text, max(0, at - 2), at) is not None or (
        _ESCAPE.fullmatch(text, max(0, at - 3), at) is not None
    )


def _likely(rule: str, value: str) -> bool:
    """Not a name as `sk-loading-indicator` or `npm_config_…`."""
    if rule in ("aws-key-id", "jwt", "slack-hook"):
        return True
    if rule == "openai-key" and not any(c.isupper() for c in value):
        return False
    return any(c.isdigit() for c in value)


def _form(text: str, form: _Form) -> Iterator[Span]:
    at = text.find(form.start)
    while at >= 0:
        match = form.pattern.match(text, at) if _begins(text, at, form) else None
        if match is not None and _likely(form.rule, match[0]):
            yield match.start(), match.end(), form.rule
        at = text.find(form.start, match.end() if match else at + len(form.start))


def _plugin(text: str, where: str, plugin: _Plugin) -> Iterator[Span]:
    windows = _lines(where) if plugin.literal in WIDE else _windows(where, plugin.literal)
    for start, end in windows:
        for pattern in _patterns(plugin.module, plugin.kind):
            for match in pattern.finditer(text, start, end):
                yield (*_secret_of(match), plugin.rule)


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """All of `text`, in parts that overlap by what a credential takes."""
    for start in range(0, len(text), _AHEAD):
        yield max(0, start - 100), start + _AHEAD


def _windows(text: str, literal: str) -> Iterator[tuple[int, int]]:
    """The parts of lines around each `literal`, none read twice but for an edge."""
    done = 0
    for at in named.places(text, literal):
        if at < done:
            continue
        line = text.rfind("\n", max(0, at - _BEHIND), at) + 1
        start = max(line, at - _BEHIND, 0)
        end = text.find("\n", at, at + _AHEAD)
        end = end if end >= 0 else min(len(text), at + _AHEAD)
        done = end - 100 if end - at == _AHEAD else end
        yield start, end


@lru_cache(maxsize=64)
def _patterns(module: str, kind: str) -> tuple[re.Pattern[str], ...]:
    """A plugin's patterns. Imported where a text first calls for it: 0.1 s, most of it `requests`."""
    plugin = getattr(importlib.import_module(f"detect_secrets.plugins.{module}"), kind)
    return tuple(plugin.denylist)


def _secret_of(match: re.Match[str]) -> tuple[int, int]:
    """The longest group, where one holds a whole secret; some groups are just a prefix's alternatives."""
    spans = [
        match.span(i) for i in range(1, (match.re.groups or 0) + 1) if match.span(i) != (-1, -1)
    ]
    longest = max(spans, key=lambda s: s[1] - s[0], default=(0, 0))
    return longest if longest[1] - longest[0] >= 16 else match.span()


def _apart(spans: list[Span]) -> list[Span]:
    """In order; of those that overlap, one from the first start to the last end."""
    out: list[Span] = []
    for start, end, rule in sorted(spans, key=lambda s: (s[0], -s[1])):
        if out and start < out[-1][1]:
            out[-1] = (out[-1][0], max(end, out[-1][1]), out[-1][2])
        else:
            out.append((start, end, rule))
    return out


def _is_covered(value: str) -> bool:
    return MARKER in value or not value.strip("*")


def _covered(text: str, spans: list[Span]) -> str:
    out, end = [], 0
    for start, stop, rule in spans:
        marker = f"{MARKER}:{rule}]"
        room = stop - start
        out += [
            text[end:start],
            marker + "*" * (room - len(marker)) if room >= len(marker) else "*" * room,
        ]
        end = stop
    return "".join([*out, text[end:]])


def count(spans: list[Span]) -> int:
    """Credentials: the lines of a key are one as long as they follow one another."""
    count, last = 0, ""
    for _, _, rule in spans:
        count += rule != "private-key" or last != rule
        last = rule
    return count
