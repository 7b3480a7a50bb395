"""Searches, recalls and queries over what agents did and people said: transcripts as `plait ingest` reads them,
made-up histories as episodes and as memories."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path

from benchmarks import memory_transcripts
from benchmarks.goldens import answers
from benchmarks.goldens.cases import Cases
from benchmarks.goldens.under_test import Checkout, Server, serving
from benchmarks.goldens.wire import Message
from benchmarks.memory_histories import Entry, Question, histories

SESSIONS = 12  # of a history
EACH = 2  # of the histories' questions every second one
BATCH = 500
# Items that name no time of their own are of now: when exactly must not show in their scores.
LASTING = {"PLAIT_RECALL__HALF_LIFE_DAYS": "1e9"}
AT = {"valid": {"words": "2025-03-01"}, "caller_time": "2026-01-01T00:00:00Z"}


def record(checkout: Checkout, cache: Path) -> dict[str, Cases]:
    """By store the answers to its questions, and to some of them as of an earlier time."""
    as_episodes, as_memories = histories(2, SESSIONS)
    asked = {
        "transcripts": [q for h in memory_transcripts.transcripts() for q in h.questions],
        "episodes": as_episodes.questions[::EACH],
        "memories": as_memories.questions[::EACH],
    }
    with serving(checkout) as server:  # what ages, at the speed that is set by default
        _append(server, "episodes", as_episodes.entries)
        server.rest()
        found = {"episodes": dict(_answers(server, "episodes", asked["episodes"]))}
    with serving(checkout, **LASTING) as server:
        _ingest(server, "transcripts")
        _store(server, "memories", as_memories.entries)
        server.rest()
        repos = ("memories", "transcripts")
        found |= {name: dict(_answers(server, name, asked[name])) for name in repos}
        found["everywhere"] = dict(_everywhere(server, repos, asked["transcripts"][::10]))
    return found


def _answers(
    server: Server, repo: str, asked: Sequence[Question]
) -> Iterator[tuple[str, list[str]]]:
    for n, question in enumerate(asked):
        lines = [
            f"query: {question.text!r}",
            *answers.queried(server.wire, question.text, [repo]),
            *answers.searched(server.wire, question.text, [repo], answers.ALL),
            *answers.recalled(server.wire, question.text, [repo]),
        ]
        if n % 10 == 0:
            lines += answers.recalled(server.wire, question.text, [repo], as_of=AT)
        yield f"{repo} {n}", lines


def _everywhere(
    server: Server, repos: Sequence[str], asked: Sequence[Question]
) -> Iterator[tuple[str, list[str]]]:
    for n, question in enumerate(asked):
        yield (
            f"all {n}",
            [
                *answers.queried(server.wire, question.text, repos),
                *answers.recalled(server.wire, question.text, repos, budget_tokens=300),
            ],
        )


def _ingest(server: Server, repo: str) -> None:
    """The transcripts in the formats of their agents, each once the one before has its vectors: near-duplicates
    are looked for among what has one."""
    with tempfile.TemporaryDirectory() as scratch:
        for story in memory_transcripts.stories():
            swe = story.format == "swe"
            data = memory_transcripts._swe(story) if swe else memory_transcripts._claude(story)
            path = Path(scratch, f"{story.name}.{'traj' if swe else 'jsonl'}")
            path.write_bytes(data)
            server.checkout.run("ingest", str(path), "--repo", repo, "--quiet", home=server.home)
            server.rest()


def _append(server: Server, repo: str, entries: Sequence[Entry]) -> None:
    """Each session of a history as an episode."""
    requests = [
        {"append": {"episode": _episode(repo, session, list(said))}}
        for session, said in groupby(entries, key=lambda entry: entry.session)
    ]
    failed = [
        a for a in server.wire.stream("KnowledgeService.IngestEpisodes", requests) if "error" in a
    ]
    if failed:
        raise SystemExit(f"episodes were refused: {failed[:3]}")


def _episode(repo: str, session: str, said: Sequence[Entry]) -> Message:
    return {
        "repository": repo,
        "outcome": {"status": "OUTCOME_STATUS_SUCCESS"},
        "agent_id": "guide",
        "session_key": session,
        "start_time": said[0].at.isoformat(),
        "artifacts": [
            {"kind": "ARTIFACT_KIND_TURN", "content": entry.text, "meta": {"role": _role(entry)}}
            for entry in said
        ],
    }


def _role(entry: Entry) -> str:
    return {"user": "user", "system": "tool"}.get(entry.source, "assistant")


def _store(server: Server, repo: str, entries: Sequence[Entry]) -> None:
    requests = [{"memory": _memory(repo, entry)} for entry in entries]
    for start in range(0, len(requests), BATCH):
        batch = {"requests": requests[start : start + BATCH]}
        results = server.wire.done("MemoryService.BatchStoreMemories", batch)["results"]
        if failed := [r for r in results if "error" in r]:
            raise SystemExit(f"memories were refused: {failed[:3]}")


def _memory(repo: str, entry: Entry) -> Message:
    return {
        "content": entry.text,
        "repository": repo,
        "agent_id": "guide",
        "source": f"MEMORY_SOURCE_{entry.source.upper()}",
        "session_key": entry.session,
        "importance": entry.importance,
        "tags": list(entry.tags),
        "path": entry.path,
        "symbol": entry.symbol,
        "valid_from": entry.at.isoformat(),
    }
