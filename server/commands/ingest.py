"""`plait ingest FILE`: as `python -m etl.ingest_episode`, over the contract."""

from __future__ import annotations

import argparse
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from etl import ingest_episode
from etl.ingest_episode import NotStored, Sink, Stored
from server.commands import frame

if TYPE_CHECKING:
    from plait.client import AsyncPlaitClient
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget
    from plait.domain.values import Episode


def main(argv: Sequence[str] | None = None, prog: str = "plait ingest") -> int:
    args = parser(prog).parse_args(argv)
    return frame.run_async(args, lambda: ingest_episode.ingest(args, over_grpc))


def parser(prog: str = "plait ingest") -> argparse.ArgumentParser:
    out = ingest_episode.parser(prog)
    frame.add_tenant(out)
    return out


@asynccontextmanager
async def over_grpc(args: argparse.Namespace) -> AsyncIterator[Sink]:
    """Episodes go to the running server, or to one of this process."""
    from server.local import connected

    async with connected(frame.load(args)) as client:
        yield _Remote(client)


class _Remote:
    def __init__(self, client: AsyncPlaitClient) -> None:
        self._client = client

    async def append(self, episode: Episode) -> Stored:
        from plait.client.errors import PlaitRpcError

        try:
            stored = await self._client.append_episode(episode)
        except PlaitRpcError as exc:
            # A reused request id or a limit is this episode's fault; a server that is gone is not.
            if exc.code.name in ("ALREADY_EXISTS", "INVALID_ARGUMENT"):
                raise NotStored(exc) from exc
            raise
        return Stored(stored.episode_id, len(stored.item_ids), stored.repeated)

    async def append_many(self, episodes: Sequence[Episode]) -> list[Stored | NotStored]:
        """As `append` for each, over one stream: the server stores hundreds a transaction."""
        from plait.client.errors import PlaitRpcError

        out: list[Stored | NotStored] = []
        async for answer in self._client.ingest(episodes):
            if isinstance(answer, PlaitRpcError):
                out.append(NotStored(answer))
            else:
                out.append(Stored(answer.episode_id, len(answer.item_ids), answer.repeated))
        return out

    async def usage(self) -> Mapping[tuple[str, str, Budget], MemoryUsage]:
        return (await self._client.stats()).memory_usage
