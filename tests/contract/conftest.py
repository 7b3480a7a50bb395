"""A PostgreSQL server for the truth store's contract, and a toy indexer to fill it.

The server has a home of its own: these tests empty every table and choose their own embedding model. It
is reached over TCP, as an external one is; tests/e2e has the embedded one over its Unix socket.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
import pytest

from etl.truth import open as open_truth
from plait.domain.graph import Edge, Label, Node, Relation, encode_edges, encode_nodes
from plait.domain.ids import new_item_ids
from plait.domain.values import Chunk, Revision, embedded_text
from plait.ports import FileGraph, FileRow, IndexStats, Segment
from plait.settings import Settings, load
from plait.text.tokenize import tokens
from tests.processes import LIMIT_S, PATIENT
from vector.index import segments
from vector.server import embedded
from vector.store import Store

Files = Mapping[str, Sequence[str]]
IndexFiles = Callable[..., Awaitable[Any]]

TABLES = (
    "item, file_version, file_member, graph_part, graph_member, symbol_name, segment, posting, segment_dead, segment_vector, episode,"
    " memory_edge, memory_node, hunk, test_result, evidence, request, memory_request, repo_clock,"
    " revision_log, compaction, compaction_step, forgotten, outbox, dead_letter, repository,"
    " recall, feedback, feedback_item, embedding_space, api_key, api_key_secret"
)


@pytest.fixture(scope="session")
def truth_dsn(plait_home: Path) -> Iterator[str]:
    home = plait_home / "contract"
    with embedded.ensure(load(environ={**PATIENT, "PLAIT_HOME": str(home)}), tcp=True) as lease:
        yield lease.dsn


@pytest.fixture(scope="session")
def truth_settings(truth_dsn: str, plait_home: Path) -> Settings:
    return load(
        environ={**PATIENT, "PLAIT_HOME": str(plait_home), "PLAIT_POSTGRES__DSN": truth_dsn}
    )


@pytest.fixture(scope="session")
async def _opened(truth_settings: Settings) -> AsyncIterator[Store]:
    store = await open_truth(truth_settings)
    yield store
    await store.close()


@pytest.fixture
async def store(_opened: Store, truth_dsn: str) -> Store:
    """The store over an empty database."""
    await _opened.merger.finished()  # TRUNCATE below would wait for it, and it for this loop
    with psycopg.connect(truth_dsn, autocommit=True, options="-c search_path=plait") as conn:
        conn.execute(f"TRUNCATE {TABLES}")
        # An index of another test's dimension would refuse this one's vectors.
        for (name,) in conn.execute(
            "SELECT indexname FROM pg_indexes WHERE indexname LIKE '%\\_embedding\\_%'"
        ).fetchall():
            conn.execute(f"DROP INDEX {name}")
    return _opened


@pytest.fixture
async def other(store: Store, truth_settings: Settings) -> AsyncIterator[Store]:
    """A second store over the same database, as another process has it."""
    second = await open_truth(truth_settings)
    yield second
    await second.close()


@pytest.fixture
def index() -> IndexFiles:
    return index_files


def end_sessions(conn: psycopg.Connection[Any], which: str) -> None:
    """End the clients' sessions but this one for which the SQL condition `which` holds, and wait until
    they are gone: told to end, a session may answer a while yet. Others than clients, autovacuum's
    workers say, are no login's of ours to end, and asking is an error."""
    ended = conn.execute(
        f"SELECT bool_and(pg_terminate_backend(pid, {LIMIT_S * 1e3:.0f})) FROM pg_stat_activity"
        f" WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND {which}".encode()
    ).fetchone()
    assert ended is not None
    assert ended[0] is not False, "a session goes on"


# -- a toy language: a file is lines `name: callee callee`, names are global ----------------------


