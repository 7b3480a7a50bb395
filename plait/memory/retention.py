"""What of a scope's memories is closed, and why: decided in Python, without I/O or a clock.

`plan` decides with extractive summaries. `planning` is the same as a generator: it yields each group to
be summarized and is sent the summary, so that its driver may call a model.

A plan is about one budget (`Budget`): what was stored explicitly, or the record of runs. In order:
pinned memories stay; duplicates are closed; groups of the rest are summarized, the least used and
least linked first, until the budget is down to `compact_to`. A plan deletes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any
from uuid import UUID, uuid5

from plait.domain.memory import (
    MemoryEntry,
    MemoryId,
    MemoryMetadata,
    MemorySource,
    MemoryType,
)
from plait.domain.retention import UNUSED, Action, Budget, CompactionPlan, Step, Summary, Use
from plait.memory.duplicates import duplicates
from plait.memory.summarize import extractive
from plait.settings import MemorySettings
from plait.text.token_count import count

# From this importance on a memory stays whatever the budget.
IMPORTANT = 0.9
# Limits of what one summary replaces: beyond them too little is left of each source.
MAX_SOURCES = 40
MAX_SOURCE_TOKENS = 6_000
# A memory this many times as long as a summary is shortened even alone.
LONG = 4
# A summary has to save at least a fifth, or its sources stay.
WORTH = 0.8
# The worth of a memory halves in this time; guessed.
HALF_LIFE_DAYS = 30.0

# Memories of runs that one plan examines, the oldest first: their budget holds a quarter of a million,
# which would not fit into memory with their texts.
MAX_EXAMINED = 20_000
# Kinds of memories of runs; a summary has the budget of its sources in `custom.budget`.
RUN_KINDS = frozenset({"turn", "note"})

_NAMESPACE = UUID("6f1f9f0a-9d3e-5c0b-8f0e-7a1f3c1f6b52")
_OLDEST = datetime(1970, 1, 1, tzinfo=UTC)
_SUCCESS = frozenset({"success", "succeeded", "passed", "pass", "ok", "fixed", "solved"})
_FAILURE = frozenset({"failure", "failed", "fail", "error", "timeout", "crashed"})


@dataclass(frozen=True, slots=True)
class Group:
    """Memories that one summary will stand for, oldest first. `about`: what they have in common."""

    about: str
    entries: tuple[MemoryEntry, ...]
    session_key: str = ""
    path: str = ""
    symbol: str = ""

    @property
    def tokens(self) -> int:
        return sum(tokens_of(entry) for entry in self.entries)


Planning = Generator[Group, Summary, CompactionPlan]


@dataclass(slots=True)
class _Deciding:
    """A plan in the making. `most`: the limit of its budget in tokens."""

    tokens: int
    budget: Budget
    most: int
    use: Mapping[MemoryId, Use]
    steps: list[Step] = field(default_factory=list)
    summaries: list[MemoryEntry] = field(default_factory=list)
    notes: dict[str, None] = field(default_factory=dict)


def plan(
    entries: Sequence[MemoryEntry],
    settings: MemorySettings,
    now: datetime,
    *,
    repo: str = "",
    agent_id: str = "",
    forced: bool = False,
    budget: Budget = Budget.STORED,
    use: Mapping[MemoryId, Use] = MappingProxyType({}),
) -> CompactionPlan:
    """What to do with the living memories of one (repository, agent); see `planning`."""
    deciding = planning(
        entries,
        settings,
        now,
        repo=repo,
        agent_id=agent_id,
        forced=forced,
        budget=budget,
        use=use,
    )
    try:
        group = next(deciding)
        while True:
            group = deciding.send(extractive(group.entries, settings.summary_tokens))
    except StopIteration as end:
        decided: CompactionPlan = end.value
        return decided


def planning(
    entries: Sequence[MemoryEntry],
    settings: MemorySettings,
    now: datetime,
    *,
    repo: str = "",
    agent_id: str = "",
    forced: bool = False,
    budget: Budget = Budget.STORED,
    use: Mapping[MemoryId, Use] = MappingProxyType({}),
    total: int | None = None,
) -> Planning:
    """Yields the groups to summarize; returns the plan, without a step when nothing is to be done.

    It is triggered when the scope has at least `compact_at` of its budget, or when `forced` (by
    command: then duplicates are closed whatever the budget). `total`: tokens of all there is, where
    `entries` are not all of it. Equal arguments and summaries give an equal plan. Raises: ValueError, for
    entries of several repositories or agents, or of another budget.
    """
    ordered = sorted(entries, key=lambda e: (_born(e), e.id.bytes))
    if ordered:
        repo, agent_id = repo or ordered[0].repo, agent_id or ordered[0].agent_id
    if any((e.repo, e.agent_id) != (repo, agent_id) for e in ordered):
        raise ValueError("a plan is about one repository and one agent")
    if any(budget_of(e) is not budget for e in ordered):
        raise ValueError("a plan is about one budget")
    before = sum(map(tokens_of, ordered)) if total is None else total
    most = most_tokens(settings, budget)
    state = _Deciding(before, budget, most, use)
    if most and (forced or before >= trigger_tokens(settings, budget)):
        yield from _decide(state, ordered, settings, now)
    return CompactionPlan(
        repo, agent_id, tuple(state.steps), tuple(state.summaries), len(ordered), before,
        state.tokens, most, tuple(state.notes), budget,
    )  # fmt: skip


def budget_of(entry: MemoryEntry) -> Budget:
    """The budget that a memory counts against."""
    made_of = entry.metadata.custom.get("budget") if entry.kind == "summary" else None
    of_run = entry.kind in RUN_KINDS or made_of == Budget.RUNS.value
    return Budget.RUNS if of_run else Budget.STORED


def most_tokens(settings: MemorySettings, budget: Budget = Budget.STORED) -> int:
    """What one scope may have of `budget`; 0: as much as there is, nothing is ever closed."""
    return settings.run_budget_tokens if budget is Budget.RUNS else settings.budget_tokens


def trigger_tokens(settings: MemorySettings, budget: Budget = Budget.STORED) -> int:
    return int(settings.compact_at * most_tokens(settings, budget))


def target_tokens(settings: MemorySettings, budget: Budget = Budget.STORED) -> int:
    """`compact_to`, which a trigger below it must not undo."""
    share = min(settings.compact_to, settings.compact_at)
    return int(share * most_tokens(settings, budget))


def _decide(
    state: _Deciding, ordered: Sequence[MemoryEntry], settings: MemorySettings, now: datetime
) -> Generator[Group, Summary, None]:
    pins = pinned(ordered, settings.pin_recent, state.use)
    closed = _deduplicate(state, ordered, frozenset(pins), settings)
    target = target_tokens(settings, state.budget)
    if state.tokens > target:
        # What stands for a duplicate stays this time: it would be closed in the run that points to it.
        stay = pins.keys() | closed | {step.into for step in state.steps}
        rest = [e for e in ordered if e.id not in stay]
        yield from _summarize(state, ordered, rest, settings, now, target)
    # Pins explain what stayed; they are left out where nothing was closed and nothing had to be.
    if any(step.into for step in state.steps) or state.tokens > target:
        pin_steps = [
            Step(Action.PIN, e.id, pins[e.id], None, tokens_of(e), e.version)
            for e in ordered
            if e.id in pins
        ]
        state.steps[:0] = pin_steps
    if state.tokens > target and state.tokens >= trigger_tokens(settings, state.budget):
        state.notes[_over(state, settings, pins, ordered)] = None


def _over(
    state: _Deciding,
    settings: MemorySettings,
    pins: Mapping[MemoryId, str],
    ordered: Sequence[MemoryEntry],
) -> str:
    held = sum(tokens_of(e) for e in ordered if e.id in pins)
    name = "run_budget_tokens" if state.budget is Budget.RUNS else "budget_tokens"
    return (
        f"{state.tokens:,} tokens stay, over {settings.compact_at:.0%} of the budget of "
        f"{state.most:,}: {held:,} of them are pinned and the rest can't be shortened "
        f"further now; raise `memory.{name}`, lower `memory.pin_recent`, or unpin or delete some"
    )


# -- pins --------------------------------------------------------------------------------------------


def pinned(
    entries: Sequence[MemoryEntry],
    recent: int,
    use: Mapping[MemoryId, Use] = MappingProxyType({}),
) -> dict[MemoryId, str]:
    """Which entries stay whatever the budget, and why. `recent`: the newest successes, and as many
    of the newest failures."""
    out: dict[MemoryId, str] = {}
    for entry in entries:
        if entry.pinned:
            out[entry.id] = "pinned by hand"
        elif entry.metadata.importance >= IMPORTANT:
            out[entry.id] = f"importance {entry.metadata.importance:.2f} is {IMPORTANT} or more"
        elif use.get(entry.id, UNUSED).validated:
            out[entry.id] = "a test that passed validates it"
    newest = sorted(entries, key=lambda e: (_changed_at(e), e.id.bytes), reverse=True)
    for outcome in ("success", "failure"):
        found = [entry for entry in newest if outcome_of(entry) == outcome]
        for entry in found[:recent]:
            out.setdefault(entry.id, f"one of the {recent} newest memories of a {outcome}")
    return out


def outcome_of(entry: MemoryEntry) -> str:
    """`success`, `failure` or "": from the tags `success` and `failure`, `custom.outcome` or
    `custom.status`, or a tool that failed in a turn. Of a summary: "", its sources had their time."""
    if entry.kind == "summary":
        return ""
    tags, custom = {tag.lower() for tag in entry.metadata.tags}, entry.metadata.custom
    statuses = {_status(custom.get("outcome")), _status(custom.get("status"))}
    if (
        "failure" in tags
        or "failure" in statuses
        or (entry.kind == "turn" and _tool_failed(custom))
    ):
        return "failure"
    return "success" if "success" in tags or "success" in statuses else ""


def _status(value: Any) -> str:
    """An outcome as a word, or as an object with a `status`."""
    if isinstance(value, Mapping):
        value = value.get("status")
    if not isinstance(value, str):
        return ""
    word = value.strip().lower()
    return "success" if word in _SUCCESS else "failure" if word in _FAILURE else ""


def _tool_failed(custom: Mapping[str, Any]) -> bool:
    """Whether a turn's tool ended badly: the one it is about (`custom.succeeded`, as `Learn` stores it), or
    one of `custom.tools`, however its agent says so."""
    if custom.get("succeeded") is False:
        return True
    tools = custom.get("tools", custom.get("tool_outcomes"))
    return isinstance(tools, Sequence) and any(
        isinstance(tool, Mapping)
        and (
            tool.get("ok") is False
            or tool.get("success") is False
            or tool.get("is_error") is True
            or tool.get("failed") is True
            or "failure" in (_status(tool.get("status")), _status(tool.get("outcome")))
            or (isinstance(tool.get("exit_code"), int) and tool["exit_code"] != 0)
        )
        for tool in tools
    )


# -- duplicates --------------------------------------------------------------------------------------


def _deduplicate(
    state: _Deciding,
    ordered: Sequence[MemoryEntry],
    pins: frozenset[MemoryId],
    settings: MemorySettings,
) -> set[MemoryId]:
    """Close duplicates; the pinned, the most important, the longest valid, the newest stay."""
    # Newest first, then the others: sorts are stable.
    ranked = sorted(ordered, key=lambda e: (_changed_at(e), e.id.bytes), reverse=True)
    ranked.sort(
        key=lambda e: (
            e.id not in pins, -e.metadata.importance, e.valid_from is not None, e.valid_to is not None
        )
    )  # fmt: skip
    closed: set[MemoryId] = set()
    # Two steps of runs that say nearly the same are two steps: only the same words are one.
    near = None if state.budget is Budget.RUNS else settings.near_duplicate
    for found in duplicates(ranked, frozenset(pins), near):
        entry = found.entry
        tokens = tokens_of(entry)
        step = Step(Action.DEDUPLICATE, entry.id, found.reason, found.original.id, tokens)
        state.steps.append(
            replace(step, version=entry.version, into_version=found.original.version)
        )
        state.tokens -= tokens
        closed.add(entry.id)
    return closed


# -- summaries ---------------------------------------------------------------------------------------


def _summarize(
    state: _Deciding,
    ordered: Sequence[MemoryEntry],
    rest: Sequence[MemoryEntry],
    settings: MemorySettings,
    now: datetime,
    target: int,
) -> Generator[Group, Summary, None]:
    there = {_identity(entry): entry.id for entry in ordered}
    for group in groups(rest, settings, now, state.use):
        if state.tokens <= target:
            return
        summary = yield group
        if summary.degraded:
            state.notes[summary.degraded] = None
        entry = _summary_entry(group, summary, state.budget)
        if not entry.content.strip() or entry.tokens > WORTH * group.tokens:
            continue
        same = there.get(_identity(entry))
        if same is not None and same not in {e.id for e in group.entries}:
            continue  # an equal memory exists, and the store keeps equal ones once
        entry = _add_summary(state, entry)
        state.tokens -= group.tokens
        several = len(group.entries) > 1
        reason = f"{group.about}; {len(group.entries)} {'memories' if several else 'memory'} of "
        reason += f"{group.tokens:,} tokens {'become' if several else 'becomes'} a summary of "
        reason += f"{entry.tokens:,}"
        state.steps += [
            Step(Action.SUMMARIZE, e.id, reason, entry.id, tokens_of(e), e.version)
            for e in group.entries
        ]


def _identity(entry: MemoryEntry) -> tuple[str, str, str, str]:
    """The identity of a memory within its agent: the store keeps equal ones once."""
    return entry.metadata.session_key, entry.path, entry.symbol, entry.content


def _add_summary(state: _Deciding, entry: MemoryEntry) -> MemoryEntry:
    """The summary that stands for the group of `entry`: an equal one of another group, where there is one."""
    for i, other in enumerate(state.summaries):
        if _identity(other) == _identity(entry):
            begins = [e.valid_from for e in (other, entry) if e.valid_from is not None]
            same = replace(other, valid_from=max(begins) if begins else None)
            state.summaries[i] = same
            return same
    state.summaries.append(entry)
    state.tokens += entry.tokens
    return entry


def groups(
    rest: Iterable[MemoryEntry],
    settings: MemorySettings,
    now: datetime,
    use: Mapping[MemoryId, Use] = MappingProxyType({}),
) -> list[Group]:
    """Groups to summarize: memories never recalled or linked, then linked ones, then recalled
    ones; in each the least used, least linked and least important first. By code anchor, else by
    session, else by tag, else by month; each in portions of `MAX_SOURCES`. Memories that end (`valid_to`)
    are in none: a summary would outlive them."""
    together: dict[tuple[object, ...], list[MemoryEntry]] = defaultdict(list)
    for entry in sorted(rest, key=lambda e: (_born(e), e.id.bytes)):
        if entry.valid_to is None and not (entry.valid_from and entry.valid_from > now):
            together[(_rank(use.get(entry.id, UNUSED)), *_topic(entry))].append(entry)
    found = [
        _group(portion)
        for entries in together.values()
        for portion in _portions(entries)
        if len(portion) > 1 or tokens_of(portion[0]) > LONG * settings.summary_tokens
    ]
    return sorted(
        found,
        key=lambda g: (*_retention_key(g, now, use), _born(g.entries[0]), g.entries[0].id.bytes),
    )


def _rank(use: Use) -> int:
    """Recalled: 2, linked: 1."""
    return 2 if use.recalls > 0 else int(use.links > 0)


def _retention_key(
    group: Group, now: datetime, use: Mapping[MemoryId, Use]
) -> tuple[int, float, float, float]:
    """Sort key: the group least worth retaining comes first."""
    known = [use.get(entry.id, UNUSED) for entry in group.entries]
    n = len(known)
    recalls, links = sum(one.recalls for one in known) / n, sum(one.links for one in known) / n
    return (max(map(_rank, known)), round(recalls, 9), round(links, 9), _worth(group, now))


def _topic(entry: MemoryEntry) -> tuple[str, ...]:
    if entry.path or entry.symbol:
        return ("anchor", entry.path, entry.symbol)
    if entry.metadata.session_key:
        return ("session", entry.metadata.session_key)
    if entry.metadata.tags:
        return ("tags", *entry.metadata.tags)
    return ("month", f"{_born(entry):%Y-%m}")


def _portions(entries: Sequence[MemoryEntry]) -> list[list[MemoryEntry]]:
    out: list[list[MemoryEntry]] = [[]]
    tokens = 0
    for entry in entries:
        more = tokens_of(entry)
        if out[-1] and (len(out[-1]) == MAX_SOURCES or tokens + more > MAX_SOURCE_TOKENS):
            out.append([])
            tokens = 0
        out[-1].append(entry)
        tokens += more
    return out


def _group(entries: Sequence[MemoryEntry]) -> Group:
    topic = _topic(entries[0])
    sessions = {entry.metadata.session_key for entry in entries}
    about = {
        "anchor": "about the same place in the code",
        "session": "of one session",
        "tags": "with the same tags",
        "month": "of one month",
    }[topic[0]]
    return Group(
        f"little used or linked, old or of little importance, and {about}",
        tuple(entries),
        next(iter(sessions)) if len(sessions) == 1 else "",
        entries[0].path if topic[0] == "anchor" else "",
        entries[0].symbol if topic[0] == "anchor" else "",
    )


def _worth(group: Group, now: datetime) -> float:
    """Mean importance, halved for each month of age. Rounded, so that equal ones tie."""
    total = 0.0
    for entry in group.entries:
        days = max(0.0, (now - _changed_at(entry)).total_seconds() / 86_400)
        total += entry.metadata.importance * 0.5 ** (days / HALF_LIFE_DAYS)
    return round(total / len(group.entries), 9)


def _summary_entry(group: Group, summary: Summary, budget: Budget) -> MemoryEntry:
    """It is true from when the last of its sources is; its id follows from them, so a dry run names
    what the run will write."""
    sources = sorted((str(e.id), e.version) for e in group.entries)
    types = {entry.type for entry in group.entries}
    begins = [e.valid_from for e in group.entries if e.valid_from is not None]
    tags = set.intersection(*(set(e.metadata.tags) for e in group.entries))
    first, last = _born(group.entries[0]), _born(group.entries[-1])
    return MemoryEntry(
        id=MemoryId(uuid5(_NAMESPACE, repr((group.entries[0].repo, sources)))),
        repo=group.entries[0].repo,
        agent_id=group.entries[0].agent_id,
        content=summary.text,
        metadata=MemoryMetadata(
            source=MemorySource.SYSTEM,
            session_key=group.session_key,
            tags=tuple(sorted(tags)),
            importance=max(e.metadata.importance for e in group.entries),
            custom={
                "sources": len(group.entries),
                "source_tokens": group.tokens,
                "from": first.isoformat(),
                "to": last.isoformat(),
                "summarizer": summary.by,
                "budget": budget.value,
            },
        ),
        type=types.pop() if len(types) == 1 else MemoryType.SEMANTIC,
        kind="summary",
        path=group.path,
        symbol=group.symbol,
        valid_from=max(begins) if begins else None,
        tokens=count(summary.text),
    )


def apply(plan: CompactionPlan, entries: Sequence[MemoryEntry], at: datetime) -> list[MemoryEntry]:
    """The living memories after `plan`, as the store will have them."""
    closed = {step.entry_id for step in plan.closed}
    written = [replace(s, created_at=at, updated_at=at) for s in plan.summaries]
    return [entry for entry in entries if entry.id not in closed] + written


def tokens_of(entry: MemoryEntry) -> int:
    """As stored; counted where it was stored without."""
    return entry.tokens or count(entry.content)


def _born(entry: MemoryEntry) -> datetime:
    return entry.created_at or _OLDEST


def _changed_at(entry: MemoryEntry) -> datetime:
    return entry.updated_at or entry.created_at or _OLDEST
