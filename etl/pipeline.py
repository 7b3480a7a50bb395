"""Index a repository: walk → parse → resolve → write → publish.

Readers see the last published revision until `publish`; a run that ends before it leaves nothing
that they, or the next run, could trip over. Text and the code graph's rows answer from `publish` on. The
graph server and the vectors follow: in the background of a service, or of a caller who waits for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Protocol

from etl import facts as facts_codec
from etl.embed import fill_vectors
from etl.facts import FACTS_VERSION, FileFacts
from etl.kept import Counts, KeptRepository
from etl.languages import is_code
from etl.languages.registry import Naming, language
from etl.parsing.pool import TIMED_OUT, Job, ParsedBatch, ParsePool, hash_files
from etl.parsing.segment import SegmentBuilder
from etl.plan import IndexPlan, make_plan, replan, repository_name
from etl.project import Projector
from etl.report import IndexReport, NoProgress, Progress
from etl.resolve import (
    Bindings,
    FilePart,
    OtherFile,
    collector_off,
    other_part,
    repo_node,
    resolve,
)
from etl.source.gitdir import branch_of
from etl.source.walk import Walk
from etl.trees import tree_digest
from plait.domain.errors import DraftLost, NoSymbols, RepositoryNotIndexed
from plait.domain.graph import Edge, Node, encode_edges, encode_nodes
from plait.domain.outage import Patience as Outage
from plait.domain.outage import ride_out
from plait.domain.scope import DEFAULT_TENANT, qualify
from plait.domain.values import Revision
from plait.ports import (
    Draft,
    EmbeddingProvider,
    FileGraph,
    GraphStore,
    IndexStats,
    IndexStore,
    Outbox,
    RepositoryStore,
    StoredFile,
    VectorQueue,
)
from plait.secrets.rules import Rules
from plait.settings import Settings

# How long a run waits for a projector of another process, and how often it looks.
FOLLOW_S, LOOK_S = 300.0, 0.05
# Of a revision whose server crashes, with a loss, while it is written.
TRIES = 3
FEW_FILES = 50  # that one warm worker parses sooner than new ones start
TIMED_OUT_BEFORE = "timed out before"
MOST_REMEMBERED = 10_000  # contents that timed out, of one repository

logger = logging.getLogger(__name__)


class Truth(Protocol):
    """What indexing needs of the truth store."""

    @property
    def index(self) -> IndexStore: ...
    @property
    def repositories(self) -> RepositoryStore: ...
    @property
    def vectors(self) -> VectorQueue: ...
    @property
    def outbox(self) -> Outbox: ...


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """`repo` "" takes the folder's name; inside the stores it is qualified by `tenant`. `move`: the
    named repository now lives at `root`. `embed`: it is to have vectors, whoever makes them.

    `plan`: of this root, when the caller has made it already. `touched`: nothing but these paths has
    changed since the revision that is kept in memory, if any is; None: look at every file. `keep`: more
    runs will follow, so a service keeps in memory what they need. `again`: only while `repo` is indexed, and
    whether it is to have vectors stays as it was, whatever `embed` says.
    """

    root: Path
    repo: str = ""
    embed: bool = True
    move: bool = False
    plan: IndexPlan | None = None
    tenant: str = DEFAULT_TENANT
    touched: frozenset[str] | None = None
    keep: bool = False
    again: bool = False


@dataclass(slots=True)
class _Run:
    """The counts of one run as they grow. Private to this module: values leave it as `IndexReport`."""

    walk: Walk
    jobs: dict[str, Job]
    rules: Rules  # of secrets
    phases: dict[str, float] = field(default_factory=dict)
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unparsed: list[tuple[str, str]] = field(default_factory=list)
    hashes: dict[str, bytes] = field(default_factory=dict)
    facts: dict[str, FileFacts] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    symbols: int = 0
    rows: dict[str, StoredFile] = field(default_factory=dict)  # of what was read
    parsed: int = 0
    restored: int = 0  # files whose content was stored already
    removed: int = 0
    syntax_errors: int = 0
    masked: list[tuple[str, int]] = field(default_factory=list)
    chunks_written: int = 0
    nodes: int = 0
    timed_out: dict[str, float] = field(default_factory=dict)
    edges: Counter[str] = field(default_factory=Counter)
    unresolved: Counter[str] = field(default_factory=Counter)
    kept: KeptRepository | None = None  # what this run may take up, and leaves for the next
    touched: frozenset[str] | None = None  # see `IndexRequest`; None unless `kept` holds the base

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        try:
            yield
        finally:
            self.phases[name] = self.phases.get(name, 0.0) + time.perf_counter() - start


async def index_repository(
    request: IndexRequest,
    settings: Settings,
    truth: Truth,
    open_graph: Callable[[], Awaitable[GraphStore]] | None,
    provider: EmbeddingProvider | None,
    progress: Progress | None = None,
    kept: KeptRepository | None = None,
) -> IndexReport:
    """Bring the index of `request.root` up to date; then the graph server and its vectors, where asked.

    `open_graph` None leaves the graph server for later: the outbox has what it lacks. `provider` None
    leaves the vectors to whoever fills in what is wanted. Cancelling is safe at any point: before
    `publish` nothing of the run is visible, after it whoever comes next goes on where this one stopped.

    `kept`: what an earlier run in this process left, which this one brings up to date.

    Raises: NotARepository, EmptyRepository, NoSymbols, RepositoryBusy, RepositoryNameTaken,
        StoreUnavailable, StoreFull, EmbeddingModelMismatch, EmbeddingUnavailable.
    """
    progress = progress or NoProgress()
    with ride_out(Outage(settings.index.outage_s, progress.waiting)) as outage:
        try:
            return await _index(
                request, settings, truth, open_graph, provider, progress, outage, kept
            )
        except BaseException:
            if kept is not None:  # which of the changes it has, nobody knows
                kept.forget()
            raise


async def _index(
    request: IndexRequest,
    settings: Settings,
    truth: Truth,
    open_graph: Callable[[], Awaitable[GraphStore]] | None,
    provider: EmbeddingProvider | None,
    progress: Progress,
    outage: Outage,
    kept: KeptRepository | None,
) -> IndexReport:
    """As `index_repository`, with the waiting time for a store already set."""
    root = request.root.expanduser().absolute()
    progress.start("walk")
    todo = request.plan
    if todo is None and request.touched is not None and kept and kept.number and kept.plan:
        todo = await asyncio.to_thread(replan, kept.plan, request.touched, settings)
    if todo is None:
        todo = await asyncio.to_thread(make_plan, root, settings)
        # What a walk finds may be more than what was told.
        request = replace(request, touched=None)
    if provider is not None:
        # Before the work, not after it: a wrong model is a setting to mend.
        await truth.vectors.ensure_space(provider.model, provider.dim)
    run, draft, revision = await _published(request, todo, root, settings, truth, progress, kept)
    repo = draft.repo
    if not request.again:
        await truth.vectors.want(repo, request.embed and settings.embedding.embeds_code)
    if open_graph is not None:
        with run.phase("graph"):
            progress.start("graph")
            await outage.through(partial(_project, truth, open_graph, repo))
    if provider is not None:
        with run.phase("vectors"):
            await fill_vectors(truth.vectors, provider, repo, progress, settings.index.batch_items)
    progress.finish()
    final = await truth.repositories.revision(repo)
    return _report(run, draft, final, changed=revision is not None, provider=provider)


async def _published(
    request: IndexRequest,
    todo: IndexPlan,
    root: Path,
    settings: Settings,
    truth: Truth,
    progress: Progress,
    kept: KeptRepository | None,
) -> tuple[_Run, Draft, Revision | None]:
    """The next revision, written and published; restarted when a crash of the server lost part of it.

    Raises: DraftLost, when that happens in every try.
    """
    for again in reversed(range(TRIES)):
        run = _Run(todo.walk, todo.jobs, todo.rules, {"walk": todo.took_s}, list(todo.walk.skipped))
        run.kept, run.touched = kept, request.touched
        try:
            async with _draft(truth, request, root) as draft:
                revision = await _write_revision(run, draft, truth, settings, progress)
            if kept is not None and kept.bindings is not None:
                kept.plan = todo
                if revision is not None:
                    kept.number = revision.number
            return run, draft, revision
        except DraftLost:
            if not again:
                raise
            logger.warning("indexing anew after a crash of PostgreSQL", extra={"repo": draft.repo})
    raise AssertionError("unreachable")


async def _project(
    truth: Truth, open_graph: Callable[[], Awaitable[GraphStore]], repo: str
) -> None:
    """Bring the graph to the published revision of `repo`. A server's projector, which may be at it
    already, is waited for; one that never ends leaves the graph for later."""
    projector = Projector(truth.outbox, open_graph)
    end = time.monotonic() + FOLLOW_S
    while True:
        await projector.run_until_idle()
        known = await truth.repositories.revision(repo)
        behind = known.graph_number < known.number
        # Events given up are in the dead letters; nothing waits for them.
        if not behind or not await truth.outbox.waiting([repo]) or time.monotonic() > end:
            return
        await asyncio.sleep(LOOK_S)


@asynccontextmanager
async def _draft(truth: Truth, request: IndexRequest, root: Path) -> AsyncIterator[Draft]:
    """A draft that is discarded when the block fails; published or discarded inside it otherwise."""
    name = qualify(request.tenant, repository_name(root, request.repo))
    draft = await truth.index.begin(name, str(root), move=request.move, tenant=request.tenant)
    try:
        if request.again and not draft.base:
            raise RepositoryNotIndexed(name)
        yield draft
    except BaseException:
        # Shielded, so that Ctrl-C releases the lock and the rows at once instead of at the next run.
        await asyncio.shield(truth.index.discard(draft))
        raise


async def _write_revision(
    run: _Run, draft: Draft, truth: Truth, settings: Settings, progress: Progress
) -> Revision | None:
    """Write and publish what differs from the base revision; None when nothing does."""
    kept = _taken_up(run, draft)
    stored = kept.stored if kept else await truth.index.stored_files(draft)
    with run.phase("changes"):
        changed, removed = await _changes(run, draft, stored, settings.index.parse_timeout_s)
    # What an older version of ours read may hold more for this one, though no file has changed.
    current = draft.facts_version == FACTS_VERSION
    if not changed and not removed and draft.base and current:
        if run.kept is not None and kept is None:
            await _keep_base(run, run.kept, draft, truth, stored)
        await truth.index.discard(draft)
        return None
    branch = await asyncio.to_thread(branch_of, run.walk.root)
    # What is bound in memory goes on from a small change; a tree that is taken up would leave it behind.
    if draft.base and current and (kept is None or len(changed) + len(removed) > FEW_FILES):
        taken = await _take_tree(run, draft, truth, branch)
        if taken is not None:
            if run.kept is not None:
                run.kept.forget()
            run.removed = len(removed)
            return taken
    known = len(run.timed_out)
    with run.phase("parse"):
        await _load_unchanged(run, draft, truth, kept, changed, removed)
        await _restore(run, draft, truth, changed, stored)
        await _parse_and_write(run, draft, truth, settings, changed, progress)
        await _remember(run, settings.index.parse_timeout_s)
    # What can't be read any more must not be found with its old content.
    failed = {path for path, _ in run.skipped}
    removed += [path for path in changed if path in failed and path in stored]
    nothing = not run.parsed and not run.restored and not removed
    if draft.base and nothing and len(run.timed_out) == known:
        await truth.index.discard(draft)  # all that "changed" can't be parsed, as before
        return None
    await truth.index.retire(draft, removed)
    run.removed = len(removed)
    _refuse_no_symbols(run)
    with run.phase("resolve"):
        progress.start("resolve")
        bound = await asyncio.to_thread(_resolve, run, draft.repo, stored, kept)
        parts = bound.parts
    with run.phase("write"):
        for start in range(0, len(parts), settings.index.batch_items):
            await truth.index.write_graph(draft, parts[start : start + settings.index.batch_items])
        if run.kept is not None:
            _keep(run, run.kept, bound, stored, removed)
        tree = await asyncio.to_thread(_tree, run)
        return await truth.index.publish(draft, _stats(run), tree=tree, branch=branch)


async def _take_tree(run: _Run, draft: Draft, truth: Truth, branch: str) -> Revision | None:
    """Publish a tree that is kept as it was: nothing is parsed or bound. None when this one is not kept."""
    with run.phase("write"):
        tree = await asyncio.to_thread(_tree, run)
        if not tree:
            return None
        stats = await truth.index.restore_tree(draft, tree)
        if stats is None:
            return None
        run.nodes, run.symbols, run.restored = stats.nodes, stats.symbols, stats.files
        run.edges, run.unresolved = Counter(stats.relations), Counter(stats.causes)
        run.skipped += sorted(stats.unread.items())
        return await truth.index.publish(draft, stats, tree=tree, branch=branch)


def _tree(run: _Run) -> bytes:
    """The digest by which a later run takes this one's revision up; b"" where another run might find more."""
    if run.timed_out or any(path in run.jobs for path, _ in run.skipped):
        return b""
    missing = [path for path in run.jobs if path not in run.hashes]
    run.hashes |= hash_files(Path(run.walk.root), missing, run.rules.digest())
    return tree_digest(run.jobs, run.hashes)


