"""Which repositories a command means, and the zone its words are read in."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from plait import settings
from plait.domain.answers.indexing import Repository
from plait.domain.answers.search import RepositoryRevision
from plait.domain.errors import FolderNotIndexed, ScopeMissing
from server.commands import frame
from server.commands.frame import Repos


class Client:
    def __init__(self, *roots: tuple[str, str]) -> None:
        revision = RepositoryRevision("", 1, 1, 0, 0)
        self._found = tuple(Repository(name, root, revision, 1, None) for name, root in roots)

    async def list_repositories(self) -> tuple[Repository, ...]:
        return self._found


def said(*words: str) -> argparse.Namespace:
    out = argparse.ArgumentParser()
    frame.add_repo(out)
    return out.parse_args(words)


async def means(args: argparse.Namespace, *roots: tuple[str, str]) -> Repos:
    client: Any = Client(*roots)
    return await frame.repositories(args, client)


async def test_what_is_said_is_meant(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    here = ("here", str(tmp_path))
    assert await means(said("--repo", "a", "--repo", "b"), here) == Repos(("a", "b"))
    assert await means(said("--all-repos"), here) == Repos(everywhere=True)


async def test_else_the_innermost_repository_around(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = tmp_path / "inner" / "deep"
    inner.mkdir(parents=True)
    monkeypatch.chdir(inner)
    roots = [("outer", str(tmp_path)), ("inner", str(tmp_path / "inner")), ("other", "/elsewhere")]
    assert await means(said(), *roots) == Repos(("inner",))


async def test_else_the_only_one_else_an_error_that_lists_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert await means(said(), ("only", "/elsewhere")) == Repos(("only",))
    with pytest.raises(ScopeMissing, match=r"one, two.*--repo NAME"):
        await means(said(), ("one", "/elsewhere"), ("two", "/there"))
    assert await means(said()) == Repos(everywhere=True)  # nothing is indexed: nothing to leak


async def test_what_has_one_place_needs_one_name(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    nothing: Any = Client()
    assert await frame.one_repository(said("--repo", "new"), nothing) == "new"
    for args in (said(), said("--repo", "a", "--repo", "b")):
        with pytest.raises(ScopeMissing, match="--repo NAME"):
            await frame.one_repository(args, nothing)


@pytest.mark.parametrize(
    ("tz", "zone"),
    [
        ("Europe/Berlin", "Europe/Berlin"),
        (":Asia/Tokyo", "Asia/Tokyo"),
        ("/usr/share/zoneinfo/America/New_York", "America/New_York"),
    ],
)
def test_the_zone_is_the_environments(tz: str, zone: str) -> None:
    assert settings.time_zone({"TZ": tz}) == zone


@pytest.mark.parametrize("tz", ["", "CET-1CEST,M3.5.0,M10.5.0/3", "../../etc/passwd"])
def test_a_zone_that_has_no_name_is_the_machines_or_an_offset(tz: str) -> None:
    from plait.text.time_expressions import zone_of

    assert zone_of(settings.time_zone({"TZ": tz})) is not None


async def test_a_nested_work_tree_is_not_answered_from_the_repository_around_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    inner = tmp_path / ".claude" / "worktrees" / "x"
    inner.mkdir(parents=True)
    (inner / ".git").write_text("gitdir: /elsewhere\n")
    monkeypatch.chdir(inner)
    outer = ("outer", str(tmp_path))
    with pytest.raises(FolderNotIndexed, match=r"`plait index \.`.*--repo outer"):
        await means(said(), outer)
    assert await means(said(), outer, ("x", str(inner))) == Repos(("x",))
    assert await means(said("--repo", "outer"), outer) == Repos(("outer",))
