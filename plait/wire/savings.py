"""What look-ups cost ↔ protobuf messages, for both ends of the wire; as `wire`, nothing is checked."""

from __future__ import annotations

from collections.abc import Mapping

from plait.domain.savings import (
    Basis,
    Comparison,
    Paid,
    Savings,
    SessionSavings,
    Side,
    Totals,
)
from plait.v1 import memory_service_pb2 as service_pb
from plait.v1 import savings_pb2 as pb
from plait.wire import scalars

BASES: Mapping[Basis, pb.SavingsBasis.ValueType] = {
    Basis.USAGE: pb.SAVINGS_BASIS_USAGE,
    Basis.COUNTED: pb.SAVINGS_BASIS_COUNTED,
    Basis.RECEIPTS: pb.SAVINGS_BASIS_RECEIPTS,
    Basis.NOT_COUNTED: pb.SAVINGS_BASIS_NOT_COUNTED,
}
BASIS_OF: Mapping[int, Basis] = {number: basis for basis, number in BASES.items()}


def response(value: Savings) -> service_pb.GetSavingsResponse:
    return service_pb.GetSavingsResponse(
        sessions=[_session(one) for one in value.sessions],
        total=_total(value.total),
        comparisons=[_comparison(one) for one in value.comparisons],
        cut=value.cut,
    )


def savings_of(message: service_pb.GetSavingsResponse) -> Savings:
    """Raises: KeyError, for a basis that this client does not know."""
    return Savings(
        tuple(_session_of(one) for one in message.sessions),
        _total_of(message.total),
        tuple(_comparison_of(one) for one in message.comparisons),
        message.cut,
    )


def _paid(value: Paid) -> pb.PaidTokens:
    return pb.PaidTokens(answers=value.answers, tokens=value.tokens, again=value.again)


def _paid_of(message: pb.PaidTokens) -> Paid:
    return Paid(message.answers, message.tokens, message.again)


def _session(value: SessionSavings) -> pb.SessionSavings:
    return pb.SessionSavings(
        repository=value.repo,
        session_key=value.session_key,
        agent_id=value.agent_id,
        start_time=scalars.timestamp(value.began),
        end_time=scalars.timestamp(value.ended),
        status=value.status,
        basis=BASES[value.basis],
        factor=value.factor,
        model_calls=value.calls,
        sent_tokens=value.sent,
        plait=_paid(value.plait),
        again_known=value.again_known,
        searched=_paid(value.searched),
        read=_paid(value.read),
        edited_files=value.edited_files,
    )


def _session_of(message: pb.SessionSavings) -> SessionSavings:
    return SessionSavings(
        repo=message.repository,
        session_key=message.session_key,
        agent_id=message.agent_id,
        began=scalars.optional_time(message, "start_time"),
        ended=scalars.optional_time(message, "end_time"),
        status=message.status,
        basis=BASIS_OF[message.basis],
        factor=message.factor,
        calls=message.model_calls,
        plait=_paid_of(message.plait),
        again_known=message.again_known,
        searched=_paid_of(message.searched),
        read=_paid_of(message.read),
        edited_files=message.edited_files,
        sent=message.sent_tokens,
    )


def _total(value: Totals) -> pb.SavingsTotals:
    return pb.SavingsTotals(
        sessions=value.sessions,
        not_counted=value.not_counted,
        receipts_only=value.receipts_only,
        plait=_paid(value.plait),
        searched=_paid(value.searched),
        read=_paid(value.read),
        edited_files=value.edited_files,
        sent_sessions=value.sent_sessions,
        sent_tokens=value.sent,
        sent_plait=value.sent_plait,
        sent_explored=value.sent_explored,
    )


def _total_of(message: pb.SavingsTotals) -> Totals:
    return Totals(
        sessions=message.sessions,
        not_counted=message.not_counted,
        receipts_only=message.receipts_only,
        plait=_paid_of(message.plait),
        searched=_paid_of(message.searched),
        read=_paid_of(message.read),
        edited_files=message.edited_files,
        sent=message.sent_tokens,
        sent_sessions=message.sent_sessions,
        sent_plait=message.sent_plait,
        sent_explored=message.sent_explored,
    )


def _side(value: Side) -> pb.SavingsSide:
    return pb.SavingsSide(
        sessions=value.sessions,
        editing_sessions=value.editing,
        explored=value.explored,
        explored_per_file=value.explored_per_file,
        plait=value.plait,
        together=value.together,
    )


def _side_of(message: pb.SavingsSide) -> Side:
    return Side(
        message.sessions,
        message.editing_sessions,
        message.explored,
        message.explored_per_file,
        message.plait,
        message.together,
    )


def _comparison(value: Comparison) -> pb.SavingsComparison:
    return pb.SavingsComparison(
        repository=value.repo,
        with_plait=_side(value.with_plait),
        without_plait=_side(value.without),
        saved=value.saved,
        min_sessions=value.min_sessions,
    )


def _comparison_of(message: pb.SavingsComparison) -> Comparison:
    return Comparison(
        message.repository,
        _side_of(message.with_plait),
        _side_of(message.without_plait),
        message.saved if message.HasField("saved") else None,
        message.min_sessions,
    )