async def _restore(
    run: _Run, draft: Draft, truth: Truth, changed: list[str], stored: dict[str, StoredFile]
) -> None:
    """Take the contents out of `changed` that are stored since an earlier revision, as facts and chunks."""
    wanted = {
        path: digest
        for path in changed
        if (digest := run.hashes.get(path))
        and (path not in stored or stored[path].content_hash != digest)
    }
    if not draft.base or not wanted:
        return
    kept = []
    for path, file in (await truth.index.kept_files(draft, wanted)).items():
        job, facts = run.jobs[path], _decode(file.facts)
        if file.language != job.language or (facts is None and is_code(job.language)):
            continue
        if facts is not None:
            if _renamed(facts, job):
                continue
            run.facts[path] = facts
        run.lines[path] = file.lines
        run.rows[path] = StoredFile(path, file.content_hash, file.language, b"", file.lines)
        kept.append(file)
    await truth.index.restore(draft, kept)
    run.restored = len(kept)
    again = {file.path for file in kept}
    changed[:] = [path for path in changed if path not in again]


def _taken_up(run: _Run, draft: Draft) -> KeptRepository | None:
    """What is kept of the draft's base; None when nothing is, and then every file is looked at."""
    kept = run.kept
    if kept is None:
        return None
    holds = kept.number and kept.number == draft.base and draft.facts_version == FACTS_VERSION
    if not holds or kept.bindings is None or kept.repo != draft.repo:
        kept.forget()
        run.touched = None
        return None
    return kept


