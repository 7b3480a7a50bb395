"""The agents that `plait install` knows, as data: where each keeps its files, and in which form.

Paths begin with a base that `machine.py` resolves (`{home}`, `{config}`, `{claude}` …), or are relative
to the project. An empty path means that the client has no such file. docs/install.md says where each row
was looked up.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Scope(StrEnum):
    USER = "user"
    PROJECT = "project"


class Hook(StrEnum):
    """What Plait can push, and when; the words of `plait hook`."""

    SESSION_START = "session-start"
    AFTER_EDIT = "after-edit"
    BEFORE_SEARCH = "before-search"
    SESSION_END = "session-end"


class Form(StrEnum):
    """How a client writes an MCP server down."""

    STDIO = "stdio"  # {"type": "stdio", "command": …, "args": […]}
    PLAIN = "plain"  # {"command": …, "args": […]}
    LOCAL = "local"  # {"type": "local", "command": […], "enabled": true}
    TOML = "toml"  # [TABLE.plait] with command and args


@dataclass(frozen=True, slots=True)
class Paths:
    """One file a scope. Of several candidates the first that exists is used, else the first."""

    user: tuple[str, ...] = ()
    project: tuple[str, ...] = ()

    def of(self, scope: Scope) -> tuple[str, ...]:
        return self.user if scope is Scope.USER else self.project


@dataclass(frozen=True, slots=True)
class Server:
    """Where the MCP servers are: `key` is the object or table that names them. `seed`: what a new file
    needs besides."""

    paths: Paths
    key: str
    form: Form
    seed: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Event:
    """A client's own event for one of ours; `matcher` narrows it to tools, empty: all."""

    name: str
    matcher: str = ""


