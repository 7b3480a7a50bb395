"""From sessions' counts to Plait's cost, the cost of exploring without it, and an estimate of savings.

    cost(answer) = tokens × (1 + model calls that were sent it again)

summed over Plait's answers; the same over what was searched and read without it. Importers make the
sums call by call (`importers/payments.py`), so a session's cost is the sum of its episodes', whatever
their order. What was saved can't be read from a session, since it was not run without Plait: it is
estimated by comparing medians of sessions with and without it, and only where there are enough.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import reduce
from operator import add
from statistics import median

from plait.domain.savings import (
    Basis,
    Comparison,
    Paid,
    Savings,
    SessionCounts,
    SessionSavings,
    Side,
    Totals,
)

# A median of fewer reflects the tasks more than Plait. A choice, not a measurement.
MIN_SESSIONS = 5
MIN_GROWN = 1_000  # counted tokens that the factor of usage must rest on
FACTORS = (0.5, 3.0)  # beyond these, usage and transcript are not of the same texts


def report(counts: Sequence[SessionCounts], limit: int, *, cut: bool = False) -> Savings:
    """All sessions' totals and comparisons, and the `limit` sessions that ended last."""
    sessions = [session(one) for one in counts]
    newest = sorted(sessions, key=_age, reverse=True)
    return Savings(tuple(newest[:limit]), totals(sessions), compare(sessions), cut)


def _age(one: SessionSavings) -> tuple[float, str, str]:
    when = one.ended or one.began
    return (when.timestamp() if when else 0.0, one.repo, one.session_key)


def session(counts: SessionCounts) -> SessionSavings:
    """One session's tokens, as reported by usage where it has them."""
    measured = _factor(counts)
    basis = _basis(counts, measured)
    factor = measured or 1.0
    plait = _scaled(counts.plait, factor)
    # Never both: a transcript that shows answers of Plait's has the text of each that was read.
    by_receipt = plait.answers == 0 and counts.receipts > 0
    return SessionSavings(
        repo=counts.repo,
        session_key=counts.session_key,
        agent_id=counts.agent_id,
        began=counts.began,
        ended=counts.ended,
        status=counts.status,
        basis=basis,
        factor=factor,
        calls=counts.calls,
        plait=Paid(counts.receipts, counts.receipt_tokens) if by_receipt else plait,
        again_known=not by_receipt and basis in (Basis.USAGE, Basis.COUNTED),
        searched=_scaled(counts.searched, factor),
        read=_scaled(counts.read, factor),
        edited_files=counts.edited_files,
        sent=counts.sent if counts.calls and counts.sent_calls == counts.calls else 0,
    )


def _factor(counts: SessionCounts) -> float | None:
    """Tokens by usage of one counted token; None where the transcript has none."""
    if counts.grown_counted < MIN_GROWN:
        return None
    factor = counts.grown / counts.grown_counted
    return factor if FACTORS[0] <= factor <= FACTORS[1] else None


def _basis(counts: SessionCounts, factor: float | None) -> Basis:
    if counts.episodes == 0:
        return Basis.RECEIPTS
    if counts.not_counted:  # what is counted is a part, and would look like a cheap session
        return Basis.NOT_COUNTED
    return Basis.COUNTED if factor is None else Basis.USAGE


def _scaled(paid: Paid, factor: float) -> Paid:
    if factor == 1.0:
        return paid
    return Paid(paid.answers, round(paid.tokens * factor), round(paid.again * factor))


def totals(sessions: Iterable[SessionSavings]) -> Totals:
    """Sums over `sessions`: those of two parts together are those of the whole."""
    return reduce(_add, (_alone(one) for one in sessions), Totals())


def _alone(one: SessionSavings) -> Totals:
    has_usage = one.basis is Basis.USAGE and one.sent > 0 and one.again_known
    return Totals(
        sessions=1,
        not_counted=int(one.basis is Basis.NOT_COUNTED),
        receipts_only=int(one.basis is Basis.RECEIPTS),
        plait=one.plait,
        searched=one.searched,
        read=one.read,
        edited_files=one.edited_files,
        sent=one.sent if has_usage else 0,
        sent_sessions=int(has_usage),
        sent_plait=one.plait.total if has_usage else 0,
        sent_explored=one.explored.total if has_usage else 0,
    )


def _add(a: Totals, b: Totals) -> Totals:
    return Totals(
        *(add(getattr(a, name), getattr(b, name)) for name in Totals.__dataclass_fields__)
    )


def compare(sessions: Iterable[SessionSavings]) -> tuple[Comparison, ...]:
    """By repository, in the order of names: counted sessions with Plait beside those without. One whose
    answers are known by receipts alone would look cheaper than it was."""
    by_repo: dict[str, list[SessionSavings]] = defaultdict(list)
    for one in sessions:
        if one.counted and one.calls and one.again_known:
            by_repo[one.repo].append(one)
    return tuple(_comparison(repo, by_repo[repo]) for repo in sorted(by_repo))


def _comparison(repo: str, sessions: Sequence[SessionSavings]) -> Comparison:
    with_plait = _side([one for one in sessions if one.with_plait])
    without = _side([one for one in sessions if not one.with_plait])
    saved = None
    if min(with_plait.sessions, without.sessions) >= MIN_SESSIONS:
        saved = without.together - with_plait.together
    return Comparison(repo, with_plait, without, saved, MIN_SESSIONS)


def _side(sessions: Sequence[SessionSavings]) -> Side:
    editing = [one for one in sessions if one.edited_files]
    return Side(
        sessions=len(sessions),
        editing=len(editing),
        explored=_median([one.explored.total for one in sessions]),
        explored_per_file=_median([one.explored.total / one.edited_files for one in editing]),
        plait=_median([one.plait.total for one in sessions]),
        together=_median([one.explored.total + one.plait.total for one in sessions]),
    )


def _median(values: Sequence[float]) -> float:
    return float(median(values)) if values else 0.0
