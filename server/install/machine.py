"""What is on this machine: where the clients keep their files, which of them are here, and our command."""

from __future__ import annotations

import shutil
import sys
import sysconfig
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from plait.domain.errors import NotFound
from server.install.agents import AGENTS, Agent, Paths, Scope

VARIABLES = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "GEMINI_CLI_HOME", "XDG_CONFIG_HOME")


@dataclass(frozen=True, slots=True)
class Machine:
    """`bases`: what the `{…}` in the agents' paths stand for; `project`: the root of the project."""

    bases: Mapping[str, str]
    project: Path

    def resolve(self, path: str) -> Path:
        return self.project / path.format_map(self.bases)

    def file(self, paths: Paths, scope: Scope) -> Path | None:
        """The file to write: the first candidate that exists, else the first; None: there is none."""
        found = [self.resolve(path) for path in paths.of(scope)]
        return next((p for p in found if p.exists() or p.is_symlink()), found[0] if found else None)

    def files(self, paths: Paths, scope: Scope) -> list[Path]:
        """Every candidate, to remove from."""
        return [self.resolve(path) for path in paths.of(scope)]

    def found(self) -> tuple[Agent, ...]:
        """The agents of this machine: by a program on PATH, or a folder of theirs."""
        return tuple(agent for agent in AGENTS if self._is_here(agent))

    def _is_here(self, agent: Agent) -> bool:
        return any(shutil.which(program) for program in agent.programs) or any(
            self.resolve(folder).is_dir() for folder in agent.folders
        )


def this_machine(here: Path | None = None) -> Machine:
    """The machine of this user; the project is that of `here`, the current folder by default."""
    from plait import settings

    return Machine(
        bases(Path.home(), settings.elsewhere(*VARIABLES), mac=sys.platform == "darwin"),
        project_root(here or Path.cwd()),
    )


def bases(home: Path, named: Mapping[str, Path], *, mac: bool) -> dict[str, str]:
    """The clients' folders: each under `home`, unless its own variable names another place."""
    config = named.get("XDG_CONFIG_HOME", home / ".config")
    claude = named.get("CLAUDE_CONFIG_DIR")
    found = {
        "home": home,
        "config": config,
        "claude": claude or home / ".claude",
        "claude_json": (claude or home) / ".claude.json",
        "codex": named.get("CODEX_HOME", home / ".codex"),
        "gemini": named.get("GEMINI_CLI_HOME", home) / ".gemini",
        "opencode": config / "opencode",
        "vscode": home / "Library/Application Support/Code" if mac else config / "Code",
    }
    return {name: str(path) for name, path in found.items()}


def project_root(here: Path) -> Path:
    """The nearest folder from `here` upwards that is a Git work tree, else `here`."""
    return next((f for f in (here, *here.parents) if (f / ".git").exists()), here)


def command(scripts: Sequence[Path] | None = None) -> str:
    """`plait`, where that is this installation on PATH; else the path of this installation's script.

    Raises: NotFound, when there is no such script.
    """
    own = _first(scripts if scripts is not None else _scripts())
    if own is None:
        raise NotFound(
            "this installation has no console script `plait`; install Plait with pip, then run it again"
        )
    on_path = shutil.which("plait")
    if on_path and Path(on_path).exists() and Path(on_path).samefile(own):
        return "plait"
    return str(own)


def _scripts() -> list[Path]:
    """Where pip puts console scripts, of this environment and of the user."""
    called = Path(sys.argv[0])
    folders = [Path(sys.executable).parent, Path(sysconfig.get_path("scripts"))]
    mine = [called.absolute()] if called.name == "plait" else []
    return [*mine, *(folder / "plait" for folder in folders)]


def _first(paths: Iterable[Path]) -> Path | None:
    return next((path for path in paths if path.is_file()), None)
