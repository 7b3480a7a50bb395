"""Real agents' command lines say that they reach Plait: `make agents`.

Installs the clients from the npm registry beside this file, gives them an empty home, runs `plait install`
there, and asks each for its servers. Nobody is logged in and no model is asked. Then `plait uninstall`, and
the home's files are compared with what they were. Not part of CI: the clients are 700 MB.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
CLIENTS = HERE / "node_modules" / ".bin"
NAMES = ("claude-code", "codex", "gemini-cli", "opencode")
# What a user has before: it must be there again afterwards.
THEIRS = {
    ".codex/config.toml": '# mine\nmodel = "x"\n',
    ".claude/CLAUDE.md": "# Mine\n",
    ".gemini/GEMINI.md": "# Mine",
    ".config/opencode/opencode.json": '{\n  // mine\n  "$schema": "https://opencode.ai/config.json",\n}\n',
}
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@dataclass(frozen=True, slots=True)
class Check:
    """A client's command, and what it prints when all is well."""

    title: str
    argv: tuple[str, ...]
    connected: str


CHECKS = (
    Check("Claude Code is connected", ("claude", "mcp", "list"), r"plait: .* Connected"),
    Check("Codex CLI lists it", ("codex", "mcp", "list"), r"plait .* enabled"),
    Check(
        "Codex CLI starts it and lists its tools",
        (sys.executable, str(HERE / "codex_status.py")),
        r"plait: graph, recall, remember, search",
    ),
    Check("Gemini CLI is connected", ("gemini", "mcp", "list"), r"plait: .* Connected"),
    Check("Gemini CLI finds the skill", ("gemini", "skills", "list"), r"plait \[Enabled\]"),
    Check("OpenCode is connected", ("opencode", "mcp", "list"), r"plait .*connected"),
    Check("OpenCode finds the skill", ("opencode", "debug", "skill"), r'"name": "plait"'),
)


def main() -> int:
    if not CLIENTS.is_dir():
        subprocess.run(
            ["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=HERE, check=True
        )
    with folder() as root:
        return run(root)


def run(root: Path) -> int:
    """Install, ask every client, uninstall; the number of things that went wrong."""
    home, project = root / "home", root / "project"
    environ = clean(root)
    project.mkdir()
    (project / "shop.py").write_text(
        "def total(prices):\n    return sum(prices)\n", encoding="utf-8"
    )
    for name, text in {
        **THEIRS,
        ".gemini/trustedFolders.json": json.dumps({str(project): "TRUST_FOLDER"}),
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text, encoding="utf-8")
    wanted = [word for name in NAMES for word in ("--agent", name)]
    try:
        said(("plait", "install", *wanted), project, environ)
        bad = sum(not ask(check, project, environ) for check in CHECKS)
    finally:
        said(("plait", "uninstall"), project, environ)
        said(("plait", "stop"), project, environ)
    differ = [n for n, text in THEIRS.items() if (home / n).read_text(encoding="utf-8") != text]
    left = [
        p for p in home.rglob("*") if p.is_file() and p.name in ours() and "plait" in p.read_text()
    ]
    print(
        f"user's files that differ after uninstall: {len(differ)} of {len(THEIRS)} {differ or ''}"
    )
    print(f"configuration files that still name plait: {len(left)} {left or ''}")
    return bad + len(differ) + len(left)


def ask(check: Check, project: Path, environ: Mapping[str, str]) -> bool:
    """Whether the client reached the server; prints what it said."""
    text = said(check.argv, project, environ)
    reached = re.search(check.connected, text) is not None
    print(f"--> {check.title}: {'yes' if reached else 'NO'}\n")
    return reached


def said(argv: tuple[str, ...], project: Path, environ: Mapping[str, str]) -> str:
    print(f"$ {' '.join(argv)}", flush=True)
    try:
        done = subprocess.run(
            argv,
            cwd=project,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=180,
            check=False,
        )
        text = done.stdout.decode(errors="replace")
    except subprocess.TimeoutExpired:
        text = "(no answer within 180 s)"
    except OSError as exc:
        text = str(exc)
    text = _STYLE.sub("", text)
    print(text.strip(), flush=True)
    return text


def clean(root: Path) -> dict[str, str]:
    """An environment that knows nothing of this user."""
    (root / "home").mkdir()
    own = Path(sys.executable).parent
    return {
        "HOME": str(root / "home"),
        "PLAIT_HOME": str(root / "plait"),
        "PATH": os.pathsep.join((str(own), str(CLIENTS), "/usr/local/bin", "/usr/bin", "/bin")),
        "LANG": "C.UTF-8",
        "TERM": "dumb",
    }


def ours() -> set[str]:
    """The names of all files that `plait install` writes."""
    from server.install.agents import AGENTS, Scope

    return {
        Path(path.replace("{claude_json}", ".claude.json")).name
        for agent in AGENTS
        for paths in (
            agent.server.paths,
            agent.instructions,
            agent.skill,
            *([agent.hooks.paths] if agent.hooks else []),
        )
        for path in paths.of(Scope.USER)
    }


@contextmanager
def folder() -> Iterator[Path]:
    """A folder that goes at the end; the stores' accounts can pass through it."""
    root = Path(tempfile.mkdtemp(prefix="plait-agents-"))
    root.chmod(0o711)
    try:
        yield root
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
