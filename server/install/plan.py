"""What an installation would change: for each file the text before and after, and what stands in the way."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from server.install import entry, files, hooks, marked, skill, toml_entry
from server.install.agents import AGENTS, Agent, Form, Hook, Paths, Scope
from server.install.machine import Machine
from server.install.refusal import Refused

Edit = Callable[[str | None], str | None]


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is to be there afterwards. To uninstall is to want nothing."""

    server: bool = True
    instructions: bool = True
    skill: bool = True
    hooks: frozenset[Hook] = frozenset(Hook)


NOTHING = Wanted(server=False, instructions=False, skill=False, hooks=frozenset())


@dataclass(frozen=True, slots=True)
class Step:
    """One part of one agent: how it changes the text of `path`."""

    path: Path
    agent: str
    part: str
    edit: Edit
    takes: bool = False


@dataclass(frozen=True, slots=True)
class Change:
    """A file (`path` as the client names it, `real` behind its links) before and after; None: no file."""

    path: Path
    real: Path
    agents: tuple[str, ...]
    parts: tuple[str, ...]
    before: str | None
    after: str | None

    @property
    def action(self) -> str:
        if self.before == self.after:
            return "unchanged"
        if self.before is None:
            return "created"
        return "removed" if self.after is None else "changed"

    def diff(self) -> str:
        """A unified diff, as `patch` reads it."""
        old, new = ("/dev/null" if t is None else str(self.path) for t in (self.before, self.after))
        rows = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            old,
            new,
        )
        return "".join(
            row if row.endswith("\n") else row + "\n\\ No newline at end of file\n" for row in rows
        )


@dataclass(frozen=True, slots=True)
class Problem:
    """A file that is left alone, and why. `line` is 0 where none is at fault."""

    path: Path
    agents: tuple[str, ...]
    text: str
    line: int = 0

    @property
    def where(self) -> str:
        return f"{self.path}, line {self.line}" if self.line else str(self.path)


@dataclass(frozen=True, slots=True)
class Plan:
    changes: tuple[Change, ...]
    problems: tuple[Problem, ...]
    notes: tuple[str, ...] = field(default=())


def make(
    agents: Sequence[Agent], wanted: Wanted, scope: Scope, machine: Machine, command: str
) -> Plan:
    """The plan for `agents`. One file that several share is changed once. Reads, and writes nothing."""
    steps = [s for agent in agents for s in _steps(agent, wanted, scope, machine, command)]
    steps = [step for step in steps if not _still_used(step, agents, scope, machine)]
    within = machine.project if scope is Scope.PROJECT else None
    grouped: dict[Path, list[Step]] = {}
    problems: list[Problem] = []
    for step in steps:
        try:
            grouped.setdefault(files.target(step.path, within), []).append(step)
        except Refused as exc:
            problems.append(Problem(step.path, (step.agent,), exc.text))
    changes: list[Change] = []
    for real, group in grouped.items():
        try:
            changes.append(_change(real, group))
        except Refused as exc:
            problems.append(Problem(group[0].path, _names(group), exc.text, exc.line))
    notes = [a.notes[scope] for a in agents if scope in a.notes] if wanted != NOTHING else []
    return Plan(tuple(changes), tuple(problems), tuple(dict.fromkeys(notes)))


def _change(real: Path, group: Sequence[Step]) -> Change:
    before = after = files.read(real)
    # What is put last is taken out first; the order of the parts is that of putting.
    for step in [*reversed([s for s in group if s.takes]), *(s for s in group if not s.takes)]:
        after = step.edit(after)
    if after != before:
        files.check_writable(real)
    parts = tuple(dict.fromkeys(step.part for step in group))
    return Change(group[0].path, real, _names(group), parts, before, after)


def _names(group: Sequence[Step]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step.agent for step in group))


def _steps(
    agent: Agent, wanted: Wanted, scope: Scope, machine: Machine, command: str
) -> list[Step]:
    put, take = _server_edits(agent)
    parts: list[tuple[str, Paths, bool, Edit, Edit]] = [
        ("server", agent.server.paths, wanted.server, partial(put, command=command), take),
        ("instructions", agent.instructions, wanted.instructions, marked.put, marked.take),
        ("skill", agent.skill, wanted.skill, skill.put, skill.take),
    ]
    if agent.hooks is not None:
        put_hooks = partial(hooks.put, agent=agent, command=command, wanted=wanted.hooks)
        parts.append(
            (
                "hooks",
                agent.hooks.paths,
                bool(wanted.hooks),
                put_hooks,
                partial(hooks.take, agent=agent),
            )
        )
    steps = []
    for name, paths, is_wanted, put_edit, take_edit in parts:
        chosen = machine.file(paths, scope)
        if is_wanted and chosen is not None:
            steps.append(Step(chosen, agent.name, name, put_edit))
        elif not is_wanted:
            steps += [
                Step(p, agent.name, name, take_edit, True) for p in machine.files(paths, scope)
            ]
    return steps


def _server_edits(agent: Agent) -> tuple[Callable[..., str], Edit]:
    module = toml_entry if agent.server.form is Form.TOML else entry
    return partial(module.put, server=agent.server), partial(module.take, server=agent.server)


def _still_used(step: Step, leaving: Sequence[Agent], scope: Scope, machine: Machine) -> bool:
    """Whether a file that clients share is still read by one that stays wired."""
    if not step.takes or step.part not in ("instructions", "skill"):
        return False
    staying = [agent for agent in AGENTS if agent not in leaving]
    return any(
        step.path
        in machine.files(agent.instructions if step.part == "instructions" else agent.skill, scope)
        and _is_wired(agent, scope, machine)
        for agent in staying
    )


def _is_wired(agent: Agent, scope: Scope, machine: Machine) -> bool:
    module = toml_entry if agent.server.form is Form.TOML else entry
    for path in machine.files(agent.server.paths, scope):
        try:
            if module.has(files.read(path), agent.server):
                return True
        except Refused:
            continue
    return False
