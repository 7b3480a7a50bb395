"""Questions about a repository whose answers are kept, and found again only where a change can reach them.

A question belongs to a file (its home) and reads that file's facts; of other files it asks questions. Every
answer keeps what it asked, so after a change only answers that a changed one reaches are looked at again,
and one whose own sources all stayed the same is kept without being worked out anew (Salsa's red and green).

The answers do not depend on the order of the questions. A question that leads back to itself, or to such a
one, has no answer of its own: it is worked out inside the step that asks it, where a cycle gives nothing for
the inner question. A step is what binds one file; what it works out so is its own.

Modes are the passes of a binder. What a mode asks is answered by the mode before it, where that knows
something (from `first_of` on).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final

Key = tuple[Hashable, ...]  # (kind, …): `Finders` has the function of each kind
Finder = Callable[..., Any]

_MAX_DEPTH = 30  # of questions that lead to questions; each costs some fifteen Python frames
_MAX_TRIES = 4  # of a question inside a step whose answer was cut short by a cycle

CURRENT, MAYBE, MUST, PENDING = range(4)


class _Cyclic:
    """The answer of a question that leads to a cycle."""

    def __repr__(self) -> str:
        return "CYCLIC"


CYCLIC: Final = _Cyclic()
GONE: Final = ("gone",)  # the answer of a question about a definition that is no more


class Entry:
    """A question with its answer; or a step, which has no key."""

    __slots__ = ("askers", "changed", "deps", "key", "mode", "slot", "state", "value", "verified")

    def __init__(self, slot: int, mode: int, key: Key | None) -> None:
        self.slot = slot
        self.mode = mode
        self.key = key
        self.state = MUST
        self.value: Any = None
        self.changed = 0  # when the answer last became another
        self.verified = 0
        self.deps: list[Entry] = []
        self.askers: list[Entry] = []


class _Cycle(Exception):
    """Unwinds to the questions that lead to a cycle."""


class _Deeper(Exception):
    """Too many questions wait for one another: `entry` is answered first, and they begin anew."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry


