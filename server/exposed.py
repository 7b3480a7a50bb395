"""What the stores hold of secrets: where, and by which rule, never the secret itself."""

from __future__ import annotations

import json
import shlex
from collections import defaultdict
from collections.abc import AsyncIterable, Iterator, Sequence
from dataclasses import asdict, dataclass

from etl.languages import is_code
from etl.source.secrets import Files
from plait.secrets.mask import masker
from plait.secrets.rules import Rules
from vector.forget.exposed import StoredText

NAMED = "secret-file"  # the rule of files that are secrets by their names
SHOWN_IDS = 50  # of one command line


@dataclass(frozen=True, slots=True)
class Exposure:
    """One credential. `line`: in the file, else in the stored text. `id`: of the memory or episode."""

    repo: str
    root: str
    place: str
    path: str
    line: int
    rule: str
    id: str
    replaced: bool


async def examine(texts: AsyncIterable[StoredText], rules: Rules) -> list[Exposure]:
    """What today's rules would have masked or left out, in the order it is stored."""
    files, found = Files(rules), []
    named: set[tuple[str, str, bool]] = set()
    async for text in texts:
        if text.place == "files" and files.by_name(text.path):
            if (key := (text.repo, text.path, text.replaced)) not in named:
                named.add(key)
                found.append(_exposure(text, 1, NAMED))
            continue
        found += _inside(text, files, rules)
    return found


def _inside(text: StoredText, files: Files, rules: Rules) -> Iterator[Exposure]:
    if text.place == "files" and files.is_left(text.path):
        return
    code = text.place == "files" and is_code(text.language)
    reported: set[tuple[int, str]] = set()
    for start, _, rule in masker(rules).find(text.text, code=code and text.language != "shell"):
        line = text.text.count("\n", 0, start) + max(text.line, 1)
        if rule == "private-key" and any(known == rule for _, known in reported):
            continue
        if (line, rule) not in reported:
            reported.add((line, rule))
            yield _exposure(text, line, rule)


def _exposure(text: StoredText, line: int, rule: str) -> Exposure:
    id_ = "" if text.place == "files" else str(text.id)
    return Exposure(text.repo, text.root, text.place, text.path, line, rule, id_, text.replaced)


def remedies(found: Sequence[Exposure]) -> list[str]:
    """The commands that remove what was found, in the order to run them."""
    roots = {one.repo: one.root for one in found if one.place == "files" and not one.replaced}
    out = [f"plait index {shlex.quote(root)} --repo {shlex.quote(_own(repo))}{_tenant(repo)}"
           for repo, root in sorted(roots.items())]  # fmt: skip
    if any(one.place == "files" for one in found):
        out.append("plait doctor --secrets --drop-replaced")
    ids: dict[str, list[str]] = defaultdict(list)
    for one in found:
        if one.id and one.place != "receipt" and one.id not in ids[one.repo]:
            ids[one.repo].append(one.id)
    for repo, all_ in sorted(ids.items()):
        for start in range(0, len(all_), SHOWN_IDS):
            some = " ".join(all_[start : start + SHOWN_IDS])
            name = shlex.quote(_own(repo))
            out.append(f"plait forget {some} --repo {name}{_tenant(repo)} --reclaim --yes")
    return out


def render(found: Sequence[Exposure]) -> str:
    if not found:
        return "No secret is stored that today's rules know."
    lines = [f"{len(found):,} secrets are stored:"]
    lines += [
        f"  {one.repo}: {one.path or one.place}:{one.line}: {one.rule}"
        + (f" ({one.place} {one.id})" if one.id else " (replaced revision)" if one.replaced else "")
        for one in found
    ]
    if any(one.place == "receipt" for one in found):
        lines.append("Receipts of recalls go by themselves after `recall.keep_s`.")
    lines += ["", "Change each of them where it came from. To remove them from here:"]
    return "\n".join([*lines, *(f"  {command}" for command in remedies(found))])


def as_json(found: Sequence[Exposure]) -> str:
    body = {"secrets": [asdict(one) for one in found], "commands": remedies(found)}
    return json.dumps(body, indent=2)


def _own(repo: str) -> str:
    """The name as its tenant gave it."""
    return repo.rpartition("@")[2]


def _tenant(repo: str) -> str:
    tenant, at, _ = repo.rpartition("@")
    return f" --tenant {shlex.quote(tenant)}" if at else ""
