"""The soak: cycle after cycle of load, fault, recovery, comparison."""

from __future__ import annotations

import asyncio
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.soak import bodies, faults
from benchmarks.soak.check import Checker
from benchmarks.soak.coder import Coder
from benchmarks.soak.commander import Commander
from benchmarks.soak.examine import Claim, Violation
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.load import Stage, Writer
from benchmarks.soak.reporter import Reporter
from benchmarks.soak.service import Service, SoakFailed, workplace
from benchmarks.soak.steward import Steward
from plait.client import AsyncPlaitClient

# What of the service is put under load and compared.
PARTS = ("memories", "retention", "feedback", "code", "verify")
# A repository is written to for so many cycles, so that comparing all of it stays cheap.
CYCLES_A_REPO = 20
REPOS = 2
CODE_CHANGES = 0.2  # of cycles, besides those whose fault needs an index run
SETTLE_S = 90.0
LETHAL_S = 3.0  # within which a failpoint that ends the server is come upon, if it is
SURE_S = 90.0  # one that ends it at the first hit: every point is to have fired, however slow the machine
BACK_S = 90.0  # within which every writer has to be answered again


class Runs(Protocol):
    """Who sends things until its stage is stopped."""

    async def run(self) -> None: ...


LOG_LINES = 60
FIRED = re.compile(r"point=([a-z_.]+) action=")


@dataclass(slots=True)
class Report:
    seed: int
    cycles: int = 0
    seconds: float = 0.0
    faults: dict[str, int] = field(default_factory=dict)
    failpoints: dict[str, int] = field(default_factory=dict)  # fired, by name
    counts: dict[str, Any] = field(default_factory=dict)
    server_starts: int = 0
    violations: list[str] = field(default_factory=list)
    left_out: str = ""  # parts and faults that were
    log: str = ""  # the end of the server's log, where there are violations

    @property
    def acked(self) -> int:
        return int(self.counts.get("acked", 0))

    def __str__(self) -> str:
        by = ", ".join(f"{name} {n}" for name, n in sorted(self.faults.items()))
        fired = ", ".join(f"{name} {n}" for name, n in sorted(self.failpoints.items()))
        lines = [
            f"{self.cycles} cycles, seed {self.seed}, {self.seconds:.0f} s, "
            f"{self.server_starts} server starts",
            f"faults: {by}",
            f"failpoints that fired: {fired or 'none'}",
            f"requests: {self.counts}",
            *([f"left out: {self.left_out}"] if self.left_out else []),
            *(f"VIOLATION {violation}" for violation in self.violations),
            f"violations: {len(self.violations)}",
        ]
        return "\n".join(lines)


