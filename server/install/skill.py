"""The skill: a file of ours alone. Its last line has a digest, so that a user's edit is seen and kept."""

from __future__ import annotations

import hashlib
import re

from server.install.refusal import Refused

_MARK = re.compile(r"<!-- plait:skill ([0-9a-f]{12}) -->\n\Z")
BODY = """\
---
name: plait
description: >-
  Finds the code, tests, callers and past work that a task needs, in one call. Use at the start of a task in
  an indexed repository, before a change that other code may depend on, and to keep what was learned.
---

# Plait

Ask Plait before you grep or read whole files. The MCP tools and the shell commands answer the same.

| You want | Tool | Shell |
|---|---|---|
| what a task needs: places, tests, past work | `recall(task)` | `plait recall "make the download retry"` |
| what a change breaks | `recall(diff)` | `git diff \\| plait recall --diff -` |
| where a failure comes from | `recall(trace)` | `plait recall --trace traceback.txt` |
| code by meaning or by name | `search(query)` | `plait search "where are retries configured"` |
| who calls a symbol, what it calls | `graph(symbol, ask)` | `plait graph callers pkg.module.name` |
| what depends on it, which tests cover it | `graph(symbol, ask)` | `plait graph impact pkg.module.name` |
| to keep a fact for later sessions | `remember(text, about)` | `plait memory store "Retries live in app/http.py"` |

- Begin with `recall`. Read the lines that it names, not the whole files.
- Before a change is done, ask `graph` for `impact` and `tests` of each changed symbol.
- An answer says how fresh it is and what it left out; `plait index .` brings the index up to date.
- Where Plait finds nothing, search as you would without it.
"""


def put(text: str | None) -> str:
    """The skill's file. Raises: Refused, where the file isn't ours or was edited."""
    _check(text)
    return f"{BODY}\n<!-- plait:skill {_digest(BODY + chr(10))} -->\n"


def take(text: str | None) -> str | None:
    """None: the file is ours and goes. A file of another origin stays. Raises: Refused, if ours was edited."""
    if text is None or not has(text):
        return text
    _check(text)
    return None


def has(text: str | None) -> bool:
    return text is not None and "<!-- plait:skill " in text


def _check(text: str | None) -> None:
    if text is None:
        return
    found = _MARK.search(text)
    if not has(text):
        raise Refused("this skill was not written by Plait; move it away first")
    if found is None or _digest(text[: found.start()]) != found[1]:
        raise Refused("this skill was edited since Plait wrote it; move it away or delete it")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:12]
