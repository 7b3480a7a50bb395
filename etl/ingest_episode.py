"""`python -m etl.ingest_episode FILE`: store episodes, straight into the truth store, then the graph.

`plait ingest FILE` takes the same arguments and prints the same, but sends AppendEpisode to a server.
A repeat is harmless: an episode is known by its request id, or by its content where it has none.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Protocol

from plait.domain.errors import EpisodeInvalid, PlaitError

if TYPE_CHECKING:
    from plait.domain.values import Episode
    from plait.ports import EpisodeStore, GraphStore

EXAMPLES = """\
examples:
  plait ingest run.json                    one episode (docs/episodes.md has the format)
  plait ingest runs.jsonl --repo django    one episode a line; `repo` where a line names none
  my-agent --report | plait ingest -       from standard input
  python -m etl.ingest_episode run.json    without a server in between

Exit codes: 0 all stored (or stored before), 1 at least one was not, 2 wrong usage.
"""


@dataclass(frozen=True, slots=True)
class Stored:
    """What became of one episode."""

    episode_id: str
    items: int
    repeated: bool


class NotStored(Exception):
    """This episode was refused; the next one may fare better."""

    def __init__(self, error: PlaitError) -> None:
        super().__init__(str(error))
        self.error = error


class Sink(Protocol):
    """Where episodes go."""

    async def append(self, episode: Episode) -> Stored:
        """Raises: NotStored; and PlaitError, for what would meet the next episode too."""
        ...


OpenSink = Callable[[argparse.Namespace], AbstractAsyncContextManager[Sink]]


def parser(prog: str) -> argparse.ArgumentParser:
    out = argparse.ArgumentParser(
        prog=prog,
        description="Store what agents did: episodes as JSON, or JSON Lines.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    out.add_argument("file", metavar="FILE", help="a file, or - for standard input")
    out.add_argument("--repo", default="", metavar="NAME", help="for episodes that name none")
    out.add_argument("--config", type=Path, metavar="FILE", help="settings file (YAML)")
    out.add_argument("--json", action="store_true", help="one JSON object an episode")
    out.add_argument("--debug", action="store_true", help="show tracebacks (or PLAIT_DEBUG=1)")
    return out


def main(argv: Sequence[str] | None = None, prog: str = "python -m etl.ingest_episode") -> int:
    """Run the command against the stores themselves; return its exit code."""
    args = parser(prog).parse_args(argv)
    try:
        return asyncio.run(ingest(args, direct))
    except PlaitError as exc:
        print(f"error: {exc.message} [{exc.reason}]", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("interrupted: what was printed is stored; run it again for the rest", file=sys.stderr)
        return 130


async def ingest(args: argparse.Namespace, open_sink: OpenSink) -> int:
    """Read, check and store each episode in turn; a faulty one is reported and the next one tried.

    Raises: EpisodeInvalid, when the input is empty or unreadable; what `open_sink` and the sink raise.
    """
    from plait.memory.episode_json import read

    failed = 0
    with _input(args.file) as stream:
        entries = read(stream, args.repo)
        # The first one before anything is started for it.
        entry = next(entries, None)
        if entry is not None and entry.error is not None:
            failed += _report_error(args, entry.line, entry.error)
            entry = next(entries, None)
        if entry is None:
            return 1 if failed else 0
        async with open_sink(args) as sink:
            while entry is not None:
                failed += await _store(args, sink, entry.line, entry.episode, entry.error)
                entry = next(entries, None)
    return 1 if failed else 0


async def _store(
    args: argparse.Namespace,
    sink: Sink,
    line: int,
    episode: Episode | None,
    error: EpisodeInvalid | None,
) -> int:
    """1 when the episode was not stored."""
    if episode is None:
        return _report_error(args, line, error) if error else 0
    try:
        stored = await sink.append(episode)
    except NotStored as exc:
        return _report_error(args, line, exc.error)
    _report(args, episode, stored)
    return 0


def _report(args: argparse.Namespace, episode: Episode, stored: Stored) -> None:
    if args.json:
        body = {
            "episode_id": stored.episode_id,
            "request_id": episode.request_id,
            "repo": episode.repo,
            "items": stored.items,
            "repeated": stored.repeated,
        }
        print(json.dumps(body), flush=True)
        return
    what = f"{episode.repo}: {episode.outcome.status}, {stored.items} artifacts"
    verb = "Stored before" if stored.repeated else "Stored"
    print(f"{verb} {stored.episode_id}  {what}", flush=True)


def _report_error(args: argparse.Namespace, line: int, exc: PlaitError) -> int:
    if args.json:
        body = {
            "reason": exc.reason,
            "message": exc.message,
            "line": line,
            "metadata": exc.metadata,
        }
        print(json.dumps({"error": body}, ensure_ascii=False), flush=True)
    print(f"error: {args.file}:{line}: {exc.message} [{exc.reason}]", file=sys.stderr)
    return 1


def _input(name: str) -> BinaryIO:
    if name == "-":
        return sys.stdin.buffer
    try:
        return Path(name).open("rb")
    except OSError as exc:
        raise EpisodeInvalid(
            f"cannot read {name}: {exc.strerror}; check the path", path=name
        ) from exc


# -- straight into the stores ---------------------------------------------------------------------------


@asynccontextmanager
async def direct(args: argparse.Namespace) -> AsyncIterator[Sink]:
    """The truth store itself; at the end the graph is brought up to date.

    When that fails the episodes are safe: the next projector, of any process, goes on.
    """
    import vector
    from etl.project import Projector
    from plait import settings as plait_settings

    settings = plait_settings.load(args.config)
    opened: list[GraphStore] = []

    async def open_graph() -> GraphStore:
        import graph

        if not opened:
            opened.append(await graph.open(settings))
        return opened[0]

    truth = await vector.open(settings)
    try:
        yield _Direct(truth)
        await Projector(truth, open_graph).run_until_idle()
    finally:
        for store in opened:
            await store.close()
        await truth.close()


class _Direct:
    def __init__(self, truth: EpisodeStore) -> None:
        self._truth = truth

    async def append(self, episode: Episode) -> Stored:
        from plait.domain.errors import Conflict, InvalidInput

        try:
            receipt = await self._truth.append(episode)
        except (Conflict, InvalidInput) as exc:
            raise NotStored(exc) from exc
        return Stored(str(receipt.episode_id), len(receipt.item_ids), receipt.repeated)


if __name__ == "__main__":
    sys.exit(main())
