"""Which files an index leaves out for what they are, and what it masks in the others."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from etl.languages import is_code, language_of
from etl.source.ignore import IgnoreFile, as_bytes_text, compile_ignore
from plait.secrets.paths import NAMES, is_secret
from plait.secrets.rules import Rules

if TYPE_CHECKING:
    from plait.secrets.mask import Masker


_WILD = re.compile(r"\*+|\?|\[.*\]|\\.")


class Files:
    """The rules of secrets, for the files of one repository."""

    def __init__(self, rules: Rules) -> None:
        self.digest = rules.digest()
        self._rules = rules
        names = [*map(_anywhere, NAMES), *(glob.lower() for glob in rules.files)]
        self._names = compile_ignore("\n".join(names))
        self._may = _Endings.of(names)
        self._left: IgnoreFile | None = compile_ignore("\n".join(rules.allow_paths))
        self._masker: Masker | None = None

    def by_name(self, path: str) -> bool:
        """Whether the file or folder (which ends with "/") is a secret by its name."""
        names, lowered = self._names, path.lower()
        if names is None or not self._may.fit(lowered):
            return False
        return names.verdict(as_bytes_text(lowered)) is True

    def by_content(self, path: str, head: bytes) -> bool:
        """Whether a file that begins with `head` is a secret as a whole."""
        code = is_code(language_of(path))
        return is_secret(head, code=code) and not self.is_left(path)

    def mask(self, source: bytes, path: str, *, code: bool) -> tuple[bytes, int]:
        """`source` with its credentials covered, as long and in as many lines, and how many they are."""
        # In a shell what is bare is a text.
        code = code and language_of(path) != "shell"
        if self._rules.allow_paths and self.is_left(path):
            return source, 0
        if self._masker is None:
            # Here: who only walks needs no patterns.
            from plait.secrets.mask import masker

            self._masker = masker(self._rules)
        return self._masker.body(source, code=code)

    def is_left(self, path: str) -> bool:
        """Whether the rules say to leave the file's text as it is."""
        return self._left is not None and self._left.verdict(as_bytes_text(path)) is True


@dataclass(frozen=True, slots=True)
class _Endings:
    """What the last part of a path must be for some glob to match it: 1 µs, where the globs take 100."""

    names: frozenset[str]
    starts: tuple[str, ...]
    ends: tuple[str, ...]
    inside: tuple[str, ...]

    @classmethod
    def of(cls, globs: Iterable[str]) -> _Endings:
        names: set[str] = set()
        starts: list[str] = []
        ends: list[str] = []
        inside: list[str] = []
        for glob in globs:
            last = glob.rstrip("/").rpartition("/")[2]
            if glob.startswith("!"):
                continue
            first, *more = _WILD.split(last)
            if not more:
                names.add(last)
            elif first:
                starts.append(first)
            elif len(more) == 1:
                ends.append(more[0])
            else:
                inside.append(max(more, key=len))  # "" is in every name
        return cls(frozenset(names), tuple(starts), tuple(ends), tuple(inside))

    def fit(self, path: str) -> bool:
        last = path.rstrip("/").rpartition("/")[2]
        return (
            last in self.names
            or last.startswith(self.starts)
            or last.endswith(self.ends)
            or any(part in last for part in self.inside)
        )


def _anywhere(glob: str) -> str:
    """A built-in name holds in every folder; in an ignore file a "/" inside would tie it to the root."""
    plain = glob.removeprefix("!")
    if "/" in plain.rstrip("/"):
        return ("!" if plain != glob else "") + "**/" + plain
    return glob
