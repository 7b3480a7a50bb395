"""Query intent: which kind of item of a run a question asks for: a message, a command's output, a change. Pure.

The prompt of a run contains all words of a question about it but seldom the answer, and a diff contains the words of
its path and code; "why" is answered by a message of the agent, "which command" by the command. So kinds that a
question does not ask for count less. Only in runs of agents: in a conversation all turns are equal. Decided by
English words. Measured in docs/experiments/query-intent.md.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from enum import StrEnum

from plait.domain.values import Collection, ItemId
from plait.ports import Place
from plait.retrieval.ranking.weights import DEFAULT


class Part(StrEnum):
    """The role of an item in its run."""

    PROMPT = "prompt"  # the first message
    USER = "user"  # a later message of the user
    AGENT = "said"
    OUTPUT = "output"
    TEST = "test"
    CHANGE = "change"


class Intent(StrEnum):
    """What a question is about; several may hold."""

    USER = "user"
    WHY = "why"
    CHANGE = "change"
    COMMAND = "command"
    RESULT = "result"


_INTENT_WORDS: Mapping[Intent, re.Pattern[str]] = {
    Intent.USER: re.compile(
        r"\b(?:users?|asks?|asked|wants?|wanted|wish\w*|forb[ai]d\w*|prefer\w*|decid\w*|decision|request\w*|requir\w*"
        r"|issue|report(?:s|ed|er)?|rul(?:e|es|ed|ing) out|allow\w*|according to|must|task)\b",
        re.I,
    ),
    Intent.WHY: re.compile(
        r"\bwhy\b|\breasons?\b|\bcaus(?:e|es|ed)\b|\bwhat (?:made|makes|broke|breaks|prevent\w*|(?:is|was) wrong)\b"
        r"|\bwrong with\b|\bwhere (?:is|was|does|did)\b.{0,40}\b(?:bug|problem|fault|lost|error)\b|\broot cause\b|\bbad idea\b",
        re.I,
    ),
    Intent.CHANGE: re.compile(
        r"\b(?:fix(?:es|ed)?|chang\w+|edit\w*|patch\w*|diffs?|tried|try|attempt\w*|solutions?|solv\w+|implement\w*|replac\w+"
        r"|renam\w+|refactor\w*|rewr\w+|modif\w+|code|lines?|add(?:s|ed)|remov\w+|approach\w*|idea)\b",
        re.I,
    ),
    Intent.COMMAND: re.compile(
        r"\bcommands?\b|\b(?:how|which|what)\b.{0,80}\b(?:runs?|ran|running|start(?:s|ed)?|invok\w+|execut\w+|launch\w*"
        r"|measur\w+|reproduc\w+|install\w*|check(?:s|ed)?|buil[dt]|called|find out|found out|look(?:s|ed)? at)\b",
        re.I,
    ),
    Intent.RESULT: re.compile(
        r"\b(?:errors?|fail\w*|exceptions?|crash\w*|panic\w*|tracebacks?|raised|complain\w*|output|print\w*|exit code|status"
        r"|versions?|tests?|specs?|suite|assert\w*|how (?:many|much|long|fast|full|often|large|big))\b",
        re.I,
    ),
}
_WORK = frozenset({Part.OUTPUT, Part.TEST, Part.CHANGE})
_PARTS = {
    Collection.TESTS: Part.TEST,
    Collection.DIFFS: Part.CHANGE,
    Collection.REFLECTIONS: Part.AGENT,
}
MAX_READ = 400  # characters of a question
WEIGHTS = DEFAULT.intent
_FIRST = re.compile(r"\b(?:first|initial(?:ly)?|original(?:ly)?|began|begin(?:ning)?)\b", re.I)
_LAST = re.compile(
    r"\b(?:last|final(?:ly)?|(?:in|at) the end|eventually|end(?:ed)? up|after the fix|now)\b", re.I
)


def intents(text: str) -> frozenset[Intent]:
    """The intents of `text`; empty if its words do not tell."""
    head = text[:MAX_READ]
    return frozenset(intent for intent, words in _INTENT_WORDS.items() if words.search(head))


def intent_factors(
    text: str,
    places: Mapping[ItemId, Place],
    external: Container[ItemId],
    first_turns: Container[ItemId] = (),
) -> dict[ItemId, float]:
    """Factors of runs' items by the intent of `text`, without those of 1.0. `external`: items from tools. `first_turns`:
    the first turns of sessions; an external one is a system prompt, not evidence of a run."""
    parts = {
        id_: part(place, external=id_ in external, opens=id_ in first_turns)
        for id_, place in places.items()
    }
    worked = {_run(places[i]) for i, is_ in parts.items() if is_ in _WORK and i not in first_turns}
    if not worked:
        return {}
    requested = intents(text)
    by_part = {is_: intent_factor(is_, requested) for is_ in Part}
    found = {}
    for id_, is_ in parts.items():
        place = places[id_]
        if is_ is None or _run(place) not in worked:
            continue
        ahead = (
            is_ is Part.AGENT and place.announces_step and not place.is_question
        )  # mere questions count less anyway
        found[id_] = by_part[is_] * (WEIGHTS.announces_next_step if ahead else 1.0)
    for id_, by in _in_order(text, {i: (_run(places[i]), parts[i]) for i in found}).items():
        found[id_] *= by
    return {id_: by for id_, by in found.items() if by != 1.0}


def _in_order(text: str, groups: Mapping[ItemId, tuple[str, Part | None]]) -> dict[ItemId, float]:
    """For a question about the first or the last of something: items later (or earlier) than others of their run and
    kind count less, by rank among them. Ids grow with time."""
    head = text[:MAX_READ]
    first, last = _FIRST.search(head) is not None, _LAST.search(head) is not None
    if first == last:
        return {}
    alike: dict[tuple[str, Part | None], list[ItemId]] = {}
    for id_, group in groups.items():
        alike.setdefault(group, []).append(id_)
    found: dict[ItemId, float] = {}
    for ids in alike.values():
        ids.sort(key=lambda id_: id_.int, reverse=last)
        share = WEIGHTS.order / max(1, len(ids) - 1)
        found |= {id_: 1.0 - share * rank for rank, id_ in enumerate(ids)}
    return found


def part(place: Place, *, external: bool, opens: bool) -> Part | None:
    """The role of the item in its run; None for plans and for items of no run."""
    if not _run(place):
        return None
    if place.collection is not Collection.MEMORIES:
        return _PARTS.get(place.collection)
    if external:
        # A turn with a path is an attempted edit.
        return Part.CHANGE if place.path else Part.OUTPUT
    if place.source == "user":
        return Part.PROMPT if opens else Part.USER
    return Part.AGENT


def _run(place: Place) -> str:
    """The session, else the run, of an agents' item; "" for neither."""
    if place.collection is Collection.FILES:
        return ""
    return place.session_key or (str(place.episode_id) if place.episode_id else "")


def intent_factor(part: Part, requested: frozenset[Intent]) -> float:
    """1.0 for requested kinds. Without intents, also for all kinds but changes and prompts."""
    found = 1.0
    if part is Part.CHANGE and Intent.CHANGE not in requested:
        found *= WEIGHTS.change_not_asked
    if part is Part.PROMPT and Intent.USER not in requested:
        found *= WEIGHTS.prompt_not_asked
    if (
        part in (Part.OUTPUT, Part.TEST)
        and requested
        and not requested & {Intent.COMMAND, Intent.RESULT}
    ):
        found *= WEIGHTS.output_not_asked
    if part is Part.AGENT and requested and requested <= {Intent.COMMAND, Intent.RESULT}:
        found *= WEIGHTS.agent_not_asked
    if part is Part.USER and requested and Intent.USER not in requested:
        found *= WEIGHTS.user_not_asked
    if part not in (Part.PROMPT, Part.USER) and requested == {Intent.USER}:
        found *= WEIGHTS.not_the_user
    return found
