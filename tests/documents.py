"""The fenced blocks of README.md and docs/, and what is to be done with each in a test.

Every block is declared here by its document and the beginning of its first line. One that nobody declared
fails the test, and so does a declaration without a block.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

ROOT = Path(__file__).parents[1]
_FENCE = re.compile(r"(`{3,})([\w+-]*)\s*\Z")


class How(StrEnum):
    """What happens to a block. The first five are run."""

    SHELL = "each line is run"
    CONSOLE = "each line behind a $ is run; the rest is what it printed"
    PYTHON = "run beside the server"
    SETTINGS = "read as a settings file"
    CYPHER = "asked of the graph"
    EPISODE = "read by `plait ingest --dry-run`"
    PROGRAMS = "takes minutes, or data that is fetched: its programs must exist"
    PICTURE = "a diagram, a tree or a formula, nothing to run"
    OUTPUT = "a sample of what a command prints"
    USAGE = "a synopsis with brackets: its modules must show their help"
    INSTALLS = "what CI itself does first, in a clean clone"
    OTHER_SERVERS = (
        "needs servers at fixed addresses; tests/e2e/test_external_stores.py runs it on real ones"
    )
    RECIPE = "compared with its template by tests/contract/test_templates.py"
    KILLS = "kills the server by intent; tests/e2e/test_faults.py runs it"


@dataclass(frozen=True, slots=True)
class Block:
    """`line`: of its opening fence, from 1."""

    document: str
    line: int
    text: str

    @property
    def begins(self) -> str:
        return next(iter(self.text.splitlines()), "")


@dataclass(frozen=True, slots=True)
class Treatment:
    """`where`: the folder of the example in which it runs. `first`: shell lines before it. `fill`: words of
    the block and the pattern of what stands for them, taken from the last output that has it. `code`: how
    each command ends."""

    how: How
    where: str = ""
    first: tuple[str, ...] = ()
    fill: Mapping[str, str] = field(default_factory=dict)
    code: int = 0


_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_TEXT = (
    "In attempt {} the pool gave no connection, as each request had opened its own and none was given back "
    "in time. Use Pool.take, never a new connection. It waits for one that is free, at most for the time "
    "that the caller says, and then fails with a clear error. What is taken is given back by a context."
)
EXPERIMENTS = "docs/experiments/"
_STORE = f"plait memory store '{_TEXT}' --agent fixer --repo app"

TREATMENTS: Mapping[tuple[str, str], Treatment] = {
    ("README.md", "python3 -m venv .venv"): Treatment(How.INSTALLS),
    ("README.md", "make check"): Treatment(How.INSTALLS),
    ("README.md", "$ source .venv"): Treatment(How.CONSOLE),
    ("README.md", "sequenceDiagram"): Treatment(How.PICTURE),
    ("README.md", "$ plait index flask"): Treatment(How.CONSOLE),
    ("README.md", "from plait.client import PlaitClient"): Treatment(How.PYTHON, "flask"),
    ("README.md", "$ plait memory store"): Treatment(How.CONSOLE, "flask"),
    ("README.md", "$ plait ingest red.xml"): Treatment(
        How.CONSOLE, "shop", first=("plait index . --no-embed --quiet",)
    ),
    ("README.md", "flowchart"): Treatment(How.PICTURE),
    ("README.md", "export PLAIT_POSTGRES"): Treatment(How.OTHER_SERVERS),
    ("docs/audit.md", "{"): Treatment(How.OUTPUT),
    ("docs/compose.md", "export PLAIT_POSTGRES"): Treatment(How.OTHER_SERVERS),
    ("docs/keys.md", "plait keys add ci"): Treatment(How.SHELL, "app"),
    ("docs/architecture.md", "proto/plait/v1/"): Treatment(How.PICTURE),
    ("docs/architecture.md", "flowchart"): Treatment(How.PICTURE),
    ("docs/call-graph.md", "python benchmarks/call_trace.py"): Treatment(How.PROGRAMS),
    ("docs/explain.md", "0f8fad5b-…"): Treatment(How.OUTPUT),
    ("docs/cli.md", "python -m etl.index_repo PATH"): Treatment(How.USAGE),
    ("docs/configuration.md", "search:"): Treatment(How.SETTINGS),
    ("docs/episodes.md", "{"): Treatment(How.EPISODE),
    ("docs/episodes.md", "error: run.json"): Treatment(How.OUTPUT),
    ("docs/importers.md", "plait ingest ~/.claude"): Treatment(How.SHELL, "shop"),
    ("docs/faults.md", "python -m benchmarks.soak"): Treatment(How.PROGRAMS),
    ("docs/faults.md", "PLAIT_FAILPOINTS="): Treatment(How.KILLS),
    ("docs/forgetting.md", "plait forget ID"): Treatment(
        How.SHELL,
        "app",
        first=("plait memory store 'The pool closes at exit.' --agent fixer --repo app",),
        fill={" ID": rf"Stored ({_UUID})"},
    ),
    ("docs/hooks.md", '{"session_id"'): Treatment(How.OUTPUT),
    ("docs/hooks.md", "$ plait hook after-edit"): Treatment(
        How.CONSOLE, "flask", first=("echo '{}' > payload.json",)
    ),
    ("docs/install.md", "plait install --dry-run"): Treatment(How.SHELL, "app"),
    ("docs/install.md", "// Claude Code"): Treatment(How.OUTPUT),
    ("docs/install.md", "# Codex CLI"): Treatment(How.OUTPUT),
    ("docs/mcp.md", '{"mcpServers"'): Treatment(How.OUTPUT),
    ("docs/mcp.md", "src/flask/app.py"): Treatment(How.OUTPUT),
    ("docs/memories.md", "plait memory store"): Treatment(How.SHELL, "app"),
    ("docs/recall.md", "{ plait recall"): Treatment(
        How.SHELL, "app", first=("plait index . --quiet",)
    ),
    ("docs/recall.md", "## Relevant Memories"): Treatment(How.OUTPUT),
    ("docs/recall.md", "from plait.client import Filter"): Treatment(How.PYTHON, "app"),
    ("docs/retention.md", "plait compact --repo app"): Treatment(
        How.SHELL,
        "app",
        first=tuple(_STORE.format(i) for i in range(4)),
        fill={"COMPACTION_ID": rf"--undo ({_UUID})"},
    ),
    ("docs/savings.md", "plait ingest ~/.claude"): Treatment(How.SHELL, "shop"),
    ("docs/savings.md", "cost(look-up)"): Treatment(How.PICTURE),
    ("docs/savings.md", "saved a session"): Treatment(How.PICTURE),
    # Read by tests/unit/test_secrets_rules.py.
    ("docs/secrets.md", "files: ["): Treatment(How.OUTPUT),
    ("docs/cypher-recipes.md", "$ plait graph"): Treatment(
        How.CONSOLE, "app", first=("plait index . --no-embed --quiet",)
    ),
    **{
        ("docs/cypher-recipes.md", begins): Treatment(How.RECIPE)
        for begins in (
            "MATCH (s:Function {id: $symbol})<-[calls",
            "MATCH (s:Function {id: $symbol})-[calls",
            "MATCH p = (s:Function {id: $symbol})<-[:CALLS",
            "MATCH p = (s:Function {id: $symbol})<-[:OVERRIDES",
            "MATCH p = (s:Class",
            "MATCH (a:Function",
            "MATCH (s:Class",
            "MATCH (f:File",
            "MATCH (s:Module",
            "MATCH (s:Function {id: $thing})",
            "MATCH (issue:Issue {id: $issue})<-[fixes",
            "MATCH (issue:Issue {id: $issue})<-[causes",
        )
    },
    ("docs/schema-graph.md", "MATCH (i:Issue"): Treatment(How.CYPHER, "app", code=3),
}


def documents() -> list[str]:
    pages = sorted((ROOT / "docs").rglob("*.md"))
    return ["README.md", *(str(path.relative_to(ROOT)) for path in pages)]


def blocks(document: str) -> Iterator[Block]:
    """The fenced blocks of a document, in their order."""
    opened, begun, held = "", 0, list[str]()
    for number, line in enumerate((ROOT / document).read_text("utf-8").splitlines(), 1):
        fence = _FENCE.match(line.strip())
        if not opened and fence is not None:
            opened, begun, held = fence[1], number, []
        elif opened and line.strip() == opened:
            yield Block(document, begun, "\n".join(held) + "\n")
            opened = ""
        elif opened:
            held.append(line)
    if opened:
        raise ValueError(f"{document}:{begun}: the block has no end")


def treatment(block: Block) -> tuple[tuple[str, str], Treatment] | None:
    """What is declared for `block`; None: nothing is. The pages of experiments show benchmarks alone."""
    if block.document.startswith(EXPERIMENTS):
        return (EXPERIMENTS, ""), Treatment(How.PROGRAMS)
    found = [
        (key, made)
        for key, made in TREATMENTS.items()
        if key[0] == block.document and block.begins.startswith(key[1])
    ]
    # `{` of a JSON block begins others, too: what says most is meant.
    return max(found, key=lambda pair: len(pair[0][1])) if found else None
