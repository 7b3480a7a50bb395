"""The packages that the static table is trained on: fetched by their own clients, cut into chunks by Plait's own ETL."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

LIST = Path(__file__).with_name("packages.txt")


@dataclass(frozen=True, slots=True)
class Package:
    """One line of `packages.txt`."""

    registry: str
    name: str
    version: str
    licence: str
    held_out: bool

    @property
    def key(self) -> str:
        return f"{self.registry}-{self.name}-{self.version}".replace("/", "_").replace(":", "_")


def packages(file: Path = LIST) -> list[Package]:
    """Raises: ValueError, for a line that is none."""
    found = []
    for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), start=1):
        if not line or line.startswith("#"):
            continue
        fields = line.split()
        if len(fields) != 5 or fields[0] not in _COMMANDS or fields[4] not in ("train", "held-out"):
            raise ValueError(f"{file.name}:{number}: {line!r} is no package")
        registry, name, version, licence, part = fields
        found.append(Package(registry, name, version, licence, part == "held-out"))
    return found


def fetch(package: Package, folder: Path) -> Path:
    """The unpacked package, downloaded once into `folder`. Of PyPI the wheel: sources, and nothing is built.

    Raises: subprocess.CalledProcessError, with what the client said on stderr.
    """
    target = folder / package.key
    if target.is_dir():
        return target
    scratch = folder / f".{package.key}"
    scratch.mkdir(parents=True, exist_ok=True)
    subprocess.run(_COMMANDS[package.registry](package, scratch), check=True, cwd=scratch)
    (archive,) = (p for p in scratch.iterdir() if p.suffix in {".whl", ".tgz", ".jar"})
    tree = scratch / "tree"
    if archive.suffix == ".tgz":
        with tarfile.open(archive) as tar:
            tar.extractall(tree, filter="data")
    else:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(tree)
    tree.rename(target)
    archive.unlink()
    scratch.rmdir()
    return target


def _pip(package: Package, scratch: Path) -> Sequence[str]:
    wanted = f"{package.name}=={package.version}"
    pip = (sys.executable, "-m", "pip", "download", "--quiet", "--no-deps")
    return (*pip, "--only-binary", ":all:", "--dest", str(scratch), wanted)


def _npm(package: Package, scratch: Path) -> Sequence[str]:
    return ("npm", "pack", "--silent", f"{package.name}@{package.version}")


def _maven(package: Package, scratch: Path) -> Sequence[str]:
    artifact = f"-Dartifact={package.name}:{package.version}:jar:sources"
    return ("mvn", "-q", "-B", "dependency:copy", artifact, f"-DoutputDirectory={scratch}")


_COMMANDS = {"pypi": _pip, "npm": _npm, "maven": _maven}
