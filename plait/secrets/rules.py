"""The rules that people add to the built-in ones: a YAML file named by the setting `secrets.rules`."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from plait.domain.errors import BadSettings

# Raise it when a built-in rule changes: every file is then read again by the next index run.
VERSION = 1
MAX_FILE_BYTES = 1_000_000
MAX_ENTRIES = 500  # of one list
MAX_TEXT = 1_000  # characters of a pattern or a glob
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What `regex` matches is masked: its group `secret`, else the whole match, never across lines.

    `literal`: text that every match holds; a text without it is not searched with `regex`.
    """

    name: str
    regex: str
    literal: str = ""


@dataclass(frozen=True, slots=True)
class Rules:
    """`files`: further names of secret files, as in a `.gitignore` (`!` takes files in again).

    `allow`: regular expressions of values that are no secrets. `allow_paths`: files, by globs as above,
    whose text is left as it is. `disable`: built-in rules, by name, that are not used.
    """

    files: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    allow: tuple[str, ...] = ()
    allow_paths: tuple[str, ...] = ()
    disable: tuple[str, ...] = ()

    def digest(self) -> bytes:
        """16 bytes, equal for rules that mask alike."""
        body = json.dumps([VERSION, asdict(self)], sort_keys=True)
        return hashlib.blake2b(body.encode(), digest_size=16).digest()


BUILT_IN = Rules()


def load(path: str) -> Rules:
    """The rules of the file at `path`, read again when it has changed; "" is the built-in ones.

    Raises: BadSettings, naming the entry.
    """
    if not path:
        return BUILT_IN
    file = Path(path).expanduser()
    try:
        status = file.stat()
    except OSError as exc:
        raise _bad(path, f"cannot be read: {exc.strerror}") from exc
    return _read(str(file), status.st_mtime_ns, status.st_size)


@lru_cache(maxsize=8)
def _read(path: str, mtime_ns: int, size: int) -> Rules:
    import yaml  # here, as most processes have no rules file

    if size > MAX_FILE_BYTES:
        raise _bad(path, f"has {size:,} bytes, more than {MAX_FILE_BYTES:,}")
    try:
        tree = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    except OSError as exc:
        raise _bad(path, f"cannot be read: {exc.strerror}") from exc
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as exc:
        raise _bad(path, f"is not valid YAML: {exc}") from exc
    return parse(tree, path)


def parse(tree: object, path: str) -> Rules:
    """Rules out of a rule file's content. Raises: BadSettings."""
    if tree is None:
        return BUILT_IN
    if not isinstance(tree, Mapping):
        raise _bad(path, "must hold a mapping; docs/secrets.md shows one")
    known = set(Rules.__slots__)
    for key in tree:
        if key not in known:
            raise _bad(path, f"has the unknown key {key!r}; use {', '.join(sorted(known))}")
    rules = Rules(
        files=_texts(tree, "files", path),
        patterns=tuple(
            _pattern(one, f"patterns[{i}]", path)
            for i, one in enumerate(_list(tree, "patterns", path))
        ),
        allow=_texts(tree, "allow", path),
        allow_paths=_texts(tree, "allow_paths", path),
        disable=_texts(tree, "disable", path),
    )
    for i, text in enumerate(rules.allow):
        _compiled(text, f"allow[{i}]", path)
    _check_disabled(rules.disable, path)
    return rules


def _check_disabled(names: tuple[str, ...], path: str) -> None:
    from plait.secrets.forms import RULE_NAMES

    for name in names:
        if name not in RULE_NAMES:
            raise _bad(
                path, f"disable names {name!r}, no built-in rule; use {', '.join(RULE_NAMES)}"
            )


def _pattern(entry: Any, at: str, path: str) -> Pattern:
    if not isinstance(entry, Mapping) or not {"name", "regex"} <= entry.keys() <= set(
        Pattern.__slots__
    ):
        raise _bad(path, f"{at} needs `name` and `regex`, and may have `literal`")
    name, regex, literal = (entry.get(key, "") for key in Pattern.__slots__)
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _bad(path, f"{at}.name must be 1 to 40 of a-z, 0-9 and `-`")
    if not isinstance(regex, str) or not isinstance(literal, str):
        raise _bad(path, f"{at}: `regex` and `literal` must be texts")
    if _compiled(regex, f"{at}.regex", path).fullmatch(""):
        raise _bad(path, f"{at}.regex matches the empty text")
    return Pattern(name, regex, literal)


def _compiled(regex: str, at: str, path: str) -> re.Pattern[str]:
    try:
        return re.compile(regex)
    except (re.error, RecursionError, OverflowError) as exc:
        raise _bad(path, f"{at} is no regular expression: {exc}") from exc


def _list(tree: Mapping[Any, Any], key: str, path: str) -> list[Any]:
    found = tree.get(key) or []
    if not isinstance(found, list) or len(found) > MAX_ENTRIES:
        raise _bad(path, f"{key} must be a list of at most {MAX_ENTRIES} entries")
    return found


def _texts(tree: Mapping[Any, Any], key: str, path: str) -> tuple[str, ...]:
    found = _list(tree, key, path)
    for i, text in enumerate(found):
        if not isinstance(text, str) or not 0 < len(text) <= MAX_TEXT or "\n" in text:
            raise _bad(path, f"{key}[{i}] must be one line of 1 to {MAX_TEXT} characters")
    return tuple(found)


def _bad(path: str, problem: str) -> BadSettings:
    return BadSettings(f"rules of secrets: {path} {problem}", key="secrets.rules", path=path)
