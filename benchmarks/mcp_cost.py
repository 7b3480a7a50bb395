"""What `plait mcp` costs an agent: tokens, memory of the shim, time to the first answer, time a call.

    python -m benchmarks.mcp_cost PATH [--calls 40] [--json]

PATH is an indexed repository, under the PLAIT_HOME of the environment; the service is warm when the calls are
timed. Tokens are o200k's. Memory is the shim's alone, after its calls; `proportional` is what it adds to a
machine (pages that processes share are counted in parts).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import psutil
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from plait.text import token_count

QUESTIONS = (
    "where are errors handled",
    "how is the configuration read",
    "parse the arguments",
    "retry",
)
MB = 2**20


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("path", type=Path)
    parser.add_argument("--calls", type=int, default=40, help="calls of each tool")
    parser.add_argument("--symbol", default="", help="for graph (default: the first hit's)")
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    told = asyncio.run(measure(args.path, args.calls, args.symbol))
    if args.json:
        print(json.dumps(told))
        return
    for name, value in told.items():
        print(f"{name:<34} {value:,.2f}" if isinstance(value, float) else f"{name:<34} {value}")


async def measure(path: Path, calls: int, symbol: str) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for era in ("legacy", "auto"):
        out |= await first_answer(path, era)
    parameters = shim(path)
    async with Client(stdio_client(parameters)) as client:
        out |= await listed(client)
        await client.call_tool("search", {"query": QUESTIONS[0]})
        hits = await client.call_tool("search", {"query": QUESTIONS[0], "k": 8})
        symbol = symbol or next(name for _, name, _ in hits.structured_content["hits"] if name)
        await client.call_tool("graph", {"symbol": symbol, "ask": "callers"})
        for name, given in (
            ("search", lambda n: {"query": f"{QUESTIONS[n % len(QUESTIONS)]} {n}"}),
            ("recall", lambda n: {"task": f"{QUESTIONS[n % len(QUESTIONS)]} {n}"}),
            ("graph", lambda n: {"symbol": symbol, "ask": ("callers", "callees", "impact")[n % 3]}),
            ("remember", lambda n: {"text": f"measured {time.time_ns()}", "about": symbol}),
        ):
            out |= await timed(client, name, given, calls)
        out |= memory()
    return out


def shim(path: Path) -> StdioServerParameters:
    return StdioServerParameters(
        command=sys.executable,
        args=["-P", "-m", "server.cli", "mcp"],
        cwd=path,
        env=dict(os.environ),
    )


async def first_answer(path: Path, era: str) -> dict[str, Any]:
    """Seconds from starting the process to the handshake, and to the first hit."""
    begun = time.perf_counter()
    async with Client(stdio_client(shim(path)), mode=era) as client:
        connected = time.perf_counter() - begun
        found = await client.call_tool("search", {"query": QUESTIONS[0]})
        assert not found.is_error, found.content
        answered = time.perf_counter() - begun
        name = client.protocol_version
    return {f"connected s ({name})": connected, f"first answer s ({name})": answered}


async def listed(client: Client) -> dict[str, Any]:
    count = token_count.counter().count
    tools = [
        tool.model_dump(mode="json", by_alias=True, exclude_none=True)
        for tool in (await client.list_tools()).tools
    ]
    return {
        "tokens of the tools, whole": count(json.dumps(tools)),
        "tokens of the tools, compact": count(json.dumps(tools, separators=(",", ":"))),
        "tokens of the instructions": count(client.instructions or ""),
        "bytes of the instructions": len((client.instructions or "").encode()),
    }


async def timed(client: Client, name: str, given: Any, calls: int) -> dict[str, Any]:
    """Latency as the client sees it, and what an answer takes in tokens, as text and as JSON."""
    count = token_count.counter().count
    took, text, data = [], [], []
    for number in range(calls):
        begun = time.perf_counter()
        found = await client.call_tool(name, given(number))
        took.append(1e3 * (time.perf_counter() - begun))
        assert not found.is_error, found.content
        (said,) = found.content
        assert said.type == "text"
        text.append(count(said.text))
        data.append(count(json.dumps(found.structured_content, ensure_ascii=False)))
    took.sort()
    return {
        f"{name} p50 ms": statistics.median(took),
        f"{name} p95 ms": took[min(len(took) - 1, int(0.95 * len(took)))],
        f"{name} tokens as text, mean": statistics.mean(text) * 1.0,
        f"{name} tokens as text, most": max(text),
        f"{name} tokens as JSON, mean": statistics.mean(data) * 1.0,
        f"{name} tokens as JSON, most": max(data),
    }


def memory() -> dict[str, Any]:
    (process,) = [p for p in psutil.Process().children() if "mcp" in p.cmdline()[-1:]]
    about = process.memory_full_info()
    return {
        "shim resident MB": about.rss / MB,
        "shim proportional MB": about.pss / MB,
        "shim of its own MB": about.uss / MB,
        "shim threads": process.num_threads(),
    }


if __name__ == "__main__":
    main()
