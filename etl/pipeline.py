"""Index a repository: walk → parse → resolve → write → publish.

Readers see the last published revision until `publish`; a run that ends before it leaves nothing
that they, or the next run, could trip over. Text and the code graph's rows answer from `publish` on. The
graph server and the vectors follow: in the background of a service, or of a caller who waits for them.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import partial
from pathlib import Path

from etl import facts as facts_codec
from etl.binding import bind, keep, keep_base, keep_taken, other_files, portions
from etl.changed import changes, load_unchanged, remember_slow, taken_up
from etl.embed import fill_vectors
from etl.facts import FACTS_VERSION
from etl.kept import KeptRepository
from etl.parsing.pool import ParsedBatch, ParsePool
from etl.parsing.segment import SegmentBuilder
from etl.plan import IndexPlan, make_plan, replan, repository_name
from etl.project import Projector
from etl.report import IndexReport, NoProgress, Progress
from etl.resolve import repo_node, resolve
from etl.run import FEW_FILES, MOST_REMEMBERED, Run, Truth
from etl.source.gitdir import branch_of
from etl.trees import restore, sibling_of, take_tree, tree_of
from plait.domain.errors import (
    DraftLost,
    NoSymbols,
    PlaitError,
    RepositoryBusy,
    RepositoryNotIndexed,
)
from plait.domain.freed import return_freed
from plait.domain.graph import Edge, Node
from plait.domain.outage import Patience as Outage
from plait.domain.outage import ride_out
from plait.domain.scope import DEFAULT_TENANT, qualify
from plait.domain.values import Chunk, Revision
from plait.ports import (
    Draft,
    EmbeddingProvider,
    FileRow,
    GraphStore,
    IndexStats,
    IndexStore,
    StoredFile,
)
from plait.secrets.rules import Rules
from plait.settings import Settings

# How long a run waits for a projector of another process, and how often it looks.
FOLLOW_S, LOOK_S = 300.0, 0.05
# By so much a server's clock may be behind.
CLOCKS = timedelta(seconds=2)
# Of a revision whose server crashes, with a loss, while it is written.
TRIES = 3
GATHERED = 4  # transactions' worth of rows wait for each other: most are full, and 2 MB of memory

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class IndexRequest:
    """`repo` "" takes the folder's name; inside the stores it is qualified by `tenant`. `move`: the
    named repository now lives at `root`. `embed`: it is to have vectors, whoever makes them.

    `plan`: of this root, when the caller has made it already. `touched`: nothing but these paths has
    changed since the revision that is kept in memory, if any is; None: look at every file. `keep`: more
    runs will follow, so a service gets ready for them even if nothing has changed. `again`: only while `repo` is indexed, and
    whether it is to have vectors stays as it was, whatever `embed` says. `turn_s`: how long a run of another
    process on this repository is waited for.
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
    turn_s: float = 0.0


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
) -> tuple[Run, Draft, Revision | None]:
    """The next revision, written and published; restarted when a crash of the server lost part of it.

    Raises: DraftLost, when that happens in every try.
    """
    for again in reversed(range(TRIES)):
        run = Run(todo.walk, todo.jobs, todo.rules, {"walk": todo.took_s}, list(todo.walk.skipped))
        run.kept, run.touched = kept, request.touched
        try:
            async with _draft(truth, request, root, progress) as draft:
                if not draft.base and not request.keep and kept is not None:
                    kept.forget()  # of a repository of this name that was removed meanwhile
                    # Keeping costs time and memory, and most first runs are the only one.
                    run.kept = None
                base = taken_up(run, draft)
                if base is None and (
                    request.touched is not None or await _may_lack_files(todo, draft, truth)
                ):
                    # Another process has published: neither what is kept nor this plan knows of the files that
                    # came with it.
                    request = replace(request, touched=None)
                    todo = await asyncio.to_thread(make_plan, root, settings)
                    run.walk, run.jobs, run.skipped = todo.walk, todo.jobs, list(todo.walk.skipped)
                revision = await _write_revision(
                    run, base, draft, truth, settings, progress, ready=request.keep
                )
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


