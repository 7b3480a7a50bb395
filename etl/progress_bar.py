"""A progress bar on standard error, one line a phase."""

from __future__ import annotations

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)
from rich.progress import Progress as RichProgress

from etl.report import turn_line, waiting_line
from plait import terminal

TITLES = {
    "walk": "Reading the tree",
    "parse": "Parsing and writing text",
    "resolve": "Binding calls",
    "graph": "Writing the graph",
    "ingest": "Reading (kB)",
    "vectors": "Embedding (searchable already; Ctrl-C is safe)",
}


class BarProgress:
    """`etl.report.Progress` on a terminal. A phase without a total shows a pulse."""

    def __init__(self) -> None:
        self._bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=terminal.console(stderr=True),
            transient=True,
        )
        self._task: TaskID | None = None

    def start(self, phase: str, total: int | None = None) -> None:
        if self._task is None:
            self._bar.start()
        else:
            self._bar.remove_task(self._task)
        self._task = self._bar.add_task(TITLES.get(phase, phase), total=total)

    def advance(self, n: int = 1) -> None:
        if self._task is not None:
            self._bar.advance(self._task, n)

    def waiting(self, store: str, waited_s: float) -> None:
        """Above the bar, which stays where it is."""
        self._bar.console.print(waiting_line(store, waited_s), highlight=False)

    def turn(self, repo: str, most_s: float) -> None:
        self._bar.console.print(turn_line(repo, most_s), highlight=False)

    def finish(self) -> None:
        self._bar.stop()
