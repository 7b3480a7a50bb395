"""Which of an agent's tool calls look something up: by Plait, by searching, or by reading files.

A shell command counts when all it does is look: `cd src && rg retry | head` searches, `cat a.py` reads,
`make && cat log` does something else. One that asks Plait anything counts as Plait's, whatever else it
does, so that in doubt Plait costs more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from etl.ingest.importers.jsonl import text
from etl.ingest.importers.test_runs import commands
from plait.domain.savings import Looked

_TOOLS = {
    "Read": Looked.READ, "NotebookRead": Looked.READ, "Grep": Looked.SEARCH, "Glob": Looked.SEARCH,
    "LS": Looked.SEARCH,
}  # fmt: skip
SHELLS = frozenset({"Bash", "PowerShell"})
# An MCP server named `plait`, added by itself or by a plugin: `mcp__plait__recall`,
# `mcp__plugin_plait_plait__recall`.
_MCP = re.compile(r"mcp__(?:plugin_[\w-]{1,100}_)?plait__\w")
# The first line of what Plait's hooks push names it, or is the heading of a recalled block.
_PUSHED = re.compile(r"\bplait\b|#{1,6} Relevant Memories\b", re.IGNORECASE)

_PLAIT = re.compile(r"(?:\S*/)?plait(?:\s|\Z)")
_SEARCHES = re.compile(
    r"(?:\S*/)?(?:rg|e?grep|fgrep|zgrep|ag|ack|fd|fdfind|find|ls|dir|tree|git grep|git ls-files|"
    r"Select-String|Get-ChildItem|gci|sls)(?:\s|\Z)"
)
_READS = re.compile(
    r"(?:\S*/)?(?:cat|bat|batcat|sed|awk|head|tail|less|more|nl|wc|Get-Content|gc|type)(?:\s|\Z)"
)
# Only beside what looks: they print, move about, or pass on what others found.
_BESIDE = re.compile(
    r"(?:\S*/)?(?:cd|pushd|popd|pwd|echo|printf|true|export|set|test|\[|for|while|if|done|fi|else|"
    r"sort|uniq|cut|tr|jq|column|xargs|Set-Location|Select-Object)(?:\s|\Z)|\S*sh -l?c\Z"
)
_CHANGES = re.compile(
    r"(?:\S*/)?(?:sed(?:\s.*)?\s(?:-[a-zA-Z]*i|--in-place)|find\s.*\s-(?:ok|delete|fprint|"
    r"exec(?:dir)?(?!\s+(?:grep|cat|head|tail|wc|ls|sed -n)\b))|"
    r"tree\s.*\s-o\s|xargs\s.*\b(?:rm|mv|cp|sed -i|touch|chmod|git|python\S*|sh|bash)\b)",
    re.DOTALL,
)
# `2>/dev/null`, `2>&1`: no file is written.
_SILENCED = re.compile(r"\d?>{1,2}\s*(?:/dev/null|&\d|\$null)|&>\s*/dev/null")


def of_tool(name: str, given: Mapping[str, Any]) -> Looked | None:
    """Of a tool of Claude Code, or of an MCP server; None for one that does something else."""
    if _MCP.match(name):
        return Looked.PLAIT
    if name in SHELLS:
        return of_command(text(given, "command"))
    if name == "Skill":
        return Looked.PLAIT if text(given, "skill").rpartition(":")[2] == "plait" else None
    return _TOOLS.get(name)


def of_command(command: str) -> Looked | None:
    """Of a shell command; None for one that does more than look."""
    parts = commands.simple(_SILENCED.sub(" ", command[: commands.MAX_COMMAND]))
    if any(_PLAIT.match(part) for part in parts):
        return Looked.PLAIT
    if any(">" in part or _CHANGES.match(part) for part in parts):
        return None
    kinds = {_kind(part) for part in parts}
    if "other" in kinds or len(command) > commands.MAX_COMMAND:
        return None
    return next((kind for kind in (Looked.SEARCH, Looked.READ) if kind in kinds), None)


def _kind(part: str) -> str:
    if _SEARCHES.match(part):
        return Looked.SEARCH
    if _READS.match(part):
        return Looked.READ
    return "beside" if _BESIDE.match(part) else "other"


def pushed_by_plait(text: str) -> bool:
    """Whether a hook's text is Plait's. Another hook that names Plait at once counts as Plait's too."""
    return _PUSHED.search(text.lstrip()[:200].partition("\n")[0]) is not None
