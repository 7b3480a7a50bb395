"""The registry of languages: a folder and a line are enough for one more."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

from etl import facts as facts_codec
from etl.languages import registry
from etl.languages.registry import LANGUAGES, Language, Registry
from etl.parsing.count import Vocabulary
from etl.parsing.pipe import WireJob
from etl.parsing.worker import Batch
from etl.plan import make_plan
from etl.resolve import resolve
from etl.source.secrets import Files
from plait.secrets.rules import BUILT_IN
from plait.settings import Settings

TOY = Language("toy", "toy", package="tests.unit.toy_language")
SOURCES = {"a.toy": "to one\n run two\n", "b.toy": "to two\n run nothing\n"}


def test_a_folder_and_a_line_are_a_language_with_calls(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(registry, "REGISTRY", Registry((*LANGUAGES, TOY)))
    root = tmp_path / "shop"
    root.mkdir()
    for name, source in SOURCES.items():
        (root / name).write_text(source)
    plan = make_plan(root, Settings(home=tmp_path / "home"))
    batch = Batch(Vocabulary(), Files(BUILT_IN))  # as a parse worker does it
    for job in plan.jobs.values():
        batch.add(WireJob(job.path, job.language, job.module, job.is_test), str(root), 10_000)
    parts = list(resolve("r", [facts_codec.decode(file.facts) for file in batch.files]))
    edges = [(e.relation, e.source, e.target, e.lines) for part in parts for e in part.edges]
    assert ("CALLS", "r:a.one", "r:b.two", (2,)) in edges
    assert [dict(part.unresolved) for part in parts] == [{}, {"unknown name": 1}]
    assert [chunk.symbol for file in batch.files for chunk in file.chunks] == ["a.one", "b.two"]


def test_every_line_names_modules_that_are_there() -> None:
    for line in LANGUAGES:
        if line.is_code:
            assert callable(import_module(line.extractor).extractor), line.id
            resolver = import_module(line.resolver)
            assert callable(getattr(resolver, "incremental", None) or resolver.binder), line.id
        if line.table:
            module = import_module(f"{registry.TABLES}.{line.table}")
            assert callable(module.table), line.id


def test_no_two_lines_claim_one_name() -> None:
    for claims in (
        [line.id for line in LANGUAGES],
        [suffix for line in LANGUAGES for suffix in line.suffixes.split()],
        [name for line in LANGUAGES for name in line.names.split()],
    ):
        assert len(claims) == len(set(claims))
