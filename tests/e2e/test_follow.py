"""A service by itself: what is saved in the folder of a repository in use is found, without any command."""

from __future__ import annotations

import asyncio
import itertools
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from etl.pipeline import IndexRequest
from plait.client import AsyncPlaitClient
from plait.client.hooks import FileEdit, HookClient
from plait.domain.errors import RepositoryBusy, RepositoryNotIndexed
from plait.domain.values import Filter
from plait.settings import ServerSettings
from server.app import App
from server.background_jobs import follow
from server.background_jobs.follow import Follower
from server.grpc.server import Server
from tests.processes import LIMIT_S, eventually

TENANT = "default"
PLAIT = str(Path(sys.executable).with_name("plait"))


def following(app: App, idle_s: float = LIMIT_S, index_roots: str = "") -> Follower:
    of = ServerSettings(index_roots=index_roots)
    return Follower(of, idle_s, app.truth.repositories, app.jobs, look_s=0.05)


@pytest.fixture
async def follower(app: App, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Follower]:
    """In place of the app's, which the tests' settings switch off."""
    made = following(app)
    monkeypatch.setattr(app, "follower", made)
    yield made
    await made.close()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "tree"
    root.mkdir()
    (root / "a.py").write_text("def first():\n    return 1\n")
    return root


@pytest.fixture
async def repo(client: AsyncPlaitClient, root: Path) -> str:
    name = f"followed-{uuid4().hex[:8]}"
    begun = await client.start_index(str(root), repository=name, embed=False)
    *_, job = [state async for state in client.watch_index_job(begun.id)]
    assert job.state == "succeeded", job.error_message
    return name


async def finds(client: AsyncPlaitClient, repo: str, word: str) -> bool:
    answer = await client.search(word, where=Filter(repos=(repo,)))
    return any(word in hit.item.symbol for hit in answer.hits)


def replaced(root: Path) -> None:
    root.rename(root.with_name("away"))
    root.mkdir()
    (root / "a.py").write_text("def stranger():\n    return 2\n")


async def until_found(client: AsyncPlaitClient, repo: str, word: str) -> None:
    async def found() -> bool | None:
        return await finds(client, repo, word) or None

    await eventually(found)


async def until_unwatched(follower: Follower) -> None:
    async def none() -> bool | None:
        return not follower.watched or None

    await eventually(none)


async def test_a_saved_file_is_found_after_one_search(
    client: AsyncPlaitClient, follower: Follower, repo: str, root: Path
) -> None:
    assert await finds(client, repo, "first")
    assert list(follower.watched) == [(TENANT, repo)]
    (root / "a.py").write_text("def second():\n    return 2\n")
    await until_found(client, repo, "second")
    (root / "b.py").write_text("def third():\n    return 3\n")
    await until_found(client, repo, "third")
    await client.delete_repository(repo)
    assert not follower.watched
    (root / "a.py").write_text("def fourth():\n    return 4\n")
    await asyncio.sleep(0.3)
    assert repo not in [one.name for one in await client.list_repositories()]


