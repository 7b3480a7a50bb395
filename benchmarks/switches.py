"""Random edits, branches, switches and work trees of a small repository, each answer compared with a clean index's.

    python -m benchmarks.switches [--switches 1000] [--seed 7] [--home DIR]

Starts an embedded PostgreSQL in DIR (a temporary folder without it). Three work trees of one history, each a repository
of its own, which is removed now and then and indexed again. After each switch the texts and scores of searches, the
bytes of each file's facts and of its part of the graph have to be those that a repository of another tenant gets from
the same files; and so those of a work tree that was left alone. With DIR, a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import shutil
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import Any, cast

import msgspec

from etl.pipeline import IndexRequest, index_repository
from etl.report import IndexReport
from etl.truth import open as open_truth
from plait.domain.scope import DEFAULT_TENANT, owner_of
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
# Their names are as long as the clean one's: lengths are in the bytes that are compared.
WORK_TREES = ("moving-1", "moving-2", "moving-3")
# In a tenant of its own, which takes nothing from others.
TENANT, CLEAN = "c", "steady"
STATE = "state.json"
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
    runs: dict[str, int] = field(default_factory=dict)
    parsed: int = 0  # files
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

    def __init__(self, root: Path, files: Files | None = None) -> None:
        self.root = root
        self._files: Files = files or {}
        (root / ".git").mkdir(parents=True, exist_ok=True)

    def bring(self, files: Files, branch: str) -> None:
        (self.root / ".git" / "HEAD").write_text(f"ref: refs/heads/{branch}\n")
        for path in self._files.keys() - files.keys():
            (self.root / path).unlink()
        for path, text in files.items():
            if self._files.get(path) != text:
                (self.root / path).parent.mkdir(parents=True, exist_ok=True)
                (self.root / path).write_text(text)
        self._files = dict(files)


@dataclass(slots=True)
class State:
    """A history as far as it went. `here`: each work tree's branch, `lies`: its files."""

    random: list[Any]
    branches: dict[str, Files]
    here: dict[str, str]
    lies: dict[str, Files] = field(default_factory=dict)
    done: int = 0
    counts: Counts = field(default_factory=Counts)


class Play:
    """Work trees that go through a history, and clean repositories beside them."""

    def __init__(self, store: Store, settings: Settings, folder: Path, seed: int) -> None:
        self._store, self._settings, self._folder = store, settings, folder
        self._chance = random.Random(seed)
        self._expected: dict[str, Answers] = {}
        self._state = self._resumed() or self._begun()
        self._trees = {name: Tree(folder / name, self._state.lies.get(name)) for name in WORK_TREES}

    def _begun(self) -> State:
        first = {path: new_file(self._chance, path) for path in PATHS}
        return State([], {"main": first}, dict.fromkeys(WORK_TREES, "main"))

    def _resumed(self) -> State | None:
        file = self._folder / STATE
        if not file.exists():
            return None
        state = msgspec.json.decode(file.read_bytes(), type=State)
        version, numbers, rest = state.random
        self._chance.setstate((version, tuple(numbers), rest))
        return state

    def _save(self) -> None:
        self._state.random = list(self._chance.getstate())
        (self._folder / "new").write_bytes(msgspec.json.encode(self._state))
        (self._folder / "new").replace(self._folder / STATE)

    async def run(self, switches: int) -> Counts:
        state = self._state
        while state.done < switches:
            name = self._chance.choice(WORK_TREES)
            self._move(name)
            if name in state.lies and self._chance.random() < 0.05:
                del state.lies[name]
                await self._store.repositories.delete(name)
            await self._switch(name)
            await self._check(self._chance.choice(sorted(state.lies)), "left alone")
            state.done += 1
            self._save()
            if not state.done % 100:
                print(f"{state.done} switches, {len(state.counts.wrong)} wrong answers", flush=True)
        return state.counts

    def _move(self, name: str) -> None:
        """An edit on the branch of a work tree, a new branch there, or a switch to another one."""
        branches, here = self._state.branches, self._state.here
        what = self._chance.random()
        if what < 0.15:
            branches[here[name]] = edited(self._chance, branches[here[name]])
        elif what < 0.25:
            made = f"b{self._state.done}"
            branches[made] = edited(self._chance, branches[here[name]])
            here[name] = made
            free = [b for b in branches if b not in here.values()]
            if len(branches) > MOST_BRANCHES and free:
                del branches[self._chance.choice(free)]
        else:
            here[name] = self._chance.choice(list(branches))

    async def _switch(self, name: str) -> None:
        state = self._state
        branch = state.here[name]
        files = state.branches[branch]
        self._trees[name].bring(files, branch)
        fresh = name not in state.lies
        state.lies[name] = files
        began = time.process_time()
        report = await self._index(self._trees[name].root, name)
        kind = "parsed" if report.files_parsed else "a copy" if fresh else "taken up"
        kind = kind if report.changed else "nothing new"
        counts = state.counts
        counts.runs[kind] = counts.runs.get(kind, 0) + 1
        counts.parsed += report.files_parsed
        counts.took_s.setdefault(kind, []).append(time.process_time() - began)
        counts.switches += 1
        await self._check(name, f"to {branch}")

    async def _check(self, name: str, what: str) -> None:
        """A work tree's answers are those of a clean index of its files."""
        counts = self._state.counts
        expected = await self._clean(self._state.lies[name])
        found = await answers(self._store, name)
        for part, is_, should in zip(("searches", "graph", "facts"), found, expected, strict=True):
            if is_ != should:
                counts.wrong.append(f"switch {counts.switches}, {name} {what}: {part}")

    async def _clean(self, files: Files) -> Answers:
        """What an index of `files` alone answers; asked once for each content."""
        key = repr(sorted(files.items()))
        if key not in self._expected:
            root = self._folder / CLEAN
            Tree(root).bring(files, "main")
            report = await self._index(root, CLEAN, TENANT)
            if report.files_parsed != report.files:
                raise AssertionError("a clean index took something over")
            self._expected[key] = await answers(self._store, report.repo)
            await self._store.repositories.delete(report.repo, TENANT)
            shutil.rmtree(root)
        return self._expected[key]

    async def _index(self, root: Path, repo: str, tenant: str = DEFAULT_TENANT) -> IndexReport:
        request = IndexRequest(root, repo, embed=False, tenant=tenant)
        return await index_repository(request, self._settings, self._store, no_graph, None)


async def answers(store: Store, repo: str) -> Answers:
    """Searches, graph rows and facts of `repo`, free of ids and of its name."""
    where = Filter(repos=(repo,), tenant=owner_of(repo))
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
            folder = home / "switches"
            folder.mkdir(exist_ok=True)
            play = Play(store, settings, folder, args.seed)
            counts = await play.run(args.switches)
        finally:
            await store.close()
    print(
        f"{counts.switches} switches, {len(counts.wrong)} wrong answers, {counts.parsed} files parsed"
    )
    for kind, n in sorted(counts.runs.items(), key=itemgetter(1), reverse=True):
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