async def _may_lack_files(todo: IndexPlan, draft: Draft, truth: Truth) -> bool:
    """Whether the draft's base may hold files that came after the walk of `todo`: it was published later, by a run
    that was waited for, say. An older one was read from what the walk has seen."""
    if not draft.base:
        return False
    published_at = (await truth.repositories.revision(draft.repo)).published_at
    return published_at is None or published_at + CLOCKS > todo.begun_at


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
async def _draft(
    truth: Truth, request: IndexRequest, root: Path, progress: Progress
) -> AsyncIterator[Draft]:
    """A draft that is discarded when the block fails; published or discarded inside it otherwise."""
    name = qualify(request.tenant, repository_name(root, request.repo))
    begin = partial(truth.index.begin, name, str(root), move=request.move, tenant=request.tenant)
    try:
        draft = await begin()
    except RepositoryBusy:
        if not request.turn_s:
            raise
        progress.turn(name, request.turn_s)
        draft = await begin(wait_s=request.turn_s)
    try:
        if request.again and not draft.base:
            raise RepositoryNotIndexed(name)
        yield draft
    except BaseException:
        # Shielded, so that Ctrl-C releases the lock and the rows at once instead of at the next run.
        await asyncio.shield(truth.index.discard(draft))
        raise


async def _write_revision(
    run: Run,
    kept: KeptRepository | None,
    draft: Draft,
    truth: Truth,
    settings: Settings,
    progress: Progress,
    *,
    ready: bool,
) -> Revision | None:
    """Write and publish what differs from the base revision, which `kept` holds; None when nothing does.
    `ready`: for a run to come, even then."""
    stored = kept.stored if kept else await truth.index.stored_files(draft)
    with run.phase("changes"):
        changed, removed = await changes(run, draft, stored, settings.index.parse_timeout_s)
        sibling = await sibling_of(run, draft, truth, changed)
    # What an older version of ours read may hold more for this one, though no file has changed.
    current = draft.facts_version == FACTS_VERSION
    if not changed and not removed and draft.base and current:
        if run.kept is not None and kept is None and ready:
            await keep_base(run, run.kept, draft, truth, stored)
        await truth.index.discard(draft)
        return None
    branch = await asyncio.to_thread(branch_of, run.walk.root)
    # From a small change, what is bound in memory goes on sooner.
    known_tree = sibling is not None or (draft.base and current)
    if known_tree and (kept is None or len(changed) + len(removed) > FEW_FILES):
        taken = await take_tree(run, draft, truth, branch, sibling)
        if taken is not None:
            if run.kept is not None:
                try:
                    with run.phase("resolve"):
                        await keep_taken(run, run.kept, draft, truth, changed, removed)
                except PlaitError as exc:  # it is published: the next run binds all
                    run.kept.forget()
                    logger.warning(
                        "not kept",
                        extra={"reason": exc.reason, "error": str(exc), "repo": draft.repo},
                    )
            run.removed = len(removed)
            return taken
    known = len(run.timed_out)
    with run.phase("parse"):
        await load_unchanged(run, draft, truth, kept, changed, removed)
        await restore(run, draft, truth, changed, stored, sibling)
        await _parse_and_write(run, draft, truth, settings, changed, progress)
        await remember_slow(run, settings.index.parse_timeout_s)
        if len(changed) > FEW_FILES:
            await asyncio.to_thread(return_freed)  # of the segments, before binding needs its own
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
        bound = await asyncio.to_thread(bind, run, draft.repo, stored, kept)
    with run.phase("write"):
        written = portions(run, bound, stored, settings.index.batch_items)
        while (portion := await asyncio.to_thread(next, written, None)) is not None:
            await truth.index.write_graph(draft, portion)
        if run.kept is not None:
            keep(run, run.kept, bound, stored, removed)
        else:
            run.symbols, run.facts = _symbols(run), {}
        del bound, written
        tree = await asyncio.to_thread(tree_of, run)
        return await truth.index.publish(draft, _stats(run), tree=tree, branch=branch)


