"""Rounds of recalls and reports: does feedback rank better, does it stop, and can it be pushed?

    python -m benchmarks.feedback_rounds [--seeds 5] [--rounds 120]

A world of topics. Each has items of the same words, of which some help and some mislead; similarity
alone knows a little (helpful items score 0.03 higher on average, noise 0.08, so that a query's first page
is mixed). Each round every topic is asked by a session of its own, the best ten are shown, and a report
comes back: verdicts on a few of them, wrong in `noise` of the cases, or the outcome of the run alone,
which the items shown have little part in. Attribution, source cap, decay and factor are those of
`plait.retrieval.ranking.feedback` and `vector/recalls/sql.py`; the world is numpy.

Figures, means over the seeds: nDCG@10 of helpful items (gain 1 helpful, 0 neutral, -1 misleading counts as
0), the share of misleading ones among the ten, the largest distance of a factor from 1.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from uuid import UUID

import numpy as np
import numpy.typing as npt

from plait.domain.recall import (
    Attribution,
    Evidence,
    Feedback,
    ItemVerdict,
    RecallId,
    Receipt,
    Verdict,
)
from plait.domain.values import ItemId, Outcome
from plait.retrieval.ranking import feedback as fb
from plait.settings import RecallSettings

Floats = npt.NDArray[np.float64]

TOPICS, ITEMS = 40, 24
HELPFUL, MISLEADING = 5, 5  # of a topic's items; the others are neutral
SHOWN = 10
EDGE, NOISE = 0.03, 0.08  # of similarity
DAYS_A_ROUND = 2.0
SETTINGS = RecallSettings()


@dataclass(frozen=True)
class Reporter:
    """How a round is reported. `noise`: share of verdicts that say the opposite. `named`: verdicts a
    report, the others' place in the run is not told. `outcomes`: only how the run ended."""

    name: str
    noise: float = 0.1
    named: int = 3
    outcomes: bool = False
    proven: bool = False
    unused: float = fb.WEIGHTS.unused  # what an UNUSED verdict counts as harm


class Ledger:
    """Evidence as `vector/recalls/sql.py` sums it, capped by source and decayed. Sums by source and item
    are kept decayed up to `day`: halving is the same for all of them."""

    def __init__(self, cap: float = fb.WEIGHTS.source_cap) -> None:
        self.cap = cap
        self.day = 0.0
        self._sources: dict[str, int] = {}
        self._sums = np.zeros((0, 2, TOPICS * ITEMS + 1))

    def at(self, day: float) -> None:
        """Time goes on."""
        self._sums *= 0.5 ** ((day - self.day) / SETTINGS.feedback_half_life_days)
        self.day = day

    def add(self, source: str, told: Attribution, times: int = 1) -> None:
        n = self._sources.setdefault(source, len(self._sources))
        if n == len(self._sums):
            self._sums = np.concatenate([self._sums, np.zeros((1, *self._sums.shape[1:]))])
        for share in told.shares:
            self._sums[n, :, share.item_id.int] += (share.helped * times, share.harmed * times)

    def evidence(self, first: int) -> list[Evidence]:
        """Of the `ITEMS` items from `first` on."""
        capped = np.minimum(self._sums[:, :, first : first + ITEMS], self.cap).sum(axis=0)
        return [Evidence(float(h), float(g)) for h, g in capped.T]


class World:
    """`worth[topic, item]`: 1 helps, -1 misleads, 0 neither; `base`: what similarity says."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        worth = np.zeros((TOPICS, ITEMS))
        worth[:, :HELPFUL] = 1
        worth[:, HELPFUL : HELPFUL + MISLEADING] = -1
        self.worth = self.chance.permuted(worth, axis=1)
        noise = self.chance.normal(0.0, NOISE, worth.shape)
        self.base = np.clip(0.6 + EDGE * (self.worth > 0) + noise, 0.05, 1.0)
        self.ledger = Ledger()

    def id(self, topic: int, item: int) -> ItemId:
        return ItemId(UUID(int=topic * ITEMS + item + 1))

    def factors(self, topic: int) -> Floats:
        told = self.ledger.evidence(self.id(topic, 0).int)
        return np.array([fb.factor(one, SETTINGS.feedback_bound) for one in told])

    def ranked(self, topic: int) -> tuple[list[int], Floats]:
        """The best items of a topic. The query's words differ each time, so similarity does a little."""
        wobble = self.chance.normal(0.0, 0.02, ITEMS)
        scores = (self.base[topic] + wobble) * self.factors(topic)
        return np.argsort(-scores, kind="stable")[:SHOWN].tolist(), scores


def receipt(world: World, topic: int, shown: list[int], scores: Floats, source: str) -> Receipt:
    items = tuple((world.id(topic, i), float(scores[i])) for i in shown)
    return Receipt(
        RecallId(UUID(int=1)), "default", ("r",), source, "a", {}, {}, datetime.now(UTC), items
    )  # fmt: skip


