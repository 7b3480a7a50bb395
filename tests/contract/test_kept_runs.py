"""A service's run takes up what its last one left, and ends with what a clean run of the tree gives."""

from __future__ import annotations

import hashlib
import random
from collections import Counter
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from benchmarks.rebind import EDITS, read
from etl import pipeline
from etl.kept import KeptRepository
from etl.pipeline import IndexRequest, graph_parts, index_repository
from etl.report import IndexReport
from plait.domain.graph import encode_edges, encode_nodes
from plait.settings import Settings
from vector.index.store import Drafts
from vector.store import Store

BASE = """\
class Base:
    def run(self):
        return self.step()

    def step(self):
        raise NotImplementedError
"""
TREE = {
    "app/__init__.py": "from .base import Base\n",
    "app/base.py": BASE,
    "app/child.py": "from app import Base\n\nclass Child(Base):\n    def step(self):\n        return 1\n",
    "use.py": "from app.child import Child\n\ndef main():\n    return Child().run()\n",
    "tests/test_use.py": "from use import main\n\ndef test_main():\n    assert main()\n",
    "web/a.ts": "import { b } from './b';\nexport function a() { return b(); }\n",
    "web/b.ts": "export function b() { return 1; }\n",
    "notes.md": "# Notes\n",
}


class Case:
    """A tree, its index, and what a service would keep of it."""

    def __init__(self, store: Store, settings: Settings, root: Path) -> None:
        self.kept = KeptRepository("r")
        self._store, self._settings, self.root = store, settings, root
        for path, text in TREE.items():
            self.write(path, text)

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    async def run(self, *touched: str) -> IndexReport:
        request = IndexRequest(self.root, "r", embed=False, touched=frozenset(touched), keep=True)
        return await index_repository(
            request, self._settings, self._store, None, None, None, self.kept
        )

    async def stored(self) -> dict[str, bytes]:
        draft = await self._store.index.begin("r", str(self.root))
        stored = await self._store.index.stored_files(draft)
        await self._store.index.discard(draft)
        return {path: file.graph_hash for path, file in stored.items()}

    def clean(self) -> tuple[dict[str, bytes], int, Counter[str]]:
        digests, count, edges = {}, 0, Counter[str]()
        for nodes, part in graph_parts(self.root, "r", self._settings):
            if not part and nodes[0].id == "r:":
                continue
            data = encode_nodes(nodes) + encode_edges(part)
            digests[nodes[0].path] = hashlib.blake2b(data, digest_size=16).digest()
            count += len(nodes)
            edges.update(edge.relation for edge in part)
        return digests, count, edges

    async def check(self, report: IndexReport) -> None:
        digests, nodes, edges = self.clean()
        assert await self.stored() == digests
        if report.changed:  # an edit may leave a file as it was
            assert (report.nodes, report.edges) == (nodes, dict(edges))


@pytest.fixture
def case(store: Store, truth_settings: Settings, tmp_path: Path) -> Iterator[Case]:
    case = Case(store, truth_settings, tmp_path)
    yield case
    case.kept.close()


async def test_a_save_binds_what_it_can_touch_and_parses_one_file(case: Case) -> None:
    await case.check(await case.run())
    case.write(
        "app/base.py", BASE.replace("self.step()", "self.other()\n\n    def other(self): ...")
    )
    report = await case.run("app/base.py")
    assert (report.changed, report.files_parsed) == (True, 1)
    await case.check(report)


async def test_a_touched_file_that_is_as_it_was_publishes_nothing(case: Case) -> None:
    first = await case.run()
    again = await case.run("app/base.py", "no/such/file.py")
    assert (again.changed, again.revision) == (False, first.revision)


async def test_files_that_come_go_and_decide_over_others(case: Case) -> None:
    await case.run()
    case.write("app/new.py", "from app.child import Child\n\ndef made():\n    return Child()\n")
    await case.check(await case.run("app/new.py"))
    (case.root / "app/__init__.py").unlink()
    await case.check(await case.run("app/__init__.py"))
    case.write(".gitignore", "web/\n")
    report = await case.run(".gitignore")
    await case.check(report)
    assert report.files_removed == 2
    (case.root / "notes.md").unlink()
    await case.check(await case.run("notes.md"))


async def test_a_tree_that_is_taken_up_whole_leaves_nothing_stale(case: Case) -> None:
    await case.check(await case.run())
    many = [f"many/m{i}.py" for i in range(60)]
    for path in many:
        case.write(path, "from app.child import Child\n\ndef f():\n    return Child().run()\n")
    await case.check(await case.run(*many))
    for path in many:
        (case.root / path).unlink()
    await case.check(await case.run(*many))
    case.write("app/child.py", "class Child:\n    def run(self): ...\n")
    await case.check(await case.run("app/child.py"))


