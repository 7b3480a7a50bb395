"""A command that dies: `plait ingest` of a file of episodes, killed in the middle, then run to its end."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path

from benchmarks.soak import bodies
from benchmarks.soak.ledger import Kind, Request
from benchmarks.soak.load import Sender

EPISODES = 30
KILLED_WITHIN_S = 1.5  # a command of this kind takes about as long
TRIES = 20
START = "from server.cli import script; script()"


class Commander(Sender):
    """Episodes of a file, under request ids of their own, by a command whose first run is killed."""

    folder: Path
    environ: dict[str, str]

    async def run(self) -> None:
        requests = [self._request() for _ in range(EPISODES)]
        self.stage.ledger.sent(*requests)
        file = self.folder / f"{requests[0].id}.jsonl"
        file.write_text("".join(json.dumps(request.payload) + "\n" for request in requests))
        await self._command(file, self.chance.uniform(0, KILLED_WITHIN_S))
        for _ in range(TRIES):
            if await self._command(file) == 0:
                # Which ids they were given the command does not say.
                await self.stage.ledger.acked(*((request, {}) for request in requests))
                return
        self.found(f"a command did not succeed in {TRIES} tries")

    def _request(self) -> Request:
        repo = self.chance.choice(self.stage.repos)
        id_ = bodies.request_id(self.chance)
        texts = tuple(bodies.a_text(self.chance) for _ in range(self.chance.randint(1, 5)))
        body = {
            "request_id": id_,
            "repo": repo,
            "outcome": {"status": "success", "summary": bodies.a_word(self.chance)},
            "artifacts": [{"kind": "note", "content": text} for text in texts],
        }
        return Request(id_, Kind.EPISODE, repo, texts, "commander", payload=body)

    async def _command(self, file: Path, kill_after_s: float | None = None) -> int:
        """Its exit status, once it has ended, or was ended."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", START, "ingest", str(file)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={k: v for k, v in os.environ.items() if not k.startswith("PLAIT_")} | self.environ,
        )
        try:
            return await asyncio.wait_for(process.wait(), kill_after_s)
        except TimeoutError:
            process.kill()
            return await process.wait()
