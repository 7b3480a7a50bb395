"""Parse files in worker processes that may hang, crash or run out of memory, and lose only that file.

One thread serves each worker, so a caller on an event loop takes batches with
`asyncio.to_thread(next, batches, None)`. A worker imports nothing from the working folder: it runs
isolated (`-I -S`), in the root folder `/`, with the parent's `sys.path` less that folder.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np

from etl.languages import registry
from etl.parsing.pipe import Reply, Setup, WireJob, decode, read_frame, write_frame
from etl.parsing.segment import PartialIndex
from etl.source.files import content_hash, opened
from plait.domain.errors import ParseWorkerFailed
from plait.domain.ids import new_item_ids
from plait.domain.values import Chunk
from plait.ports import FileRow
from plait.secrets.rules import BUILT_IN, Rules

# Large enough that a frame costs nothing beside its content, small enough that a batch lost to a crash
# is soon parsed again and both workers end at about the same time.
BATCH_BYTES = 400_000
BATCH_FILES = 200
# What one worker parses in the time that another takes to start and to be of use, about: 0.3 s.
WORKER_BYTES = 2_000_000
START_TRIES = 3  # of a worker that a signal ends while it starts
# An extractor needs about 100 bytes of memory a byte of source (473 MB for 4.8 MB).
MEMORY_BYTES = 2 * 2**30
TIMED_OUT = "parse timeout"
# glibc gives large blocks back at once and asks for them again with the next batch: three page faults in
# four, a third of a second of Django's. numpy's library of linear algebra reserves memory for each thread.
_ALLOCATION = {
    "MALLOC_TRIM_THRESHOLD_": str(2**26),
    "MALLOC_MMAP_THRESHOLD_": str(2**26),
    "OPENBLAS_NUM_THREADS": "1",
}
# Of a file's time, what stays for its text where that is indexed when its grammar takes too long: both
# together take no longer than any file may. Cutting a megabyte of text takes 0.1 s.
TEXT_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Job:
    """One file to parse. `module`: its qualified module name, "" when none are looked for."""

    path: str
    language: str
    module: str
    is_test: bool
    size: int = 0  # bytes, for balance
    again: bool = False  # as text: its grammar took too long, or failed

    @property
    def share(self) -> float:
        """Of the time a file may take."""
        if self.again:
            return TEXT_SHARE
        return 1.0 - TEXT_SHARE if self.by_table else 1.0

    @property
    def by_table(self) -> bool:
        """True when only definitions are looked for: where that fails, the text alone may be indexed."""
        return bool(self.module and registry.language(self.language).table)


@dataclass(frozen=True, slots=True)
class ParsedBatch:
    """What came of some files. `chunks[i]` is document `i` of `index`; both follow `files` in order.

    `skipped`: files not indexed, with the cause. `unparsed`: files indexed as text alone because
    their extractor failed, with the cause; they are in `files` too.
    """

    files: list[FileRow]
    chunks: list[Chunk]
    index: PartialIndex | None
    skipped: list[tuple[str, str]] = field(default_factory=list)
    unparsed: list[tuple[str, str]] = field(default_factory=list)
    syntax_errors: int = 0
    symbols: int = 0
    masked: list[tuple[str, int]] = field(default_factory=list)  # path, credentials covered in it


class WorkerDied(Exception):
    """The worker ended while it was at job `at` of its batch."""

    def __init__(self, at: int, cause: str) -> None:
        super().__init__(cause)
        self.at = at
        self.cause = cause


class _KilledAtStart(ParseWorkerFailed):
    """A signal ended a worker before it took any work."""


class _Worker:
    """One child process. Not thread-safe, but `kill` may be called from anywhere."""

    def __init__(self, setup: Setup) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115  (closed in `close`)
        self._progress, write_end = os.pipe()
        os.set_blocking(self._progress, False)
        try:
            self._process = subprocess.Popen(
                _command(write_end),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd="/",
                env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", **_ALLOCATION},
                pass_fds=(write_end,),
                process_group=0,  # the terminal's Ctrl-C is for the indexer
            )
        finally:
            os.close(write_end)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._stdin, self._stdout = self._process.stdin, self._process.stdout
        self.terms = np.zeros(0, dtype=np.int32)  # the worker's term numbers → the pool's
        if self._exchange(setup) is None:
            error = self._started_badly()
            self.close()
            raise error

    def parse(self, jobs: Sequence[Job]) -> Reply:
        """Raises: WorkerDied."""
        wire = [WireJob(job.path, job.language, job.module, job.is_test, job.share) for job in jobs]
        body = self._exchange(wire)
        begun = self._begun()
        if body is None:
            raise WorkerDied(max(begun - 1, 0), self._cause_of_death())
        return decode(body, Reply)

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """End the process and free what stood for it. Idempotent."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(BrokenPipeError):
            self._stdin.close()
        self._stdout.close()
        self._errors.close()
        if self._progress >= 0:
            os.close(self._progress)
            self._progress = -1

    def _exchange(self, value: object) -> bytes | None:
        with contextlib.suppress(BrokenPipeError):
            write_frame(self._stdin, value)
            return read_frame(self._stdout)
        return None

    def _begun(self) -> int:
        """How many files the worker has begun since the last call."""
        try:
            return len(os.read(self._progress, 65536))
        except BlockingIOError:
            return 0

    def _cause_of_death(self) -> str:
        code = self._process.wait()
        if code in (-signal.SIGPROF, -signal.SIGALRM):
            return TIMED_OUT
        if code < 0:
            return f"parser crashed ({signal.Signals(-code).name})"
        return f"parser crashed: {self._last_words()}"

    def _last_words(self) -> str:
        self._errors.seek(0)
        lines = self._errors.read()[-2000:].decode("utf-8", "replace").strip().splitlines()
        return lines[-1] if lines else f"exit code {self._process.returncode}"

    def _started_badly(self) -> ParseWorkerFailed:
        code = self._process.wait()
        failed = _KilledAtStart if code < 0 else ParseWorkerFailed
        return failed(
            f"a parse worker did not start (exit code {code}): {self._last_words()}; "
            "reinstall plait into this Python environment, or run `plait doctor`",
            exit_code=code,
        )


