"""Searches and recalls over code: commit messages, questions, issues' texts, diffs and stack traces."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from benchmarks.goldens import answers, attached
from benchmarks.goldens.cases import Cases
from benchmarks.goldens.corpus import SEARCHED, commit_messages, folder
from benchmarks.goldens.under_test import Checkout, Server, serving
from benchmarks.issue_texts import TEXTS, read_texts
from benchmarks.questions import HALVES, questions

MAX_QUERY = 8_000  # bytes; a longer text is attached
ATTACHED = frozenset({"click", "fastify", "query-core", "gson", "cobra"})  # of each language one


def record(checkout: Checkout, cache: Path) -> dict[str, Cases]:
    """By set and tree the hits and the context of each text."""
    with serving(checkout) as server:
        roots = {tree.name: folder(tree, cache) for tree in SEARCHED}
        for name, root in roots.items():
            server.index(name, root)
        found = {
            "commits": dict(_commits(server)),
            "questions": dict(_questions(server)),
            "issues": dict(_issues(server)),
        }
        for name in sorted(ATTACHED):
            found[f"attached-{name}"] = dict(_attached(server, name, roots[name]))
    return found


def _both(server: Server, query: str, repo: str) -> list[str]:
    found = answers.searched(server.wire, query, [repo])
    return [f"query: {query!r}", *found, *answers.recalled(server.wire, query, [repo])]


def _commits(server: Server) -> Iterator[tuple[str, list[str]]]:
    messages = commit_messages(tree.name for tree in SEARCHED)
    for name, texts in messages.items():
        for n, text in enumerate(texts):
            yield f"{name} {n}", _both(server, text, name)


def _questions(server: Server) -> Iterator[tuple[str, list[str]]]:
    names = {tree.project.name: tree.name for tree in SEARCHED}
    asked = [question for half, file in HALVES.items() for question in questions(file, half)]
    for n, question in enumerate(asked):
        if name := names.get(question.project):
            yield f"{name} {n}", _both(server, question.text, name)


def _issues(server: Server) -> Iterator[tuple[str, list[str]]]:
    """As a query, and attached to one. What is asked of a release that is another one is asked nonetheless."""
    texts, _ = read_texts(TEXTS)
    names = {tree.project.name: tree.name for tree in SEARCHED}
    for n, issue in enumerate(texts):
        if name := names.get(issue.package):
            lines = answers.recalled(server.wire, "", [name], issue.text)
            if len(issue.text.encode()) < MAX_QUERY:
                lines = [*_both(server, issue.text, name), *lines]
            yield f"{name} {n}", lines


def _attached(server: Server, name: str, root: Path) -> Iterator[tuple[str, list[str]]]:
    texts = {"diff": attached.diffs(root), "trace": attached.traces(root)}
    for kind, given in texts.items():
        for n, text in enumerate(given):
            yield f"{kind} {n}", answers.recalled(server.wire, "", [name], text)
        if given:
            lines = answers.recalled(server.wire, "what does this break", [name], given[0])
            yield f"{kind} asked about", lines
            shapes = {"repo map": "RECALL_FORMAT_REPO_MAP", "items": "RECALL_FORMAT_STRUCTURED"}
            for shape, value in shapes.items():
                lines = answers.recalled(server.wire, "", [name], given[0], format=value)
                yield f"{kind} as {shape}", lines
