"""What `ingest` prints: one line (or JSON object) per episode, errors, notes, and a total."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from etl.ingest import memory_usage
from etl.ingest.inputs import ImportResult
from plait.domain.display import to_json
from plait.domain.errors import PlaitError
from plait.domain.values import Episode

if TYPE_CHECKING:
    from plait.domain.answers.status import MemoryUsage
    from plait.domain.retention import Budget

_PLURAL = {
    "turn": "turns", "plan": "plans", "diff": "diffs", "reflection": "reflections",
    "test_result": "test results", "note": "notes",
}  # fmt: skip
MAX_ERRORS = 5  # printed of one file


@dataclass(slots=True)
class Report:
    """Prints as things happen; `stored`, `repeated`, `failed`, `notes` count them."""

    as_json: bool = False
    quiet: bool = False
    stored: int = 0
    repeated: int = 0
    failed: int = 0
    notes: int = 0
    files: set[str] = field(default_factory=set)
    repos: set[str] = field(default_factory=set)  # in which something was stored
    faults: Counter[str] = field(default_factory=Counter)  # by file

    @property
    def read(self) -> int:
        """How many results were read, of every kind."""
        return self.stored + self.repeated + self.failed + self.notes

    def store(
        self, result: ImportResult, episode_id: str, items: int, repeated: bool, differs: bool
    ) -> None:
        """`differs`: it was stored before with other options or by an earlier version, and stays as it is."""
        episode = result.read.episode
        assert episode is not None
        self.files.add(result.file)
        self.repeated += repeated
        self.stored += not repeated
        if not repeated:
            self.repos.add(episode.repo)
        if self.as_json:
            body: dict[str, Any] = {
                "episode_id": episode_id,
                "request_id": episode.request_id,
                "repo": episode.repo,
                "items": items,
                "repeated": repeated,
                "file": result.file,
                "format": result.format,
            }
            if differs:
                body["differs"] = True
            self._line(body)
        elif not self.quiet:
            verb = "Stored before" if repeated else "Stored"
            id_ = episode_id or episode.request_id
            suffix = "; read in another way then, and stays as stored" if differs else ""
            print(f"{verb} {id_}  {_headline(episode)}{suffix}", flush=True)
        if not repeated:
            self._note(result)

    def would_store(self, result: ImportResult) -> None:
        episode = result.read.episode
        assert episode is not None
        self.files.add(result.file)
        self.stored += 1
        if self.as_json:
            self._line({"would_store": _summary(result, episode)})
            return
        print(f"Would store {episode.request_id}  {_headline(episode)}")
        for key, value in _summary(result, episode).items():
            if (
                key in ("agent_id", "session_key", "started_at", "evidence_bytes", "redacted")
                and value
            ):
                print(f"    {key}: {value}")
        if episode.outcome.summary:
            print(f"    summary: {' '.join(episode.outcome.summary.split())[:160]}")
        for artifact in episode.artifacts:
            first = " ".join(artifact.content[:400].split())[:100]
            print(f"    {artifact.kind:<12} {artifact.path or '-'}  {first}")
        self._note(result)

    def error(self, result: ImportResult, exc: PlaitError) -> None:
        self.failed += 1
        self.files.add(result.file)
        if self.as_json:
            body = {
                "reason": exc.reason,
                "message": exc.message,
                "file": result.file,
                "line": result.read.line,
                "metadata": exc.metadata,
            }
            self._line({"error": body})
        self.faults[result.file] += 1
        if self.faults[result.file] > MAX_ERRORS:
            return  # a file in another format than the one given has an error in every line
        where = self._where(result) if result.format else f"{result.file}: "
        if result.file != "-" and (
            exc.message.startswith(result.file)
            or (not result.format and result.file in exc.message)
        ):
            where = ""  # the message names it
        print(f"error: {where}{exc.message} [{exc.reason}]", file=sys.stderr)

    def note(self, result: ImportResult) -> None:
        self.notes += 1
        self.files.add(result.file)
        self._note(result)

    def _note(self, result: ImportResult) -> None:
        if not result.read.note:
            return
        if self.as_json:
            self._line(
                {
                    "note": {
                        "message": result.read.note,
                        "file": result.file,
                        "line": result.read.line,
                    }
                }
            )
        elif not self.quiet:
            print(f"note: {self._where(result)}{result.read.note}", file=sys.stderr)

    def retention_notes(self, usage: Mapping[tuple[str, str, Budget], MemoryUsage]) -> None:
        """What retention closed where something was stored, and which budgets are nearly full."""
        for note in memory_usage.notes(usage, frozenset(self.repos)):
            print(f"note: {note}", file=sys.stderr)

    def end(self, *, dry: bool, skipped: Mapping[str, int]) -> None:
        """Counts of the errors that were not printed and of skipped files; a total, unless exactly one
        result was read."""
        for file, count in self.faults.items():
            if count > MAX_ERRORS:
                more = f"{count - MAX_ERRORS:,} more errors; --json has them all"
                print(f"error: {file}: {more}", file=sys.stderr)
        self._skipped(skipped)
        total = self.read
        if self.as_json or self.quiet or (total == 1 and len(self.files) < 2):
            return
        if not total:
            print("nothing found that can be imported", file=sys.stderr)
            return
        verb = "would be stored" if dry else "stored"
        parts = [f"{self.stored:,} {verb}"]
        parts += [f"{self.repeated:,} stored before"] if self.repeated else []
        parts += [f"{self.failed:,} refused"] if self.failed else []
        parts += [f"{self.notes:,} not ended yet"] if self.notes else []
        files = f"{len(self.files):,} file{'s' if len(self.files) != 1 else ''}"
        print(f"{files}: episodes: {', '.join(parts)}", file=sys.stderr)

    def _skipped(self, skipped: Mapping[str, int]) -> None:
        if skipped and not self.quiet:
            total = sum(skipped.values())
            why = ", ".join(f"{n:,} {reason}" for reason, n in sorted(skipped.items()))
            print(f"skipped {total:,} file{'s' if total != 1 else ''}: {why}", file=sys.stderr)

    @staticmethod
    def _where(result: ImportResult) -> str:
        return f"{result.file}:{result.read.line}: "

    @staticmethod
    def _line(body: dict[str, Any]) -> None:
        print(to_json(body), flush=True)


def _headline(episode: Episode) -> str:
    return f"{episode.repo}: {episode.outcome.status}, {_kinds(episode)}"


def _kinds(episode: Episode) -> str:
    found = Counter(str(a.kind) for a in episode.artifacts)
    parts = [
        f"{n} {_PLURAL.get(kind, kind) if n > 1 else kind.replace('_', ' ')}"
        for kind, n in sorted(found.items())
    ]
    total = len(episode.artifacts)
    return f"{total} artifact{'s' if total != 1 else ''}" + (
        f" ({', '.join(parts)})" if parts else ""
    )


def _summary(result: ImportResult, episode: Episode) -> dict[str, Any]:
    """What would be stored, without its contents."""
    return {
        "request_id": episode.request_id,
        "repo": episode.repo,
        "file": result.file,
        "line": result.read.line,
        "format": result.format,
        "status": episode.outcome.status,
        "summary": episode.outcome.summary,
        "metrics": dict(episode.outcome.metrics),
        "agent_id": episode.agent_id,
        "session_key": episode.session_key,
        "started_at": episode.started_at.isoformat() if episode.started_at else "",
        "artifacts": [
            {"kind": str(a.kind), "path": a.path, "bytes": len(a.content.encode())}
            for a in episode.artifacts
        ],
        "evidence_bytes": sum(len(e.body) for e in episode.evidence),
        "redacted": int(episode.outcome.metrics.get("redacted", 0)),
    }
