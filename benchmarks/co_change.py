"""How often files that used to change together do so again: whether a hook should name them.

    python -m benchmarks.co_change FOLDER

FOLDER holds `OWNER+NAME.jsonl.gz`, a history each, newest commit first: JSON lines with `p` (parents) and `f`
(changed files: status, path, lines added, lines deleted, path before a rename); and README.md, whose table
names each repository's split. Every commit but the first fifth, merges and those of more than 20 changed
files is a case; given one changed file of code, the files that shared some of its last 150 commits are
named from a score on (the mean over those commits of 1/√(other files)) and from a number of shared commits on.
Right: the file is in the commit. Chosen on the split "tuned", reported on "blind"; docs/experiments/edit-advice.md has the verdict.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

CODE = frozenset(
    (".py", ".pyi", ".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".go", ".java", ".kt", ".rs", ".rb", ".cs")
)  # fmt: skip
LAST, MOST_FILES = 150, 20
THRESHOLDS = ((0.3, 3), (0.4, 5), (0.5, 5), (0.6, 5), (0.7, 5))  # score, shared commits
LEAST_SCORE, LEAST_SHARED = min(s for s, _ in THRESHOLDS), min(n for _, n in THRESHOLDS)


@dataclass(frozen=True, slots=True)
class Named:
    score: float
    shared: int
    right: bool


class History:
    """The commits that were read so far, by file."""

    def __init__(self) -> None:
        self._files: list[list[str]] = []
        self._of: dict[str, list[int]] = defaultdict(list)
        self._alive: set[str] = set()

    def named(self, path: str, changed: set[str]) -> Iterator[Named]:
        """What would be named beside `path`, before the commit that changes `changed` is added."""
        past = self._of[path][-LAST:]
        score: Counter[str] = Counter()
        shared: Counter[str] = Counter()
        for number in past:
            others = [other for other in self._files[number] if other != path]
            for other in others:
                score[other] += 1 / math.sqrt(len(others))  # type: ignore[assignment]
                shared[other] += 1
        for other, times in shared.items():
            mean = score[other] / len(past)
            if other in self._alive and times >= LEAST_SHARED and mean >= LEAST_SCORE:
                yield Named(mean, times, other in changed)

    def add(self, files: list[list[Any]]) -> None:
        paths = [str(file[1]) for file in files]
        for status, path, *more in files:
            if status == "R" and len(more) > 2:
                self._alive.discard(more[2])
                self._of[path] = list(self._of[more[2]])
            (self._alive.discard if status == "D" else self._alive.add)(path)
        self._files.append(paths)
        if len(paths) <= MOST_FILES:
            for path in paths:
                self._of[path].append(len(self._files) - 1)


def cases(path: Path) -> Iterator[Named]:
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        commits = [json.loads(line) for line in lines if line.strip()][::-1]
    history = History()
    for number, commit in enumerate(commits):
        if len(commit["p"]) > 1:
            continue
        files = commit["f"]
        changed = {str(file[1]) for file in files}
        modified = [str(file[1]) for file in files if file[0] == "M"]
        if number > len(commits) // 5 and len(modified) <= MOST_FILES:
            for one in modified:
                if PurePosixPath(one).suffix in CODE:
                    yield from history.named(one, changed)
        history.add(files)


def splits(readme: Path) -> Mapping[str, str]:
    """Repository as its file is named → tuned or blind."""
    rows = (
        [cell.strip() for cell in line.split("|")]
        for line in readme.read_text(encoding="utf-8").splitlines()
    )
    return {
        row[1].replace("/", "+"): row[3]
        for row in rows
        if len(row) > 4 and row[3] in ("tuned", "blind")
    }


def main() -> None:
    out = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    out.add_argument("folder", type=Path)
    folder = out.parse_args().folder
    by_split: dict[str, list[Named]] = defaultdict(list)
    for repository, split in splits(folder / "README.md").items():
        by_split[split] += cases(folder / f"{repository}.jsonl.gz")
    print(f"{'score':>5} {'shared':>6}   " + "   ".join(f"{s:>16}" for s in ("tuned", "blind")))
    for score, shared in THRESHOLDS:
        cells = []
        for split in ("tuned", "blind"):
            kept = [n for n in by_split[split] if n.score >= score and n.shared >= shared]
            right = 100 * sum(n.right for n in kept) / max(1, len(kept))
            cells.append(f"{right:5.1f} % of {len(kept):6,}")
        print(f"{score:5} {shared:6}   " + "   ".join(cells))


if __name__ == "__main__":
    main()
