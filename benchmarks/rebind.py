"""Edit a tree's sources at random and bind again: is it what binding everything anew gives, and how fast?

    python -m benchmarks.rebind DIR --rounds 300 --seed 1

Each round makes one to three edits (a line of a body, a function or class added, renamed or removed, an
import or a base changed, a file added, moved, removed or broken, a package made or unmade), updates the
bindings that a service would hold, and compares every file's part, byte for byte, with those of all facts
bound anew. `--check N` compares in every Nth round only, which is what it takes to time large trees;
`--only edit_body` times the saves that an editor makes most.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from etl.facts import FileFacts
from etl.languages import extractor, is_code, language_of
from etl.languages.names import module_name
from etl.resolve import Bindings, FilePart, resolve
from plait.domain.graph import encode_edges, encode_nodes

Files = dict[str, str]
_SCRIPT = re.compile(
    r"^(\s*)(?:(?:export|default|declare|abstract|async) +)*"
    r"(?:function\*?|class|interface|enum|namespace|type|const|let) +(\w+)",
    re.M,
)
# Of what is no statement, so that `return f(x)` defines nothing.
_JAVA = re.compile(
    r"^(\s*)(?:(?:public|protected|private|static|final|abstract|default) +)+"
    r"(?:[\w<>\[\], ?]+ +)?(\w+)(?= *(?:[({]|extends|implements))",
    re.M,
)
_GO = re.compile(r"^()(?:func (?:\([^)]*\) )?|type )(\w+)", re.M)
_DEFINITIONS = {
    "javascript": _SCRIPT,
    "typescript": _SCRIPT,
    "tsx": _SCRIPT,
    "java": _JAVA,
    "go": _GO,
}
_DEFINITION = re.compile(r"^(\s*)(?:async )?(?:def|class|func|function|interface) +(\w+)", re.M)
_IMPORT = re.compile(
    r"^(?:import|from|export [^\n]* from|(?:const|let|var) [^\n]*require)\b[^\n]*\n"
    r'|^\t(?:[\w.]+ )?"[^"\n]+"\n',  # in Go's brackets
    re.M,
)
_PACKAGE = re.compile(r"^package +[\w.]+;?$", re.M)


def definitions(path: str, text: str) -> list[re.Match[str]]:
    """Where functions and types begin: (indentation, name)."""
    return list(_DEFINITIONS.get(language_of(path), _DEFINITION).finditer(text))


def _of_language(rng: random.Random, files: Files, path: str) -> str:
    """Another file, or the same, of the language of `path`."""
    return rng.choice([p for p in files if language_of(p) == language_of(path)])


def read(root: Path) -> Files:
    """The sources below `root` that are parsed, by path."""
    found = {}
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root).as_posix()
        if path.is_file() and is_code(language_of(name)) and path.stat().st_size < 1_000_000:
            found[name] = path.read_text("utf-8", "replace")
    return found


class Tree:
    """Sources with their facts: what is edited is read again."""

    def __init__(self, files: Files) -> None:
        self.files = dict(files)
        self.facts: dict[str, FileFacts] = {}
        self._packages: frozenset[str] = frozenset()
        self.refresh(set(files))

    def refresh(self, touched: set[str]) -> tuple[dict[str, FileFacts], set[str]]:
        """`(changed, removed)` after edits of `touched`; a file whose module has another name is changed."""
        self._packages = frozenset(
            PurePosixPath(p).parent.as_posix().removeprefix(".")
            for p in self.files
            if p.rpartition("/")[2] == "__init__.py"
        )
        changed = {}
        for path, text in self.files.items():
            language = language_of(path)
            module = module_name(path, language, self._packages)
            known = self.facts.get(path)
            if (
                path in touched
                or known is None
                or (language == "python" and known.module != module)
            ):
                changed[path] = extractor(language).extract(text.encode(), path, module)
        removed = self.facts.keys() - self.files.keys()
        for path in removed:
            del self.facts[path]
        self.facts |= changed
        return changed, set(removed)


def _lines(rng: random.Random, text: str) -> tuple[list[str], int]:
    lines = text.splitlines(keepends=True) or ["\n"]
    return lines, rng.randrange(len(lines))


def edit_body(rng: random.Random, files: Files, path: str) -> set[str]:
    """Repeat, remove or swap a line."""
    lines, at = _lines(rng, files[path])
    what = rng.randrange(3)
    if what == 0:
        lines.insert(at, lines[rng.randrange(len(lines))])
    elif what == 1:
        del lines[at]
    else:
        other = rng.randrange(len(lines))
        lines[at], lines[other] = lines[other], lines[at]
    files[path] = "".join(lines)
    return {path}


def rename(rng: random.Random, files: Files, path: str) -> set[str]:
    """Give a definition another name, in its file only or everywhere."""
    found = definitions(path, files[path])
    if not found:
        return edit_body(rng, files, path)
    old = rng.choice(found)[2]
    others = [each[2] for each in found]
    new = rng.choice([f"{old}_new", rng.choice(others)])
    word = re.compile(rf"\b{re.escape(old)}\b")
    where = list(files) if rng.random() < 0.3 else [path]
    touched = {p for p in where if word.search(files[p])}
    for each in touched:
        files[each] = word.sub(new, files[each])
    return touched


def move_lines(rng: random.Random, files: Files, path: str) -> set[str]:
    """Put a definition's lines into another file of the same language, or only take them out."""
    found = definitions(path, files[path])
    if not found:
        return edit_body(rng, files, path)
    start = rng.choice(found).start()
    end = next((m.start() for m in found if m.start() > start and m[1] == ""), len(files[path]))
    piece = files[path][start:end]
    files[path] = files[path][:start] + files[path][end:]
    if rng.random() < 0.5:
        return {path}
    other = _of_language(rng, files, path)
    files[other] += "\n" + piece
    return {path, other}


