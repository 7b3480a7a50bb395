"""The asynchronous client's methods about recalls; part of `aio`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, TypeVar
from uuid import UUID

from plait.domain.options import RECALL_DEFAULTS, RecallOptions
from plait.lazy import lazy_module

if TYPE_CHECKING:
    from plait.client.calls import recall as recall_calls
    from plait.client.calls.call import Call
    from plait.domain.answers.recalls import FeedbackTaken, RecallResult, Replayed
    from plait.domain.memory import MemoryMatch
    from plait.domain.recall import ItemVerdict
    from plait.domain.values import Collection, Filter, Hit, Outcome
else:
    recall_calls = lazy_module("plait.client.calls.recall")

T = TypeVar("T")


class AsyncRecallMethods(ABC):
    """Recalls: a context for a prompt, what became of it, and the same again."""

    @abstractmethod
    async def _run(self, call: Call[T]) -> T: ...

    async def recall(
        self,
        query: str = "",
        *,
        where: Filter | None = None,
        collections: Sequence[Collection] = (),
        attached: str = "",
        options: RecallOptions = RECALL_DEFAULTS,
        timeout_s: float | None = None,
    ) -> RecallResult:
        """What helps with `query`, packed into a budget of tokens.

        `where` names repositories, or all of them. `collections`: () means those of `where`, and all six
        where it has search's default; `(Collection.FILES,)` means code alone. `attached`: a diff, a stack
        trace or an issue's text that the question is about.
        """
        return await self._run(
            recall_calls.recall(query, where, collections, attached, options, timeout_s)
        )

    async def query_and_format(
        self,
        query: str,
        *,
        where: Filter | None = None,
        collections: Sequence[Collection] = (),
        attached: str = "",
        options: RecallOptions = RECALL_DEFAULTS,
        timeout_s: float | None = None,
    ) -> str:
        """The context block for a query; "" when nothing is relevant. `recall` returns the details."""
        answer = await self.recall(
            query,
            where=where,
            collections=collections,
            attached=attached,
            options=options,
            timeout_s=timeout_s,
        )
        return answer.context

    @staticmethod
    def format_context(
        found: RecallResult | Sequence[Hit | MemoryMatch],
        *,
        budget_tokens: int | None = None,
        tokenizer: str = "",
    ) -> str:
        """As `plait.client.format_context`."""
        from plait.client.recall_context import format_context  # packs, with a tokenizer's tables

        return format_context(found, budget_tokens=budget_tokens, tokenizer=tokenizer)

    async def replay(
        self,
        recall_id: UUID | str,
        *,
        explain: bool = False,
        why_not: Iterable[UUID | str] = (),
        with_content: bool = False,
        timeout_s: float | None = None,
    ) -> Replayed:
        """A recall answered again, as of the revisions and times of its first answer."""
        return await self._run(
            recall_calls.replay(recall_id, explain, tuple(why_not), with_content, timeout_s)
        )

    async def report_feedback(
        self,
        recall_id: UUID | str,
        *,
        helped: Iterable[UUID | str] = (),
        harmed: Iterable[UUID | str] = (),
        unused: Iterable[UUID | str] = (),
        verdicts: Sequence[ItemVerdict] = (),
        outcome: Outcome | None = None,
        proof: Sequence[str] = (),
        request_id: str = "",
        timeout_s: float | None = None,
    ) -> FeedbackTaken:
        """Say what became of a recall: ids of items that helped, harmed or were not used, or `verdicts`
        with comments; how the run ended, and the tests (or the CI job) that prove it. Safe to repeat."""
        items = recall_calls.verdicts(helped, harmed, unused, verdicts)
        return await self._run(
            recall_calls.report(recall_id, items, outcome, proof, request_id, timeout_s)
        )
