"""The trees behind a localisation set: fetched by pip, cut into chunks by Plait's own ETL, embedded."""

from __future__ import annotations

import json
import posixpath
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from etl import languages
from etl.languages.names import is_test_path, module_name
from etl.parsing import chunk
from etl.source.walk import walk
from plait.domain.values import embedded_text
from plait.ports import EmbeddingProvider, Vectors


@dataclass(frozen=True, slots=True)
class Query:
    """A commit message and what the commit changed: `functions` are `path::Qualified.name`."""

    package: str
    text: str
    files: frozenset[str]
    functions: frozenset[str]


@dataclass(frozen=True, slots=True)
class Piece:
    """A chunk with its place. `function` is `path::Qualified.name`, "" outside any symbol."""

    path: str
    symbol: str
    function: str
    kind: str
    language: str
    start_line: int
    end_line: int
    content: str
    content_hash: bytes
    is_test: bool

    @property
    def text(self) -> str:
        return embedded_text(self.path, self.symbol, self.content)


def read_queries(path: Path) -> tuple[list[Query], dict[str, str]]:
    """The queries, and each package's version."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    versions = {row["package"]: row["version"] for row in rows}
    queries = [
        Query(r["package"], r["query"], frozenset(r["files"]), frozenset(r["functions"]))
        for r in rows
    ]
    return queries, versions


def read_changes(path: Path, release: str) -> tuple[list[Query], dict[str, str]]:
    """As `read_queries`, of a set of changes of several files each: those made on `release`, given as
    `OWNER/PACKAGE@VERSION`, by their messages."""
    repo, _, version = release.partition("@")
    package = repo.rpartition("/")[2]
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line]
    queries = [
        Query(
            package,
            row["message"],
            frozenset(row["files"]),
            frozenset(
                f"{path}::{name}" for path, names in row["functions"].items() for name in names
            ),
        )
        for row in rows
        if (row["repo"], row["release"], row["in_release"]) == (repo, version, True)
    ]
    return queries, {package: version}


def fetch(package: str, version: str, folder: Path) -> Path:
    """The unpacked source distribution, downloaded once into `folder`."""
    target = folder / f"{package}-{version}"
    if not target.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        command += ["--no-binary", package, "--dest", str(folder), f"{package}=={version}"]
        subprocess.run(command, check=True)
        (archive,) = (
            path
            for path in folder.glob("*.tar.gz")
            if path.name.lower() == f"{package}-{version}.tar.gz"
        )
        unpacked = folder / f".{package}-{version}"
        with tarfile.open(archive) as tar:
            tar.extractall(unpacked, filter="data")
        (root,) = unpacked.iterdir()
        root.rename(target)
        unpacked.rmdir()
    return target


_extractor = cache(languages.extractor)


def pieces(root: Path) -> list[Piece]:
    """Every chunk of the tree, as `plait index` cuts it."""
    found = walk(root, max_file_bytes=1_000_000)
    packages = frozenset(
        posixpath.dirname(f.path) for f in found.files if f.path.endswith("/__init__.py")
    )
    return [piece for f in found.files for piece in _pieces_of(root, f.path, packages)]


def _pieces_of(root: Path, path: str, packages: frozenset[str]) -> Iterator[Piece]:
    source = (root / path).read_bytes()
    language = languages.language_of(path)
    text = chunk.decode(source)
    is_test = is_test_path(path, language)
    prefix = ""
    if not languages.is_code(language):
        raw = chunk.chunk_text(path, language, text, is_test=is_test)
    else:
        facts = _extractor(language).extract(source, path, module_name(path, language, packages))
        prefix = facts.module + "."
        raw = chunk.chunk_code(source, text, facts, is_test=is_test)
    for c in raw:
        name = c.symbol.removeprefix(prefix) if c.symbol.startswith(prefix) and prefix else ""
        yield Piece(
            path=path,
            symbol=c.symbol,
            function=f"{path}::{name.partition('#')[0]}" if name else "",
            kind=c.kind,
            language=language,
            start_line=c.start_line,
            end_line=c.end_line,
            content=c.content,
            content_hash=c.content_hash,
            is_test=c.is_test,
        )


async def embed(texts: Sequence[Piece], provider: EmbeddingProvider, folder: Path) -> Vectors:
    """Vectors of the pieces, kept in `folder` by model and content hash."""
    file = folder / f"{provider.model.replace('/', '_').replace(':', '_')}.npz"
    known = _kept(file)
    todo = list({p.content_hash: p.text for p in texts if p.content_hash not in known}.items())
    for start in range(0, len(todo), 2048):
        part = todo[start : start + 2048]
        made = await provider.embed_documents([text for _, text in part])
        known |= {h: v.astype(np.float16) for (h, _), v in zip(part, made, strict=True)}
        print(f"  embedded {start + len(part)} of {len(todo)}", file=sys.stderr)
    if todo:
        _keep(file, known)
    return np.array([known[p.content_hash] for p in texts], np.float32)


Kept = dict[bytes, npt.NDArray[np.float16]]


def _kept(file: Path) -> Kept:
    if not file.is_file():
        return {}
    with np.load(file) as kept:
        return {bytes(h): v for h, v in zip(kept["hashes"], kept["vectors"], strict=True)}


def _keep(file: Path, known: Kept) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    keys = np.array([np.frombuffer(h, np.uint8) for h in known])
    partial = file.with_suffix(".part.npz")
    np.savez(partial, hashes=keys, vectors=np.array(list(known.values())))
    partial.replace(file)
