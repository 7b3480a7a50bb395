"""The share of the lines that a run added to a file and that are still in it. Decides the freshness of items about a
file that their own run changed, since the index may be from before or after that change."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from plait.domain.off_loop import off_loop
from vector.connection.pool import Scoped
from vector.index.visible import chunk

# Files of episodes' own diffs whose hunks are searched for in the current code.
MAX_FILES = 40
MAX_HUNKS = 400
MAX_FILE_CHARS = 400_000
# From this share of a diff's added lines on, its code counts as unchanged.
MIN_SHARE = 0.9

# Three letters or digits.
_CONTENT = re.compile(r"(?:[^\W_][\W_]*+){3}")

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
   AND {chunk("f", "w.number")}
 GROUP BY w.repo, w.path
"""


async def shares(app: Scoped, tenant: str, changes: Iterable[Change]) -> dict[Change, float]:
    """By change, the share of its added lines that are still in the file; changes without added lines and files that
    no longer exist are left out."""
    changes = list(dict.fromkeys(changes))
    about = list(dict.fromkeys((episode, path) for episode, _, _, path in changes))[:MAX_FILES]
    if not about:
        return {}
    params: dict[str, Any] = {"episodes": [e for e, _ in about], "paths": [p for _, p in about]}
    hunks = await app.rows(_HUNKS, params, tenant=tenant)
    added = await off_loop(sum(len(body) for _, _, body in hunks), _by_file, hunks)
    known = [change for change in changes if added.get((change[0], change[3]))]
    files_to_read = list(dict.fromkeys(change[1:] for change in known))
    if not files_to_read:
        return {}
    params = {
        "repos": [repo for repo, _, _ in files_to_read],
        "numbers": [number for _, number, _ in files_to_read],
        "paths": [path for _, _, path in files_to_read],
    }
    files = await app.rows(_CODE, params, tenant=tenant)
    return await off_loop(sum(len(text) for *_, text in files), _shares, known, added, files)


Added = Mapping[tuple[UUID, str], Sequence[str]]


def _shares(
    known: Iterable[Change], added: Added, files: Iterable[Sequence[Any]]
) -> dict[Change, float]:
    """As `shares`, for changes with added lines; `files` are (repository, path, code)."""
    code = {(repo, path): {line.strip() for line in text.split("\n")} for repo, path, text in files}
    found: dict[Change, float] = {}
    for change in known:
        episode, repo, _, path = change
        if (held := code.get((repo, path))) is not None:
            lines = added[episode, path]
            found[change] = sum(line in held for line in lines) / len(lines)
    return found


def _by_file(hunks: Iterable[Sequence[Any]]) -> dict[tuple[UUID, str], list[str]]:
    """The added lines by (episode, path)."""
    added: dict[tuple[UUID, str], list[str]] = {}
    for episode, path, body in hunks:
        added.setdefault((episode, path), []).extend(_added(body))
    return added


def _added(body: str) -> list[str]:
    """The lines that a hunk added, without those that have fewer than three letters or digits."""
    lines = [line[1:].strip() for line in body.split("\n") if line.startswith("+")]
    return [line for line in lines if _CONTENT.search(line)]
