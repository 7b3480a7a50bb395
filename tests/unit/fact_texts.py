"""Facts in short, so that a table of expectations reads like the sources beside it."""

from __future__ import annotations

from etl.facts import Argument, Binding, Definition, Export, Import, ImportKind, Reference, Slot

_SLOTS = {
    Slot.NAME: "{}",
    Slot.PATH: "{}",
    Slot.MEMBER: "self.{}",
    Slot.RESULT: "return",
    Slot.YIELD: "yield",
    Slot.SELF: "=",
}


def target(binding: Binding) -> str:
    """`x`, `self.x`, `return`, `yield`; `=` for what a type is another name for."""
    return _SLOTS[binding.slot].format(binding.name)


def arguments(reference: Reference) -> str:
    """`a,k=b,*,:int`: a chain, a keyword's, a starred one, a type; nothing for what tells nothing."""
    return ",".join(map(_argument, reference.arguments))


def _argument(given: Argument) -> str:
    if given.is_starred:
        return "*"
    value = f":{given.type}" if given.type else given.chain
    return f"{given.keyword}={value}" if given.keyword else value


def parameters(definition: Definition) -> str:
    """`int,String...`; `-` for a compact constructor's, which are its record's."""
    if definition.parameters is None:
        return "-"
    return ",".join(p.type + "..." * p.is_variadic for p in definition.parameters)


def imported(found: Import) -> tuple[str, str, str]:
    """(module, name, alias); a kind that neither tells stands for the alias."""
    plain = found.kind in (ImportKind.NAME, ImportKind.MODULE)
    kind = "" if plain else f"{found.kind.value}:"
    return found.module, found.name, kind + found.alias


def exported(found: Export) -> str:
    """`name`, or `name=local`."""
    return found.name if found.name == found.local else f"{found.name}={found.local}"
