"""A parse worker: reads files, extracts facts, cuts chunks, counts words. `etl.parsing.pool` starts it.

It speaks frames on its standard streams and ends when its input ends, so it never outlives the
indexer by more than one batch. A file that takes too long ends it by a signal: nothing else stops a
parser written in C. One byte on the progress pipe for each file begun tells which file that was.
"""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import signal
import sys
from typing import BinaryIO

from etl import facts as facts_codec
from etl.facts import FileFacts, no_facts
from etl.languages import extractor, is_code
from etl.languages.names import module_name
from etl.parsing.chunk import RawChunk, chunk_code, chunk_text, decode
from etl.parsing.count import Vocabulary
from etl.parsing.minified import MAX_CHARS as MAX_MINIFIED
from etl.parsing.minified import is_minified
from etl.parsing.pipe import Reply, Setup, WireFile, WireJob, read_frame, write_frame
from etl.parsing.pipe import decode as decode_frame
from etl.source.files import NotAFile, content_hash, read_limited
from etl.source.secrets import Files

SNIFF_BYTES = 8000
MINIFIED = f"minified, its first {MAX_MINIFIED:,} characters"
GARBAGE = 100_000  # values between two collections
# The limit is CPU time, so that a busy machine doesn't change what is indexed; a file that hangs
# without using the CPU (a network folder) is given this many times as long on the clock, and no less
# than so many seconds: a short limit's six times is what a machine under load takes to load a grammar.
_WALL_FACTOR, _WALL_LEAST_S = 6, 30.0


class Skip(Exception):
    """This file is not indexed, and why."""


class Batch:
    """The reply to one batch as it grows."""

    def __init__(self, vocabulary: Vocabulary, secrets: Files) -> None:
        self.vocabulary = vocabulary
        self.secrets = secrets
        self.files: list[WireFile] = []
        self.skipped: list[tuple[str, str]] = []
        self.unparsed: list[tuple[str, str]] = []
        self.syntax_errors = 0
        self.symbols = 0
        self._words: list[int] = []  # of all chunks, as the vocabulary numbers them
        self._sizes: list[int] = []  # how many are each chunk's

    def add(self, job: WireJob, root: str, max_file_bytes: int) -> None:
        """Read, parse, cut and count one file."""
        try:
            source = read_source(f"{root}/{job.path}", max_file_bytes)
        except Skip as skip:
            self.skipped.append((job.path, str(skip)))
            return
        digest = content_hash(source, self.secrets.digest).digest()
        # From here on nothing sees what the file holds of credentials: as long as it, line for line.
        source, masked = self.secrets.mask(source, job.path, code=is_code(job.language))
        text = decode(source)
        if is_minified(source, job.language):
            self.unparsed.append((job.path, MINIFIED))
            facts, text = None, text[:MAX_MINIFIED]
        else:
            facts = self._extract(source, job)
        stored = facts
        if facts is None:
            # Facts without a symbol say that this version has looked: the next run need not try again.
            module = job.module or module_name(job.path, job.language)
            stored = no_facts(job.path, job.language, module) if is_code(job.language) else None
            chunks = chunk_text(job.path, job.language, text, is_test=job.is_test)
        else:
            chunks = chunk_code(source, text, facts, is_test=job.is_test)
            self.syntax_errors += facts.has_error
            self.symbols += len(facts.definitions) - 1
        self._count(job.path, facts.module if facts else job.module, chunks)
        self.files.append(
            WireFile(
                job.path,
                digest,
                job.language,
                len(source),
                source.count(b"\n") + (not source.endswith(b"\n") and bool(source)),
                facts_codec.encode(stored) if stored else b"",
                job.is_test,
                chunks,
                masked,
            )
        )

    def _extract(self, source: bytes, job: WireJob) -> FileFacts | None:
        if not job.module or not is_code(job.language):
            return None
        try:
            return extractor(job.language).extract(source, job.path, job.module)
        except MemoryError:
            self.unparsed.append((job.path, "parser out of memory"))
        except Exception as exc:  # a bug in an extractor must not lose the file's text
            self.unparsed.append((job.path, f"parser failed: {type(exc).__name__}: {exc}"[:300]))
        return None

    def _count(self, file: str, module: str, chunks: list[RawChunk]) -> None:
        """Add the chunks' words: their content's, those of the path, and twice those of the symbol's
        name in its module (measured in `plait.text.tokenize`)."""
        of, all_, sizes = self.vocabulary.of, self._words, self._sizes
        path = list(of(file))
        prefix = len(module) + 1
        for chunk in chunks:
            before = len(all_)
            name = list(of(chunk.symbol[prefix:]))
            all_ += path
            all_ += name
            all_ += name
            all_ += of(chunk.content)
            sizes.append(len(all_) - before)

    def reply(self) -> Reply:
        found = self.vocabulary.postings(self._words, self._sizes)
        return Reply(
            self.files,
            self.skipped,
            self.unparsed,
            self.syntax_errors,
            self.symbols,
            self.vocabulary.unsent(),
            found.lengths.tobytes(),
            found.distinct.tobytes(),
            found.terms.tobytes(),
            found.tfs.tobytes(),
        )