def report(world: World, topic: int, shown: list[int], scores: Floats, who: Reporter) -> Feedback:
    chance = world.chance
    base = Feedback("x", b"", RecallId(UUID(int=1)))
    if who.outcomes:
        # Half of how a run ends has other causes; the rest is what its context was worth.
        quality = world.worth[topic, shown].mean()
        good = chance.random() < 0.5 + 0.5 * quality
        proof = ("tests",) if who.proven else ()
        return replace(base, outcome=Outcome("success" if good else "failure"), proof=proof)
    said = []
    for i in chance.choice(shown, min(who.named, len(shown)), replace=False).tolist():
        worth = world.worth[topic, i]
        if chance.random() < who.noise:
            worth = chance.choice([-1.0, 0.0, 1.0])
        word = (Verdict.UNUSED, Verdict.HELPED, Verdict.HARMED)[int(worth)]
        said.append(ItemVerdict(world.id(topic, i), word))
    return replace(base, verdicts=said)


def charged(told: Attribution, said: Feedback, weight: float) -> Attribution:
    """`told`, were UNUSED a slight harm."""
    unused = {v.item_id for v in said.verdicts if v.verdict is Verdict.UNUSED}
    shares = tuple(replace(s, harmed=weight) if s.item_id in unused else s for s in told.shares)
    return replace(told, shares=shares)


def ndcg(worth: Floats) -> float:
    """nDCG@10 of the helpful ones, binary gains (Järvelin and Kekäläinen, TOIS 2002)."""
    discount = 1.0 / np.log2(np.arange(2, SHOWN + 2))
    return float(((worth > 0) * discount).sum() / discount[: min(HELPFUL, SHOWN)].sum())


def play(seed: int, rounds: int, who: Reporter, attack: Callable[[World, int], None]) -> Floats:
    """By round: nDCG@10, share of misleading items shown, largest |factor - 1|."""
    world, out = World(seed), []
    for n in range(rounds):
        world.ledger.at(n * DAYS_A_ROUND)
        found = []
        for topic in range(TOPICS):
            shown, scores = world.ranked(topic)
            worth = world.worth[topic, shown]
            found.append((ndcg(worth), float((worth < 0).mean())))
            source = f"s{n}"
            said = report(world, topic, shown, scores, who)
            told = fb.attribute(said, receipt(world, topic, shown, scores, source))
            world.ledger.add(source, charged(told, said, who.unused))
            attack(world, topic)
        far = max(float(np.abs(world.factors(t) - 1).max()) for t in range(TOPICS))
        gain, bad = np.mean(found, axis=0)
        out.append((gain, bad, far))
    return np.array(out)


def nobody(world: World, topic: int) -> None:
    """No attack."""


def attacker(sessions: int, reports: int) -> Callable[[World, int], None]:
    """After each honest report `reports` of each of `sessions` lying sessions, every one on a recall of its
    own: what misleads helped, what helps harmed."""

    def attack(world: World, topic: int) -> None:
        shown, scores = world.ranked(topic)
        said = [
            ItemVerdict(
                world.id(topic, i),
                Verdict.HARMED if world.worth[topic, i] > 0 else Verdict.HELPED,
            )
            for i in shown
            if world.worth[topic, i]
        ]
        lie = Feedback("x", b"", RecallId(UUID(int=2)), said)
        for session in range(sessions):
            source = f"liar{session}"
            told = fb.attribute(lie, receipt(world, topic, shown, scores, source))
            world.ledger.add(source, told, reports)

    return attack


def mean(
    seeds: int, rounds: int, who: Reporter, attack: Callable[[World, int], None] = nobody
) -> Floats:
    made: Floats = np.stack([play(seed, rounds, who, attack) for seed in range(seeds)]).mean(axis=0)
    return made


def table(name: str, found: Floats) -> None:
    marks = [m for m in (0, 1, 2, 4, 9, 19, 39, 79, 119) if m < len(found)]
    gains = "  ".join(f"{found[m, 0]:.3f}" for m in marks)
    bad = f"{found[0, 1]:.3f} → {found[-1, 1]:.3f}"
    print(f"{name:46} {gains}   {bad}   {found[-1, 2]:.3f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=120)
    args = parser.parse_args()
    marks = [m for m in (0, 1, 2, 4, 9, 19, 39, 79, 119) if m < args.rounds]
    head = "  ".join(f"r{m + 1:<4}" for m in marks)
    print(f"{'nDCG@10 by round':46} {head}   misleading shown   |f-1|")
    for who in (
        Reporter("nobody reports", named=0),
        Reporter("3 verdicts a recall, 10 % wrong"),
        Reporter("3 verdicts a recall, 30 % wrong", noise=0.3),
        Reporter("3 verdicts a recall, 60 % wrong", noise=0.6),
        Reporter("1 verdict a recall, 10 % wrong", named=1),
        Reporter("outcomes alone, not proven", outcomes=True),
        Reporter("outcomes alone, proven by tests", outcomes=True, proven=True),
        Reporter("as the second, UNUSED counts nothing", unused=0.0),
        Reporter("as the second, UNUSED harms by 0.3", unused=0.3),
    ):
        table(who.name, mean(args.seeds, args.rounds, who))
    honest = Reporter("")
    for sessions, reports in ((1, 1), (1, 10), (1, 100), (3, 10)):
        told = mean(args.seeds, args.rounds, honest, attacker(sessions, reports))
        table(f"second, {sessions} lying session(s), {reports} lies a recall", told)
    told = mean(args.seeds, args.rounds, Reporter("", named=0), attacker(20, 10))
    table("nobody honest, 20 lying sessions", told)


if __name__ == "__main__":
    main()