async def _changes(
    run: _Run, draft: Draft, stored: dict[str, StoredFile], limit_s: float
) -> tuple[list[str], list[str]]:
    """`(changed or new, removed)` paths. With nothing stored, all is new and nothing is hashed here.

    A content that timed out before, with no shorter a limit and the same extractors, is not tried again.
    """
    if not stored:
        return list(run.jobs), []
    jobs = run.jobs
    if run.touched is not None:
        # What a run before could not read, and nobody has touched, is as it was.
        unread = run.jobs.keys() - stored.keys() - run.touched
        run.skipped += [(path, TIMED_OUT_BEFORE) for path in sorted(unread)]
        run.timed_out.update(draft.timed_out)
        jobs = {path: run.jobs[path] for path in sorted(run.touched & run.jobs.keys())}
    hashes = await asyncio.to_thread(
        hash_files, Path(run.walk.root), list(jobs), run.rules.digest()
    )
    run.hashes = {
        path: stored[path].content_hash for path in run.jobs if path not in jobs and path in stored
    } | hashes
    known = draft.timed_out if draft.facts_version == FACTS_VERSION else {}
    changed: list[str] = []
    for path, job in jobs.items():
        digest = hashes.get(path)
        before = known.get(digest.hex()) if digest else None
        same = (
            path in stored
            and stored[path].content_hash == digest
            and stored[path].language == job.language
        )
        if digest and before is not None and before >= limit_s:
            run.timed_out[digest.hex()] = before
            if not same:  # one whose text is indexed stays as it is
                run.skipped.append((path, TIMED_OUT_BEFORE))
        elif not same or before is not None:
            changed.append(path)
    gone = {path for path, _ in run.skipped} | (stored.keys() - run.jobs.keys())
    return changed, [path for path in stored if path in gone]


