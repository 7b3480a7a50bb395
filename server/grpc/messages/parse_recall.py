"""Requests about recalls → domain values; as `parse`, everything that comes in is checked here."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, replace
from math import isfinite

from google.protobuf.duration_pb2 import Duration

from plait.domain.deadline import Deadline
from plait.domain.options import RecallOptions
from plait.domain.recall import Feedback, ItemVerdict, PackingOptions, RecallFormat, RecallId
from plait.domain.values import Collection, Outcome
from plait.retrieval.explain import MAX_IDS
from plait.retrieval.packing import context_block
from plait.retrieval.query.analysis import MAX_K
from plait.retrieval.ranking import feedback as rules
from plait.retrieval.search import Mode, SearchQuery
from plait.v1 import knowledge_service_pb2 as pb
from plait.wire import episodes, recalls, scalars
from server.grpc.messages import parse
from server.grpc.messages.parse import bad

MAX_MODEL_BYTES = 128
MAX_COOLDOWN_S = 365 * 86_400.0
MAX_SUMMARY_BYTES = 65_536
MAX_METRICS = 100


def recall(request: pb.RecallRequest, deadline: Deadline) -> tuple[SearchQuery, PackingOptions]:
    """Raises: InvalidInput."""
    where = parse.filter_(request.filter, "filter")
    if not request.filter.collections:
        where = replace(where, collections=tuple(Collection))
    parse.in_range(request.max_items, "max_items", 0, MAX_K)
    parse.modes(request)
    off = parse.stages_off(request.stages_off)
    why_not = parse.ids(request.why_not, "why_not", MAX_IDS)
    _check_packing(request)
    options = recalls.options_of(request)
    query = SearchQuery(
        # The text and what is attached are checked where every search begins.
        text=request.query,
        where=where,
        k=options.max_items,
        mode=Mode(options.mode),
        fusion=options.fusion,
        explain=options.explain,
        deadline=deadline,
        off=off,
        why_not=why_not,
        attached=request.attached,
    )
    return query, _packing(options)


def _check_packing(request: pb.RecallRequest) -> None:
    if request.HasField("min_score") and not 0.0 <= request.min_score <= 1.0:
        score = request.min_score
        raise bad("min_score", f"is {score}; it must be 0 to 1", value=score)
    parse.choice(request.format, "format", recalls.FORMAT_OF)
    parse.text(request.tokenizer, "tokenizer", MAX_MODEL_BYTES)
    parse.text(request.session_key, "session_key", parse.MAX_NAME_BYTES)
    if request.HasField("cooldown"):
        _check_cooldown(request.cooldown)


def _packing(options: RecallOptions) -> PackingOptions:
    packing = PackingOptions(
        format=RecallFormat(options.format),
        budget_tokens=options.budget_tokens,
        window_tokens=options.window_tokens,
        tokenizer=options.tokenizer,
        session_key=options.session_key,
        cooldown_s=-1.0 if options.cooldown_s is None else options.cooldown_s,
        min_score=-1.0 if options.min_score is None else options.min_score,
        receipt=options.receipt,
        prefer_source=options.prefer_source,
    )
    context_block.check(packing)
    return packing


def _check_cooldown(value: Duration) -> None:
    seconds = scalars.seconds_of(value)
    if not 0.0 <= seconds <= MAX_COOLDOWN_S:
        raise bad(
            "cooldown",
            f"is {seconds:g} seconds; it must be 0 to {MAX_COOLDOWN_S:,.0f}, unset for the default",
            value=seconds,
        )


def recall_id(value: str) -> RecallId:
    """Raises: InvalidInput."""
    return RecallId(parse.uuid(value, "recall_id"))


def feedback(request: pb.ReportFeedbackRequest, tenant: str) -> Feedback:
    """What no rule of `retrieval.feedback` looks at is looked at here. Raises: InvalidInput."""
    said = Feedback(
        request_id=parse.request_id(request.request_id),
        body_hash=b"",
        recall_id=recall_id(request.recall_id),
        verdicts=tuple(_verdict(item, f"items[{i}]") for i, item in enumerate(request.items)),
        outcome=_outcome(request),
        proof=tuple(dict.fromkeys(request.proof)),
        tenant=tenant,
    )
    body = _body_hash(said)
    said = replace(said, body_hash=body, request_id=said.request_id or f"body-{body.hex()}")
    rules.check(said)
    return said


def _verdict(item: pb.ItemFeedback, at: str) -> ItemVerdict:
    parse.uuid(item.item_id, f"{at}.item_id")
    parse.choice(item.verdict, f"{at}.verdict", recalls.VERDICT_OF)
    parse.text(item.comment, f"{at}.comment", rules.MAX_COMMENT_BYTES)
    return recalls.verdict_of(item)


def _outcome(request: pb.ReportFeedbackRequest) -> Outcome | None:
    if not request.HasField("outcome"):
        if request.proof:
            raise bad("proof", "is there without an outcome; say what it proves")
        return None
    message = request.outcome
    parse.choice(message.status, "outcome.status", episodes.STATUS_OF)
    parse.text(message.summary, "outcome.summary", MAX_SUMMARY_BYTES)
    parse.text(message.commit, "outcome.commit", parse.MAX_NAME_BYTES)
    parse.text(message.branch, "outcome.branch", parse.MAX_NAME_BYTES)
    if len(message.metrics) > MAX_METRICS:
        raise bad("outcome.metrics", f"has {len(message.metrics)} entries, more than {MAX_METRICS}")
    for key, number in message.metrics.items():
        parse.text(key, "outcome.metrics", parse.MAX_NAME_BYTES)
        if not isfinite(number):
            raise bad(f"outcome.metrics[{key}]", "is not a finite number; leave it out")
    return episodes.outcome_of(message)


def _body_hash(said: Feedback) -> bytes:
    """16-byte BLAKE2b of all that a report says: equal reports are taken in once."""
    body = {
        "recall": str(said.recall_id),
        "verdicts": sorted([str(v.item_id), str(v.verdict), v.comment] for v in said.verdicts),
        "outcome": asdict(said.outcome) if said.outcome else None,
        "proof": sorted(said.proof),
    }
    text = json.dumps(body, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=16).digest()
