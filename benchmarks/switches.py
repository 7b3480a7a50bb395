"""Random edits, branches and switches of a small repository, each answer compared with a clean index's.

    python -m benchmarks.switches [--switches 1000] [--seed 7] [--home DIR]

Starts an embedded PostgreSQL in DIR (a temporary folder without it). After each switch the texts and scores of
searches, the bytes of each file's facts and of its part of the graph have to be those that a new repository
gets from the same files.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from etl.pipeline import IndexRequest, index_repository
from etl.trees import tree_digest
from etl.truth import open as open_truth
from plait.domain.values import Filter
from plait.ports import GraphDelta, GraphStore
from plait.settings import Settings, load
from vector.index.visible import held
from vector.server import embedded
from vector.store import Store

Files = dict[str, str]
Answers = tuple[Any, ...]

NAMES = ("alpha", "beta", "gamma", "delta", "epsilon")
PATHS = (
    "app.py", "core/__init__.py", "core/alpha.py", "core/beta.py", "core/deep/gamma.py", "notes.md",
    "tests/test_app.py", "web/main.js", "settings.toml",
)  # fmt: skip
MOST_BRANCHES = 6
CLEAN = "steady"
ROWS = f"""
SELECT path, nodes, edges FROM file_graph f JOIN repository r ON r.id = f.repo_id
 WHERE r.name = %(repo)s AND {held("f", "r.published")} ORDER BY path COLLATE "C"
"""
FACTS = f"""
SELECT v.path, v.content_hash, v.language, v.lines, v.is_test, v.facts
  FROM file_member m JOIN file_version v USING (repo_id, path, written) JOIN repository r ON r.id = m.repo_id
 WHERE r.name = %(repo)s AND {held("m", "r.published")} ORDER BY v.path COLLATE "C"
"""


class Nothing:
    """A graph that takes everything: the rows are compared."""

    async def apply(self, delta: GraphDelta) -> None: ...


async def no_graph() -> GraphStore:
    return cast(GraphStore, Nothing())


@dataclass(slots=True)
class Counts:
    """What was done, and what each run of the index did."""

    switches: int = 0
    wrong: list[str] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)
    took_s: dict[str, list[float]] = field(default_factory=dict)


def new_file(chance: random.Random, path: str) -> str:
    """A small source that calls, imports and extends what other files may define."""
    one, two, three = (chance.choice(NAMES) for _ in range(3))
    if path.endswith(".py"):
        return (
            f"from core.{one} import {two}\nimport core.deep.gamma\n\n\n"
            f"class {three.title()}({two}):\n    def {one}(self):\n        return {two}()\n\n\n"
            f"def {three}(value=None):\n    return {one}(value) or core.deep.gamma.{two}()\n"
        )
    if path.endswith(".js"):
        return f"function {one}(x) {{\n  return {two}(x) + {three}();\n}}\nfunction {two}(x) {{\n  return x;\n}}\n"
    return f"# {one}\n{two} = '{three}'\n"


def edited(chance: random.Random, files: Files) -> Files:
    """`files` with one to three of them written, removed or moved."""
    files = dict(files)
    for _ in range(chance.randint(1, 3)):
        path = chance.choice(PATHS)
        what = chance.random()
        if what < 0.2 and path in files and len(files) > 2:
            del files[path]
        elif what < 0.3 and path in files and path.endswith(".py"):
            files[f"moved/{chance.choice(NAMES)}.py"] = files.pop(path)
        else:
            files[path] = new_file(chance, path)
    return files


class Tree:
    """A folder that is brought to `files`, with a branch's name as git keeps it."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._files: Files = {}
        (root / ".git").mkdir(parents=True)

    def bring(self, files: Files, branch: str) -> None:
        (self.root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
        for path in self._files.keys() - files.keys():
            (self.root / path).unlink()
        for path, text in files.items():
            if self._files.get(path) != text:
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path).write_text(text)
        self._files = dict(files)


