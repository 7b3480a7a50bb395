"""The trees that goldens are recorded over: releases, fetched once from the registries of their languages."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.polyglot_corpus import Project, fetch

QUERIES = Path(__file__).with_name("queries.jsonl")


@dataclass(frozen=True, slots=True)
class Tree:
    """`name`: what it is indexed as. `graph`: its graph is dumped; `searched`: it is searched."""

    name: str
    project: Project
    graph: bool = False
    searched: bool = False


def _tree(name: str, language: str, package: str, version: str, source: str, use: str) -> Tree:
    keep = ("src",) if package in {"rxjs", "@tanstack/query-core", "@reduxjs/toolkit"} else ()
    project = Project(language, package, version, False, source, keep)
    return Tree(name, project, "g" in use, "s" in use)


# Every tree that is searched has fewer chunks than the semantic arm compares one by one: HNSW draws its levels
# at random, so that what it finds is not the same after each build.
TREES = (
    _tree("flask", "python", "flask", "3.0.3", "sdist", "gs"),
    _tree("click", "python", "click", "8.1.7", "sdist", "gs"),
    _tree("httpx", "python", "httpx", "0.27.0", "sdist", "s"),
    _tree("starlette", "python", "starlette", "0.37.0", "sdist", "s"),
    _tree("attrs", "python", "attrs", "23.1.0", "sdist", "s"),
    _tree("jinja2", "python", "jinja2", "3.1.4", "sdist", "s"),
    _tree("werkzeug", "python", "werkzeug", "2.3.0", "sdist", "s"),
    _tree("fastify", "javascript", "fastify", "4.28.1", "npm", "gs"),
    _tree("express", "javascript", "express", "4.18.2", "npm", "g"),
    _tree("rxjs", "typescript", "rxjs", "7.8.1", "npm", "gs"),
    _tree("query-core", "typescript", "@tanstack/query-core", "5.108.0", "npm", "s"),
    _tree("toolkit", "typescript", "@reduxjs/toolkit", "2.2.7", "npm", "gs"),
    _tree("gson", "java", "com.google.code.gson:gson", "2.11.0", "maven", "gs"),
    _tree("jsoup", "java", "org.jsoup:jsoup", "1.15.3", "maven", "g"),
    _tree("cobra", "go", "github.com/spf13/cobra", "v1.6.1", "go", "gs"),
    _tree("gin", "go", "github.com/gin-gonic/gin", "v1.8.1", "go", "g"),
)  # fmt: skip


def folder(tree: Tree, cache: Path) -> Path:
    """The unpacked tree.

    Raises:
        subprocess.CalledProcessError: its registry's tool can't fetch it.
    """
    if tree.project.source == "go":
        return _go(tree.project, cache / "trees")
    return fetch(tree.project, cache / "trees")


def _go(project: Project, cache: Path) -> Path:
    target = cache / project.key
    if not target.is_dir():
        cache.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=cache) as scratch:
            wanted = f"{project.name}@{project.version}"
            out = subprocess.run(
                ["go", "mod", "download", "-modcacherw", "-json", wanted],
                check=True,
                capture_output=True,
                cwd=scratch,
                env={**os.environ, "GOMODCACHE": f"{scratch}/mod"},
            )
            shutil.copytree(json.loads(out.stdout)["Dir"], f"{scratch}/tree")
            Path(scratch, "tree").rename(target)
    return target


def commit_messages(names: Iterable[str]) -> dict[str, list[str]]:
    """By tree the messages of commits made on its release, of queries.jsonl."""
    found: dict[str, list[str]] = {name: [] for name in names}
    for line in QUERIES.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        if row["tree"] in found:
            found[row["tree"]].append(row["query"])
    return found