async def _parse_and_write(
    run: Run,
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
    contents = _Contents(draft, truth.index, settings.index.batch_items)
    progress.start("parse", len(changed))
    with _pool_for(run, settings, len(changed)) as pool:
        batches = pool.run([run.jobs[path] for path in changed])
        while (batch := await asyncio.to_thread(next, batches, None)) is not None:
            await contents.add(batch)
            run.chunks_written += len(batch.chunks)
            _add_facts(run, batch)
            segment.add([chunk.id for chunk in batch.chunks], batch.index)
            progress.advance(len(batch.files) + len(batch.skipped))
            if segment.is_full:
                await _write_segment(draft, truth, segment)
                segment = SegmentBuilder()
    await contents.finish()
    await _write_segment(draft, truth, segment)


async def _write_segment(draft: Draft, truth: Truth, segment: SegmentBuilder) -> None:
    if built := await asyncio.to_thread(segment.build):
        await truth.index.write_segment(draft, built)


@contextmanager
def _pool_for(run: Run, settings: Settings, files: int) -> Iterator[ParsePool]:
    """Parse workers for so many files: for a few, the one that is kept warm."""
    root, kept = Path(run.walk.root), run.kept
    if kept is None or files > FEW_FILES:
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


class _Contents:
    """Writes files and their chunks in transactions of `size` rows, whatever batches they come in."""

    def __init__(self, draft: Draft, index: IndexStore, size: int) -> None:
        self._draft = draft
        self._index = index
        self._size = size
        self._files: list[FileRow] = []
        self._chunks: list[Chunk] = []

    async def add(self, batch: ParsedBatch) -> None:
        self._files += batch.files
        self._chunks += batch.chunks
        if max(len(self._files), len(self._chunks)) >= GATHERED * self._size:
            await self._write(least=self._size)

    async def finish(self) -> None:
        """Write what is left."""
        await self._write(least=1)

    async def _write(self, least: int) -> None:
        """All files, then chunks in parts of `least` at least: a file that is written a second time, after a
        lost connection, takes its chunks back."""
        for start in range(0, len(self._files), self._size):
            await self._index.write_files(self._draft, self._files[start : start + self._size])
        self._files.clear()
        while len(self._chunks) >= least:
            await self._index.write_chunks(self._draft, self._chunks[: self._size])
            del self._chunks[: self._size]


def _add_facts(run: Run, batch: ParsedBatch) -> None:
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


def _refuse_no_symbols(run: Run) -> None:
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


def graph_parts(
    root: Path, repo: str, settings: Settings
) -> Iterator[tuple[list[Node], list[Edge]]]:
    """`(nodes, edges)` of each file of the tree at `root`, for an export: no store, no chunks stored.

    Raises: NotARepository, EmptyRepository, NoSymbols.
    """
    todo = make_plan(root, settings)
    run = Run(todo.walk, todo.jobs, todo.rules)
    with _pool(root, settings, todo.rules) as pool:
        for batch in pool.run(list(todo.jobs.values())):
            _add_facts(run, batch)
    _refuse_no_symbols(run)
    yield [repo_node(repo)], []
    for part in resolve(repo, list(run.facts.values()), other_files(run, {})):
        yield part.nodes, part.edges


def _stats(run: Run) -> IndexStats:
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


def _symbols(run: Run) -> int:
    return run.symbols or sum(len(f.definitions) - 1 for f in run.facts.values())


def _languages(run: Run) -> dict[str, int]:
    unparsed = {path for path, _ in run.skipped}
    return dict(Counter(job.language for path, job in run.jobs.items() if path not in unparsed))


def _report(
    run: Run,
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