async def test_a_save_after_a_switch_goes_on_from_what_is_bound(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tree that is taken up is bound from the one before, in memory, and the next save binds what it changes."""
    monkeypatch.setattr(pipeline, "FEW_FILES", 0)
    first = dict(read(case.root))
    second = {path: text.replace("step", "other") for path, text in first.items()}
    del second["web/b.ts"]
    second |= {"notes.md": "# Other notes\n\nlonger\n", "app/more.py": "from use import main\n"}
    await case.run()
    bindings = case.kept.bindings
    here = first
    for there in (second, first, second, first):
        write(case, here.keys() - there.keys(), there)
        report = await case.run(*here.keys(), *there.keys())
        await case.check(report)
        assert case.kept.number == report.revision
        assert case.kept.bindings is bindings
        here = there
    case.write("app/child.py", "class Child:\n    def run(self): ...\n")
    with monkeypatch.context() as patched:
        patched.setattr(Drafts, "facts", None)  # no fact is read from the store
        report = await case.run("app/child.py")
    assert report.files_parsed == 1
    assert case.kept.bindings is bindings
    await case.check(report)


async def test_a_tree_that_is_taken_up_by_a_new_service_is_bound_for_the_next_save(
    case: Case, store: Store, truth_settings: Settings
) -> None:
    request = IndexRequest(case.root, "r", embed=False)
    await index_repository(request, truth_settings, store, None, None)
    case.write("use.py", "def main():\n    return 2\n")
    await index_repository(request, truth_settings, store, None, None)
    case.write("use.py", TREE["use.py"])
    report = await case.run()
    assert report.files_parsed == 0
    assert case.kept.number == report.revision
    case.write("use.py", "def main():\n    return 2\n")
    await case.check(await case.run("use.py"))


async def test_a_name_that_two_files_claim_takes_its_importers_along(case: Case) -> None:
    """The module `core.alpha` has another id while `core` defines a function of that name."""
    claims, free = "def alpha():\n    return 1\n", "def beta():\n    return 1\n"
    case.write("core/__init__.py", claims)
    case.write("core/alpha.py", "def made():\n    return 1\n")
    case.write("moved.py", "from core.alpha import made\n\n\ndef used():\n    return made()\n")
    await case.run()
    for text in (free, claims):
        case.write("core/__init__.py", text)
        await case.check(await case.run("core/__init__.py"))


async def test_nothing_is_kept_of_a_repository_that_was_removed(
    case: Case, store: Store, truth_settings: Settings
) -> None:
    await case.run()
    await store.repositories.delete("r")
    case.write("use.py", "def main():\n    return 2\n")
    request = IndexRequest(case.root, "r", embed=False)
    await index_repository(request, truth_settings, store, None, None, None, case.kept)
    case.write("use.py", TREE["use.py"])
    await case.check(await case.run("use.py"))


async def test_a_run_without_changes_keeps_what_the_next_one_needs(
    case: Case, store: Store, truth_settings: Settings
) -> None:
    request = IndexRequest(case.root, "r", embed=False)
    await index_repository(request, truth_settings, store, None, None)
    assert not (await case.run()).changed
    assert case.kept.number
    case.write("use.py", "def main():\n    return 2\n")
    await case.check(await case.run("use.py"))


async def test_a_run_of_another_process_is_noticed(
    case: Case, store: Store, truth_settings: Settings
) -> None:
    await case.run()
    case.write("use.py", "def main():\n    return 2\n")
    request = IndexRequest(case.root, "r", embed=False)
    await index_repository(request, truth_settings, store, None, None)
    case.write("app/child.py", "class Child: ...\n")
    await case.check(await case.run("app/child.py"))


async def test_random_edits_equal_a_clean_run(case: Case) -> None:
    rng = random.Random(7)
    await case.run()
    for _ in range(12):
        files = read(case.root)
        before = dict(files)
        touched: set[str] = set()
        for _ in range(rng.choice((1, 2))):
            touched |= rng.choice(EDITS)(rng, files, rng.choice(sorted(files)))
        touched |= before.keys() - files.keys()
        write(case, before.keys() - files.keys(), {p: files[p] for p in touched & files.keys()})
        await case.check(await case.run(*touched))


def write(case: Case, gone: Collection[str], files: dict[str, str]) -> None:
    for path in gone:
        (case.root / path).unlink()
    for path, text in files.items():
        case.write(path, text)
