"""What a snapshot must hold, given what was sent and acknowledged. Pure: no I/O."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise
from uuid import UUID

from benchmarks.soak.bodies import MARKED_IN
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.snapshot import Item, Snapshot

# What a forgotten episode's request id is kept with.
NOTHING: tuple[UUID, tuple[UUID, ...]] = (UUID(int=0), ())


class Claim(StrEnum):
    LOST = "an acknowledged write is lost"
    PARTIAL = "something partial is visible"
    EFFECT = "a request had not one effect"
    GRAPH = "the graph is not its projection"
    PAST = "the past changed"
    SERVICE = "the service did not come back"


@dataclass(frozen=True, slots=True)
class Violation:
    claim: Claim
    what: str

    def __str__(self) -> str:
        return f"{self.claim}: {self.what}"


def examine(shot: Snapshot, requests: Sequence[Request]) -> list[Violation]:
    """Every violation in one repository. `requests`: all that were sent about it."""
    return [
        *_episodes(shot, [r for r in requests if r.kind is Kind.EPISODE]),
        *_shapes(shot, [r for r in requests if r.kind is Kind.EPISODE]),
        *_memories(shot, [r for r in requests if r.kind in (Kind.MEMORY, Kind.LEARN)]),
        *_learned(shot, [r for r in requests if r.kind is Kind.LEARN]),
        *_closed(shot, requests),
        *_compacted(shot),
        *_upkeep(shot, requests),
        *_fed_back(shot, [r for r in requests if r.kind is Kind.FEEDBACK]),
        *_code(shot, [r for r in requests if r.kind is Kind.INDEX]),
        *_versions(shot),
        *_text_index(shot),
        *_outbox(shot),
    ]


# -- episodes ------------------------------------------------------------------------------------------------


def _episodes(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    by_episode: dict[UUID, list[Item]] = {}
    for item in shot.items:
        if item.episode_id is not None:
            by_episode.setdefault(item.episode_id, []).append(item)
    for episode in by_episode.keys() - shot.episodes.keys():
        yield Violation(Claim.PARTIAL, f"items without their episode {episode}")
    answered = Counter(episode for episode, _ in shot.requests.values())
    for episode in shot.episodes:
        if answered[episode] != 1:
            n = answered[episode]
            yield Violation(Claim.EFFECT, f"episode {episode} belongs to {n} request ids")
    known = {request.id: request for request in requests}
    for stray in shot.requests.keys() - known.keys():
        yield Violation(Claim.EFFECT, f"a stored request {stray} that nobody sent")
    places: Counter[str] = Counter(item.content for item in shot.items if item.episode_id)
    for request in requests:
        yield from _episode(shot, request, by_episode, places)


def _episode(
    shot: Snapshot,
    request: Request,
    by_episode: dict[UUID, list[Item]],
    places: Counter[str],
) -> Iterator[Violation]:
    row = shot.requests.get(request.id)
    if row is None or request.forgotten:
        if request.acked and not request.forgotten:
            yield Violation(Claim.LOST, f"episode of request {request.id}")
        if any(places[text] for text in request.texts):
            why = "was forgotten" if request.forgotten else "is not stored"
            yield Violation(Claim.PARTIAL, f"items of request {request.id}, which {why}")
        if row is not None and row != NOTHING:  # its id stays, so that a repeat brings nothing back
            yield Violation(Claim.PARTIAL, f"request {request.id} was forgotten and has {row}")
        return
    episode, item_ids = row
    items = {item.id: item.content for item in by_episode.get(episode, ())}
    found = Counter(items.values())
    whole = episode in shot.episodes and found == Counter(request.texts)
    if not whole or set(item_ids) != items.keys():
        claim = Claim.LOST if request.acked else Claim.PARTIAL
        have = f"{sum(found.values())} of {len(request.texts)} items"
        yield Violation(claim, f"episode {episode} of request {request.id} has {have}")
    if request.answer:  # a command does not say which ids its episodes were given
        told = (request.answer["episode_id"], request.answer["item_ids"])
        if told != (str(episode), [str(id_) for id_ in item_ids]):
            yield Violation(Claim.EFFECT, f"request {request.id} was answered otherwise: {told}")
    if any(places[text] > 1 for text in request.texts):
        yield Violation(Claim.EFFECT, f"request {request.id} is stored more than once")


def _shapes(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """Requests of one shape leave equally many hunks, test results, evidence, nodes: else one is partial."""
    seen: dict[str, Counter[tuple[int, ...]]] = {}
    for request in requests:
        if request.shape and request.id in shot.requests:
            derived = shot.derived.get(shot.requests[request.id][0])
            if derived is not None:
                seen.setdefault(request.shape, Counter())[derived] += 1
    for shape, found in seen.items():
        if len(found) > 1:
            yield Violation(
                Claim.PARTIAL, f"episodes of shape {shape} left different rows: {found}"
            )


# -- memories ------------------------------------------------------------------------------------------------


def _memories(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    entries = _entries(shot.items)
    texts: dict[str, set[UUID]] = {}
    for entry, versions in entries.items():
        for item in versions:
            texts.setdefault(item.content, set()).add(entry)
    groups: dict[str, set[bool]] = {}
    for request in requests:
        stored = request.id in shot.memory_requests
        if request.group:
            groups.setdefault(request.group, set()).add(stored)
        if request.kind is Kind.MEMORY:
            yield from _memory(shot, request, entries, texts)
    for group, stored_all in groups.items():
        if len(stored_all) > 1:
            yield Violation(Claim.PARTIAL, f"batch {group} is stored in part")
    for stray in shot.memory_requests.keys() - {request.id for request in requests}:
        yield Violation(Claim.EFFECT, f"a stored request {stray} that nobody sent")
    answered = {entry for ids, _ in shot.memory_requests.values() for entry in ids}
    answered |= {into for _, _, into in shot.steps if into is not None}  # summaries
    answered |= {into for _, into in shot.undone if into is not None}
    for entry, versions in entries.items():
        if versions[0].episode_id is None and entry not in answered:
            yield Violation(Claim.EFFECT, f"memory {entry} belongs to no request")


def _memory(
    shot: Snapshot,
    request: Request,
    entries: dict[UUID, list[Item]],
    texts: dict[str, set[UUID]],
) -> Iterator[Violation]:
    (text,) = request.texts
    row = shot.memory_requests.get(request.id)
    if row is None or request.forgotten:
        if request.acked and not request.forgotten:
            yield Violation(Claim.LOST, f"memory of request {request.id}")
        if not request.duplicate_of and texts.get(text):
            why = "was forgotten" if request.forgotten else "is not stored"
            yield Violation(Claim.PARTIAL, f"memory of request {request.id}, which {why}")
        if row is not None and row[0]:
            yield Violation(Claim.PARTIAL, f"request {request.id} was forgotten and has {row}")
        return
    entry = row[0][0] if row[0] else UUID(int=0)
    if not any(item.content == text for item in entries.get(entry, ())):
        claim = Claim.LOST if request.acked else Claim.PARTIAL
        yield Violation(claim, f"entry {entry} of request {request.id} has not its text")
    if request.answer is not None and request.answer["entry_id"] != str(entry):
        told = request.answer["entry_id"]
        yield Violation(Claim.EFFECT, f"request {request.id} was answered with entry {told}")
    if len(texts.get(text, ())) > 1:
        yield Violation(Claim.EFFECT, f"request {request.id} made more than one entry")


def _learned(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """A turn leads to all of its memories, each once, or to none."""
    entries = _entries(shot.items)
    places = Counter(versions[0].content for versions in entries.values())
    for request in requests:
        row = shot.memory_requests.get(request.id)
        have = Counter({text: places[text] for text in request.texts if places[text]})
        if row is None:
            if request.acked:
                yield Violation(Claim.LOST, f"turn of request {request.id}")
            if have:
                yield Violation(
                    Claim.PARTIAL, f"memories of turn {request.id}, which is not stored"
                )
            continue
        stored = Counter(entries[id_][0].content for id_ in row[0] if id_ in entries)
        if stored != Counter(request.texts):
            claim = Claim.LOST if request.acked else Claim.PARTIAL
            n = f"{sum(stored.values())} of {len(request.texts)} memories"
            yield Violation(claim, f"turn {request.id} has {n}")
        if any(times > 1 for times in have.values()):
            yield Violation(Claim.EFFECT, f"turn {request.id} is stored more than once")
        told = None if request.answer is None else request.answer["entry_ids"]
        if told is not None and set(told) != {str(id_) for id_ in row[0]}:
            yield Violation(Claim.EFFECT, f"turn {request.id} was answered otherwise: {told}")


def _closed(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """An entry is closed when something that closes it was acknowledged, open when nothing could have."""
    entries = _entries(shot.items)
    closers: dict[str, list[Request]] = {}
    for request in requests:
        if request.closes:
            closers.setdefault(request.closes, []).append(request)
    for request in requests:
        if request.kind is not Kind.MEMORY or request.answer is None or request.forgotten:
            continue
        entry = request.answer["entry_id"]
        versions = entries.get(UUID(entry))
        if not versions:
            continue  # `_memory` says that it is lost
        alive = versions[-1].superseded_at is None
        by = closers.get(entry, ())
        if alive and any(closer.acked for closer in by):
            yield Violation(Claim.LOST, f"entry {entry} is open, its closing was acknowledged")
        compacted = any(action != "pin" and str(e) == entry for action, e, _ in shot.steps)
        if not alive and not compacted and not any(_may_have_closed(shot, c) for c in by):
            yield Violation(Claim.LOST, f"entry {entry} is closed, nobody closed it")


def _may_have_closed(shot: Snapshot, closer: Request) -> bool:
    return closer.kind is Kind.DELETE or closer.id in shot.memory_requests


def _compacted(shot: Snapshot) -> Iterator[Violation]:
    """A compaction that stands has closed all it says, and what stands for it is there."""
    entries = _entries(shot.items)
    for action, entry, into in shot.steps:
        versions = entries.get(entry)
        if action == "pin" or not versions:
            continue
        if versions[-1].superseded_at is None:
            yield Violation(Claim.PARTIAL, f"entry {entry} is open, a compaction closed it")
        if into is not None and into not in entries and into not in shot.forgotten:
            yield Violation(Claim.PARTIAL, f"what stands for entry {entry} is not there: {into}")


def _upkeep(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """Acknowledged compactions and undoings are there; an undone one leaves nothing closed."""
    entries = _entries(shot.items)
    again = {entry for _, entry, _ in shot.steps}
    for request in requests:
        if request.kind is Kind.COMPACT and request.payload not in shot.compactions:
            yield Violation(Claim.LOST, f"compaction {request.payload}")
        if request.kind is Kind.UNDO and not shot.compactions.get(request.payload):
            yield Violation(Claim.LOST, f"the undoing of compaction {request.payload}")
    for entry in {entry for entry, _ in shot.undone} - again:
        versions = entries.get(entry)
        if versions and versions[-1].superseded_at is not None:
            yield Violation(Claim.PARTIAL, f"entry {entry} is closed, its compaction was undone")


# -- feedback and code -----------------------------------------------------------------------------------------


def _fed_back(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """A report is there with both of its verdicts, each once, or has left nothing."""
    said: dict[UUID, list[tuple[UUID, bool, bool]]] = {}
    for recall, item, helped, harmed in shot.verdicts:
        said.setdefault(recall, []).append((item, helped, harmed))
    for request in requests:
        recall, helped_id, harmed_id = request.payload
        row = shot.feedback.get(request.id)
        found = sorted(said.pop(recall, []))
        if row is None:
            if request.acked:
                yield Violation(Claim.LOST, f"feedback {request.id}")
            if found:
                yield Violation(Claim.PARTIAL, f"verdicts of feedback {request.id}, not stored")
            continue
        if found != sorted([(helped_id, True, False), (harmed_id, False, True)]):
            claim = Claim.LOST if request.acked else Claim.PARTIAL
            yield Violation(claim, f"feedback {request.id} has the verdicts {found}")
        if row[0] != recall or (request.answer and row[1] != request.answer["accepted"]):
            yield Violation(Claim.EFFECT, f"feedback {request.id} was answered otherwise: {row}")
    for stray in shot.feedback.keys() - {request.id for request in requests}:
        yield Violation(Claim.EFFECT, f"a stored feedback {stray} that nobody sent")
    for recall in said:
        yield Violation(Claim.EFFECT, f"verdicts on recall {recall}, on which nobody reported")


def _code(shot: Snapshot, requests: Sequence[Request]) -> Iterator[Violation]:
    """The published files are those of one run: of the last that was acknowledged, or of one since."""
    words = [request.texts[0] for request in requests]
    acked = [n for n, request in enumerate(requests) if request.acked]
    if not acked:
        return
    by_word: dict[str, Counter[str]] = {word: Counter() for word in words}
    for path, text in shot.code:
        for word in words:
            # Each file says its word twice: in a name, and in what that returns.
            if times := text.count(word):
                by_word[word][path] += times
    held = [word for word in words if by_word[word]]
    if not held or words.index(held[-1]) < acked[-1]:
        yield Violation(Claim.LOST, f"the index of run {requests[acked[-1]].id}")
    whole = dict.fromkeys(MARKED_IN, 2)
    if len(held) > 1 or (held and dict(by_word[held[0]]) != whole):
        seen = {word: dict(by_word[word]) for word in held}
        yield Violation(Claim.PARTIAL, f"the published files are of several runs: {seen}")


def _versions(shot: Snapshot) -> Iterator[Violation]:
    """Versions of an entry follow each other without overlap, and without a gap unless a compaction was
    undone; only the last can be open."""
    undone = {entry for entry, _ in shot.undone}
    for entry, versions in _entries(shot.items).items():
        numbers = [item.version for item in versions]
        if numbers != list(range(1, len(numbers) + 1)):
            yield Violation(Claim.PARTIAL, f"entry {entry} has versions {numbers}")
        for before, after in pairwise(versions):
            ends, begins = before.superseded_at, after.recorded_at
            reopened = entry in undone and ends is not None and ends < begins
            if ends != begins and not reopened:
                n = before.version
                yield Violation(Claim.PARTIAL, f"entry {entry}: version {n} ends where none begins")
    if shot.clock is not None:
        ahead = [i.id for i in shot.items if i.entry_id is not None and i.recorded_at > shot.clock]
        if ahead:
            yield Violation(Claim.PAST, f"recorded after the repository's clock: {ahead[:3]}")


def _entries(items: Iterable[Item]) -> dict[UUID, list[Item]]:
    """Versions by entry, oldest first. Notes of episodes are entries, too."""
    found: dict[UUID, list[Item]] = {}
    for item in items:
        if item.entry_id is not None:
            found.setdefault(item.entry_id, []).append(item)
    for versions in found.values():
        versions.sort(key=lambda item: item.version)
    return found


# -- what is derived -------------------------------------------------------------------------------------------


def _text_index(shot: Snapshot) -> Iterator[Violation]:
    """Each item is in the text index once, and nothing else is."""
    indexed = Counter(id_ for segment in shot.segments for id_ in segment.ids)
    there = {item.id: item for item in shot.items}
    for segment in shot.segments:
        if len(segment.ids) != segment.docs:
            yield Violation(Claim.PARTIAL, f"segment {segment.id} names {len(segment.ids)} texts")
    for number in shot.without_terms:
        yield Violation(Claim.PARTIAL, f"segment {number} has no postings")
    for id_, times in indexed.items():
        if times > 1:
            yield Violation(Claim.EFFECT, f"item {id_} is {times} times in the text index")
        if id_ not in there:
            yield Violation(Claim.PARTIAL, f"the text index knows {id_}, which is no item")
    for id_, item in there.items():
        if id_ not in indexed and item.superseded_at is None:
            yield Violation(Claim.PARTIAL, f"item {id_} is not in the text index")


def _outbox(shot: Snapshot) -> Iterator[Violation]:
    for event, kind, cause in shot.dead:
        yield Violation(Claim.GRAPH, f"event {event} ({kind}) was given up: {cause}")
    if shot.waiting == 0:
        for episode, (projected, _) in shot.episodes.items():
            if not projected:
                yield Violation(
                    Claim.GRAPH, f"nothing waits, and episode {episode} is not projected"
                )
