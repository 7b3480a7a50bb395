"""Asks Codex's app server for its MCP servers, hooks and skills: `codex mcp list` starts none of them."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import IO, Any


def main() -> None:
    with subprocess.Popen(
        ["codex", "app-server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as server:
        try:
            assert server.stdin is not None
            assert server.stdout is not None
            report(server.stdin, server.stdout)
        finally:
            server.terminate()


def report(to: IO[str], answers: IO[str]) -> None:
    ask(to, answers, 1, "initialize", {"clientInfo": {"name": "plait", "version": "0"}})
    here = {"cwds": [str(Path.cwd())]}
    for server in ask(to, answers, 2, "mcpServerStatus/list", {})["data"]:
        print(f"{server['name']}: {', '.join(sorted(server['tools'])) or server['toolsError']}")
    for found in ask(to, answers, 3, "hooks/list", here)["data"]:
        for hook in found["hooks"]:
            print(f"hook {hook['eventName']} {hook['matcher'] or ''}: {hook['command']}")
        print("hook errors:", found["errors"], found["warnings"])
    for found in ask(to, answers, 4, "skills/list", here)["data"]:
        print("skills:", ", ".join(s["name"] for s in found["skills"] if s["name"] == "plait"))


def ask(to: IO[str], answers: IO[str], number: int, method: str, params: Any) -> Any:
    to.write(json.dumps({"id": number, "method": method, "params": params}) + "\n")
    to.flush()
    for line in answers:
        answer = json.loads(line)
        if answer.get("id") == number:
            return answer["result"]
    raise EOFError(f"codex ended before it answered {method}")


if __name__ == "__main__":
    main()