class Soak:
    """One run. `say` gets a line a cycle."""

    def __init__(
        self,
        base: Path,
        *,
        seed: int,
        allowed: Collection[str],
        writers: int,
        parts: Collection[str],
        say: Callable[[str], None],
    ) -> None:
        self.service = Service(base)
        self.ledger = Ledger(base / "ledger.jsonl")
        self.checker = Checker(self.service, self.ledger, parts)
        left_out = [part for part in PARTS if part not in parts]
        left_out += [fault for fault in faults.FAULTS if fault not in allowed]
        self.report = Report(seed, left_out=", ".join(left_out))
        self._base = base
        self._allowed = allowed
        self._writers = writers
        self._parts = parts
        self._say = say
        self._chance = random.Random(seed)
        self._clients: list[AsyncPlaitClient] = []

    async def run(self, cycles: int, minutes: float = 0.0) -> Report:
        begun = time.monotonic()
        plan = faults.plan(cycles, self._chance, allowed=self._allowed)
        try:
            await self.service.open()
            self._clients = [AsyncPlaitClient(self.service.target) for _ in range(self._writers)]
            for number, (fault, armed) in enumerate(plan):
                if minutes and time.monotonic() - begun > 60 * minutes:
                    self._say(f"{minutes:g} minutes are over")
                    break
                await self._cycle(number, fault, armed)
            self._found(await self.checker.everything())
        finally:
            for client in self._clients:
                await client.close()
            await self.service.close()
            self.ledger.close()
            self.report.seconds = time.monotonic() - begun
            self.report.counts = asdict(self.ledger.counts)
            self.report.server_starts = self.service.restarts
            log = (self._base / "serve.log").read_text(errors="replace")
            self.report.failpoints = dict(Counter(FIRED.findall(log)))
            if self.report.violations:
                self.report.log = "\n".join(
                    [line for line in log.splitlines() if " rpc " not in line][-LOG_LINES:]
                )
        return self.report

    def _senders(self, stage: Stage, fault: str, armed: str) -> list[Runs]:
        sources = [random.Random(self._chance.getrandbits(64)) for _ in range(self._writers + 4)]
        writers: list[Runs] = [
            Writer(f"agent-{n}", client, stage, chance, memories="memories" in self._parts)
            for n, (client, chance) in enumerate(zip(self._clients, sources, strict=False))
        ]
        if "retention" in self._parts:
            stage.undoing = "undo" in armed
            writers.append(Steward("steward", self._clients[0], stage, sources[-1]))
        if "feedback" in self._parts:
            writers.append(Reporter("reporter", self._clients[-1], stage, sources[-2]))
        needed = fault == "parse-worker" or "publish" in armed
        if "code" in self._parts and (needed or sources[-3].random() < CODE_CHANGES):
            coder = Coder("coder", self._clients[0], stage, sources[-3])
            coder.root = self._base / "sources" / stage.repos[0]
            writers.append(coder)
        if fault == "command":
            commander = Commander("commander", self._clients[0], stage, sources[-4])
            commander.folder, commander.environ = self._base, self.service.environ
            writers.append(commander)
        return writers

    async def _cycle(self, number: int, fault: str, armed: str) -> None:
        begun = time.monotonic()
        epoch = number // CYCLES_A_REPO
        repos = [f"soak-{epoch}-{n}" for n in range(REPOS)]
        stage = Stage(self.ledger, repos, eager=fault == "duplicates")
        if number % CYCLES_A_REPO == 0:
            await self._index(repos[0])
        if armed:
            await self.service.kill()
            await self.service.start(armed)
        tasks = [asyncio.create_task(sender.run()) for sender in self._senders(stage, fault, armed)]
        try:
            await asyncio.sleep(self._chance.uniform(0.05, 0.3))
            if armed:
                await self.service.ended(_lethal_s(armed))
                did = armed
            else:
                did = await faults.FAULTS[fault](self.service, self._chance)
            struck = time.monotonic()
            await self._back(stage)
        finally:
            stage.stop.set()
            await self._end(tasks)
        back = time.monotonic()
        await self._settle()
        settled = time.monotonic()
        self._found(stage.findings)
        self._found(await self.checker.check(stage.repos))
        self.report.cycles += 1
        self.report.faults[fault] = self.report.faults.get(fault, 0) + 1
        self._say(
            f"{number + 1:4} {fault:13} {did:44} acked {self.ledger.counts.acked:6} "
            f"back {back - struck:4.1f} s, settled {settled - back:4.1f} s, "
            f"all {time.monotonic() - begun:4.1f} s, violations {len(self.report.violations)}"
        )

    async def _index(self, repo: str) -> None:
        """Code for episodes to point at, in one of the repositories."""
        root = self._base / "sources" / repo
        for path, text in bodies.SOURCES.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        client = self._clients[0]
        if self.service.armed or not self.service.alive:
            await self.service.kill()
            await self.service.start()
        begun = await client.start_index(str(root), repository=repo, timeout_s=30)
        *_, job = [state async for state in client.watch_index_job(begun.id)]
        if job.state != "succeeded":
            raise SoakFailed(f"{repo} can't be indexed: {job.error_reason} {job.error_message}")

    async def _end(self, tasks: list[asyncio.Task[None]]) -> None:
        """Wait for writers, with a server that is there for those who insist."""
        pending: set[asyncio.Task[None]] = set(tasks)
        while pending:
            if not self.service.alive:
                await self.service.start()
            done, pending = await asyncio.wait(pending, timeout=0.2)
            for task in done:
                task.result()

    async def _back(self, stage: Stage) -> None:
        """Until every writer is answered again."""
        stage.acks.clear()
        end = time.monotonic() + BACK_S
        while not stage.acks.keys() >= {f"agent-{n}" for n in range(self._writers)}:
            if not self.service.alive:
                await self.service.start()
            if time.monotonic() > end:
                what = f"no answers within {BACK_S:g} s of the fault"
                stage.findings.append(Violation(Claim.SERVICE, what))
                return
            await asyncio.sleep(0.01)

    async def _settle(self) -> None:
        """Until nothing waits to be projected."""
        end = time.monotonic() + SETTLE_S
        while True:
            if not self.service.alive:
                await self.service.start()
            ((waiting,),) = await self.service.rows("SELECT count(*) FROM outbox")
            if waiting == 0:
                return
            if time.monotonic() > end:
                what = f"{waiting} events still wait {SETTLE_S:g} s after the fault"
                self._found([Violation(Claim.GRAPH, what)])
                return
            await asyncio.sleep(0.05)

    def _found(self, violations: list[Violation]) -> None:
        for violation in violations:
            self.report.violations.append(str(violation))
            self._say(f"     VIOLATION {violation}")


def _lethal_s(armed: str) -> float:
    """How long the server is waited for to die of `armed`."""
    if armed.endswith("=kill"):
        return SURE_S
    return LETHAL_S if "=kill" in armed or "=exit" in armed else 0.5


async def soak(
    cycles: int,
    *,
    seed: int,
    minutes: float = 0.0,
    writers: int = 4,
    parts: Collection[str] = PARTS,
    only: Collection[str] = (),
    say: Callable[[str], None] = print,
) -> Report:
    """Run `cycles` cycles on a new home, or as many as begin within `minutes` (0: all). `only`: these faults; none: all that this machine allows.

    Raises: SoakFailed, when the soak itself can't go on.
    """
    with workplace() as (base, small_disk):
        allowed = [
            fault
            for fault in only or faults.FAULTS
            if fault != "disk-full" or small_disk  # needs root, and the right to mount
        ]
        one = Soak(base, seed=seed, allowed=allowed, writers=writers, parts=parts, say=say)
        return await one.run(cycles, minutes)
