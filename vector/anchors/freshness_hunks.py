"""Whether what a run added to a file is still there: how an item about a file that its own run changed is
judged, since the index may be from before that change or after it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from plait.domain.off_loop import off_loop
from vector.connection.pool import Scoped

# Files of episodes' own diffs whose hunks are looked for in the current code.
MAX_FILES = 40
MAX_HUNKS = 400
MAX_FILE_CHARS = 400_000
# Share of the lines a diff added that must still be there for its code to read as it left it.
KEPT = 0.9

# Three letters or digits.
_TELLING = re.compile(r"(?:[^\W_][\W_]*+){3}")

Change = tuple[UUID, int, int, str]
"""(episode, repository, revision, path): a file that a run changed, in a revision"""

_HUNKS = f"""
SELECT h.episode_id, h.path, h.body
  FROM unnest(%(episodes)s::uuid[], %(paths)s::text[]) AS w (episode, path)
  JOIN hunk h ON h.episode_id = w.episode AND h.path = w.path
 ORDER BY h.episode_id, h.path, h.item_id, h.ordinal LIMIT {MAX_HUNKS}
"""
_CODE = f"""
SELECT w.repo, w.path, left(string_agg(f.content, E'\\n'), {MAX_FILE_CHARS})
  FROM unnest(%(repos)s::int[], %(numbers)s::int[], %(paths)s::text[]) AS w (repo, number, path)
  JOIN files f ON f.repo_id = w.repo AND f.path = w.path
   AND f.rev_from <= w.number AND (f.rev_to IS NULL OR f.rev_to > w.number)
 GROUP BY w.repo, w.path
"""


async def shares(app: Scoped, tenant: str, changes: Iterable[Change]) -> dict[Change, float]:
    """Of files that a run changed, how much of what it added is still there; files that it added
    nothing to, and those that are gone, are left out."""
    changes = list(dict.fromkeys(changes))
    about = list(dict.fromkeys((episode, path) for episode, _, _, path in changes))[:MAX_FILES]
    if not about:
        return {}
    params: dict[str, Any] = {"episodes": [e for e, _ in about], "paths": [p for _, p in about]}
    hunks = await app.rows(_HUNKS, params, tenant=tenant)
    added = await off_loop(sum(len(body) for _, _, body in hunks), _by_file, hunks)
    known = [change for change in changes if added.get((change[0], change[3]))]
    wanted = list(dict.fromkeys(change[1:] for change in known))
    if not wanted:
        return {}
    params = {
        "repos": [repo for repo, _, _ in wanted],
        "numbers": [number for _, number, _ in wanted],
        "paths": [path for _, _, path in wanted],
    }
    files = await app.rows(_CODE, params, tenant=tenant)
    return await off_loop(sum(len(text) for *_, text in files), _shares, known, added, files)


Added = Mapping[tuple[UUID, str], Sequence[str]]


def _shares(
    known: Iterable[Change], added: Added, files: Iterable[Sequence[Any]]
) -> dict[Change, float]:
    """Of `known`, whose files were added to, as `shares`; `files` are (repository, path, code)."""
    code = {(repo, path): {line.strip() for line in text.split("\n")} for repo, path, text in files}
    found: dict[Change, float] = {}
    for change in known:
        episode, repo, _, path = change
        if (held := code.get((repo, path))) is not None:
            lines = added[episode, path]
            found[change] = sum(line in held for line in lines) / len(lines)
    return found


def _by_file(hunks: Iterable[Sequence[Any]]) -> dict[tuple[UUID, str], list[str]]:
    """By (episode, path) the lines that were added."""
    added: dict[tuple[UUID, str], list[str]] = {}
    for episode, path, body in hunks:
        added.setdefault((episode, path), []).extend(_added(body))
    return added


def _added(body: str) -> list[str]:
    """The lines that a hunk added, without those that say nothing of their own."""
    lines = [line[1:].strip() for line in body.split("\n") if line.startswith("+")]
    return [line for line in lines if _TELLING.search(line)]
