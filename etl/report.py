"""The progress and the result of an index run: for people, and as JSON for programs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol


class Progress(Protocol):
    """Progress of a long run. Phases follow one another; each has its own unit."""

    def start(self, phase: str, total: int | None = None) -> None: ...

    def advance(self, n: int = 1) -> None: ...

    def waiting(self, store: str, waited_s: float) -> None:
        """`store` is away and has been waited for so long; 0: it is back."""
        ...

    def turn(self, repo: str, most_s: float) -> None:
        """Another process is indexing `repo`, and is waited for at most so long."""
        ...

    def finish(self) -> None: ...


class NoProgress:
    def start(self, phase: str, total: int | None = None) -> None: ...

    def advance(self, n: int = 1) -> None: ...

    def waiting(self, store: str, waited_s: float) -> None: ...

    def turn(self, repo: str, most_s: float) -> None: ...

    def finish(self) -> None: ...


class PlainProgress(NoProgress):
    """Without a progress bar: reports only waits and their causes."""

    def turn(self, repo: str, most_s: float) -> None:
        print(turn_line(repo, most_s), file=sys.stderr, flush=True)

    def waiting(self, store: str, waited_s: float) -> None:
        print(waiting_line(store, waited_s), file=sys.stderr, flush=True)


def turn_line(repo: str, most_s: float) -> str:
    return f"another process is indexing {repo}; waiting for it, {most_s:.0f} s at most"


def waiting_line(store: str, waited_s: float) -> str:
    return f"waiting for {store}, {waited_s:.0f} s" if waited_s else f"{store} answers again"


@dataclass(frozen=True, slots=True)
class IndexReport:
    """One run's result. `phases`: wall seconds by phase. `skipped`: files left out, by cause.
    `graph_revision`: what the graph server shows, 0 for nothing; it follows `revision` with the next Cypher
    (an external one soon), and templates don't need it. `filling`: vectors are made in the background."""

    repo: str
    root: str
    revision: int
    changed: bool
    files: int = 0
    files_parsed: int = 0
    files_removed: int = 0
    syntax_errors: int = 0
    symbols: int = 0
    chunks: int = 0
    chunks_written: int = 0
    nodes: int = 0
    edges: Mapping[str, int] = field(default_factory=dict)
    unresolved: Mapping[str, int] = field(default_factory=dict)
    languages: Mapping[str, int] = field(default_factory=dict)
    skipped: Mapping[str, int] = field(default_factory=dict)
    skipped_files: tuple[tuple[str, str], ...] = ()
    unparsed_files: tuple[tuple[str, str], ...] = ()
    masked_files: tuple[tuple[str, int], ...] = ()  # read by this run: path, credentials covered
    embedded: int = 0
    model: str = ""
    graph_revision: int = 0
    filling: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """All fields; without the counts that only a run that bound the code again can know."""
        body = asdict(self)
        if not self.changed:
            for name in ("symbols", "nodes", "edges", "unresolved"):
                del body[name]
        return body


# The summary names this many skipped files; `--json` names all.
SHOWN_SKIPS = 5
# Not worth a line each, so they are only counted.
EXPECTED = frozenset({"binary", "ignored"})


def render(report: IndexReport) -> str:
    """The summary of `report`, several lines of plain text."""
    lines = [_headline(report)]
    if report.changed:
        lines += _counts(report)
    lines += _skips(report)
    lines += _masked(report)
    lines += [
        f"  unparsed   {path}: {cause}; indexed as text alone"
        for path, cause in report.unparsed_files[:SHOWN_SKIPS]
    ]
    if report.syntax_errors:
        lines.append(
            f"  syntax     {report.syntax_errors:,} files with errors, indexed as far as they parse"
        )
    lines.append(f"  vectors    {_coverage(report)}")
    lines += [f"  note       {note}" for note in report.notes]
    if report.phases:
        lines.append("  took       " + _phases(report.phases))
    lines += ["", *_next_steps(report)]
    return "\n".join(lines)


def _headline(report: IndexReport) -> str:
    what = f"{report.repo} · revision {report.revision} · {report.root}"
    if not report.changed:
        return f"Nothing changed: {what}"
    return f"Indexed {what}"


def _counts(report: IndexReport) -> list[str]:
    languages = ", ".join(
        f"{name} {n:,}"
        for name, n in sorted(report.languages.items(), key=lambda x: (-x[1], x[0]))[:6]
    )
    edges = ", ".join(
        f"{name} {n:,}" for name, n in sorted(report.edges.items(), key=lambda x: (-x[1], x[0]))
    )
    files = f"{report.files:,} ({languages})"
    if report.files_parsed != report.files:
        files += f"; {report.files_parsed:,} changed"
    if report.files_removed:
        files += f"; {report.files_removed:,} gone"
    unbound = sum(report.unresolved.values())
    return [
        f"  files      {files}",
        f"  text       {report.chunks:,} chunks, {report.symbols:,} symbols",
        f"  graph      {report.nodes:,} nodes; {edges or 'no edges'}",
        f"  unbound    {unbound:,} references kept as unresolved (outside the repository, or not certain)",
    ]


def _skips(report: IndexReport) -> list[str]:
    if not report.skipped:
        return []
    causes = ", ".join(f"{cause} {n:,}" for cause, n in sorted(report.skipped.items()))
    lines = [f"  skipped    {sum(report.skipped.values()):,} ({causes})"]
    odd = [(path, cause) for path, cause in report.skipped_files if cause not in EXPECTED]
    lines += [f"             {path}: {cause}" for path, cause in odd[:SHOWN_SKIPS]]
    if len(odd) > SHOWN_SKIPS:
        lines.append(f"             … and {len(odd) - SHOWN_SKIPS:,} more, see --json")
    return lines


def _masked(report: IndexReport) -> list[str]:
    if not report.masked_files:
        return []
    files = report.masked_files
    total = sum(count for _, count in files)
    shown = ", ".join(path for path, _ in files[:SHOWN_SKIPS])
    more = f" and {len(files) - SHOWN_SKIPS:,} more, see --json" if len(files) > SHOWN_SKIPS else ""
    return [f"  masked     {total:,} credentials in {len(files):,} files ({shown}{more})"]


def _coverage(report: IndexReport) -> str:
    if report.chunks == 0:
        return "no chunks"
    share = 100 * report.embedded / report.chunks
    text = f"{report.embedded:,} of {report.chunks:,} chunks ({share:.0f} %)"
    if report.embedded < report.chunks:
        rest = (
            "the service fills in the rest (`plait status`)"
            if report.filling
            else "run again without --no-embed to fill in"
        )
        return f"{text}; search ranks the others by text alone; {rest}"
    return f"{text}, {report.model}" if report.model else text


def _phases(phases: Mapping[str, float]) -> str:
    total = sum(phases.values())
    return f"{total:.1f} s ({', '.join(f'{name} {took:.1f}' for name, took in phases.items())})"


def _next_steps(report: IndexReport) -> list[str]:
    repo = shlex.quote(report.repo)
    return [
        f'Try: plait search "where are errors handled" --repo {repo}',
        f"     plait graph callers SYMBOL --repo {repo}",
    ]
