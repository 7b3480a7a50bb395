"""Searches, graph queries and recalls."""

from __future__ import annotations

from plait.domain.errors.families import Exhausted, InvalidInput, NotFound, OutOfTime, Precondition


class CypherRefused(InvalidInput):
    """The guard found a clause, procedure or pattern that a read-only query may not have."""

    reason = "CYPHER_REFUSED"


class CypherInvalid(InvalidInput):
    """The graph server could not parse or run the statement."""

    reason = "CYPHER_INVALID"


class UnknownTemplate(InvalidInput):
    reason = "UNKNOWN_TEMPLATE"


class UnknownSymbol(NotFound):
    """No node answers to the name a template was given."""

    reason = "UNKNOWN_SYMBOL"


class AmbiguousSymbol(InvalidInput):
    """Several nodes answer to the name; the text lists them."""

    reason = "AMBIGUOUS_SYMBOL"


class ResultTooLarge(Exhausted):
    reason = "RESULT_TOO_LARGE"


class CodeGraphTooLarge(Exhausted):
    """A repository has more edges than the service may hold in memory."""

    reason = "CODE_GRAPH_TOO_LARGE"


class DeadlineExceeded(OutOfTime):
    reason = "DEADLINE_EXCEEDED"

    def __init__(self, what: str, limit_s: float) -> None:
        super().__init__(
            f"{what} did not end within {round(limit_s, 1):g} s; ask for less or allow more time",
            what=what,
            limit_s=limit_s,
        )


class RecallUnknown(NotFound):
    """No receipt of that recall: never made, another tenant's, or deleted."""

    reason = "RECALL_UNKNOWN"

    def __init__(self, recall_id: object) -> None:
        super().__init__(
            f"no recall {recall_id} is on record; use the `recall_id` of an answer of this tenant, not "
            "older than `recall.keep_s`",
            recall_id=recall_id,
        )


class ScopeMissing(InvalidInput):
    """A read or write that names no repository, and does not ask for all of them out loud."""

    reason = "SCOPE_MISSING"


class TimeNotUnderstood(InvalidInput):
    """Words that name no time."""

    reason = "TIME_NOT_UNDERSTOOD"


class HistoryGone(Precondition):
    """The requested recorded time is before the stored history of this repository's code."""

    reason = "HISTORY_GONE"


class PageTokenInvalid(InvalidInput):
    reason = "PAGE_TOKEN_INVALID"
