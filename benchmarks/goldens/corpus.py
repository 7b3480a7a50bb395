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
    """`name`: what it is indexed as."""

    name: str
    project: Project


def _tree(name: str, language: str, source: str, package: str, version: str, *keep: str) -> Tree:
    return Tree(name, Project(language, package, version, False, source, keep))


# Of each language with calls two whole trees, whose graphs are dumped.
GRAPHS = (
    _tree("flask", "python", "sdist", "flask", "3.0.3"),
    _tree("click", "python", "sdist", "click", "8.1.7"),
    _tree("fastify", "javascript", "npm", "fastify", "4.28.1"),
    _tree("express", "javascript", "npm", "express", "4.18.2"),
    _tree("rxjs", "typescript", "npm", "rxjs", "7.8.1", "src"),
    _tree("toolkit", "typescript", "npm", "@reduxjs/toolkit", "2.2.7", "src"),
    _tree("gson", "java", "maven", "com.google.code.gson:gson", "2.11.0"),
    _tree("jsoup", "java", "maven", "org.jsoup:jsoup", "1.15.3"),
    _tree("cobra", "go", "go", "github.com/spf13/cobra", "v1.6.1"),
    _tree("gin", "go", "go", "github.com/gin-gonic/gin", "v1.8.1"),
)

# What is searched: parts of trees, as each chunk's vector costs some 20 ms. Each has fewer chunks than the semantic
# arm compares one by one; HNSW, which takes over beyond, draws its levels at random and finds other things after
# each build.
SEARCHED = (
    _tree("click", "python", "sdist", "click", "8.1.7", "src", "tests"),
    _tree("httpx", "python", "sdist", "httpx", "0.27.0", "httpx"),
    _tree("starlette", "python", "sdist", "starlette", "0.37.0", "starlette", "docs"),
    _tree("jinja2", "python", "sdist", "jinja2", "3.1.4", "src"),
    _tree("flask", "python", "sdist", "flask", "3.0.3", "src"),
    _tree("fastify", "javascript", "npm", "fastify", "4.28.1", "lib"),
    _tree("query-core", "typescript", "npm", "@tanstack/query-core", "5.108.0", "src"),
    _tree("gson", "java", "maven", "com.google.code.gson:gson", "2.11.0"),
    _tree("cobra", "go", "go", "github.com/spf13/cobra", "v1.6.1"),
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