async def _remember(run: _Run, limit_s: float) -> None:
    """Note the contents that timed out, so that the next run does not wait for them again."""
    slow = [path for path, cause in (*run.skipped, *run.unparsed) if cause == TIMED_OUT]
    hashes = await asyncio.to_thread(hash_files, Path(run.walk.root), slow, run.rules.digest())
    for digest in hashes.values():
        if len(run.timed_out) < MOST_REMEMBERED:
            run.timed_out[digest.hex()] = limit_s


async def _load_unchanged(
    run: _Run,
    draft: Draft,
    truth: Truth,
    kept: KeptRepository | None,
    changed: list[str],
    removed: list[str],
) -> None:
    """Load the facts of unchanged files into `run`; what can't be reused joins `changed`.

    A Python file's module name depends on its neighbours (`__init__.py`), and old facts may have an
    older shape: both make it parse again, as does an older version that knew no symbols of the language.
    Java and Go name their modules in the source.
    """
    skip = {*changed, *removed}
    if kept is not None:
        for path, facts in kept.facts.items():
            if path in skip:
                continue
            if _renamed(facts, run.jobs[path]):
                changed.append(path)
            else:
                run.facts[path] = facts
        return
    async for path, blob in truth.index.facts(draft):
        if path in skip:
            continue
        read = _decode(blob)
        renamed = read is not None and _renamed(read, run.jobs[path])
        if (blob or is_code(run.jobs[path].language)) and (read is None or renamed):
            changed.append(path)
        elif read is not None:
            run.facts[path] = read


