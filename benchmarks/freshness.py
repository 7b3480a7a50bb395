"""Whether a note about code is told to be stale when its code changed, over two releases of real projects.

    python -m benchmarks.freshness click 8.0.4 8.1.8 [more PACKAGE OLD NEW] [--notes 400]

Notes that name one function, in six wordings, are stored while the old release is indexed; then the new one
is, and each is asked for. The truth is Python's own parser's: the function of that path and qualified name has
the same syntax tree in both releases (its docstring counts), another one, or is not there; one that stands with
the same tree under its name in another file counts as the same. As many notes are about functions that
changed or went as are about ones that did not, as far as there are so many. Rows: what is shipped; `by hash`
without comparing what changed by its tokens; `by file`, any change of the file counts, as for a path alone.
Then notes that name none: in prose, and of names that the project does not have.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import mkdtemp
from unittest.mock import patch

import platformdirs
import uvloop

from benchmarks.localisation_corpus import fetch
from etl.truth import open as open_truth
from plait.domain.memory import NO_ID, MemoryEntry, MemoryMetadata
from plait.domain.recall import Freshness
from plait.domain.values import Collection, Filter, ItemId
from plait.memory.entry import check
from plait.ports import Place
from plait.retrieval.ranking.freshness import freshness
from plait.settings import load
from plait.supervisor.lease import wait_stopped
from vector.anchors import freshness_text
from vector.store import Store

BATCH = 500
SAID = Place("", Collection.MEMORIES, "", "", "memory", False)
WORDINGS = (
    "`{name}` in {path} retries three times before it gives up.",
    "Be careful with {name}(): it is called while the lock is held.",
    "{path}: `{name}` has no test for the empty case.",
    "We decided that {path}::{colons} keeps the old order of arguments.",
    "The bug was in {name}, see {path}:{line}, not in its caller.",
    "I looked at `{last}` in {file} and it does what the docs say.",
)
IDLE = (
    "The release notes are written on Fridays, and someone else reads them.",
    "`frobnicate_all` in src/nowhere.py was never merged.",
    "Run the tests with two workers, or they take all day: `make check-all`.",
    "e.g. Node.js and README.md say 3.11, i.e. the CI's version; v2.0 says more.",
)
DRIFTED, ORPHANED = Freshness.DRIFTED, Freshness.ORPHANED


@dataclass(frozen=True, slots=True)
class Function:
    path: str
    name: str  # inside its module
    line: int
    tree: str


@dataclass(frozen=True, slots=True)
class Note:
    text: str
    path: str
    truth: Freshness


def functions(root: Path) -> dict[tuple[str, str], Function]:
    """By path and name, of definitions that have their name once in the file."""
    found: dict[tuple[str, str], Function] = {}
    twice: set[tuple[str, str]] = set()
    for file in sorted(root.rglob("*.py")):
        path = file.relative_to(root).as_posix()
        try:
            tree = ast.parse(file.read_text(encoding="utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for name, node in _defined(tree, ""):
            if (path, name) in found:
                twice.add((path, name))
            found[path, name] = Function(path, name, node.lineno, ast.dump(node))
    return {key: one for key, one in found.items() if key not in twice}


def _defined(
    tree: ast.AST, prefix: str
) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions of a module and methods of its classes; those inside functions are their parts."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield prefix + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _defined(node, f"{prefix}{node.name}.")
        elif isinstance(node, ast.If | ast.Try):
            yield from _defined(node, prefix)


def notes(old: Path, new: Path, most: int, seed: int = 1) -> list[Note]:
    """Half of them about functions that changed or went, if there are so many."""
    before, after = functions(old), functions(new)
    elsewhere: dict[str, list[Function]] = {}
    for one in after.values():
        elsewhere.setdefault(one.name, []).append(one)
    truth: dict[tuple[str, str], Freshness] = {}
    for key, one in before.items():
        now = after.get(key)
        if now is None:
            same = [o for o in elsewhere.get(one.name, ()) if o.tree == one.tree]
            truth[key] = Freshness.FRESH if len(same) == 1 else ORPHANED
        else:
            truth[key] = Freshness.FRESH if now.tree == one.tree else DRIFTED
    rng = random.Random(seed)
    stale = sorted(k for k, t in truth.items() if t is not Freshness.FRESH)
    held = sorted(k for k, t in truth.items() if t is Freshness.FRESH)
    rng.shuffle(stale)
    rng.shuffle(held)
    half = most // 2
    chosen = [*stale[:half], *held[: max(half, most - len(stale))]][:most]
    rng.shuffle(chosen)
    return [
        Note(worded(before[key], WORDINGS[n % len(WORDINGS)]), key[0], truth[key])
        for n, key in enumerate(chosen)
    ]


def worded(one: Function, wording: str) -> str:
    return wording.format(
        name=one.name,
        path=one.path,
        colons=one.name.replace(".", "::"),
        line=one.line + 1,
        last=one.name.rpartition(".")[2],
        file=one.path.rpartition("/")[2],
    )


async def store(truth: Store, repo: str, texts: Sequence[str]) -> list[ItemId]:
    ids: list[ItemId] = []
    for at in range(0, len(texts), BATCH):
        entries = [
            check(MemoryEntry(NO_ID, repo, "a", text, MemoryMetadata()))
            for text in texts[at : at + BATCH]
        ]
        for receipt in await truth.memories.store("default", entries):
            if isinstance(receipt, Exception):
                raise receipt
            ids.append(ItemId(receipt.entry.id))
    return ids


async def ask(truth: Store, repo: str, ids: Sequence[ItemId]) -> list[Freshness]:
    view = await truth.search.view(Filter((repo,), collections=tuple(Collection)))
    out: list[Freshness] = []
    for at in range(0, len(ids), 100):
        some = ids[at : at + 100]
        found = await truth.search.item_states(view, some)
        out += [freshness(SAID, found[id_]) for id_ in some]
    return out


async def measure(
    truth: Store, home: Path, repo: str, trees: Sequence[Path], most: int, *, show: bool
) -> list[str]:
    old, new = trees
    made = notes(old, new, most)
    index(home, repo, old)
    texts = [note.text for note in made]
    ids = await store(truth, repo, texts)
    idle = await store(truth, repo, IDLE)
    at_once = await ask(truth, repo, [*ids, *idle])
    index(home, repo, new)
    shipped = await ask(truth, repo, ids)
    truth.search._item_states._named_cache = (
        freshness_text.Cache()
    )  # what is known of this revision already
    with patch.object(freshness_text, "gist", lambda code, language: b""):
        by_hash = await ask(truth, repo, ids)
    if show:
        for note, now, said in zip(made, at_once, shipped, strict=False):
            if said is not note.truth:
                print(f"  {note.truth} told {said}, at once {now}: {note.text} [{note.path}]")
    changed = {n.path: _text(old / n.path) != _text(new / n.path) for n in made}
    by_file = [
        (DRIFTED if changed[n.path] else Freshness.FRESH) if (new / n.path).exists() else ORPHANED
        for n in made
    ]
    wrong_at_once = sum(said not in (Freshness.FRESH, Freshness.UNVERIFIABLE) for said in at_once)
    anchored = sum(said is Freshness.FRESH for said in at_once[: len(ids)])
    idle_anchored = sum(said is Freshness.FRESH for said in at_once[len(ids) :])
    print(
        f"{repo}: {len(made)} notes, anchored {anchored}; of {len(idle)} idle ones {idle_anchored};"
        f" stale at once {wrong_at_once}"
    )
    rows = {"shipped": shipped, "by hash": by_hash, "by file": by_file}
    return [f"| {repo}, {name} | {scores(made, said)} |" for name, said in rows.items()]


def _text(path: Path) -> bytes:
    return path.read_bytes() if path.exists() else b""


def scores(made: Sequence[Note], said: Sequence[Freshness]) -> str:
    """Precision / recall of DRIFTED, of ORPHANED, of either; n in the truth."""
    cells = []
    wanted: Mapping[str, tuple[Freshness, ...]] = {
        "drifted": (DRIFTED,), "orphaned": (ORPHANED,), "either": (DRIFTED, ORPHANED),
    }  # fmt: skip
    for kinds in wanted.values():
        true = [note.truth in kinds for note in made]
        told = [one in kinds for one in said]
        both = sum(a and b for a, b in zip(true, told, strict=True))
        cells.append(f"{_percent(both, sum(told))} / {_percent(both, sum(true))} of {sum(true)}")
    return " | ".join(cells)


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}" if whole else "–"


def index(home: Path, repo: str, release: Path) -> None:
    """Bring the index of `repo` to `release`, in the one folder that a repository has."""
    root = home / "trees" / repo
    shutil.rmtree(root, ignore_errors=True)
    shutil.copytree(release, root)
    command = [
        sys.executable,
        "-P",
        "-m",
        "etl.index_repo",
        str(root),
        "--repo",
        repo,
        "--no-embed",
    ]
    environment = {**os.environ, "PLAIT_HOME": str(home)}
    subprocess.run([*command, "--json"], check=True, env=environment, stdout=subprocess.DEVNULL)


async def run(
    home: Path, cache: Path, pairs: Sequence[tuple[str, str, str]], most: int, *, show: bool
) -> None:
    truth = await open_truth(load(environ={"PLAIT_HOME": str(home)}))
    try:
        rows = []
        for package, old, new in pairs:
            trees = [fetch(package, version, cache) for version in (old, new)]
            repo = f"{package}-{old}-{new}"
            rows += await measure(truth, home, repo, trees, most, show=show)
        print("| | drifted: precision / recall | orphaned | either |\n|---|---|---|---|")
        print("\n".join(rows))
    finally:
        await truth.close()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("releases", nargs="+", help="PACKAGE OLD NEW, one or more times")
    parser.add_argument("--notes", type=int, default=400)
    parser.add_argument("--show", action="store_true", help="notes that are told wrongly")
    cache = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))
    parser.add_argument("--cache", type=Path, default=cache / "sdists", help="sdists")
    args = parser.parse_args()
    words = args.releases
    if len(words) % 3:
        parser.error("releases come in threes: PACKAGE OLD NEW")
    pairs = [(words[i], words[i + 1], words[i + 2]) for i in range(0, len(words), 3)]
    home = Path(mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    try:
        uvloop.run(run(home, args.cache, pairs, args.notes, show=args.show))
    finally:
        for lock in home.rglob("keeper.lock"):
            wait_stopped(lock.parent, 60.0)
        shutil.rmtree(home)


if __name__ == "__main__":
    main()
