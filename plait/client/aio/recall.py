"""The asynchronous client's methods about recalls; part of `aio`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Literal, TypeVar
from uuid import UUID

from plait.client.lazy import lazy_module

if TYPE_CHECKING:
    from plait.client.calls import recall as recall_calls
    from plait.client.calls.call import Call
    from plait.client.recall_values import FeedbackTaken, RecallResult, Replayed
    from plait.domain.memory import MemoryMatch
    from plait.domain.recall import ItemVerdict, RecallFormat
    from plait.domain.values import Collection, Filter, Hit, Outcome
    from plait.wire.memory_messages import When
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
        format: RecallFormat | str = "markdown",
        budget_tokens: int = 0,
        window_tokens: int = 0,
        prefer_source: bool = False,
        tokenizer: str = "",
        max_items: int = 0,
        min_score: float | None = None,
        session_key: str = "",
        cooldown_s: float | None = None,
        receipt: bool = True,
        mode: Literal["fast", "full"] = "fast",
        fusion: Literal["minmax", "rrf"] | None = None,
        stages_off: Sequence[str] = (),
        explain: bool = False,
        why_not: Iterable[UUID | str] = (),
        with_content: bool = False,
        valid_as_of: When = None,
        recorded_as_of: When = None,
        timeout_s: float | None = None,
    ) -> RecallResult:
        """What helps with `query`, packed into a budget of tokens (0: a tenth of `window_tokens`, else
        the server's setting).

        `where` names repositories, or all of them. `collections`: () means those of `where`, and all six
        where it has search's default; `(Collection.FILES,)` means code alone. `attached`: a diff, a stack trace or an issue's text that the question is about. `prefer_source`: rather the
        source of a few than the places of many. `tokenizer`: the model that will read the context. `session_key`: what this session was shown is not shown again for
        `cooldown_s` (None: the server's setting). `why_not`: ids whose fate the answer tells.
        """
        asked = recall_calls.Asked(
            where,
            collections,
            attached,
            mode,
            fusion,
            max_items,
            stages_off,
            tuple(why_not),
            explain,
            with_content,
            valid_as_of,
            recorded_as_of,
        )
        options = recall_calls.options(
            format,
            budget_tokens,
            window_tokens,
            prefer_source,
            tokenizer,
            session_key,
            cooldown_s,
            min_score,
            receipt,
        )
        return await self._run(recall_calls.recall(query, asked, options, timeout_s))

    async def query_and_format(
        self,
        query: str,
        *,
        where: Filter | None = None,
        collections: Sequence[Collection] = (),
        attached: str = "",
        budget_tokens: int = 0,
        window_tokens: int = 0,
        tokenizer: str = "",
        session_key: str = "",
        timeout_s: float | None = None,
    ) -> str:
        """A question in, the block for a prompt out; "" where nothing helps. `recall` tells more."""
        answer = await self.recall(
            query,
            where=where,
            collections=collections,
            attached=attached,
            budget_tokens=budget_tokens,
            window_tokens=window_tokens,
            tokenizer=tokenizer,
            session_key=session_key,
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
        said = recall_calls.verdicts(helped, harmed, unused, verdicts)
        return await self._run(
            recall_calls.report(recall_id, said, outcome, proof, request_id, timeout_s)
        )