def _renamed(facts: FileFacts, job: Job) -> bool:
    """True when neighbours have changed the name of a module that is named by the packages round it."""
    named_by_neighbours = language(facts.language).naming is Naming.PACKAGES
    return named_by_neighbours and facts.module != job.module


def _decode(blob: bytes) -> FileFacts | None:
    if not blob:
        return None
    try:
        facts = facts_codec.decode(blob)
    except ValueError:  # msgspec.DecodeError: written by a version with another shape
        return None
    return facts if facts.version == FACTS_VERSION else None


async def _parse_and_write(
    run: _Run,
    draft: Draft,
    truth: Truth,
    settings: Settings,
    changed: Sequence[str],
    progress: Progress,
) -> None:
    """Parse `changed` in worker processes and write files, chunks and BM25 segments, mostly one."""
    if not changed:
        return
    segment = SegmentBuilder()
    progress.start("parse", len(changed))
    with _pool_for(run, settings, len(changed)) as pool:
        batches = pool.run([run.jobs[path] for path in changed])
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await _write_batch(run, draft, truth, settings, batch)
            segment.add([chunk.id for chunk in batch.chunks], batch.index)
            progress.advance(len(batch.files) + len(batch.skipped))
            if segment.is_full:
                await _write_segment(draft, truth, segment)
                segment = SegmentBuilder()
    await _write_segment(draft, truth, segment)


async def _write_segment(draft: Draft, truth: Truth, segment: SegmentBuilder) -> None:
    if built := await asyncio.to_thread(segment.build):
        await truth.index.write_segment(draft, built)


@contextmanager
def _pool_for(run: _Run, settings: Settings, files: int) -> Iterator[ParsePool]:
    """Parse workers for so many files: for a few, the one that is kept warm."""
    root, kept = Path(run.walk.root), run.kept
    if kept is None or run.touched is None or files > FEW_FILES:
        with _pool(root, settings, run.rules) as pool:
            yield pool
        return
    if kept.pool is None:
        kept.pool = _pool(root, settings, run.rules, keep=True)
    try:
        yield kept.pool
    except BaseException:
        kept.pool.close()
        kept.pool = None
        raise


def _pool(root: Path, settings: Settings, rules: Rules, *, keep: bool = False) -> ParsePool:
    index = settings.index
    return ParsePool(
        root,
        workers=1 if keep else index.workers,
        keep=keep,
        timeout_s=index.parse_timeout_s,
        max_file_bytes=index.max_file_bytes,
        rules=rules,
    )