def change_imports(rng: random.Random, files: Files, path: str) -> set[str]:
    """Take an import out, or another file's in."""
    own = list(_IMPORT.finditer(files[path]))
    if own and rng.random() < 0.5:
        each = rng.choice(own)
        files[path] = files[path][: each.start()] + files[path][each.end() :]
        return {path}
    others = list(_IMPORT.finditer(files[_of_language(rng, files, path)]))
    if not others:
        return edit_body(rng, files, path)
    clause = _PACKAGE.search(files[path])
    at = own[0].start() if own else clause.end() + 1 if clause else 0
    files[path] = files[path][:at] + rng.choice(others)[0] + files[path][at:]
    return {path}


def swap_words(rng: random.Random, files: Files, path: str) -> set[str]:
    """Let a line (an import, a base, a call) name something else of the tree."""
    lines, _ = _lines(rng, files[path])
    wanted = [
        i
        for i, line in enumerate(lines)
        if re.search(r"import|class|return|=|extends|func|type", line)
    ]
    if not wanted:
        return edit_body(rng, files, path)
    at = rng.choice(wanted)
    words = re.findall(r"[A-Za-z_]\w{3,}", lines[at])
    other = re.findall(r"[A-Za-z_]\w{3,}", files[rng.choice(list(files))])
    if words and other:
        lines[at] = re.sub(rf"\b{rng.choice(words)}\b", rng.choice(other), lines[at])
    files[path] = "".join(lines)
    return {path}


def move_file(rng: random.Random, files: Files, path: str) -> set[str]:
    """Move, copy or remove a file."""
    text = files[path]
    what = rng.randrange(3)
    if what != 1:
        del files[path]
    if what != 2:
        folder = rng.choice(list(files) or [path]).rpartition("/")[0]
        stem, _, suffix = path.rpartition("/")[2].rpartition(".")
        name = rng.choice([f"{stem}.{suffix}", f"{stem}_moved.{suffix}"])
        path = f"{folder}/{name}" if folder else name
        files[path] = text
        return {path}
    return set()


