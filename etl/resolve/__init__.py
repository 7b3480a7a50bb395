"""From every file's facts to its part of the graph: nodes, and edges bound across the repository.

A pure function of all facts: the order of the files does not matter and equal input gives equal
bytes, so an incremental run that binds again what a change can touch gives what a clean run gives.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from etl.facts import FileFacts
from etl.resolve.bindings import Bindings, collector_off
from etl.resolve.parts import FilePart, OtherFile, other_part, repo_node

__all__ = [
    "Bindings",
    "FilePart",
    "OtherFile",
    "collector_off",
    "other_part",
    "repo_node",
    "resolve",
]


def resolve(
    repo: str, files: Sequence[FileFacts], others: Sequence[OtherFile] = ()
) -> Iterator[FilePart]:
    """Each file's part of the graph, by path: code files first, then `others`."""
    bindings = Bindings(repo, track=False)
    with collector_off():
        bindings.update({facts.path: facts for facts in files}, ())
        for path in sorted(facts.path for facts in files):
            yield bindings.part(path)
    for other in sorted(others, key=attrgetter("path")):
        yield other_part(repo, other)