async def _write_batch(
    run: _Run, draft: Draft, truth: Truth, settings: Settings, batch: ParsedBatch
) -> None:
    size = settings.index.batch_items
    for start in range(0, len(batch.files), size):
        await truth.index.write_files(draft, batch.files[start : start + size])
    for start in range(0, len(batch.chunks), size):
        await truth.index.write_chunks(draft, batch.chunks[start : start + size])
    run.chunks_written += len(batch.chunks)
    _add_facts(run, batch)


def _add_facts(run: _Run, batch: ParsedBatch) -> None:
    run.skipped += batch.skipped
    run.unparsed += batch.unparsed
    run.masked += batch.masked
    run.parsed += len(batch.files)
    run.syntax_errors += batch.syntax_errors
    for row in batch.files:
        run.lines[row.path] = row.lines
        run.hashes[row.path] = row.content_hash
        run.rows[row.path] = StoredFile(row.path, row.content_hash, row.language, b"", row.lines)
        if row.facts:
            run.facts[row.path] = facts_codec.decode(row.facts)


def _refuse_no_symbols(run: _Run) -> None:
    """Raises: NoSymbols, when code files were parsed and not one symbol came of them."""
    code = [f for f in run.facts.values() if f.references or f.imports or len(f.definitions) > 1]
    if code and not any(len(f.definitions) > 1 for f in code):
        languages = ", ".join(sorted({f.language for f in code}))
        raise NoSymbols(
            f"{len(code)} {languages} files parsed and not one function or class was found in them, "
            "so a call graph would be empty. If that is right, index a folder that holds more; "
            "if not, reinstall: the tree-sitter grammars may be broken",
            files=len(code),
            languages=languages,
        )


def _others(run: _Run, stored: dict[str, StoredFile]) -> list[OtherFile]:
    """The files that are indexed as text only: nodes without symbols."""
    unparsed = {path for path, _ in run.skipped}
    return [
        OtherFile(path, job.language, run.lines[path] if path in run.lines else stored[path].lines)
        for path, job in run.jobs.items()
        if path not in run.facts and path not in unparsed and (path in run.lines or path in stored)
    ]


@dataclass(slots=True)
class _BoundRun:
    """What binding gave: the parts that differ from the base's, and the digest of each part looked at."""

    bindings: Bindings
    counts: Counts
    parts: list[FileGraph] = field(default_factory=list)
    digests: dict[str, bytes] = field(default_factory=dict)


def _resolve(
    run: _Run, repo: str, stored: dict[str, StoredFile], kept: KeptRepository | None
) -> _BoundRun:
    """Bind the facts; with `kept`, only what differs from its facts and what that can touch."""
    if kept is not None and kept.bindings is not None:
        bound = _BoundRun(kept.bindings, kept.counts)
        kept.number = 0  # it holds for no revision until this one is published
        before = kept.facts
        changed = {p: f for p, f in run.facts.items() if before.get(p) is not f}
        gone = before.keys() - run.facts.keys()
        # What is known to the graph, and neither in the facts nor read now, is as it was.
        others = [other for other in _others(run, stored) if other.path in run.lines]
        bound.counts.drop(stored.keys() - run.jobs.keys())
        bound.counts.drop({path for path, _ in run.skipped})
    else:
        bound = _BoundRun(Bindings(repo, track=run.kept is not None), Counts())
        changed, gone, others = run.facts, set(), _others(run, stored)
    with collector_off():
        again = bound.bindings.update(changed, gone)
        for path in sorted(again):
            _add_part(run, bound, stored, bound.bindings.part(path))
        for other in sorted(others, key=attrgetter("path")):
            _add_part(run, bound, stored, other_part(repo, other))
    run.nodes = bound.counts.nodes
    run.edges = +bound.counts.edges
    run.unresolved = +bound.counts.unresolved
    return bound