async def test_the_files_of_a_large_folder_are_told_by_the_hook_after_an_edit(
    client: AsyncPlaitClient,
    server: Server,
    follower: Follower,
    repo: str,
    root: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    monkeypatch.setattr(follow, "MOST_ENTRIES", 0)
    assert await finds(client, repo, "first")

    async def said() -> bool | None:
        return any("plait watch" in str(r.__dict__.get("error")) for r in caplog.records) or None

    await eventually(said)
    (root / "a.py").write_text("def second():\n    return 2\n")
    edit = FileEdit(str(root / "a.py"), "@@ -1,2 +1,2 @@\n-def first():\n+def second():")
    with HookClient(server.target, timeout_s=LIMIT_S) as hooks:
        await asyncio.to_thread(hooks.advise_edit, [edit], [], budget_tokens=200)
    await until_found(client, repo, "second")


async def test_what_nobody_uses_is_watched_no_longer(app: App, repo: str) -> None:
    brief = following(app, idle_s=0.01)
    brief.used(TENANT, [repo])
    assert list(brief.watched) == [(TENANT, repo)]
    await until_unwatched(brief)
    brief.used(TENANT, [repo])
    brief.rest()
    assert not brief.watched
    await brief.close()


async def test_nothing_is_watched_where_it_is_switched_off(
    client: AsyncPlaitClient, app: App, repo: str
) -> None:
    assert app.settings.index.follow_s == 0
    assert await finds(client, repo, "first")
    assert not app.follower.watched


@pytest.mark.parametrize("roots", ["", "/nowhere"], ids=["never indexed", "not of its folders"])
async def test_what_the_service_may_not_index_is_not_watched(
    app: App, repo: str, roots: str
) -> None:
    strict = following(app, index_roots=roots)
    strict.used(TENANT, [repo if roots else "never-indexed"])
    await until_unwatched(strict)
    await strict.close()


async def test_a_run_of_what_is_indexed_begins_no_index(app: App, root: Path) -> None:
    job = app.jobs.start(IndexRequest(root, "never-indexed", again=True))
    *_, ended = [state async for state in app.jobs.watch(job.id)]
    assert isinstance(ended.error, RepositoryNotIndexed)


async def test_another_folder_in_its_place_is_not_followed(
    client: AsyncPlaitClient, follower: Follower, repo: str, root: Path
) -> None:
    assert await finds(client, repo, "first")
    (root / "a.py").write_text("def second():\n    return 2\n")
    await until_found(client, repo, "second")
    replaced(root)
    await until_unwatched(follower)
    follower._not_before.clear()
    assert not await finds(client, repo, "stranger")
    await until_unwatched(follower)
    assert not await finds(client, repo, "stranger")


async def test_the_least_recently_used_gives_way(
    app: App, repo: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(follow, "MOST", 2)
    one = following(app)
    one.used(TENANT, ["a", "b"])
    one.used(TENANT, ["a"])
    one.used(TENANT, [repo])
    assert one.watched == ((TENANT, "a"), (TENANT, repo))
    await one.close()


# -- beside commands ---------------------------------------------------------------------------------------


async def indexing(
    environment: dict[str, str], root: Path, repo: str
) -> asyncio.subprocess.Process:
    """`plait index` by itself, without the service."""
    words = [PLAIT, "index", str(root), "--repo", repo, "--no-embed"]
    return await asyncio.create_subprocess_exec(*words, env=environment, stdout=PIPE, stderr=PIPE)


async def test_a_command_beside_a_service_that_is_never_done_does_not_fail(
    client: AsyncPlaitClient,
    follower: Follower,
    repo: str,
    root: Path,
    command_environment: dict[str, str],
) -> None:
    assert await finds(client, repo, "first")

    async def save() -> None:
        for number in itertools.count():
            (root / "a.py").write_text(f"def first():\n    return {number}\n")
            await asyncio.sleep(0.02)

    saving = asyncio.create_task(save())
    try:
        for number in range(5):
            (root / "b.py").write_text(f"def asked{number}():\n    return 1\n")
            process = await indexing(command_environment, root, repo)
            _, errors = await process.communicate()
            assert process.returncode == 0, errors.decode()
            assert await finds(client, repo, f"asked{number}")
    finally:
        saving.cancel()
    (root / "a.py").write_text("def last():\n    return 1\n")
    await until_found(client, repo, "last")
    assert follower.watched == ((TENANT, repo),)


async def test_a_command_waits_for_a_run_of_another_process_and_says_so(
    app: App, repo: str, root: Path, command_environment: dict[str, str]
) -> None:
    draft = await app.truth.index.begin(repo, str(root))
    process = await indexing(command_environment, root, repo)
    assert process.stderr is not None
    line = (await process.stderr.readline()).decode()
    assert line == f"another process is indexing {repo}; waiting for it, 60 s at most\n"
    await app.truth.index.discard(draft)
    _, errors = await process.communicate()
    assert process.returncode == 0, errors.decode()


async def test_a_service_lets_a_command_end_and_looks_again(
    app: App, client: AsyncPlaitClient, follower: Follower, repo: str, root: Path
) -> None:
    draft = await app.truth.index.begin(repo, str(root))
    (root / "a.py").write_text("def second():\n    return 2\n")
    assert await finds(client, repo, "first")

    async def tried() -> bool:
        return any(isinstance(job.error, RepositoryBusy) for job in app.jobs._jobs.values())

    await eventually(tried)
    await app.truth.index.discard(draft)
    await until_found(client, repo, "second")
