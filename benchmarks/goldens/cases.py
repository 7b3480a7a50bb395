"""Recorded cases: named blocks of text in gzipped files, their digests, and what differs between two records."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import unified_diff
from hashlib import blake2b
from pathlib import Path

Cases = dict[str, list[str]]  # by name the lines of a case
Digests = dict[str, dict[str, str]]  # by file, by name
HEAD = "== "
COMMITTED = Path(__file__).with_name("digests.json")


def write(folder: Path, name: str, cases: Mapping[str, Sequence[str]]) -> None:
    """Write `cases` to `folder/name.txt.gz`, in their order; equal cases give equal bytes."""
    text = "".join(
        f"{HEAD}{case}\n" + "".join(f" {line}\n" for line in lines) for case, lines in cases.items()
    )
    path = folder / f"{name}.txt.gz"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(text.encode("utf-8", "surrogateescape"), mtime=0))


def read(path: Path) -> Cases:
    """What `write` wrote."""
    cases: Cases = {}
    lines: list[str] = []
    text = gzip.decompress(path.read_bytes()).decode("utf-8", "surrogateescape")
    for line in text.split("\n")[:-1]:
        if line.startswith(HEAD):
            lines = cases[line.removeprefix(HEAD)] = []
        else:
            lines.append(line[1:])
    return cases


def load(folder: Path, parts: Sequence[str]) -> dict[str, Cases]:
    """Every recorded file of `parts` under `folder`, by name."""
    found = sorted(path for part in parts for path in (folder / part).rglob("*.txt.gz"))
    return {str(p.relative_to(folder)).removesuffix(".txt.gz"): read(p) for p in found}


def digests(record: Mapping[str, Cases]) -> Digests:
    return {
        file: {case: _digest(lines) for case, lines in cases.items()}
        for file, cases in record.items()
    }


def _digest(lines: Sequence[str]) -> str:
    text = "\n".join(lines).encode("utf-8", "surrogateescape")
    return blake2b(text, digest_size=6).hexdigest()


def commit(record: Mapping[str, Cases], parts: Sequence[str]) -> None:
    """Replace what digests.json has of `parts` by the digests of `record`."""
    others = {file: d for file, d in committed(()).items() if file.partition("/")[0] not in parts}
    text = json.dumps(dict(sorted((others | digests(record)).items())), indent=0)
    COMMITTED.write_text(text + "\n", encoding="utf-8")


def committed(parts: Sequence[str]) -> Digests:
    """What digests.json has of `parts`; () means all of them."""
    if not COMMITTED.is_file():
        return {}
    found: Digests = json.loads(COMMITTED.read_text(encoding="utf-8"))
    return {f: d for f, d in found.items() if not parts or f.partition("/")[0] in parts}


def changed(before: Digests, after: Digests) -> list[tuple[str, str, str]]:
    """`(file, case, how)` of each case that is not in both with the same digest."""
    found = []
    for file in sorted(before.keys() | after.keys()):
        old, new = before.get(file, {}), after.get(file, {})
        for case in dict.fromkeys((*old, *new)):
            if old.get(case) != new.get(case):
                how = "differs" if case in old and case in new else "gone" if case in old else "new"
                found.append((file, case, how))
    return found


def difference(before: Sequence[str], after: Sequence[str], context: int = 1) -> Iterator[str]:
    """The lines that differ, as a unified diff without its heading."""
    lines = unified_diff(before, after, lineterm="", n=context)
    return (line for n, line in enumerate(lines) if n >= 2)
