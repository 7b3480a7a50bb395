"""What commands print, people's text and JSON, and what the tools for agents answer."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.goldens import tale
from benchmarks.goldens.cases import Cases
from benchmarks.goldens.normal import Normal
from benchmarks.goldens.under_test import Server

NAMES = (
    "index", "search", "recall", "feedback", "graph", "mcp", "ingest", "savings", "memory", "compact", "forget",
    "verify", "rebuild", "hook", "repos", "keys", "install", "uninstall", "completion", "status", "stop", "serve",
    "doctor", "version",
)  # fmt: skip
REPO = ("--repo", "shop")
BOTH: tuple[tuple[str, ...], ...] = (
    ("search", "how long to wait between attempts", *REPO),
    ("search", "zygomorphic quux", *REPO),
    ("search", "round", "--repo", "nope"),
    ("recall", "who calls wait", *REPO, "--no-receipt"),
    ("recall", "hello", *REPO, "--no-receipt"),
    ("graph", "callers", "shop.waiting.wait", *REPO),
    ("graph", "outline", "shop/fetch.py", *REPO),
    ("graph", "callers", "nope", *REPO),
    ("graph", "--cypher", "MATCH (f:File) RETURN f.path AS path ORDER BY path", *REPO),
    ("memory", "query", "how do we release", *REPO),
    ("memory", "list", *REPO),
    ("savings", *REPO),
    ("repos",),
    ("keys", "list", "--all"),
    ("verify", *REPO),
    ("compact", *REPO, "--agent", "fixer", "--dry-run"),
    ("forget", *REPO, "--agent", "fixer", "--dry-run"),
    ("version",),
)
BARE: tuple[tuple[str, ...], ...] = (
    (),
    ("nope",),
    ("serch", "x"),
    ("search",),
    ("completion", "bash"),
)


def record(server: Server, normal: Normal, root: Path) -> Cases:
    found: Cases = {}

    def ask(*words: str, stdin: str = "") -> None:
        done = server.checkout.ask(*words, home=server.home, stdin=stdin, cwd=root)
        case = " ".join(("plait", *words)).replace(str(root), "<root>")
        errors = [f"! {line}" for line in normal.printed(done.stderr) if line]
        found[case] = [f"exit {done.returncode}", *errors, *normal.printed(done.stdout)]

    for name in NAMES:
        ask(name, "--help")
    for words in BARE:
        ask(*words)
    for words in BOTH:
        ask(*words)
        ask(*words, "--json")
    episode = json.dumps({"repo": "shop", "outcome": {"status": "success"}, "artifacts": []})
    ask("ingest", "-", "--dry-run", stdin=episode)
    ask("ingest", "-", "--json", stdin=episode)
    ask("ingest", "-", "--dry-run", "--repo", "shop", "--format", "diff", stdin=tale.DIFF)
    for event, given in _hooks(root).items():
        ask("hook", event, "--agent", "claude-code", stdin=json.dumps(given))
    found["plait mcp"] = normal.lines(_tools(server, root))
    return found


def _hooks(root: Path) -> dict[str, dict[str, Any]]:
    common = {"session_id": "hooked", "cwd": str(root)}
    edit = {"file_path": str(root / "shop/waiting.py"), "old_string": "def wait(policy, attempt):"}
    edit["new_string"] = "def wait(policy, attempt, least):"
    return {
        "session-start": {**common, "hook_event_name": "SessionStart", "source": "resume"},
        "after-edit": {
            **common,
            "hook_event_name": "PostToolUse",
            "tool_name": "Edit",
            "tool_input": edit,
        },
        "before-search": {
            **common,
            "hook_event_name": "PreToolUse",
            "tool_name": "Grep",
            "tool_input": {"pattern": "Policy"},
        },
    }


def _tools(server: Server, root: Path) -> list[Any]:
    """The tools and their answers, as an agent gets them over stdio."""
    hello = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "goldens", "version": "1"},
    }
    with subprocess.Popen(
        [server.checkout.plait, "mcp"],
        env=server.checkout.environment(server.home),
        cwd=root,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        stdin, stdout = process.stdin, process.stdout
        assert stdin is not None
        assert stdout is not None

        def ask(number: int, method: str, params: dict[str, Any]) -> Any:
            request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
            stdin.write(json.dumps(request) + "\n")
            stdin.flush()
            for line in stdout:
                answer = json.loads(line)
                if answer.get("id") == number:
                    return answer.get("result", answer.get("error"))
            raise SystemExit("`plait mcp` ended")

        answers = [ask(1, "initialize", hello)]
        stdin.write('{"jsonrpc": "2.0", "method": "notifications/initialized"}\n')
        tools = ask(2, "tools/list", {})
        answers.append(tools)
        called = {
            "search": {"query": "how long to wait between attempts", "repos": ["shop"]},
            "recall": {"query": "who calls wait", "repos": ["shop"]},
        }
        for n, tool in enumerate(sorted(t["name"] for t in tools["tools"]), start=3):
            for name, given in called.items():
                if tool.endswith(name):
                    answers.append({tool: ask(n, "tools/call", {"name": tool, "arguments": given})})
        stdin.close()
    return answers
