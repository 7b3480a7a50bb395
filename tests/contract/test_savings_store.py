"""What sessions' look-ups cost, on every PostgreSQL: summed once, hostile numbers left out, walled."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from plait.domain import savings
from plait.domain.ids import new_item_ids
from plait.domain.recall import RecallId, Receipt
from plait.domain.retention import Selector
from plait.domain.savings import Looked, Paid, SessionCounts, metric
from plait.domain.values import Artifact, ArtifactKind, Episode, Outcome
from plait.memory.episode import check
from vector.store import Store

T = "default"
BEGAN = datetime(2026, 3, 2, 9, tzinfo=UTC)
DIFF = "--- a/{0}\n+++ b/{0}\n@@ -1 +1 @@\n-x\n+y\n"


def counted(**more: float) -> dict[str, float]:
    told = {
        savings.VERSION_METRIC: float(savings.VERSION),
        savings.CALLS: 10.0,
        metric(Looked.PLAIT, "answers"): 1.0,
        metric(Looked.PLAIT, "tokens"): 20.0,
        metric(Looked.PLAIT, "again"): 80.0,
        metric(Looked.READ, "tokens"): 7.0,
        "seconds": 60.0,
    }
    return {**told, **more}


UNSEEN = {metric(Looked.PLAIT, what): 0.0 for what in ("answers", "tokens", "again")}


def run(request: str, key: str = "s", repo: str = "r", **more: Any) -> Episode:
    metrics = more.pop("metrics", None)
    paths = more.pop("paths", ())
    tenant = more.pop("tenant", T)
    status = more.pop("status", "unknown")
    artifacts = [Artifact(ArtifactKind.DIFF, DIFF.format(path), path) for path in paths]
    artifacts.append(Artifact(ArtifactKind.NOTE, f"note of {request}"))
    given: dict[str, Any] = {"tags": ("claude-code",), "started_at": BEGAN, "agent_id": "a", **more}
    outcome = Outcome(status, metrics=counted() if metrics is None else metrics)
    plain = check(Episode(request, "r", outcome, artifacts, session_key=key, **given))
    qualified = repo if tenant == T else f"{tenant}@{repo}"
    return Episode(**{name: getattr(plain, name) for name in plain.__slots__} | {"repo": qualified, "tenant": tenant})  # fmt: skip


def receipt(key: str, at: datetime, n: int = 100, repo: str = "r", tenant: str = T) -> Receipt:
    return Receipt(
        RecallId(UUID(int=new_item_ids(1)[0].int)),
        tenant=tenant,
        repos=(repo,),
        session_key=key,
        agent_id="a",
        request={"query": {}, "options": {}},
        revisions={},
        at=at,
        items=(),
        tokens=n,
    )


async def sums(store: Store, **more: Any) -> dict[str, SessionCounts]:
    given: dict[str, Any] = {"repos": ["r"], "limit": 100, "tenant": T, **more}
    tenant, repos = given.pop("tenant"), given.pop("repos")
    found = await store.savings.session_counts(tenant, repos, **given)
    assert len({(one.repo, one.session_key) for one in found}) == len(found)
    return {one.session_key: one for one in found}


async def test_a_session_is_the_sum_of_its_episodes_each_once(store: Store) -> None:
    first = run("1", paths=("a.py", "b.py"), status="failure")
    last = run("2", paths=("b.py",), started_at=BEGAN + timedelta(hours=1), status="success")
    silent = run("3", started_at=BEGAN + timedelta(hours=2), agent_id="b")
    await store.episodes.append_many([first, last, silent, first])
    await store.episodes.append(last)
    told = (await sums(store))["s"]
    assert (told.episodes, told.not_counted, told.calls) == (3, 0, 30)
    assert told.plait == Paid(3, 60, 240)
    assert told.read == Paid(0, 21, 0)
    assert told.searched == Paid()
    assert told.edited_files == 2
    assert (told.agent_id, told.status) == ("b", "success")
    assert (told.began, told.ended) == (BEGAN, BEGAN + timedelta(hours=2, minutes=1))


@pytest.mark.parametrize(
    "metrics",
    [
        {"tool_calls": 9.0},  # imported before there were counts
        counted(**{savings.VERSION_METRIC: savings.VERSION + 1.0}),
        counted(**{metric(Looked.PLAIT, "again"): -1.0}),
        counted(**{savings.CALLS: 1e308, "seconds": 1e308}),
        counted(**{savings.GROWN: 1e14, "seconds": -5.0}),
    ],
)
async def test_what_no_importer_of_this_version_writes_is_not_counted(
    store: Store, metrics: dict[str, float]
) -> None:
    await store.episodes.append_many([run("1"), run("2", metrics=metrics)])
    told = (await sums(store))["s"]
    assert (told.episodes, told.not_counted) == (2, 1)
    assert told.plait == Paid(1, 20, 80)
    assert told.calls == 10


async def test_sums_stay_within_their_bound(store: Store) -> None:
    most = counted(**{metric(Looked.PLAIT, "again"): float(savings.MAX_COUNT)})
    await store.episodes.append_many([run(str(i), metrics=most) for i in range(3)])
    assert (await sums(store))["s"].plait.again == savings.MAX_COUNT


async def test_episodes_that_are_no_transcripts_are_no_sessions(store: Store) -> None:
    await store.episodes.append_many(
        [run("1", tags=("ci",), metrics={"tests_passed": 3.0}), run("2", key="")]
    )
    assert await sums(store) == {}


async def test_receipts_belong_to_the_session_of_their_key(store: Store) -> None:
    await store.episodes.append_many([run("1"), run("2", key="quiet", metrics=counted(**UNSEEN))])
    later = BEGAN + timedelta(days=1)
    for key, at in (("s", later), ("quiet", later), ("quiet", BEGAN), ("other", later)):
        assert await store.recalls.keep_receipt(receipt(key, at))
    told = await sums(store)
    assert {key: one.receipts for key, one in told.items()} == {"s": 1, "quiet": 2, "other": 1}
    assert told["other"].receipt_tokens == 100
    assert told["other"].episodes == 0
    assert (told["other"].began, told["other"].ended) == (later, later)


async def test_a_receipt_under_another_key_is_not_counted_beside_the_answer_it_is_of(
    store: Store,
) -> None:
    quiet = counted(**UNSEEN)
    much_later = BEGAN + timedelta(days=2)
    await store.episodes.append_many(
        [run("1"), run("2", key="quiet", started_at=much_later, metrics=quiet)]
    )
    # While a session that shows answers went on (within clocks' difference); while one that shows none did.
    for at in (BEGAN - timedelta(seconds=30), BEGAN + timedelta(seconds=90), much_later):
        assert await store.recalls.keep_receipt(receipt("", at))
    told = await sums(store)
    assert told[""].receipts == 1
    assert told[""].began == much_later
    assert told["s"].receipts == 0


async def test_a_session_can_be_asked_for_by_key_and_by_time(store: Store) -> None:
    new = BEGAN + timedelta(days=1)
    await store.episodes.append_many([run("1", key="old"), run("2", key="new", started_at=new)])
    assert set(await sums(store, session_key="old")) == {"old"}
    assert set(await sums(store, since=BEGAN + timedelta(hours=1))) == {"new"}
    assert set(await sums(store, limit=1)) == {"new"}
    assert set(await sums(store, session_key="old\0")) == {"old"}


async def test_no_tenant_and_no_other_repository_is_summed(store: Store) -> None:
    await store.episodes.append_many(
        [run("1"), run("2", repo="other", key="elsewhere"), run("1", tenant="acme", key="theirs")]
    )
    later = BEGAN + timedelta(days=1)
    assert await store.recalls.keep_receipt(
        receipt("theirs-too", later, repo="acme@r", tenant="acme")
    )
    assert set(await sums(store)) == {"s"}
    assert set(await sums(store, repos=[])) == {"s", "elsewhere"}
    assert set(await sums(store, repos=["acme@r"])) == set()
    assert set(await sums(store, repos=["acme@r"], tenant="acme")) == {"theirs", "theirs-too"}
    assert set(await sums(store, repos=["r"], tenant="acme")) == set()
    assert set(await sums(store, repos=[], tenant="zeta")) == set()


async def test_what_was_forgotten_is_no_longer_summed(store: Store) -> None:
    await store.episodes.append_many([run("1"), run("2", key="kept", agent_id="b")])
    await store.forgetting.forget(T, "r", Selector(agent_id="a"), dry_run=False)
    assert set(await sums(store)) == {"kept"}
