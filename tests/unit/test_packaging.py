"""What is installed under our generic names, and that everything of ours is."""

from __future__ import annotations

import importlib.metadata
import re
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOP = ("plait", "vector", "graph", "etl", "server")


def pyproject() -> dict[str, object]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_is_found_and_nothing_else() -> None:
    include = pyproject()["tool"]["setuptools"]["packages"]["find"]["include"]  # type: ignore[index]
    assert sorted(include) == sorted(pattern for top in TOP for pattern in (top, f"{top}.*"))
    for top in TOP:
        for module in (ROOT / top).rglob("*.py"):  # without the file, a folder would not be found
            assert (module.parent / "__init__.py").exists(), module


def test_no_other_installed_distribution_owns_our_names() -> None:
    owners = importlib.metadata.packages_distributions()
    for name in TOP:
        assert set(owners.get(name, ["plait"])) == {"plait"}, name


def test_every_dependency_is_pinned_in_the_constraints() -> None:
    normal = re.compile(r"[-_.]+")
    pinned = {
        normal.sub("-", line.partition("==")[0]).lower()
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = pyproject()["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]  # type: ignore[index]
    for requirement in wanted:
        name = re.split(r"[\[<>=~! ;]", requirement)[0]
        if name != "plait":
            assert normal.sub("-", name).lower() in pinned, requirement
