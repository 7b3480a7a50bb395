"""Index runs under load: sources that change, and are indexed until the service says that they are."""

from __future__ import annotations

import asyncio
from pathlib import Path

from benchmarks.soak import bodies
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.load import CALL_S, PASSING, Sender
from plait.client import PlaitRpcError

# A job that its server did not survive is unknown to the next one; a run ends with its store.
LOST = PASSING | {"INDEX_JOB_UNKNOWN", "REPOSITORY_BUSY", "INDEX_RUN_SUPERSEDED"}
AGAIN_S = 0.2


class Coder(Sender):
    """In a cycle it gives two files a new word, the same to both, and has the folder indexed.

    `root`: of the repository that is indexed, the first of the stage's.
    """

    root: Path

    async def run(self) -> None:
        repo = self.stage.repos[0]
        word = bodies.a_word(self.chance)
        for path, text in bodies.SOURCES.items():
            body = text + bodies.MARKED.format(word=word) if path in bodies.MARKED_IN else text
            (self.root / path).write_text(body)
        request = Request(bodies.request_id(self.chance), Kind.INDEX, repo, (word,), "coder")
        self.stage.ledger.sent(request)
        while True:
            if await self._indexed(repo):
                break
            await asyncio.sleep(AGAIN_S)
        await self.stage.ledger.acked((request, {"word": word}))
        await self.stage.stop.wait()

    async def _indexed(self, repo: str) -> bool:
        """Whether a whole run succeeded; what a fault may make of one is tried again."""
        try:
            job = await self.client.start_index(str(self.root), repository=repo, timeout_s=CALL_S)
            async for state in self.client.watch_index_job(job.id):
                job = state
        except PlaitRpcError as exc:
            if exc.reason in LOST:
                self.stage.ledger.failed(exc.reason)
            else:
                self.failed(exc)
            return False
        if job.state == "failed" and job.error_reason not in LOST:
            self.found(f"an index run failed with {job.error_reason}: {job.error_message[:300]}")
        return job.state == "succeeded"