async def index_files(
    store: Store, repo: str, files: Files, *, root: str = "/src", publish: bool = True
) -> Revision | None:
    """Bring `repo` to `files` the way the pipeline does: only what changed is written."""
    draft = await store.index.begin(repo, root)
    stored = await store.index.stored_files(draft)
    changed = {
        p: ls for p, ls in files.items() if p not in stored or stored[p].content_hash != digest(ls)
    }
    removed = [path for path in stored if path not in files]
    if draft.base and not changed and not removed:
        await store.index.discard(draft)
        return await store.repositories.revision(repo)
    await store.index.write_files(
        draft,
        [FileRow(p, digest(ls), "toy", len(ls), len(ls), b"facts") for p, ls in changed.items()],
    )
    chunks = [chunk for path, lines in changed.items() for chunk in chunks_of(path, lines)]
    await store.index.write_chunks(draft, chunks)
    if chunks:
        await store.index.write_segment(draft, segment_of(chunks))
    await store.index.retire(draft, removed)
    parts = resolve(repo, files)
    await store.index.write_graph(
        draft,
        [p for p in parts if p.path not in stored or stored[p.path].graph_hash != p.graph_hash],
    )
    if not publish:
        return None
    return await store.index.publish(draft, IndexStats(files=len(files), chunks=len(chunks)))


def digest(lines: Sequence[str]) -> bytes:
    return hashlib.blake2b("\n".join(lines).encode(), digest_size=16).digest()


def module_of(path: str) -> str:
    return path.removesuffix(".toy").replace("/", ".")


def chunks_of(path: str, lines: Sequence[str]) -> list[Chunk]:
    out = []
    for n, (id_, line) in enumerate(zip(new_item_ids(len(lines)), lines, strict=True), start=1):
        symbol = f"{module_of(path)}.{line.partition(':')[0]}"
        hashed = hashlib.blake2b(
            embedded_text(path, symbol, line).encode(), digest_size=16
        ).digest()
        is_test = path.startswith("test")
        out.append(Chunk(id_, path, symbol, "function", "toy", n, n, line, hashed, is_test))
    return out


def segment_of(chunks: Sequence[Chunk]) -> Segment:
    texts = [embedded_text(c.path, c.symbol, c.content) for c in chunks]
    return segments.build([c.id for c in chunks], [tokens(text) for text in texts])


def resolve(repo: str, files: Files) -> list[FileGraph]:
    """Each file's part: its symbols, and calls bound to whatever file defines the name now."""
    defined = {
        line.partition(":")[0]: f"{repo}:{module_of(path)}.{line.partition(':')[0]}"
        for path, lines in sorted(files.items(), reverse=True)
        for line in lines
    }
    parts = []
    for path, lines in files.items():
        file_id = f"{repo}:/{path}"
        nodes = {file_id: Node(file_id, Label.FILE, path, path, path, 0, len(lines), "toy")}
        edges: dict[tuple[str, str, str], Edge] = {}
        _add(edges, Edge(Relation.CONTAINS, f"{repo}:", file_id))
        for n, line in enumerate(lines, start=1):
            name, _, callees = line.partition(":")
            id_ = f"{repo}:{module_of(path)}.{name}"
            qualified = id_.partition(":")[2]
            nodes[id_] = Node(id_, Label.FUNCTION, name, qualified, path, n, n, "toy")
            _add(edges, Edge(Relation.CONTAINS, file_id, id_))
            for callee in callees.split():
                if callee in defined:
                    _add(edges, Edge(Relation.CALLS, id_, defined[callee], (n,), "toy"))
                    # As VALIDATED_BY is: the edge belongs to another file than its source does.
                    _add(edges, Edge(Relation.VALIDATED_BY, defined[callee], id_))
        blobs = encode_nodes(list(nodes.values())), encode_edges([edges[k] for k in sorted(edges)])
        hashed = hashlib.blake2b(b"".join(blobs), digest_size=16).digest()
        parts.append(FileGraph(path, *blobs, hashed))
    return parts


def _add(edges: dict[tuple[str, str, str], Edge], edge: Edge) -> None:
    edges[(edge.relation, edge.source, edge.target)] = edge
