"""Carry out a plan: each file on its own, so that one that fails leaves the others done."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from server.install import files, record
from server.install.agents import Scope
from server.install.plan import Change, Plan, Problem
from server.install.refusal import Refused


def apply(plan: Plan, scope: Scope, home: Path) -> Plan:
    """Write what the plan says; returns it with the changes that were made and all problems.

    `home` is where the folders that were made are remembered.
    """
    known = record.folders(home)
    done: list[Change] = []
    problems = list(plan.problems)
    made = list(known)
    for change in plan.changes:
        try:
            made += _write(change, private=scope is Scope.USER)
            done.append(change)
        except Refused as exc:
            problems.append(Problem(change.path, change.agents, exc.text, exc.line))
    if any(change.action == "removed" for change in done):
        gone = files.remove_empty(_around(done, made))
        made = [folder for folder in made if folder not in gone]
    if set(made) != set(known):
        try:
            record.keep(home, made)
        except OSError as exc:
            note = f"the folders that were made could not be noted in {home}: {exc.strerror}"
            plan = replace(plan, notes=(*plan.notes, note))
    return replace(plan, changes=tuple(done), problems=tuple(problems))


def _write(change: Change, *, private: bool) -> list[Path]:
    if change.action == "unchanged":
        return []
    if files.read(change.real) != change.before:
        raise Refused("another program changed it meanwhile; run the command again")
    if change.after is None:
        files.delete(change.real)
        return []
    return files.write(change.real, change.after, private=private)


def _around(done: list[Change], made: list[Path]) -> list[Path]:
    """The folders of removed files that were made for them: those on record, and those of our name."""
    above = {f for c in done if c.action == "removed" for f in c.real.parents}
    return [f for f in above if f in made or (f.name == "plait" and f.parent.name == "skills")]
