"""No credential that comes in is kept: not by the stores, the graph, logs, a remote model or an answer."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import tempfile
import threading
import zlib
from collections.abc import AsyncIterator, Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import msgspec
import psycopg
import pytest
from ahocorasick_rs import BytesAhoCorasick
from psycopg import sql

from etl.languages import is_code, language_of
from etl.pipeline import IndexRequest, index_repository
from etl.report import IndexReport
from etl.source.secrets import Files
from plait.client import AsyncPlaitClient
from plait.domain.answers.memories import Tool
from plait.domain.memory import NO_ID, MemoryEntry, MemoryFilter, MemoryMetadata, MemoryReceipt
from plait.domain.options import RecallOptions
from plait.domain.recall import ItemVerdict, Verdict
from plait.domain.retention import Selector
from plait.domain.values import (
    Artifact,
    ArtifactKind,
    Collection,
    Episode,
    Evidence,
    Filter,
    Outcome,
)
from plait.memory.entry import check
from plait.memory.episode import check as check_episode
from plait.secrets.rules import BUILT_IN
from plait.settings import SecretsSettings, Settings, load
from server.app import App, open_app
from server.exposed import Exposure, as_json, examine, remedies, render
from server.grpc.server import running
from tests.attack.secret_samples import HELD_OUT, Sample, samples
from tests.processes import PATIENT, eventually, remove_home
from vector.index.visible import CHUNKS_OF, held
from vector.server import embedded as postgres
from vector.store import Store

SAMPLES = samples()
REPO = "leaky"
DIM = 16


# -- each sample by itself ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sample", SAMPLES, ids=[f"{s.name}-held-out" if s.name in HELD_OUT else s.name for s in SAMPLES]
)
def test_a_secret_is_left_out_or_masked(sample: Sample) -> None:
    files, body = Files(BUILT_IN), sample.text.encode()
    parts = sample.path.split("/")
    folders = ["/".join(parts[:i]) + "/" for i in range(1, len(parts))]
    left_out = any(map(files.by_name, [*folders, sample.path])) or files.by_content(
        sample.path, body[:8000]
    )
    masked, count = files.mask(body, sample.path, code=is_code(language_of(sample.path)))
    assert left_out == sample.whole
    assert len(masked) == len(body)
    if not sample.whole:
        assert count >= 1
        assert [part for part in sample.parts if part.encode() in masked] == []


def test_half_of_the_samples_are_held_out() -> None:
    assert len(SAMPLES) >= 40
    assert len(HELD_OUT) == len(SAMPLES) // 2


# -- through everything -----------------------------------------------------------------------------------


class Model:
    """Speaks OpenAI's embeddings API on loopback and keeps all that it is sent."""

    def __init__(self) -> None:
        self.sent: list[bytes] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                outer.sent.append(body)
                texts = json.loads(body)["input"]
                rows = [
                    {"object": "embedding", "index": i, "embedding": _row(text)}
                    for i, text in enumerate(texts)
                ]
                usage = {"prompt_tokens": 1, "total_tokens": 1}
                answer = {"object": "list", "model": "m", "data": rows, "usage": usage}
                raw = json.dumps(answer).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(raw)))
                self.end_headers()
                self.wfile.write(raw)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._http.server_port}/v1"

    def close(self) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()


def _row(text: str) -> list[float]:
    row = [0.1] * DIM
    for word in text.split():
        row[zlib.crc32(word.encode()) % DIM] += 1.0
    return row


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    made = Model()
    yield made
    made.close()


@pytest.fixture(scope="module")
def leaky_home() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="plait-test-", dir="/tmp"))
    if os.geteuid() == 0:
        base.chmod(0o711)
    yield base / "home"
    remove_home(base)


@pytest.fixture(scope="module")
def leaky_settings(leaky_home: Path, model: Model) -> Settings:
    return load(
        environ={
            **PATIENT,
            "PLAIT_HOME": str(leaky_home),
            "PLAIT_EMBEDDING__PROVIDER": "openai",
            "PLAIT_EMBEDDING__BASE_URL": model.url,
            "PLAIT_EMBEDDING__MODEL": "m",
            "PLAIT_EMBEDDING__DIMENSION": str(DIM),
        }
    )


@pytest.fixture(scope="module")
async def leaky_app(leaky_settings: Settings) -> AsyncIterator[App]:
    async with open_app(leaky_settings, background=True) as app:
        yield app


