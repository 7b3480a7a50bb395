"""The truth store, opened with the core's rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from plait.ports.rules import Rules
    from plait.settings import Settings
    from vector.store import Store


def rules() -> Rules:
    """What the core decides inside the store's transactions."""
    from plait.memory import evidence, plan_batch, prepare
    from plait.ports.rules import Rules
    from plait.retrieval.ranking import feedback
    from plait.retrieval.ranking.weights import DEFAULT

    return Rules(
        indexed_texts=prepare.indexed_texts,
        prepare=prepare.prepare,
        plan_memories=plan_batch.plan,
        attribute=feedback.attribute,
        evidence=evidence,
        source_cap=DEFAULT.feedback.source_cap,
    )


async def open(settings: Settings) -> Store:
    """As `vector.open`. The rules, as the driver, are imported on need."""
    import vector

    return await vector.open(settings, rules())