class Questions:
    """The answers of one binder. `same` compares two answers; `gone` tells keys about what is no more."""

    def __init__(
        self,
        modes: int,
        same: Callable[[Any, Any], bool],
        gone: Callable[[int, Key], bool],
        *,
        track: bool,
        first_of: int = 2,
        only_there: frozenset[str] = frozenset(),
    ) -> None:
        self.finders: Mapping[str, Finder] = {}
        self.mode = 0
        self.revision = 1
        self._same = same
        self._gone = gone
        self.tracks = track  # what depends on what is noted
        self._first_of = first_of
        self._only_there = only_there  # kinds of which the mode before knows nothing
        self._answers: list[list[dict[Key, Entry]]] = [[] for _ in range(modes)]
        self._world: dict[Key, Entry] = {}
        self._raw: list[list[Entry]] = []  # slot → steps that read its facts themselves
        self._home: Entry | None = None
        self._depth = 0
        # Inside a step: answers of cyclic questions, for that step alone.
        self._local: dict[tuple[int, int, Key], Any] | None = None
        self._tries: dict[tuple[int, int, Key], int] = {}
        self._local_depth = 0
        self._cuts = 0

    def grow(self, slots: int) -> None:
        """Make room for files up to `slots`."""
        for answers in self._answers:
            answers.extend({} for _ in range(slots - len(answers)))
        self._raw.extend([] for _ in range(slots - len(self._raw)))

    @property
    def count(self) -> int:
        """How many answers are kept."""
        return len(self._world) + sum(len(a) for answers in self._answers for a in answers)

    # -- asking -----------------------------------------------------------------------------------

    def ask(self, slot: int, key: Key) -> Any:
        """The answer to `key` about file `slot`, in the present mode."""
        answers = self._answers[self.mode][slot]
        entry = answers.get(key)
        if entry is None:
            entry = answers[key] = Entry(slot, self.mode, key)
        home = self._home
        if self.tracks and home is not None:
            home.deps.append(entry)
            entry.askers.append(home)
        if entry.state != CURRENT:
            if entry.state == PENDING:
                raise _Cycle
            self._settle(entry)
        if entry.value is CYCLIC:
            if self._local is None:
                raise _Cycle
            return self._cut_short(slot, self.mode, key)
        return entry.value

    def world(self, key: Key) -> Any:
        """The answer to a question about the whole repository, which asks no other."""
        entry = self._world.get(key)
        if entry is None:
            entry = self._world[key] = Entry(-1, 0, key)
            entry.value = self.finders[str(key[0])](*key[1:])
            entry.changed = entry.verified = self.revision
            entry.state = CURRENT
        home = self._home
        if self.tracks and home is not None:
            home.deps.append(entry)
            entry.askers.append(home)
        return entry.value

    def _settle(self, entry: Entry) -> None:
        """Answer `entry`, and first what is too far below it."""
        if self._local is None and self._depth:
            self._attempt(entry)
            return
        depth, self._depth = self._depth, 0
        waiting, known = [entry], {id(entry)}
        try:
            while waiting:
                top = waiting[-1]
                if top.state != CURRENT:
                    try:
                        self._attempt(top)
                    except _Deeper as deeper:
                        below = deeper.entry
                        if id(below) in known:  # it waits for itself
                            self._answered(below, CYCLIC)
                        else:
                            waiting.append(below)
                            known.add(id(below))
                        continue
                known.discard(id(waiting.pop()))
        finally:
            self._depth = depth

    def _attempt(self, entry: Entry) -> None:
        if self._depth >= _MAX_DEPTH:
            raise _Deeper(entry)
        before = entry.state
        saved = (self._home, self._local, self.mode)
        self._home, self._local, self.mode = entry, None, entry.mode
        self._depth += 1
        entry.state = PENDING
        try:
            if before == MAYBE and self._unchanged(entry):
                value = entry.value
            else:
                before = MUST
                entry.deps.clear()
                value = self._find(entry.slot, entry.mode, entry.key or ())
        except _Cycle:
            value = CYCLIC
        except BaseException:
            entry.state = before
            raise
        finally:
            self._depth -= 1
            self._home, self._local, self.mode = saved
        self._answered(entry, value)

    def _answered(self, entry: Entry, value: Any) -> None:
        if not entry.verified or not (value is entry.value or self._same(value, entry.value)):
            entry.value = value
            entry.changed = self.revision
        entry.verified = self.revision
        entry.state = CURRENT

    def _find(self, slot: int, mode: int, key: Key) -> Any:
        if self.tracks and self._gone(slot, key):
            return GONE
        kind = str(key[0])
        if mode >= self._first_of and kind not in self._only_there:
            self.mode = mode - 1
            known = self.ask(slot, key)
            self.mode = mode
            if known:
                return known
        return self.finders[kind](slot, *key[1:])

    def _unchanged(self, entry: Entry) -> bool:
        """True when all that an answer was made of is as it was then."""
        for dep in entry.deps:
            if dep.state != CURRENT:
                if dep.state == PENDING:
                    raise _Cycle
                self._settle(dep)
            if dep.value is CYCLIC and entry.key is not None:
                raise _Cycle
            if dep.changed > entry.verified:
                return False
        return True

    def _cut_short(self, slot: int, mode: int, key: Key) -> Any:
        """The answer to a cyclic question inside the present step."""
        assert self._local is not None
        home = self._home
        assert home is not None
        question = (mode, slot, key)
        stored = self._local
        if question in stored:
            known = stored[question]
            if known is not CYCLIC:
                return known
            self._cuts += 1
            return ()
        if self._local_depth >= _MAX_DEPTH:
            self._cuts += 1
            return ()
        if slot != home.slot:
            self._raw[slot].append(home)
        before = self._cuts
        stored[question] = CYCLIC
        self._local_depth += 1
        self.mode = mode
        try:
            value = self._find(slot, mode, key)
        finally:
            self._local_depth -= 1
            self.mode = mode
        tries = self._tries[question] = self._tries.get(question, 0) + 1
        whole = self._cuts == before or self._local_depth == 0
        if value or whole or tries > _MAX_TRIES:
            stored[question] = value
        else:
            del stored[question]
        return value

    # -- steps ------------------------------------------------------------------------------------

    def run(self, step: Entry, work: Callable[[], None]) -> None:
        """Do the work of a step: what it asks is noted as what it depends on."""
        step.deps.clear()
        self._home, self._local, self.mode = step, {}, step.mode
        self._tries.clear()
        try:
            work()
        finally:
            self._home = self._local = None
        step.state = CURRENT
        step.verified = self.revision

    def is_stale(self, step: Entry) -> bool:
        """True when a step has to run again."""
        if step.state == MAYBE and self._unchanged(step):
            step.state = CURRENT
            step.verified = self.revision
        return step.state != CURRENT

    # -- changes ----------------------------------------------------------------------------------

    def changed_files(self, slots: Iterable[int]) -> set[Entry]:
        """The facts of these files are others. Returns the steps that this may reach."""
        found: list[Entry] = []
        reached: set[Entry] = set()
        for slot in slots:
            for answers in self._answers:
                found += self._doubt(answers[slot].values())
            for step in self._raw[slot]:
                step.state = MUST
                reached.add(step)
            self._raw[slot] = []
        return reached | self._reach(found)

    def changed_answers(self, mode: int, slot: int, kind: str) -> set[Entry]:
        """The answers of one kind about a file have another source now."""
        answers = self._answers[mode][slot]
        return self._reach(self._doubt(e for e in answers.values() if e.key and e.key[0] == kind))

    def changed_world(self, kinds: Iterable[str], among: Iterable[Key] | None = None) -> set[Entry]:
        """Answer questions about the repository again, all of `kinds` or those `among` them."""
        wanted = frozenset(kinds)
        if among is None:
            entries = [e for key, e in self._world.items() if key[0] in wanted]
        else:
            entries = [self._world[key] for key in among if key in self._world]
        found = []
        for entry in entries:
            key = entry.key or ()
            value = self.finders[str(key[0])](*key[1:])
            if value != entry.value:
                entry.value = value
                entry.changed = self.revision
                found.append(entry)
        return self._reach(found)

    @staticmethod
    def _doubt(entries: Iterable[Entry]) -> list[Entry]:
        found = list(entries)
        for entry in found:
            entry.state = MUST
        return found

    @staticmethod
    def _reach(found: list[Entry]) -> set[Entry]:
        """Mark whatever was made of these answers. Returns the steps among it."""
        steps: set[Entry] = set()
        todo = list(found)
        while todo:
            entry = todo.pop()
            askers = list(dict.fromkeys(entry.askers))
            entry.askers = askers
            for asker in askers:
                if asker.state == CURRENT:
                    asker.state = MAYBE
                    if asker.key is not None:
                        todo.append(asker)
                if asker.key is None:
                    steps.add(asker)
        return steps
