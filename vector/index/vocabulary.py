"""The words of a repository's own names: what a query's words are called there.

One vocabulary a revision is read on first need, by one task for all who wait, and kept in memory; it
never changes. Who has waited `search.names_wait_s` goes on without it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from plait.domain.values import Revision
from plait.ports import View
from plait.text.tokenize import tokens
from vector.connection.pool import Scoped
from vector.index.visible import CHUNKS_OF, held

# Words of one family begin alike, so far, and one of them ends at most `TAIL` letters after that:
# serialize, serialization, serializer. Found on benchmarks/localisation.py; 4 and 6 letters gave less.
SHARED = 5
TAIL = 2
MAX_DIFFERENCE = 5
# Beyond, a view has no vocabulary: reading one would cost more than it is worth.
MAX_REPOSITORIES = 8
MAX_NAMES = 200_000
CACHED_TERMS = 1_000_000  # of all revisions together, some 100 bytes each
MAX_WORDS = 500  # of a question

NAMES = f"""
SELECT DISTINCT f.name FROM file_member m JOIN files f ON {CHUNKS_OF}
 WHERE m.repo_id = %(repo)s AND {held("m", "%(number)s")}
   AND f.name <> '' AND NOT f.is_test
 LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """`often`: in how many names a term is. `families`: terms by their first `SHARED` letters, most used
    first."""

    often: Mapping[str, int]
    families: Mapping[str, Sequence[str]]


def vocabulary_of(names: Iterable[str]) -> Vocabulary:
    often = Counter(term for name in names for term in set(tokens(name)))
    families: defaultdict[str, list[str]] = defaultdict(list)
    for term in sorted(often, key=lambda t: (-often[t], t)):
        if len(term) >= SHARED and term.isalpha():
            families[term[:SHARED]].append(term)
    return Vocabulary(often, families)


def going_with(word: str, vocabularies: Sequence[Vocabulary], k: int) -> list[str]:
    """The word alone where a name holds it, else up to `k` words of its family, most used first."""
    if any(word in known.often for known in vocabularies):
        return [word]
    if len(word) < SHARED or not word.isalpha():
        return []
    found: Counter[str] = Counter()
    for known in vocabularies:
        for term in known.families.get(word[:SHARED], ()):
            if related(word, term):
                found[term] += known.often[term]
    return sorted(found, key=lambda t: (-found[t], t))[:k]


def related(one: str, other: str) -> bool:
    pairs = enumerate(zip(one, other, strict=False))
    alike = next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))
    shorter, longer = sorted((len(one), len(other)))
    return alike >= max(SHARED, shorter - TAIL) and longer - shorter <= MAX_DIFFERENCE


class VocabularyCache:
    """Of the revisions that were asked for last, `terms` terms together. `wait_s`: how long one that is
    being read is waited for."""

    def __init__(self, terms: int = CACHED_TERMS, *, wait_s: float = 0.25) -> None:
        self._limit = terms
        self._wait_s = wait_s
        self._held: OrderedDict[tuple[int, int], Vocabulary] = OrderedDict()
        self._reading: dict[tuple[int, int], asyncio.Task[Vocabulary]] = {}

    def get(self, revision: Revision) -> Vocabulary | None:
        key = (revision.repo_id, revision.number)
        if key in self._held:
            self._held.move_to_end(key)
        return self._held.get(key)

    def put(self, revision: Revision, vocabulary: Vocabulary) -> None:
        self._held[(revision.repo_id, revision.number)] = vocabulary
        while len(self._held) > 1 and sum(len(v.often) for v in self._held.values()) > self._limit:
            self._held.popitem(last=False)

    async def read(
        self, revision: Revision, names: Callable[[], Awaitable[Sequence[str]]]
    ) -> Vocabulary | None:
        """Read it, once however many ask; None after `wait_s`, while the reading goes on."""
        key = (revision.repo_id, revision.number)
        task = self._reading.get(key)
        if task is None:
            task = asyncio.create_task(self._read(revision, names), name="vocabulary")
            self._reading[key] = task
            task.add_done_callback(lambda done: self._done(key, done))
        done, _ = await asyncio.wait({task}, timeout=self._wait_s)
        return task.result() if done else None

    async def _read(
        self, revision: Revision, names: Callable[[], Awaitable[Sequence[str]]]
    ) -> Vocabulary:
        made = await asyncio.to_thread(vocabulary_of, await names())
        self.put(revision, made)
        return made

    def _done(self, key: tuple[int, int], task: asyncio.Task[Vocabulary]) -> None:
        self._reading.pop(key, None)
        if not task.cancelled():
            task.exception()  # seen: who asked may have gone on without it

    async def close(self) -> None:
        reading = list(self._reading.values())
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)


class Words:
    """SearchStore's `vocabulary`."""

    def __init__(self, app: Scoped) -> None:
        self._app = app
        self._vocabularies = VocabularyCache(wait_s=app.settings.search.names_wait_s)

    async def close(self) -> None:
        """End the reads that nobody waits for any more."""
        await self._vocabularies.close()

    async def vocabulary(self, view: View, words: Sequence[str], k: int) -> dict[str, list[str]]:
        revisions = [revision for revision in view.revisions if revision.chunks]
        if not words or not revisions or len(revisions) > MAX_REPOSITORIES:
            return {}
        known = [v for r in revisions if (v := await self._vocabulary(view, r)) is not None]
        found = {word: going_with(word, known, k) for word in dict.fromkeys(words[:MAX_WORDS])}
        return {word: terms for word, terms in found.items() if terms}

    async def _vocabulary(self, view: View, revision: Revision) -> Vocabulary | None:
        async def names() -> Sequence[str]:
            params = {"repo": revision.repo_id, "number": revision.number, "most": MAX_NAMES + 1}
            rows = await self._app.rows(NAMES, params, tenant=view.tenant)
            return [row[0] for row in rows] if len(rows) <= MAX_NAMES else []

        known = self._vocabularies.get(revision)
        return known or await self._vocabularies.read(revision, names)
