"""The repository's Python classes: their members and their method resolution order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from etl.facts import FileFacts
from etl.languages.python.resolve_values import Class, External, Values

# Bases that add nothing a call could be bound to, and hide nothing.
_PLAIN = frozenset({"object", "Generic", "Protocol", "ABC"})


def fill(
    facts: FileFacts,
    file: int,
    by_place: Mapping[tuple[int, int], Class],
    attributes: Mapping[int, dict[str, list[int]]],
) -> None:
    """The members of a file's classes. The last of a name wins, but a property's getter."""
    for number, definition in enumerate(facts.definitions):
        owner = by_place.get((file, definition.parent)) if number else None
        if owner is None:
            continue
        name = definition.name
        if any(each in (f"{name}.setter", f"{name}.deleter") for each in definition.decorators):
            continue
        owner.members[name] = number
    for number, names in attributes.items():
        owner = by_place.get((file, number))
        if owner is not None:
            owner.attrs = names


def link(cls: Class, resolve: Callable[[Class, str], Values]) -> bool:
    """Find the bases of a class by what `resolve` says each means. True when they are others now."""
    found: list[Class] = []
    external = metaclass = False
    for written in cls.definition.bases:
        values = resolve(cls, written)
        known = [value for value in values if isinstance(value, Class) and value is not cls]
        if known:
            found += [base for base in known[:1] if base not in found]
        elif written == "type" or written.endswith("Meta"):
            metaclass = external = True
        elif written.rpartition(".")[2] not in _PLAIN or not _outside(values):
            external = True
    before = (cls.bases, cls.own_external, cls.own_metaclass)
    cls.bases, cls.own_external, cls.own_metaclass = found, external, metaclass
    return before != (found, external, metaclass)


def order(classes: Iterable[Class]) -> list[Class]:
    """Compute the MRO (C3) of classes whose bases changed, and of all below them. Returns those whose
    order, or whose kind, is another now."""
    below: dict[Class, None] = dict.fromkeys(classes)
    for cls in (todo := list(below)):
        for sub in cls.subclasses:
            if sub not in below:
                below[sub] = None
                todo.append(sub)
    before = {cls: (cls.mro, cls.external, cls.metaclass) for cls in below}
    done = {base: base.mro for cls in below for base in cls.bases if base not in below}
    for cls in below:
        cls.mro = _mro(cls, done)
    for cls in below:
        cls.external = any(base.own_external for base in cls.mro)
        cls.metaclass = any(base.own_metaclass for base in cls.mro)
    return [cls for cls in below if before[cls] != (cls.mro, cls.external, cls.metaclass)]


def _outside(values: Values) -> bool:
    return bool(values) and all(isinstance(value, External) for value in values)


def _mro(root: Class, done: dict[Class, tuple[Class, ...]]) -> tuple[Class, ...]:
    """C3 linearisation, without recursion; of a cycle of bases each class has only itself above it.

    An inconsistent order is depth first.
    """
    stack, active = [root], set[Class]()
    while stack:
        cls = stack[-1]
        if cls in done:
            stack.pop()
            continue
        if cls not in active and _is_above_itself(cls):
            done[cls] = (cls,)
            continue
        active.add(cls)
        waiting = [base for base in cls.bases if base not in done and base not in active]
        if waiting:
            stack.append(waiting[0])
            continue
        known = [base for base in cls.bases if base in done]
        done[cls] = (cls, *_merge([list(done[base]) for base in known] + [known]))
        active.discard(cls)
        stack.pop()
    return done[root]


def _is_above_itself(cls: Class) -> bool:
    seen: set[Class] = set()
    todo = list(cls.bases)
    while todo:
        base = todo.pop()
        if base is cls:
            return True
        if base not in seen:
            seen.add(base)
            todo += base.bases
    return False


def _merge(sequences: list[list[Class]]) -> list[Class]:
    """The C3 merge (Barrett et al., OOPSLA 1996)."""
    merged: list[Class] = []
    sequences = [list(sequence) for sequence in sequences if sequence]
    if len(sequences) == 2 and sequences[0][0] is sequences[1][0] and len(sequences[1]) == 1:
        return sequences[0]
    while sequences:
        tails = {cls for sequence in sequences for cls in sequence[1:]}
        head = next((s[0] for s in sequences if s[0] not in tails), sequences[0][0])
        merged.append(head)
        sequences = [[cls for cls in s if cls is not head] for s in sequences]
        sequences = [s for s in sequences if s]
    return merged
