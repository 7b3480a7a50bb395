"""A repository in eighteen languages: its symbols are in the search and in the graph."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from etl.languages.registry import LANGUAGES
from tests.definition_sources import SOURCES
from tests.processes import LIMIT_S, patient

Run = Callable[..., dict[str, Any]]

# How one would ask for it, and the symbol that must come first.
NAMED = [
    ("rust", "Backend::write", "Backend.write"),
    ("cpp", "Circle::draw", "Circle.draw"),
    ("elixir", "Shop.Cart.count", "Shop.Cart.count"),
    ("kotlin", "second", "List.second"),
]


@pytest.fixture(scope="module")
def run(command_environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Run:
    root = tmp_path_factory.mktemp("polyglot")
    for source in SOURCES:
        file = root / source.language / source.path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source.text)

    def command(*words: str) -> dict[str, Any]:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "server.cli", *patient(*words)],
            cwd=root, env=command_environment, capture_output=True, text=True, timeout=LIMIT_S,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        body: dict[str, Any] = json.loads(done.stdout)
        return body

    report = command("index", ".", "--repo", "polyglot", "--no-embed", "--json")
    assert report["symbols"] == sum(len(source.symbols) for source in SOURCES)
    return command


def test_an_unchanged_repository_is_not_indexed_again(run: Run) -> None:
    report = run("index", ".", "--repo", "polyglot", "--no-embed", "--json")
    assert (report["changed"], report["files_parsed"]) == (False, 0)


@pytest.mark.parametrize(("language", "asked", "symbol"), NAMED)
def test_a_symbol_is_found_by_its_name(run: Run, language: str, asked: str, symbol: str) -> None:
    found = run("search", asked, "--json", "--language", language)
    assert f".{found['hits'][0]['symbol']}".endswith(f".{symbol}")


def test_every_symbol_is_a_node_with_what_holds_it(run: Run) -> None:
    query = (
        "MATCH (outer)-[:CONTAINS]->(n) "
        "WHERE n.repo = 'polyglot' AND n.kind <> 'file' AND n.kind <> 'module' "
        "RETURN n.qualified_name, n.kind, n.end_line, n.language"
    )
    rows = run("graph", "--cypher", query, "--json", "--rows", "2000")["rows"]
    found = [tuple(row) for row in rows]
    wanted = [
        (name, kind.removesuffix(" test"), last, source.language)
        for source in SOURCES
        for name, kind, _, last in source.symbols
    ]
    assert sorted(row[1:] for row in found) == sorted(row[1:] for row in wanted)
    tabled = [line.id for line in LANGUAGES if line.table and line.suffixes]
    names = {language: {n for n, _, _, g in found if g == language} for language in tabled}
    for name, _, _, language in wanted:
        assert any(f".{full}".endswith(f".{name}") for full in names[language]), (language, name)
