"""Whether what a hook says after an edit comes true: callers of changed signatures, over releases.

    python -m benchmarks.edit_advice click 8.0.4 8.1.8 [more PACKAGE OLD NEW]

The old release is indexed; each hunk of the difference to the new one is an edit of its own, as an agent makes
them one by one. A caller or override that is named is right when the new release has changed its source too, or no
longer has it (by Python's own parser, path and qualified name). That is strict where a call still fits by luck, and lenient where
the caller changed for a reason of its own; the last column is how often any function of the package
changed, what naming at random would reach.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import platformdirs

from benchmarks.hook_latency import service
from benchmarks.localisation_corpus import fetch
from plait.client import discovery
from plait.client.hooks import FileEdit, HookClient
from tests.processes import remove_home

CONTEXT = 3
CORPUS = Path(platformdirs.user_cache_dir("plait-benchmarks", appauthor=False))


def main() -> None:
    out = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else "")
    out.add_argument("releases", nargs="+", metavar="PACKAGE OLD NEW")
    words = out.parse_args().releases
    if len(words) % 3:
        out.error("give PACKAGE OLD NEW, as often as you like")
    print(f"{'':32} {'edits':>6} {'named':>6} {'right':>6} {'any function':>13}")
    for n in range(0, len(words), 3):
        package, old, new = words[n : n + 3]
        measure(
            package,
            fetch(package, old, CORPUS),
            fetch(package, new, CORPUS),
            f"{package} {old} → {new}",
        )


def measure(package: str, old: Path, new: Path, title: str) -> None:
    home = Path(tempfile.mkdtemp(prefix="plait-bench-", dir="/tmp"))
    home.chmod(0o711)
    env = {"PATH": os.environ["PATH"], "HOME": str(home), "PLAIT_HOME": str(home)}
    before, after = functions(old), functions(new)
    edits = named = right = 0
    try:
        with service(home, old.resolve(), env):
            address = discovery.running(home)
            assert address is not None
            with HookClient(address.target, timeout_s=60) as client:
                for edit in hunks(old.resolve(), new):
                    edits += 1
                    for path, name in callers(client, edit):
                        if (path, name) in before:
                            named += 1
                            right += before[path, name] != after.get((path, name))
    finally:
        remove_home(home)
    changed = sum(source != after.get(key) for key, source in before.items())
    share = f"{100 * right / named:.0f} %" if named else "–"
    any_of = f"{100 * changed / max(1, len(before)):.0f} %"
    print(f"{title:32} {edits:6} {named:6} {share:>6} {any_of:>13}")


def hunks(old: Path, new: Path) -> Iterator[FileEdit]:
    for path in sorted(old.rglob("*.py")):
        inside = path.relative_to(old)
        if not (new / inside).is_file() or "test" in str(inside):
            continue
        before, after = (
            (root / inside).read_text("utf-8", "replace").splitlines() for root in (old, new)
        )
        lines = list(difflib.unified_diff(before, after, n=CONTEXT, lineterm=""))[2:]
        hunk: list[str] = []
        for line in [*lines, "@@"]:
            if line.startswith("@@") and hunk:
                yield FileEdit(str(path), "\n".join(hunk))
                hunk = []
            hunk.append(line)


def callers(client: HookClient, edit: FileEdit) -> Iterator[tuple[str, str]]:
    """Path and qualified name, without its module, of what must change too."""
    for one in client.advise_edit([edit], budget_tokens=1000).remarks:
        if one.heading.startswith("Tests") or " " not in one.text or one.text.startswith("and "):
            continue
        place, _, symbol = one.text.partition(" ")
        path = place.rpartition(":")[0]
        module = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        parts = symbol.split(".")
        for n in range(len(parts), 0, -1):
            if f".{module}".endswith("." + ".".join(parts[:n])):
                yield path, ".".join(parts[n:])
                break


def functions(root: Path) -> Mapping[tuple[str, str], str]:
    """(path, qualified name) → the syntax tree of each function, docstring and all."""
    found: dict[tuple[str, str], str] = {}
    for path in sorted(root.rglob("*.py")):
        inside = str(path.relative_to(root))
        if "test" in inside:
            continue
        try:
            tree = ast.parse(path.read_text("utf-8", "replace"))
        except SyntaxError:
            continue
        _walk(tree, "", inside, found)
    return found


def _walk(node: ast.AST, outer: str, path: str, found: dict[tuple[str, str], str]) -> None:
    for child in ast.iter_child_nodes(node):
        name = outer
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{outer}.{child.name}" if outer else child.name
            if not isinstance(child, ast.ClassDef):
                found[path, name] = ast.dump(child)
        _walk(child, name, path, found)


if __name__ == "__main__":
    main()
