"""Changed copies of frozen values, where `dataclasses.replace` is too slow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from operator import attrgetter
from typing import Any, Concatenate, TypeVar

T = TypeVar("T")


def copier(cls: type[T]) -> Callable[Concatenate[T, ...], T]:
    """`replace` for `cls`, a dataclass with slots and without `__post_init__`: it sets slots instead of
    calling `__init__` with each field by name. Of 28 fields 3 µs instead of 10."""
    names = [f.name for f in fields(cls)]  # type: ignore[arg-type]
    # One attribute alone, `attrgetter` gives as it is; the first twice is a tuple always.
    read: Callable[[T], tuple[Any, ...]] = attrgetter(*names, names[0])
    write = {name: getattr(cls, name).__set__ for name in names}
    setters = tuple(write.values())

    def changed(value: T, /, **changes: Any) -> T:
        made = object.__new__(cls)
        for put, old in zip(setters, read(value), strict=False):
            put(made, old)
        for name, new in changes.items():
            write[name](made, new)
        return made

    return changed
