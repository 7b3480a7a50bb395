"""The checker: the stores as they are now, against the ledger and against what they answered before."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.soak.examine import Claim, Violation, examine
from benchmarks.soak.ledger import Ledger
from benchmarks.soak.service import Service
from benchmarks.soak.snapshot import take


class Checker:
    def __init__(self, service: Service, ledger: Ledger) -> None:
        self._service = service
        self._ledger = ledger
        self._seen: list[str] = []

    async def check(self, repos: Sequence[str]) -> list[Violation]:
        """Compare these repositories, at a moment at which nothing waits."""
        found: list[Violation] = []
        for repo in repos:
            if repo not in self._seen:
                self._seen.append(repo)
            found += await self._truth(repo)
        return found

    async def everything(self) -> list[Violation]:
        """Every repository that was ever written to."""
        return await self.check(list(self._seen))

    async def _truth(self, repo: str) -> list[Violation]:
        requests = list(self._ledger.of(repo))
        async with await self._service.connect() as conn:
            shot = await take(conn, repo)
        if shot is None:
            lost = [r.id for r in requests if r.acked]
            return [Violation(Claim.LOST, f"repository {repo} with {lost}")] if lost else []
        return examine(shot, requests)