@dataclass(frozen=True, slots=True)
class Hooks:
    """`flat`: the event's list holds the commands themselves; else groups of them, with a matcher.
    `per_second`: what a second is in the client's unit of time. `seed`: what a new file needs besides."""

    paths: Paths
    events: dict[Hook, Event]
    flat: bool = False
    per_second: int = 1
    seed: dict[str, str | int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Agent:
    """`found_by`: programs, or folders, that say that the client is on this machine. `notes`: what a user
    of a scope must know or do, in one sentence each."""

    name: str
    title: str
    programs: tuple[str, ...]
    folders: tuple[str, ...]
    server: Server
    instructions: Paths
    skill: Paths
    hooks: Hooks | None = None
    notes: dict[Scope, str] = field(default_factory=dict)


_AGENTS_MD = ("AGENTS.md",)
# The folder that most clients share, in a project and at home.
_SHARED_SKILL = ".agents/skills/plait/SKILL.md"
_SKILL = Paths((f"{{home}}/{_SHARED_SKILL}",), (_SHARED_SKILL,))

AGENTS: tuple[Agent, ...] = (
    Agent(
        "claude-code",
        "Claude Code",
        programs=("claude",),
        folders=("{claude}",),
        server=Server(Paths(("{claude_json}",), (".mcp.json",)), "mcpServers", Form.STDIO),
        instructions=Paths(("{claude}/CLAUDE.md",), ("CLAUDE.md",)),
        skill=Paths(("{claude}/skills/plait/SKILL.md",), (".claude/skills/plait/SKILL.md",)),
        hooks=Hooks(
            Paths(("{claude}/settings.json",), (".claude/settings.json",)),
            {
                Hook.SESSION_START: Event("SessionStart"),
                Hook.AFTER_EDIT: Event("PostToolUse", "Edit|Write|MultiEdit|NotebookEdit"),
                Hook.BEFORE_SEARCH: Event("PreToolUse", "Grep|Glob"),
                Hook.SESSION_END: Event("SessionEnd"),
            },
        ),
        notes={
            Scope.PROJECT: "Claude Code asks once whether the project's .mcp.json may be used",
        },
    ),
    Agent(
        "codex",
        "Codex CLI",
        programs=("codex",),
        folders=("{codex}",),
        server=Server(
            Paths(("{codex}/config.toml",), (".codex/config.toml",)), "mcp_servers", Form.TOML
        ),
        instructions=Paths(("{codex}/AGENTS.md",), _AGENTS_MD),
        skill=_SKILL,
        hooks=Hooks(  # it has no tool for searching: what it greps runs in its shell
            Paths(("{codex}/hooks.json",), (".codex/hooks.json",)),
            {
                Hook.SESSION_START: Event("SessionStart"),
                Hook.AFTER_EDIT: Event("PostToolUse", "apply_patch|Edit|Write"),
                Hook.SESSION_END: Event("SessionEnd"),
            },
        ),
        notes={
            Scope.USER: "Codex runs new hooks once you trust them: type /hooks in it",
            Scope.PROJECT: "Codex reads .codex/ in trusted projects; trust the hooks by /hooks in it",
        },
    ),
    Agent(
        "cursor",
        "Cursor",
        programs=("cursor", "cursor-agent"),
        folders=("{home}/.cursor",),
        server=Server(
            Paths(("{home}/.cursor/mcp.json",), (".cursor/mcp.json",)), "mcpServers", Form.STDIO
        ),
        instructions=Paths((), _AGENTS_MD),
        skill=_SKILL,
        hooks=Hooks(  # what runs before a tool can't add to the context there
            Paths(("{home}/.cursor/hooks.json",), (".cursor/hooks.json",)),
            {
                Hook.SESSION_START: Event("sessionStart"),
                Hook.AFTER_EDIT: Event("postToolUse", "Write"),
                Hook.SESSION_END: Event("sessionEnd"),
            },
            flat=True,
            seed={"version": 1},
        ),
        notes={
            Scope.USER: "Cursor keeps a user's rules in its settings, not in a file: no instructions "
            "written; --project writes AGENTS.md",
        },
    ),
    Agent(
        "vscode",
        "VS Code",
        programs=("code", "code-insiders"),
        folders=("{vscode}",),
        server=Server(
            Paths(("{vscode}/User/mcp.json",), (".vscode/mcp.json",)), "servers", Form.STDIO
        ),
        instructions=Paths((), _AGENTS_MD),
        skill=_SKILL,
        notes={
            Scope.USER: "VS Code: no instructions written for the user; --project writes AGENTS.md",
        },
    ),
    Agent(
        "opencode",
        "OpenCode",
        programs=("opencode",),
        folders=("{opencode}",),
        server=Server(
            Paths(
                ("{opencode}/opencode.json", "{opencode}/opencode.jsonc"),
                ("opencode.json", "opencode.jsonc"),
            ),
            "mcp",
            Form.LOCAL,
            seed={"$schema": "https://opencode.ai/config.json"},  # else OpenCode adds it by itself
        ),
        instructions=Paths(("{opencode}/AGENTS.md",), _AGENTS_MD),
        skill=_SKILL,
    ),
    Agent(
        "gemini-cli",
        "Gemini CLI",
        programs=("gemini",),
        folders=("{gemini}",),
        server=Server(
            Paths(("{gemini}/settings.json",), (".gemini/settings.json",)), "mcpServers", Form.PLAIN
        ),
        instructions=Paths(("{gemini}/GEMINI.md",), ("GEMINI.md",)),
        skill=_SKILL,
        hooks=Hooks(
            Paths(("{gemini}/settings.json",), (".gemini/settings.json",)),
            {
                Hook.SESSION_START: Event("SessionStart"),
                Hook.AFTER_EDIT: Event("AfterTool", "write_file|replace"),
                # Only what runs after a tool can add to the context there, so this comes with the hits.
                Hook.BEFORE_SEARCH: Event("AfterTool", "grep_search|glob"),
                Hook.SESSION_END: Event("SessionEnd"),
            },
            per_second=1000,
        ),
        notes={
            Scope.USER: "Gemini CLI starts MCP servers in trusted folders alone; it asks when you open one",
            Scope.PROJECT: "Gemini CLI reads .gemini/ in trusted folders alone; it asks when you open one",
        },
    ),
    Agent(
        "windsurf",
        "Windsurf",
        programs=("windsurf",),
        folders=("{home}/.codeium/windsurf",),
        server=Server(
            Paths(("{home}/.codeium/windsurf/mcp_config.json",), ()), "mcpServers", Form.PLAIN
        ),
        instructions=Paths(("{home}/.codeium/windsurf/memories/global_rules.md",), _AGENTS_MD),
        skill=_SKILL,
        notes={
            Scope.PROJECT: "Windsurf has no MCP file of a project: run "
            "`plait install --user --agent windsurf` once",
        },
    ),
    Agent(
        "zed",
        "Zed",
        programs=("zed", "zeditor"),
        folders=("{config}/zed",),
        server=Server(
            Paths(("{config}/zed/settings.json",), (".zed/settings.json",)),
            "context_servers",
            Form.PLAIN,
        ),
        instructions=Paths(("{config}/zed/AGENTS.md",), _AGENTS_MD),
        skill=_SKILL,
    ),
)

NAMES = tuple(agent.name for agent in AGENTS)
