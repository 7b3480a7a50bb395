"""Credentials in what callers send: covered before anything is stored, logged, or sent to a model.

Each function returns the value to go on with, and how many credentials it held. Ids, names and paths that the
caller chose stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from plait.domain.memory import MemoryWrite
from plait.domain.off_loop import off_loop
from plait.domain.recall import Feedback
from plait.domain.values import Episode
from plait.memory.turn import Turn
from plait.retrieval.query.analysis import SearchQuery
from plait.secrets import rules
from plait.secrets.episodes import METRIC, Counter, masked_episode
from plait.secrets.mask import Masker, masker
from plait.text.token_count import count


class Masking:
    """The service's rules of secrets; their file is read again when it has changed."""

    def __init__(self, rules_file: str) -> None:
        self._rules_file = rules_file
        self.masker()  # a faulty file is an error at the start

    def masker(self) -> Masker:
        """Raises: BadSettings."""
        return masker(rules.load(self._rules_file))

    async def query(self, query: SearchQuery) -> SearchQuery:
        text, _ = await self.text(query.text)
        attached, _ = await self.text(query.attached)
        return replace(query, text=text, attached=attached)

    async def text(self, text: str) -> tuple[str, int]:
        done = await off_loop(len(text), self.masker().text, text)
        return done.text, done.count

    async def episode(self, episode: Episode) -> Episode:
        size = sum(len(a.content) for a in episode.artifacts)
        size += sum(len(e.body) for e in episode.evidence)
        return await off_loop(size, masked_episode, self.masker(), episode)

    async def write(self, write: MemoryWrite) -> tuple[MemoryWrite, int]:
        return await off_loop(len(write.entry.content), _write, self.masker(), write)

    async def turn(self, turn: Turn) -> tuple[Turn, int]:
        size = len(turn.user_message) + len(turn.assistant_reasoning)
        size += sum(len(o.result) + len(o.command) for o in turn.outcomes)
        return await off_loop(size, _turn, self.masker(), turn)

    def feedback(self, said: Feedback) -> tuple[Feedback, int]:
        counted = Counter(self.masker())
        verdicts = tuple(replace(v, comment=counted.text(v.comment)) for v in said.verdicts)
        proof = tuple(counted.text(one) for one in said.proof)
        outcome = said.outcome
        if outcome is not None:
            outcome = replace(outcome, summary=counted.text(outcome.summary))
        return replace(said, verdicts=verdicts, proof=proof, outcome=outcome), counted.found


def found_in(episode: Episode) -> int:
    """How many credentials were covered in it."""
    return int(episode.outcome.metrics.get(METRIC, 0))


def _write(masker: Masker, write: MemoryWrite) -> tuple[MemoryWrite, int]:
    counted, entry = Counter(masker), write.entry
    content = counted.text(entry.content)
    metadata = replace(
        entry.metadata,
        tags=tuple(counted.text(tag) for tag in entry.metadata.tags),
        custom=counted.value(entry.metadata.custom),
    )
    if not counted.found:
        return write, 0
    entry = replace(entry, content=content, metadata=metadata, tokens=count(content))
    return replace(write, entry=entry), counted.found


def _turn(masker: Masker, turn: Turn) -> tuple[Turn, int]:
    counted = Counter(masker)
    text: Callable[[str], str] = counted.text
    outcomes = tuple(
        replace(one, result=text(one.result), command=text(one.command)) for one in turn.outcomes
    )
    masked = Turn(text(turn.user_message), text(turn.assistant_reasoning), outcomes)
    return (masked, counted.found) if counted.found else (turn, 0)
