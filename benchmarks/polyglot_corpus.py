"""The trees of benchmarks/polyglot.py: two projects a language, one to tune on and one held out.

Debian's source packages are projects as their authors publish them, with tests, examples and docs, and `apt-get
source` brings them in any language; what Debian lacks comes from the package manager of its language. Each
tool fetches from where it is set up to.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

APT_SOURCES = Path("/etc/apt/sources.list.d/debian.sources")


@dataclass(frozen=True, slots=True)
class Project:
    """`keep`: the folders that are indexed, all of them when empty. `source`: a key of `_FETCH`."""

    language: str
    name: str
    version: str
    held_out: bool
    source: str = "debian"
    keep: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        label = "+".join((self.name, *self.keep)).replace("/", "_").replace(":", "_")
        return f"{label}-{self.version}"


PROJECTS = (
    Project("bash", "dracut", "059-4", False),
    Project("bash", "bats", "1.11.0", True, "npm"),
    Project("c", "libuv1", "1.44.2-1+deb12u1", False, keep=("src", "include")),
    Project("c", "tmux", "3.3a-3", True),
    Project("cpp", "leveldb", "1.23-4", False),
    Project("cpp", "spdlog", "1:1.10.0+ds-0.4", True),
    Project("csharp", "newtonsoft-json", "6.0.8+dfsg-1.1", False, keep=("Src/Newtonsoft.Json",)),
    Project("csharp", "keepass2", "2.47+dfsg-2", True, keep=("KeePassLib",)),
    Project("elixir", "elixir-lang", "1.14.0.dfsg-2", False, keep=("lib/mix",)),
    Project("elixir", "elixir-lang", "1.14.0.dfsg-2", True, keep=("lib/ex_unit", "lib/logger")),
    Project("go", "golang-github-spf13-cobra", "1.6.1-1", False),
    Project("go", "golang-github-gin-gonic-gin", "1.8.1-1", True),
    Project("haskell", "haskell-megaparsec", "9.2.2-1", False),
    Project("haskell", "xmonad", "0.17.1-1", True),
    Project("java", "com.google.code.gson:gson", "2.11.0", False, "maven"),
    Project("java", "jsoup", "1.15.3-1", True, keep=("src/main/java", "src/test/java/org/jsoup/nodes")),
    Project("javascript", "node-express", "4.18.2+~4.17.14-1", False),
    Project("javascript", "node-commander", "9.4.1-1", True),
    Project("kotlin", "com.squareup.okio:okio-jvm", "3.9.0", False, "maven"),
    Project("kotlin", "io.ktor:ktor-server-core-jvm", "2.3.12", True, "maven"),
    Project("lua", "luarocks", "3.8.0+dfsg1-1", False),
    Project("lua", "awesome", "4.3-7", True, keep=("lib", "spec", "tests")),
    Project("php", "php-twig", "3.5.1-1+deb12u3", False),
    Project("php", "php-monolog", "2.9.1-1", True),
    Project("ruby", "jekyll", "4.3.1+dfsg-3+deb12u1", False, "gem"),
    Project("ruby", "ruby-actionpack", "2:6.1.7.10+dfsg-1~deb12u3", True, "gem"),
    Project("rust", "rust-ripgrep", "13.0.0-4", False),
    Project("rust", "rust-clap", "4.0.32-1", True),
    Project("scala", "com.softwaremill.sttp.client3:core_2.13", "3.9.7", False, "maven"),
    Project("scala", "com.typesafe.play:play-json_2.13", "2.10.5", True, "maven"),
    Project("swift", "lottie-ios", "4.5.0", False, "npm"),
    Project("swift", "expo-modules-core", "2.0.0", True, "npm", keep=("ios",)),
    Project("typescript", "rxjs", "7.8.1", False, "npm", keep=("src",)),
    Project("typescript", "@reduxjs/toolkit", "2.2.7", True, "npm", keep=("src/query",)),
    Project("zig", "ziglang", "0.13.0", False, "pypi", keep=("ziglang/lib/std/http", "ziglang/lib/std/json", "ziglang/lib/std/compress", "ziglang/lib/std/Build")),
    Project("zig", "ziglang", "0.13.0", True, "pypi", keep=("ziglang/lib/std/crypto", "ziglang/lib/std/hash")),
)  # fmt: skip

# Of benchmarks/questions.py: whole trees, searched uncut, each name once.
WHOLE = (
    Project("python", "flask", "3.0.3", False, "sdist"),
    Project("python", "scrapy", "2.11.0", False, "sdist"),
    Project("typescript", "rxjs", "7.8.1", False, "npm", keep=("src",)),
    Project("typescript", "@tanstack/query-core", "5.108.0", False, "npm", keep=("src",)),
    Project("go", "caddy", "2.6.2-5", False),
    Project("java", "libokhttp-java", "3.13.1-3", False),
    Project("cpp", "leveldb", "1.23-4", False),
    Project("cpp", "ninja-build", "1.11.1-2~deb12u1", False),
    Project("ruby", "puma", "5.6.5-3+deb12u1", False),
    Project("ruby", "ruby-sidekiq", "6.4.1+dfsg-1", False),
    Project("swift", "lottie-ios", "4.5.0", False, "npm"),
    Project("elixir", "elixir-lang", "1.14.0.dfsg-2", False, keep=("lib/mix", "lib/iex", "lib/eex")),
    Project("lua", "luarocks", "3.8.0+dfsg1-1", False),
    Project("bash", "dracut", "059-4", False),
    Project("bash", "password-store", "1.7.4-6", False),
    Project("javascript", "fastify", "4.28.1", True, "npm"),
    Project("rust", "rust-clap", "4.0.32-1", True),
    Project("c", "tmux", "3.3a-3", True),
    Project("csharp", "keepass2", "2.47+dfsg-2", True, keep=("KeePassLib",)),
    Project("php", "composer", "2.5.5-1+deb12u5", True, keep=("src", "tests/Composer/Test/DependencyResolver", "tests/Composer/Test/Util")),
    Project("kotlin", "io.javalin:javalin", "6.1.3", True, "maven"),
    Project("scala", "com.twitter:finagle-core_2.13", "24.2.0", True, "maven"),
    Project("haskell", "haskell-shake", "0.19.7-1", True),
    Project("zig", "ziglang", "0.13.0", True, "pypi", keep=("ziglang/lib/std/crypto", "ziglang/lib/std/heap", "ziglang/lib/std/Thread", "ziglang/lib/std/fs", "ziglang/lib/std/io")),
    Project("python", "celery", "5.4.0", True, "sdist", keep=("celery", "t/unit/app", "t/unit/worker", "t/unit/backends", "docs/userguide")),
)  # fmt: skip


def fetch(project: Project, folder: Path) -> Path:
    """The unpacked tree, downloaded once into `folder`.

    Raises:
        subprocess.CalledProcessError: the tool can't fetch it; what it said is on stderr.
    """
    target = folder / project.key
    if target.is_dir():
        return target
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as scratch:
        archive = _FETCH[project.source](project, Path(scratch))
        tree = Path(scratch, "tree")
        _unpack(archive, tree)
        inner = list(tree.iterdir())
        root = inner[0] if len(inner) == 1 and inner[0].is_dir() and not project.keep else tree
        if project.keep:
            top = inner[0] if len(inner) == 1 and project.source != "pypi" else tree
            root = Path(scratch, "kept")
            for part in project.keep:
                shutil.copytree(top / part, root / part)
        root.rename(target)
    return target


def _unpack(archive: Path, target: Path) -> None:
    if archive.suffix in {".jar", ".whl", ".zip"}:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(target)
        return
    with tarfile.open(archive) as tar:
        tar.extractall(target, filter="data")


def _only(folder: Path, pattern: str) -> Path:
    (found,) = folder.glob(pattern)
    return found


def _debian(project: Project, scratch: Path) -> Path:
    """Its sources need no setting of the system's: lists of their own, made of the system's own."""
    parts, lists = scratch.parent / "apt" / "parts", scratch.parent / "apt" / "lists"
    apt = ["apt-get", "-qq", "-o", f"Dir::State::lists={lists}", "-o", f"Dir::Etc::sourceparts={parts}"]  # fmt: skip
    apt += ["-o", f"Dir::Cache={scratch}", "-o", "Dir::Etc::sourcelist=/dev/null"]
    apt += ["-o", "APT::Sandbox::User=root"]
    if not lists.is_dir():
        (lists / "partial").mkdir(parents=True)
        parts.mkdir(exist_ok=True)
        stanza = APT_SOURCES.read_text(encoding="utf-8").replace("Types: deb\n", "Types: deb-src\n")
        (parts / "sources.sources").write_text(stanza, encoding="utf-8")
        subprocess.run([*apt, "update"], check=True)
    wanted = f"{project.name}={project.version}"
    subprocess.run(
        [*apt, "source", "--download-only", "--tar-only", wanted], check=True, cwd=scratch
    )
    return next(p for p in scratch.iterdir() if re.search(r"\.orig\.tar\.(gz|xz|bz2)$", p.name))


def _gem(project: Project, scratch: Path) -> Path:
    """Debian's package of a gem, which holds its sources as they are; the gem's folder as an archive."""
    wanted = f"{project.name}={project.version}"
    subprocess.run(["apt-get", "-qq", "download", wanted], check=True, cwd=scratch)
    subprocess.run(["dpkg", "-x", str(_only(scratch, "*.deb")), "all"], check=True, cwd=scratch)
    root = _only(scratch, "all/usr/share/rubygems-integration/*/gems/*")
    return Path(shutil.make_archive(str(scratch / "gem"), "tar", root.parent, root.name))


def _npm(project: Project, scratch: Path) -> Path:
    wanted = f"{project.name}@{project.version}"
    subprocess.run(["npm", "pack", "--silent", wanted], check=True, cwd=scratch)
    return _only(scratch, "*.tgz")


def _maven(project: Project, scratch: Path) -> Path:
    artifact = f"-Dartifact={project.name}:{project.version}:jar:sources"
    out = f"-DoutputDirectory={scratch}"
    subprocess.run(["mvn", "-q", "-B", "dependency:copy", artifact, out], check=True, cwd=scratch)
    return _only(scratch, "*-sources.jar")


def _sdist(project: Project, scratch: Path) -> Path:
    command = [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
    ]
    wanted = f"{project.name}=={project.version}"
    subprocess.run([*command, "--dest", str(scratch), wanted], check=True)
    return _only(scratch, "*.tar.gz")


def _pypi(project: Project, scratch: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest"]
    wanted = f"{project.name}=={project.version}"
    subprocess.run([*command, str(scratch), wanted], check=True)
    return _only(scratch, "*.whl")


_FETCH: Mapping[str, Callable[[Project, Path], Path]] = {
    "debian": _debian,
    "gem": _gem,
    "npm": _npm,
    "maven": _maven,
    "pypi": _pypi,
    "sdist": _sdist,
}