def _command(progress: int) -> list[str]:
    """Start a worker with this interpreter's modules, and no others.

    `-I` ignores the environment and leaves the working folder off the path, `-S` saves the time of
    `site`; our own `sys.path` replaces what both would have set.
    """
    here = str(Path(__file__).resolve().parents[2])
    working = _working_folder()
    paths = [p for p in sys.path if os.path.isabs(p) and os.path.realpath(p) != working]  # noqa: PTH117
    if here not in paths:
        paths.append(here)  # an editable install, or our own checkout
    start = "import sys; sys.path[:] = sys.argv[2:]; from etl.parsing.worker import main; main(int(sys.argv[1]))"
    return [sys.executable, "-I", "-S", "-X", "utf8", "-c", start, str(progress), *paths]


def _working_folder() -> str:
    try:
        return os.path.realpath(os.getcwd())  # noqa: PTH109
    except OSError:  # it was deleted
        return ""


_DONE = object()


class ParsePool:
    """A pool of parse workers for one run. Use it as a context manager: leaving it ends the workers.

    `workers` 0: one a core. `timeout_s`: CPU seconds one file may take. `keep`: one worker stays between
    runs, until the pool is closed.
    """

    def __init__(
        self,
        root: Path,
        *,
        workers: int = 0,
        timeout_s: float = 10.0,
        max_file_bytes: int = 1_000_000,
        memory_bytes: int = MEMORY_BYTES,
        rules: Rules = BUILT_IN,
        keep: bool = False,
    ) -> None:
        top = os.path.realpath(root)
        self._keep = keep
        self._idle: _Worker | None = None
        self._setup = Setup(top, max_file_bytes, timeout_s, memory_bytes, rules)
        self._size = workers or _cores()
        self._lock = threading.Lock()
        self._numbers: dict[str, int] = {}
        self._vocabulary: list[str] = []
        self._workers: set[_Worker] = set()
        self._threads: list[threading.Thread] = []
        self._results: queue.Queue[object] = queue.Queue()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def run(self, jobs: Sequence[Job]) -> Iterator[ParsedBatch]:
        """Parse `jobs`, a batch at a time, in no fixed order. One run at a time a pool.

        Not more than four batches a worker wait for the caller.

        Raises: ParseWorkerFailed, when workers can't be started.
        """
        todo = deque(batches(jobs))
        worth = 1 + sum(job.size for job in jobs) // WORKER_BYTES
        count = min(self._size, len(todo), worth)
        self._results = queue.Queue(maxsize=4 * max(count, 1))
        self._threads = [
            threading.Thread(target=self._work, args=(todo,), daemon=True, name=f"parse-{i}")
            for i in range(count)
        ]
        for thread in self._threads:
            thread.start()
        while count:
            result = self._results.get()
            if result is _DONE:
                count -= 1
            elif isinstance(result, BaseException):
                raise result
            else:
                assert isinstance(result, ParsedBatch)
                yield result

    def close(self) -> None:
        """End the workers; a caller that waits in `run` sees it end. Idempotent, from any thread."""
        with self._lock:
            self._closed = True
            workers = list(self._workers)
        for worker in workers:
            worker.kill()
        if (idle := self._take_idle()) is not None:
            self._end(idle)
        for thread in self._threads:
            while thread.is_alive():
                with contextlib.suppress(queue.Empty):  # make room for what threads still hand in
                    self._results.get_nowait()
                thread.join(0.01)
        for _ in self._threads:
            with contextlib.suppress(queue.Full):
                self._results.put_nowait(_DONE)

    def _work(self, todo: deque[list[Job]]) -> None:
        """A thread's life: batches until none is left, each given to the thread's own worker."""
        worker: _Worker | None = None
        try:
            while not self._closed:
                try:
                    jobs = todo.popleft()
                except IndexError:
                    break
                worker = worker or self._take_idle() or self._start()
                try:
                    reply = worker.parse(jobs)
                except WorkerDied as death:
                    self._end(worker)
                    worker = None
                    if self._closed:
                        break
                    # What came before the culprit was lost with the worker: again, without it.
                    todo.extend(part for part in (jobs[: death.at], jobs[death.at + 1 :]) if part)
                    self._results.put(self._lost(jobs[death.at], death.cause, todo))
                else:
                    self._results.put(self._batch(worker, reply))
        except BaseException as exc:
            self._results.put(exc)
        finally:
            if worker and not self._lay_by(worker):
                self._end(worker)
            self._results.put(_DONE)

    def _take_idle(self) -> _Worker | None:
        with self._lock:
            worker, self._idle = self._idle, None
        return worker

    def _lay_by(self, worker: _Worker) -> bool:
        """Keep a worker for the next run. False when the pool does not, or has one."""
        with self._lock:
            if not self._keep or self._closed or self._idle is not None:
                return False
            self._idle = worker
        return True

    def _lost(self, job: Job, cause: str, todo: deque[list[Job]]) -> ParsedBatch:
        """The result for a file that ended a worker; its text is parsed again where definitions alone are lost."""
        if job.by_table:
            todo.append([replace(job, module="", again=True)])
            return ParsedBatch([], [], None, unparsed=[(job.path, cause)])
        return ParsedBatch([], [], None, [(job.path, cause)])

    def _start(self) -> _Worker:
        """A new worker. One that a signal ended while it started (the kernel's, when memory is short)
        does not imply that the next one fails."""
        for _ in range(START_TRIES - 1):
            with contextlib.suppress(_KilledAtStart):
                return self._known(_Worker(self._setup))
        return self._known(_Worker(self._setup))

    def _known(self, worker: _Worker) -> _Worker:
        with self._lock:
            self._workers.add(worker)
            closed = self._closed
        if closed:
            worker.kill()
        return worker

    def _end(self, worker: _Worker) -> None:
        with self._lock:
            self._workers.discard(worker)
        worker.close()

    def _batch(self, worker: _Worker, reply: Reply) -> ParsedBatch:
        files = []
        chunks: list[Chunk] = []
        ids = iter(new_item_ids(sum(len(file.chunks) for file in reply.files)))
        for file in reply.files:
            path, language = file.path, file.language
            files.append(
                FileRow(
                    path,
                    file.content_hash,
                    language,
                    file.size_bytes,
                    file.lines,
                    file.facts,
                    file.is_test,
                )
            )
            for symbol, kind, start, end, content, digest, is_test in file.chunks:
                chunks.append(
                    Chunk(
                        next(ids),
                        path,
                        symbol,
                        kind,
                        language,
                        start,
                        end,
                        content,
                        digest,
                        is_test,
                    )
                )
        return ParsedBatch(
            files,
            chunks,
            self._index(worker, reply),
            reply.skipped,
            reply.unparsed,
            reply.syntax_errors,
            reply.symbols,
            [(file.path, file.masked) for file in reply.files if file.masked],
        )

    def _index(self, worker: _Worker, reply: Reply) -> PartialIndex:
        """The batch's words with the worker's numbers of terms made the pool's."""
        with self._lock:
            numbers, before = self._numbers, len(self._numbers)
            new = [numbers.setdefault(term, len(numbers)) for term in reply.new_terms]
            told = zip(reply.new_terms, new, strict=True)
            self._vocabulary += [term for term, number in told if number >= before]
        worker.terms = np.concatenate([worker.terms, np.array(new, dtype=np.int32)])
        return PartialIndex(
            np.frombuffer(reply.lengths, dtype=np.int32),
            np.frombuffer(reply.distinct, dtype=np.int32),
            worker.terms[np.frombuffer(reply.terms, dtype=np.int32)],
            np.frombuffer(reply.tfs, dtype=np.uint8),
            self._vocabulary,
        )


def batches(jobs: Sequence[Job]) -> Iterator[list[Job]]:
    """`jobs` in order, cut into batches of about equal work."""
    batch: list[Job] = []
    size = 0
    for job in jobs:
        batch.append(job)
        size += job.size
        if size >= BATCH_BYTES or len(batch) >= BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def hash_files(root: Path, paths: Sequence[str], rules: bytes) -> dict[str, bytes]:
    """Each file's content hash under the rules of that digest, to find what changed. Files that can't be
    read are left out."""
    out = {}
    top = os.path.realpath(root) + "/"
    for path in paths:
        try:
            with opened(top + path, real=True) as (fd, size):
                data = os.read(fd, size + 1)
                digest = content_hash(data, rules)
                while len(data) > size and (data := os.read(fd, 2**20)):  # it grew meanwhile
                    digest.update(data)
        except OSError:
            continue
        out[path] = digest.digest()
    return out


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
