"""The files that `ingest` reads (by name, from folders, from standard input), and their contents."""

from __future__ import annotations

import io
import os
import stat
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from etl.ingest.episode_json import Read
from etl.ingest.importers import registry
from etl.ingest.importers.draft import Options
from plait.domain.errors import EpisodeInvalid, PlaitError

MAX_FILES = 100_000  # of one folder
MAX_DEPTH = 32
STDIN = "-"

# Why a file of a folder is left out.
OTHER_ENDING = "other endings"
EMPTY = "empty"
NO_FILE = "links or no plain files"
UNKNOWN = "in no format that can be imported"


@dataclass(frozen=True, slots=True)
class Input:
    """A file. `found`: it comes from a folder, so when it can't be imported it is counted and left out."""

    name: str
    size: int = 0
    found: bool = False


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an importer read at one line of a file; `format` is "" while it is unknown."""

    file: str
    format: str
    read: Read


def inputs(names: Sequence[str], skipped: Counter[str]) -> Iterator[Input | ImportResult]:
    """The files behind `names`, in order; folders by name. A name that can't be read is an
    ImportResult with its error.

    `skipped` counts the files of folders that are left out, by reason.
    """
    for name in names:
        if name == STDIN:
            yield Input(STDIN)
            continue
        try:
            about = Path(name).stat()
        except (OSError, ValueError) as exc:
            yield _unreadable(name, exc)
            continue
        if stat.S_ISDIR(about.st_mode):
            yield from _folder(name, skipped)
        else:
            yield Input(name, about.st_size if stat.S_ISREG(about.st_mode) else 0)


def _folder(root: str, skipped: Counter[str]) -> Iterator[Input | ImportResult]:
    """Its files of known endings, sorted. Links are not followed: they may lead round, or out."""
    count = 0
    for folder, subfolders, files in os.walk(root, followlinks=False):
        depth = folder[len(root) :].count(os.sep)
        subfolders[:] = sorted(d for d in subfolders if d != ".git") if depth < MAX_DEPTH else []
        for file in sorted(files):
            if not file.lower().endswith(registry.ENDINGS):
                skipped[OTHER_ENDING] += 1
                continue
            path = Path(folder, file)
            try:
                about = path.lstat()
            except OSError as exc:
                yield _unreadable(str(path), exc)
                continue
            if not stat.S_ISREG(about.st_mode) or not about.st_size:
                skipped[EMPTY if stat.S_ISREG(about.st_mode) else NO_FILE] += 1
                continue
            count += 1
            if count > MAX_FILES:
                text = f"{root} holds more than {MAX_FILES:,} files; name its folders one by one"
                yield ImportResult(root, "", Read(1, None, EpisodeInvalid(text, path=root)))
                return
            yield Input(str(path), about.st_size, found=True)


def _unreadable(name: str, exc: OSError | ValueError) -> ImportResult:
    why = exc.strerror if isinstance(exc, OSError) and exc.strerror else str(exc)
    error = EpisodeInvalid(f"cannot read {name}: {why}; check the path", path=name)
    return ImportResult(name, "", Read(1, None, error))


def read(
    source: Input,
    format_: str,
    options: Options,
    seen: Callable[[int], None],
    skipped: Counter[str],
) -> Iterator[ImportResult]:
    """The results of one file. Only errors that stop the whole run are raised; `seen` counts bytes."""
    detected = ""
    try:
        with _open(source.name) as raw:
            stream = io.BufferedReader(_Counted(raw, seen), registry.HEAD_BYTES)
            head = stream.peek(registry.HEAD_BYTES)
            if not head:
                raise EpisodeInvalid("the input is empty; docs/importers.md shows what can be read")
            detected = format_ or registry.detect(head, source.name)
            if source.found and not format_ and not _meant(detected, head):
                skipped[UNKNOWN] += 1
                return
            for one in registry.read(stream, source.name, detected, options):
                yield ImportResult(source.name, detected, one)
    except PlaitError as exc:
        if source.found and not detected:  # a folder may hold anything
            skipped[UNKNOWN] += 1
        else:
            yield ImportResult(source.name, detected, Read(1, None, exc))
    except OSError as exc:
        yield _unreadable(source.name, exc)


def _meant(format_: str, head: bytes) -> bool:
    """JSON in a folder is an episode when it looks like one: there is much other JSON."""
    return format_ != "episode" or b'"outcome"' in head


def _open(name: str) -> BinaryIO:
    if name == STDIN:
        return os.fdopen(os.dup(sys.stdin.fileno()), "rb", buffering=0)
    return Path(name).open("rb", buffering=0)


class _Counted(io.RawIOBase):
    """A raw stream that reports how many bytes were read."""

    def __init__(self, raw: BinaryIO, seen: Callable[[int], None]) -> None:
        self._raw, self._seen = raw, seen

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: object) -> int | None:
        n: int | None = self._raw.readinto(buffer)  # type: ignore[attr-defined]
        if n:
            self._seen(n)
        return n