class Play:
    """One repository that goes through a history, and clean ones beside it."""

    def __init__(self, store: Store, settings: Settings, folder: Path, seed: int) -> None:
        self._store, self._settings, self._folder = store, settings, folder
        self._chance = random.Random(seed)
        self._tree = Tree(folder / "tree")
        self._expected: dict[str, Answers] = {}
        self.counts = Counts()

    async def run(self, switches: int) -> Counts:
        first = {path: new_file(self._chance, path) for path in PATHS}
        branches: dict[str, Files] = {"main": first}
        here = "main"
        for n in range(switches):
            what = self._chance.random()
            if what < 0.15:
                branches[here] = edited(self._chance, branches[here])
            elif what < 0.25:
                name = f"b{n}"
                branches[name] = edited(self._chance, branches[here])
                here = name
                if len(branches) > MOST_BRANCHES:
                    del branches[self._chance.choice([b for b in branches if b != here])]
            else:
                here = self._chance.choice(list(branches))
            await self._switch(here, branches[here])
            if not (n + 1) % 100:
                print(f"{n + 1} switches, {len(self.counts.wrong)} wrong answers", flush=True)
        return self.counts

    async def _switch(self, branch: str, files: Files) -> None:
        self._tree.bring(files, branch)
        began = time.process_time()
        report = await self._index(self._tree.root, "moving")
        kind = (
            "nothing new" if not report.changed else "parsed" if report.files_parsed else "taken up"
        )
        self.counts.runs[kind] += 1
        self.counts.took_s.setdefault(kind, []).append(time.process_time() - began)
        self.counts.switches += 1
        expected = await self._clean(files)
        found = await answers(self._store, "moving")
        for name, is_, should in zip(("searches", "graph", "facts"), found, expected, strict=True):
            if is_ != should:
                self.counts.wrong.append(f"switch {self.counts.switches} to {branch}: {name}")

    async def _clean(self, files: Files) -> Answers:
        """What an index of `files` alone answers; asked once for each content."""
        key = tree_digest({}, {}).hex() + repr(sorted(files.items()))
        if key not in self._expected:
            root = self._folder / CLEAN
            Tree(root).bring(files, "main")
            await self._index(root, CLEAN)
            self._expected[key] = await answers(self._store, CLEAN)
            await self._store.repositories.delete(CLEAN)
            shutil.rmtree(root)
        return self._expected[key]

    async def _index(self, root: Path, repo: str) -> Any:
        request = IndexRequest(root, repo, embed=False)
        return await index_repository(request, self._settings, self._store, no_graph, None)


async def answers(store: Store, repo: str) -> Answers:
    """Searches, graph rows and facts of `repo`, free of ids and of its name."""
    where = Filter(repos=(repo,))
    view = await store.search.view(where)
    searches: dict[str, Any] = {}
    for word in (*NAMES, "core", "self", "value"):
        found = await store.search.lexical(view, [word, "return"], where, 200)
        items = await store.search.fetch(view, [c.id for c in found])
        searches[word] = len(items) == len(found) and sorted(
            (c.score, i.path, i.symbol, i.start_line, i.content)
            for c in found
            if (i := items.get(c.id)) is not None
        )
        named = await store.search.identifiers(view, word, where, 50)
        known = await store.search.fetch(view, [c.id for c in named])
        searches[f"named {word}"] = sorted((i.path, i.symbol) for i in known.values())
    whole: Mapping[str, Any] = {"repo": repo}
    bare = repo.encode() + b":"
    graph = [
        (path, _without(nodes, bare), _without(edges, bare))
        for path, nodes, edges in await store.db.rows(ROWS, dict(whole))
    ]
    facts = [tuple(map(_plain, row)) for row in await store.db.rows(FACTS, dict(whole))]
    counted = view.revisions[0]
    return searches, graph, (facts, counted.files, counted.chunks)


def _without(blob: bytes, name: bytes) -> bytes:
    """`blob` with a repository's name replaced by one of the same length."""
    return bytes(blob).replace(name, b"r" * (len(name) - 1) + b":")


def _plain(value: Any) -> Any:
    return bytes(value) if isinstance(value, memoryview) else value


async def main(args: argparse.Namespace, home: Path) -> None:
    plain = load(environ={"PLAIT_HOME": str(home)})
    with embedded.ensure(plain, tcp=True) as lease:
        settings = load(environ={"PLAIT_HOME": str(home), "PLAIT_POSTGRES__DSN": lease.dsn})
        store = await open_truth(settings)
        try:
            play = Play(store, settings, Path(tempfile.mkdtemp(dir=home)), args.seed)
            counts = await play.run(args.switches)
        finally:
            await store.close()
    print(f"{counts.switches} switches, {len(counts.wrong)} wrong answers")
    for kind, n in counts.runs.most_common():
        took = sorted(counts.took_s[kind])
        print(f"  {kind:12} {n:5}  CPU s of this process, median {took[len(took) // 2]:.3f}")
    for line in counts.wrong[:20]:
        print(" ", line)
    raise SystemExit(bool(counts.wrong))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--switches", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--home", type=Path)
    given = parser.parse_args()
    if given.home:
        given.home.mkdir(parents=True, exist_ok=True)
        asyncio.run(main(given, given.home.absolute()))
    else:
        with tempfile.TemporaryDirectory() as made:
            Path(made).chmod(0o711)  # the embedded server may run as another account
            asyncio.run(main(given, Path(made)))