@pytest.fixture(scope="module")
async def leaky_client(
    leaky_app: App, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[AsyncPlaitClient]:
    socket = tmp_path_factory.mktemp("s") / "p.sock"
    async with (
        running(leaky_app, socket=socket),
        AsyncPlaitClient(f"unix:{socket}") as client,
    ):
        yield client


def write_all(root: Path) -> None:
    for sample in SAMPLES:
        path = root / sample.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(sample.text)
    (root / "plain.py").write_text("def plain():\n    return 1\n")


async def index(app: App, root: Path, settings: Settings | None = None) -> IndexReport:
    request = IndexRequest(root, REPO)
    provider = await app.provider()
    return await index_repository(request, settings or app.settings, app.truth, app.graph, provider)


def text_of(sample: Sample) -> str:
    """What an agent would quote of it. A name alone makes some of these files secrets: those that no rule
    of content knows are no part of what is said."""
    return f"I looked at {sample.path}:\n\n{sample.text}\nand went on."


def said() -> list[Sample]:
    masker = Files(BUILT_IN)
    found = []
    for sample in SAMPLES:
        body, _ = masker.mask(sample.text.encode(), "said.txt", code=False)
        if not any(part.encode() in body for part in sample.parts):
            found.append(sample)
    return found


def episode_of(sample: Sample) -> Episode:
    text = text_of(sample)
    diff = (
        f"--- a/{sample.path}\n+++ b/{sample.path}\n@@ -0,0 +1,{len(sample.text.splitlines())} @@\n"
    )
    diff += "".join(f"+{line}\n" for line in sample.text.splitlines())
    return Episode(
        request_id=f"attack-{sample.name}",
        repo=REPO,
        outcome=Outcome("success", f"used {sample.text[:400]}"),
        artifacts=(
            Artifact(ArtifactKind.TURN, text, meta={"command": [text], "env": {"text": text}}),
            Artifact(ArtifactKind.DIFF, diff, path=sample.path),
            Artifact(ArtifactKind.NOTE, text),
        ),
        agent_id="a",
        evidence=(Evidence("e.txt", "text/plain", text.encode()),),
    )


def dumped(dsn: str) -> Iterator[tuple[str, bytes]]:
    """Every column of every row, as bytes: binary ones as they are, evidence unpacked."""
    with psycopg.connect(dsn, autocommit=True) as conn:
        columns = conn.execute(
            "SELECT c.table_schema, c.table_name, c.column_name, c.data_type"
            "  FROM information_schema.columns c JOIN information_schema.tables t"
            "    USING (table_schema, table_name)"
            " WHERE t.table_type = 'BASE TABLE'"
            "   AND c.table_schema NOT IN ('pg_catalog', 'information_schema')"
        ).fetchall()
        assert columns
        for schema, table, column, kind in columns:
            name = sql.Identifier(column)
            shown = name if kind == "bytea" else sql.SQL("{}::text").format(name)
            query = sql.SQL("SELECT {} FROM {} WHERE {} IS NOT NULL").format(
                shown, sql.Identifier(schema, table), name
            )
            for (value,) in conn.execute(query):
                raw = value.encode() if isinstance(value, str) else bytes(value)
                yield f"{table}.{column}", raw
                if table == "evidence" and column == "body":
                    yield "evidence unpacked", zlib.decompress(raw)
        # The planner's statistics keep values of columns.
        for (value,) in conn.execute(
            "SELECT s::text FROM pg_stats s WHERE schemaname <> 'pg_catalog'"
        ):
            yield "statistics", value.encode()


def files_of(home: Path) -> Iterator[tuple[str, bytes]]:
    """The stores' files as they lie on the disk, the write-ahead log and logs among them."""
    for path in home.rglob("*"):
        if path.is_file() and not path.is_symlink():
            try:
                yield str(path.relative_to(home)), path.read_bytes()
            except OSError:  # it went meanwhile
                continue


def leaks(found: Iterator[tuple[str, bytes]], secrets: Sequence[Sample]) -> list[tuple[str, str]]:
    wanted = [(s.name, part.encode()) for s in secrets for part in s.parts]
    # One pass for all: some hundred pieces, and a hundred megabytes of the stores' files.
    automaton = BytesAhoCorasick([part for _, part in wanted])
    return [
        (place, wanted[number][0])
        for place, raw in found
        for number, _, _ in automaton.find_matches_as_indexes(raw)
    ]


async def test_nothing_secret_is_kept_sent_logged_or_answered(
    leaky_app: App,
    leaky_client: AsyncPlaitClient,
    leaky_home: Path,
    model: Model,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    root = tmp_path / "leaky"
    write_all(root)
    report = await index(leaky_app, root)
    assert report.skipped["secret by name"] + report.skipped["secret by content"] == sum(
        s.whole for s in SAMPLES
    )
    assert {path for path, _ in report.masked_files} == {s.path for s in SAMPLES if not s.whole}

    quoted, client, answers = said(), leaky_client, []
    assert len(quoted) > len(SAMPLES) * 2 // 3
    for sample in quoted:
        appended = await client.append_episode(episode_of(sample))
        assert appended.masked >= 4, sample.name
        metadata = MemoryMetadata(custom={"seen": sample.text}, tags=("x",))
        stored = await client.store(
            MemoryEntry(NO_ID, REPO, "a", text_of(sample), metadata=metadata)
        )
        assert stored.masked >= 2, sample.name
        answers.append(stored.entry.content)
    learned = await client.learn(
        repo=REPO,
        agent_id="a",
        user_message="Remember that " + "\n\n".join(s.text for s in quoted[:20]),
        assistant_reasoning="\n\n".join(s.text for s in quoted[20:]),
        tool_outcomes=[Tool("bash", "\n".join(s.text for s in quoted), command="cat *")],
    )
    assert learned.masked > len(quoted)
    where = Filter(repos=(REPO,), collections=tuple(Collection))
    for sample in quoted[::4]:
        asked = sample.text[-2000:]
        answers.append(repr(await client.search(asked, where=where, k=50)))
        answers.append(repr(await client.query(asked, MemoryFilter(repos=(REPO,)))))
        recalled = await client.recall(
            asked, where=where, attached=sample.text, options=RecallOptions(explain=True)
        )
        answers.append(repr(recalled))
        if recalled.items and recalled.recall_id is not None:
            verdict = ItemVerdict(recalled.items[0].item.id, Verdict.HELPED, f"see {asked[-900:]}")
            await client.report_feedback(
                recalled.recall_id, verdicts=[verdict], outcome=Outcome("success", asked[-900:])
            )

    async def rests() -> bool:
        await leaky_app.embedder.run_until_idle()
        leaky_app.level_soon()
        return await leaky_app.truth.outbox.waiting() == 0

    await eventually(rests)
    assert model.sent
    with postgres.ensure(leaky_app.settings) as lease:
        rows = list(dumped(lease.dsn))
    assert any(b"[redacted:" in raw for _, raw in rows)
    # Files that only their names make secret are no part of what was said, but their text is nowhere.
    sent = [(f"model {i}", raw) for i, raw in enumerate(model.sent)]
    answered = [(f"answer {i}", a.encode()) for i, a in enumerate(answers)]
    logged = [(r.name, (r.getMessage() + repr(r.__dict__)).encode()) for r in caplog.records]
    # The look itself is proved by what is no secret and came in beside every one of them.
    beside = [Sample("beside", "", "", ("and went on.",))]
    for place in (rows, sent, answered, list(files_of(leaky_home))):
        assert leaks(iter(place), beside)
        assert leaks(iter(place), SAMPLES) == []
    assert leaks(iter(logged), SAMPLES) == []


# -- rules that change ------------------------------------------------------------------------------------


async def test_a_run_after_the_rules_changed_equals_a_clean_one(
    leaky_app: App, tmp_path: Path
) -> None:
    root, rules = tmp_path / "changing", tmp_path / "rules.yaml"
    root.mkdir()
    (root / "a.py").write_text('CODE = "acme_' + 'abcdefgh"\n\n\ndef one():\n    return CODE\n')
    (root / "b.py").write_text("def two():\n    return 2\n")
    (root / "vault.txt").write_text("the words of the vault\n")
    plain = leaky_app.settings
    changed = load(
        environ={"PLAIT_HOME": str(plain.home)},
        secrets={"rules": str(rules)},
        embedding={
            "provider": "openai",
            "base_url": plain.embedding.base_url,
            "model": "m",
            "dimension": DIM,
        },
    )

    async def contents(repo: str) -> list[tuple[str, str]]:
        with postgres.ensure(plain) as lease:
            return await asyncio.to_thread(_contents, lease.dsn, repo)

    async def run(repo: str, settings: Settings) -> IndexReport:
        request, provider = IndexRequest(root, repo), await leaky_app.provider()
        truth, graph = leaky_app.truth, leaky_app.graph
        return await index_repository(request, settings, truth, graph, provider)

    first = await run("changing", plain)
    assert not first.masked_files
    assert not (await run("changing", plain)).changed
    rules.write_text("files: ['vault.txt']\npatterns: [{name: acme, regex: 'acme_[a-z]+'}]\n")
    second = await run("changing", changed)
    assert [path for path, _ in second.masked_files] == ["a.py"]
    assert second.skipped["secret by name"] == 1
    assert not (await run("changing", changed)).changed
    masked = await contents("changing")
    assert "acme_abc" not in repr(masked)
    assert "vault.txt" not in repr(masked)
    third = await run("changing", plain)
    assert third.changed
    assert "acme_abc" in repr(await contents("changing"))
    assert third.nodes == first.nodes


def _contents(dsn: str, repo: str) -> list[tuple[str, str]]:
    with psycopg.connect(dsn) as conn:
        return conn.execute(
            f"SELECT f.path, f.content FROM plait.file_member m JOIN plait.files f ON {CHUNKS_OF}"
            " JOIN plait.repository r ON r.id = m.repo_id"
            f" WHERE r.name = %s AND {held('m', 'r.published')} ORDER BY 1, 2".encode(),
            (repo,),
        ).fetchall()


# -- what an older index holds ------------------------------------------------------------------------------


async def test_what_was_stored_before_is_found_and_removed(leaky_app: App, tmp_path: Path) -> None:
    """As a version without these rules wrote it: rules that are off stand in for it."""
    secret = "ghp" + "_" + "Zq7" * 12
    root = tmp_path / "older"
    root.mkdir()
    (root / "a.py").write_text(f'"""Docs."""\n\n\ndef a():\n    return "{secret}"\n')
    (root / ".env").write_text("X=1\n")
    off = tmp_path / "off.yaml"
    off.write_text("disable: [github-token]\nfiles: ['!.env']\n")
    old = msgspec.structs.replace(leaky_app.settings, secrets=SecretsSettings(str(off)))
    provider, truth, graph = await leaky_app.provider(), leaky_app.truth, leaky_app.graph
    request = IndexRequest(root, "older")
    await index_repository(request, old, truth, graph, provider)
    entry = check(MemoryEntry(NO_ID, "older", "a", f"first\nuse {secret}"))
    (stored,) = await truth.memories.store("default", [entry])
    assert isinstance(stored, MemoryReceipt)
    run = check_episode(
        Episode("old", "older", Outcome("success"), (Artifact(ArtifactKind.NOTE, f"see {secret}"),))
    )
    appended = await truth.episodes.append(run)

    def of_older(found: Sequence[Exposure]) -> list[Exposure]:
        return [one for one in found if one.repo == "older"]

    assert isinstance(truth, Store)
    found = of_older(await examine(truth.exposed.texts(), BUILT_IN))
    assert {(f.place, f.path, f.line, f.rule) for f in found} == {
        ("files", ".env", 1, "secret-file"),
        ("files", "a.py", 5, "github-token"),
        ("memories", "", 2, "github-token"),
        ("memories", "", 1, "github-token"),
    }
    shown = render(found) + as_json(found)
    assert secret not in shown
    index_again, drop, forget = remedies(found)
    assert index_again == f"plait index {root} --repo older"
    assert drop == "plait doctor --secrets --drop-replaced"
    assert set(forget.split()[2:4]) == {str(stored.entry.id), str(appended.episode_id)}

    again = await index_repository(request, leaky_app.settings, truth, graph, provider)
    assert [path for path, _ in again.masked_files] == ["a.py"]
    assert {
        f.replaced for f in of_older(await examine(truth.exposed.texts(), BUILT_IN)) if not f.id
    } == {True}
    await truth.exposed.drop_replaced()
    ids = (stored.entry.id, appended.episode_id)
    await truth.forgetting.forget("default", "older", Selector(ids=ids), dry_run=False)
    assert of_older(await examine(truth.exposed.texts(), BUILT_IN)) == []
    with postgres.ensure(leaky_app.settings) as lease:
        held = (place for place, raw in dumped(lease.dsn) if secret.encode() in raw)
        assert list(held) == []
    # What is published is still there.
    where = Filter(repos=("older",))
    assert (await truth.search.view(where)).revisions[0].number == again.revision
    assert not (await index_repository(request, leaky_app.settings, truth, graph, provider)).changed