def _add_part(run: _Run, bound: _BoundRun, stored: dict[str, StoredFile], part: FilePart) -> None:
    nodes, edges = encode_nodes(part.nodes), encode_edges(part.edges)
    digest = hashlib.blake2b(nodes + edges, digest_size=16).digest()
    bound.counts.put(part)
    bound.digests[part.path] = digest
    before = stored.get(part.path)
    if before is None or before.graph_hash != digest:
        bound.parts.append(FileGraph(part.path, nodes, edges, digest))


async def _keep_base(
    run: _Run,
    kept: KeptRepository,
    draft: Draft,
    truth: Truth,
    stored: dict[str, StoredFile],
) -> None:
    """Nothing changed: bind the base for the runs that will follow."""
    changed: list[str] = []
    await _load_unchanged(run, draft, truth, None, changed, [])
    if not changed:
        bound = await asyncio.to_thread(_resolve, run, draft.repo, stored, None)
        _keep(run, kept, bound, stored, [])
        kept.number = draft.base


def _keep(
    run: _Run,
    kept: KeptRepository,
    bound: _BoundRun,
    stored: dict[str, StoredFile],
    removed: Sequence[str],
) -> None:
    """Leave for the next run what this one knows of its revision."""
    gone = set(removed)
    now = {path: file for path, file in stored.items() if path not in gone} | run.rows
    for path, digest in bound.digests.items():
        if path in now:
            now[path] = replace(now[path], graph_hash=digest)
    kept.stored, kept.bindings, kept.counts = now, bound.bindings, bound.counts


def graph_parts(
    root: Path, repo: str, settings: Settings
) -> Iterator[tuple[list[Node], list[Edge]]]:
    """`(nodes, edges)` of each file of the tree at `root`, for an export: no store, no chunks stored.

    Raises: NotARepository, EmptyRepository, NoSymbols.
    """
    todo = make_plan(root, settings)
    run = _Run(todo.walk, todo.jobs, todo.rules)
    with _pool(root, settings, todo.rules) as pool:
        for batch in pool.run(list(todo.jobs.values())):
            _add_facts(run, batch)
    _refuse_no_symbols(run)
    yield [repo_node(repo)], []
    for part in resolve(repo, list(run.facts.values()), _others(run, {})):
        yield part.nodes, part.edges


def _stats(run: _Run) -> IndexStats:
    return IndexStats(
        files=len(run.jobs) - len({p for p, _ in run.skipped} & run.jobs.keys()),
        chunks=run.chunks_written,
        nodes=run.nodes,
        edges=sum(run.edges.values()),
        unresolved=sum(run.unresolved.values()),
        languages=_languages(run),
        skipped=dict(Counter(cause for _, cause in run.skipped)),
        facts_version=FACTS_VERSION,
        timed_out=run.timed_out,
        symbols=_symbols(run),
        relations=run.edges,
        causes=run.unresolved,
        unread=dict(sorted(p for p in run.skipped if p[0] in run.jobs)[:MOST_REMEMBERED]),
    )


def _symbols(run: _Run) -> int:
    return run.symbols or sum(len(f.definitions) - 1 for f in run.facts.values())


def _languages(run: _Run) -> dict[str, int]:
    unparsed = {path for path, _ in run.skipped}
    return dict(Counter(job.language for path, job in run.jobs.items() if path not in unparsed))


def _report(
    run: _Run,
    draft: Draft,
    final: Revision,
    *,
    changed: bool,
    provider: EmbeddingProvider | None,
) -> IndexReport:
    return IndexReport(
        repo=draft.repo,
        root=run.walk.root,
        revision=final.number,
        changed=changed,
        files=final.files,
        files_parsed=run.parsed,
        files_removed=run.removed,
        syntax_errors=run.syntax_errors,
        symbols=_symbols(run),
        chunks=final.chunks,
        chunks_written=run.chunks_written,
        nodes=run.nodes,
        edges=dict(run.edges),
        unresolved=dict(run.unresolved),
        languages=_languages(run),
        skipped=dict(Counter(cause for _, cause in run.skipped)),
        skipped_files=tuple(run.skipped),
        unparsed_files=tuple(run.unparsed),
        masked_files=tuple(sorted(run.masked)),
        embedded=final.embedded,
        model=provider.model if provider else "",
        graph_revision=final.graph_number,
        phases=run.phases,
    )
