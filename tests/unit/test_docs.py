"""What docs/ promises of itself: pages of readable length, links that lead somewhere, paths that exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plait.retrieval.code_graph.templates.catalogue import CATALOGUE

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
REFERENCE = sorted(DOCS.glob("*.md"))
PAGES = [*sorted(DOCS.rglob("*.md")), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LONGEST = 2_000
_FENCED = re.compile(r"^(`{3,})[\w+-]*\n.*?^\1\n", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)")
_HEADING = re.compile(r"^#{1,6} (.+)$", re.MULTILINE)
# A path of the repository inside backticks; a name with a placeholder is none.
_PATH = re.compile(r"`((?:plait|vector|graph|etl|server|proto|tests|benchmarks|configs)/[\w./-]+)`")
_RUNTIME = re.compile(r"server/(audit\.jsonl|service\.log|tls/|token)")  # files of a PLAIT_HOME
_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def prose(page: Path) -> str:
    return _FENCED.sub("", page.read_text("utf-8"))


def anchors(page: Path) -> set[str]:
    """The fragments of a page's headings, as forges make them."""
    texts = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", h) for h in _HEADING.findall(prose(page)))
    return {re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in texts}


def links(page: Path) -> Iterator[tuple[str, Path, str]]:
    """Each relative link of a page: as written, the file it names, its fragment."""
    for link in _LINK.findall(_CODE.sub("", prose(page))):
        if not link.startswith(("http://", "https://", "mailto:")):
            file, _, fragment = link.partition("#")
            yield link, (page.parent / file).resolve() if file else page, fragment


@pytest.mark.parametrize("page", REFERENCE, ids=name)
def test_a_page_of_reference_can_be_read_in_one_go(page: Path) -> None:
    assert len(page.read_text("utf-8").split()) <= LONGEST


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_relative_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link, target, fragment in links(page):
        assert target.exists(), link
        if fragment:
            assert fragment in anchors(target), link


@pytest.mark.parametrize("folder", [DOCS, DOCS / "experiments"], ids=name)
def test_the_index_of_a_folder_lists_each_of_its_pages(folder: Path) -> None:
    listed = {target for _, target, _ in links(folder / "README.md")}
    assert set(folder.glob("*.md")) - listed == {folder / "README.md"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_path_that_a_page_names_exists(page: Path) -> None:
    named = [path for path in _PATH.findall(page.read_text("utf-8")) if not _RUNTIME.match(path)]
    missing = [path for path in named if "NNNN" not in path and not (ROOT / path).exists()]
    assert not missing


def test_every_template_of_the_graph_is_described() -> None:
    page = (DOCS / "schema-graph.md").read_text("utf-8")
    assert not [name for name in CATALOGUE if f"`{name} " not in page]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_program_that_a_page_names_exists(page: Path) -> None:
    text = page.read_text("utf-8")
    modules = [m.replace(".", "/") for m in re.findall(r"python (?:-P )?-m ([\w.]+\w)", text)]
    named = {*modules, *(p.removesuffix(".py") for p in re.findall(r"benchmarks/\w+\.py", text))}
    ours = {program for program in named if program.startswith(("benchmarks", "etl", "server"))}
    assert not [p for p in ours if not ((ROOT / f"{p}.py").is_file() or (ROOT / p).is_dir())]


def test_every_page_that_the_code_points_to_exists() -> None:
    rooms = ["plait", "vector", "graph", "etl", "server", "proto", "benchmarks", "configs"]
    sources = [p for room in rooms for p in (ROOT / room).rglob("*") if p.suffix in SOURCES]
    pointed = {(name(p), page) for p in sources for page in _PAGE.findall(p.read_text("utf-8"))}
    assert pointed, "no source names a page"
    assert not [(source, page) for source, page in pointed if not (ROOT / page).exists()]


SOURCES = {".py", ".proto", ".yaml", ".yml", ".sql", ".cypher"}