def read_source(path: str, max_file_bytes: int) -> bytes:
    """The bytes of a regular text file. Never blocks on a fifo, never follows a link.

    Raises: Skip, with the same causes as `etl.source.walk` (the file may have changed since the walk).
    """
    try:
        source = read_limited(path, max_file_bytes, real=True)
    except FileNotFoundError:
        raise Skip("removed while indexing") from None
    except NotAFile:
        raise Skip("not a regular file") from None
    except OSError:
        raise Skip("unreadable") from None
    if source is None:
        raise Skip("too large")
    if source.find(b"\0", 0, SNIFF_BYTES) >= 0:
        raise Skip("binary")
    return source


def serve(inp: BinaryIO, out: BinaryIO, progress: int) -> None:
    """Answer batches until the input ends."""
    first = read_frame(inp)
    if first is None:
        return
    setup = decode_frame(first, Setup)
    _limit_resources(setup.memory_bytes)
    # What is loaded stays, and a file's facts hold no cycles: the collector found nothing in a tenth of
    # the time. Syntax errors and exceptions make a few.
    gc.freeze()
    gc.set_threshold(GARBAGE, 10, 10)
    write_frame(out, "ready")
    vocabulary, secrets = Vocabulary(), Files(setup.rules)
    while (frame := read_frame(inp)) is not None:
        vocabulary.trim()
        batch = Batch(vocabulary, secrets)
        for job in decode_frame(frame, list[WireJob]):
            os.write(progress, b".")
            _set_timers(setup.timeout_s, job.share)
            batch.add(job, setup.root, setup.max_file_bytes)
            _set_timers(0.0)
        write_frame(out, batch.reply())


def _set_timers(timeout_s: float, share: float = 1.0) -> None:
    """Die by SIGPROF after `share` of `timeout_s` of CPU time, or by SIGALRM on the clock; 0 ends both."""
    signal.setitimer(signal.ITIMER_PROF, share * timeout_s)
    wall_s = max(timeout_s * _WALL_FACTOR, _WALL_LEAST_S) if timeout_s else 0.0
    signal.setitimer(signal.ITIMER_REAL, share * wall_s)


def _limit_resources(memory_bytes: int) -> None:
    """Cap the address space, so that one file can't take the machine's memory; no core dumps."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        # macOS knows the limit and refuses to set it.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_AS, (memory_bytes, memory_bytes))


def main(progress: int) -> None:
    """Serve on the standard streams; whatever else writes to standard output goes to the errors."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the indexer's to handle
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    inp = os.fdopen(os.dup(0), "rb")
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    serve(inp, out, progress)


if __name__ == "__main__":
    main(int(sys.argv[1]))
