"""What feedback is worth: attribution to items, decay, and a bounded prior.

Evidence on an item is two counts, as the helpful and harmful counters of ACE's bullets (Zhang et al.,
*Agentic Context Engineering*, arXiv 2510.04618, 2025), but weighted by how sure the attribution is and
halved every `recall.feedback_half_life_days`. Whether an item helps is a Bernoulli trial with a Beta
prior; the posterior's mean (Gelman et al., *Bayesian Data Analysis*, 3rd ed., §2.4)

    p = (PRIOR + helped) / (2 · PRIOR + helped + harmed)

becomes `factor = 1 + bound · (2p − 1)`, which stays inside 1 ± bound whatever is reported.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from plait.domain.errors import InvalidInput
from plait.domain.recall import (
    Attribution,
    Evidence,
    Feedback,
    ItemVerdict,
    Receipt,
    Share,
    Verdict,
)
from plait.domain.values import ItemId
from plait.retrieval.ranking.weights import DEFAULT

WEIGHTS = DEFAULT.feedback

MAX_VERDICTS = 500
MAX_COMMENT_BYTES = 4096
MAX_PROOF = 100
MAX_PROOF_BYTES = 512
MAX_REQUEST_ID = 200
_HARM = {Verdict.HELPED: 0.0, Verdict.HARMED: WEIGHTS.named, Verdict.UNUSED: WEIGHTS.unused}
OUTCOMES = frozenset({"success", "failure", "partial", "unknown"})


def factor(evidence: Evidence, bound: float) -> float:
    """What multiplies an item's score, in [1 − bound, 1 + bound]."""
    reported = evidence.helped + evidence.harmed
    return 1.0 + bound * (evidence.helped - evidence.harmed) / (2.0 * WEIGHTS.prior + reported)


def attribute(feedback: Feedback, receipt: Receipt) -> Attribution:
    """Spread a report over the items of its recall: 1 for each that helped or
    harmed, little for what was unused, and of the outcome a small
    weight over the items without a verdict, in proportion to their scores."""
    scores = dict(receipt.items)
    shares, unknown = [], []
    for given in feedback.verdicts:
        if given.item_id not in scores:
            unknown.append(given.item_id)
            continue
        helped = WEIGHTS.named if given.verdict is Verdict.HELPED else 0.0
        shares.append(Share(given.item_id, helped, _HARM[given.verdict], True, given.comment))
    named = {share.item_id for share in shares}
    rest = {id_: score for id_, score in scores.items() if id_ not in named}
    spread = _of_outcome(feedback, rest)
    return Attribution((*shares, *spread), len(shares), tuple(unknown), len(spread))


def _of_outcome(feedback: Feedback, scores: Mapping[ItemId, float]) -> list[Share]:
    status = feedback.outcome.status if feedback.outcome else ""
    if status not in ("success", "failure"):
        return []
    weight = WEIGHTS.success if status == "success" else WEIGHTS.failure
    weight *= 1.0 if feedback.proof else WEIGHTS.unproven
    total = sum(max(0.0, score) for score in scores.values())
    if total <= 0.0:
        return []
    parts = [(id_, weight * score / total) for id_, score in scores.items() if score > 0.0]
    if status == "success":
        return [Share(id_, helped=part) for id_, part in parts]
    return [Share(id_, harmed=part) for id_, part in parts]


def check(feedback: Feedback) -> None:
    """Raises: InvalidInput, for a report that says nothing, contradicts itself, or is out of range."""
    if not feedback.request_id or len(feedback.request_id) > MAX_REQUEST_ID:
        raise InvalidInput(
            f"request_id must have 1 to {MAX_REQUEST_ID} characters", field="request_id"
        )
    if "\0" in feedback.request_id:
        raise InvalidInput("request_id holds a NUL character; remove it", field="request_id")
    if not feedback.verdicts and feedback.outcome is None:
        raise InvalidInput(
            "the report says nothing; name items that helped, harmed or were unused, or give the outcome",
            field="items",
        )
    _check_verdicts(feedback.verdicts)
    if feedback.outcome is not None and feedback.outcome.status not in OUTCOMES:
        raise InvalidInput(
            f"outcome.status {feedback.outcome.status[:40]!r} is none; write success, failure, partial or "
            "unknown",
            field="outcome.status",
        )
    if len(feedback.proof) > MAX_PROOF:
        raise InvalidInput(
            f"{len(feedback.proof)} names of proof; send at most {MAX_PROOF}", field="proof"
        )
    for name in feedback.proof:
        if not name.strip() or len(name.encode(errors="replace")) > MAX_PROOF_BYTES or "\0" in name:
            raise InvalidInput(
                f"a name of proof must have 1 to {MAX_PROOF_BYTES} bytes and no NUL", field="proof"
            )


def _check_verdicts(verdicts: Sequence[ItemVerdict]) -> None:
    if len(verdicts) > MAX_VERDICTS:
        raise InvalidInput(
            f"{len(verdicts)} verdicts; send at most {MAX_VERDICTS}, one an item", field="items"
        )
    seen = set()
    for given in verdicts:
        if given.item_id in seen:
            raise InvalidInput(
                f"item {given.item_id} has two verdicts; send one an item", field="items"
            )
        seen.add(given.item_id)
        if len(given.comment.encode(errors="replace")) > MAX_COMMENT_BYTES:
            raise InvalidInput(
                f"the comment on item {given.item_id} is over {MAX_COMMENT_BYTES} bytes; shorten it",
                field="items",
            )