def package(rng: random.Random, files: Files, path: str) -> set[str]:
    """Make a folder a package, or no package any more; or let a file belong to another's."""
    clause = _PACKAGE.search(files[path])
    other = _PACKAGE.search(files[_of_language(rng, files, path)])
    if clause and other:
        files[path] = files[path][: clause.start()] + other[0] + files[path][clause.end() :]
        return {path}
    folder = path.rpartition("/")[0]
    own = f"{folder}/__init__.py" if folder else "__init__.py"
    if own in files:
        del files[own]
        return set()
    if not path.endswith(".py"):
        return edit_body(rng, files, path)
    files[own] = f"from .{path.rpartition('/')[2].removesuffix('.py')} import *\n"
    return {own}


def break_syntax(rng: random.Random, files: Files, path: str) -> set[str]:
    """Cut a file off, or put a stray bracket into it."""
    at = rng.randrange(len(files[path]) + 1)
    cut = rng.random() < 0.5
    files[path] = files[path][:at] + ("" if cut else "(" + files[path][at:])
    return {path}


EDITS: tuple[Callable[[random.Random, Files, str], set[str]], ...] = (
    edit_body,
    edit_body,
    edit_body,
    rename,
    move_lines,
    change_imports,
    swap_words,
    swap_words,
    move_file,
    package,
    break_syntax,
)


def encoded(part: FilePart) -> tuple[bytes, bytes, dict[str, int]]:
    return encode_nodes(part.nodes), encode_edges(part.edges), dict(part.unresolved)


class Incremental:
    """Bindings that follow edits, with every file's encoded part."""

    def __init__(self, tree: Tree) -> None:
        self._bindings = Bindings("r")
        self.parts: dict[str, tuple[bytes, bytes, dict[str, int]]] = {}
        self.update(tree.facts, set())

    @property
    def size(self) -> int:
        return self._bindings.size

    def update(self, changed: dict[str, FileFacts], removed: set[str]) -> int:
        """How many files were bound again."""
        again = self._bindings.update(changed, removed)
        for path in removed:
            del self.parts[path]
        for path in again:
            self.parts[path] = encoded(self._bindings.part(path))
        return len(again)


def differing(incremental: Incremental, tree: Tree) -> list[str]:
    """The files whose part is not that of a clean binding."""
    clean = {part.path: encoded(part) for part in resolve("r", list(tree.facts.values()))}
    paths = clean.keys() | incremental.parts.keys()
    return sorted(p for p in paths if clean.get(p) != incremental.parts.get(p))


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("root", type=Path)
    parser.add_argument("--rounds", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--check", type=int, default=1, help="compare in every Nth round")
    parser.add_argument(
        "--only", default="", help="comma-separated names of edits (edit_body, rename …)"
    )
    args = parser.parse_args()
    rng = random.Random(args.seed)
    tree = Tree(read(args.root))
    start = time.process_time()
    incremental = Incremental(tree)
    print(f"{len(tree.files)} files bound in {time.process_time() - start:.2f} CPU s, "
          f"about {incremental.size >> 20} MB kept")  # fmt: skip
    edits = [e for e in EDITS if not args.only or e.__name__ in args.only.split(",")]
    took, again, wrong = [], [], 0
    for number in range(1, args.rounds + 1):
        touched: set[str] = set()
        names = []
        for _ in range(rng.choice((1, 1, 1, 2, 3))):
            each = rng.choice(edits)
            names.append(each.__name__)
            touched |= each(rng, tree.files, rng.choice(list(tree.files)))
        changed, removed = tree.refresh(touched)
        start = time.process_time()
        again.append(incremental.update(changed, removed))
        took.append(time.process_time() - start)
        if number % args.check == 0 and (bad := differing(incremental, tree)):
            wrong += 1
            print(f"round {number} ({', '.join(names)}): {len(bad)} files differ: {bad[:5]}")
            incremental = Incremental(tree)
    cuts = statistics.quantiles(took, n=20)
    print(f"{args.rounds} rounds, {wrong} wrong; CPU ms a round: median {cuts[9] * 1e3:.1f}, "
          f"95 % {cuts[18] * 1e3:.1f}, most {max(took) * 1e3:.1f}; files bound again: median "
          f"{statistics.median(again):.0f}, most {max(again)}")  # fmt: skip
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
