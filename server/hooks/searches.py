"""What is about to be searched for: the identifiers in a search tool's pattern, or in a shell's grep."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from server.hooks.payload import Payload

MAX_PATTERN = 1_000  # characters
MAX_COMMAND = 4_000
MAX_NAMES = 8
MIN_NAME, MAX_NAME = 3, 100  # characters


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_GREPS = frozenset(("grep", "egrep", "fgrep", "rg", "ripgrep", "ugrep", "ug", "ag", "ack"))
# Options that take the next word; `-e` and `--regexp` are read by name.
_WITH_VALUE = _words(
    "-A -B -C -m -g -t -T -f -d -D -M -j -E -r --glob --type --type-not --include --exclude --exclude-dir "
    "--context --after-context --before-context --max-count --max-depth --color --colors --sort --iglob"
)
_FLAGS_OF_GREP = frozenset(("-E", "-r"))  # which take a value in ripgrep alone
_NO_NAMES = _words(
    "def class function func fn import from return self this cls super async await const let var public "
    "private protected static final void interface struct enum type impl trait new not and the for with "
    "None True False null true false lambda raise throw except catch try"
)
_SELF = frozenset(("self", "this", "cls", "super"))
_GROUP = re.compile(r"\(\?(?:P?<\w{0,50}>|[:=!>]|<[=!]|[a-zA-Z]{1,8}:)")
_WILDCARD = "\0"
_TOKEN = re.compile(
    r"(?P<escape>\\.?)|(?P<set>\[(?:.[^\]]*\]?)?)|(?P<any>\.(?=[*+?{]))|(?P<repeat>[?*+{])"
    r"|(?P<end>\$(?=[|)]|\Z))|(?P<char>.)",
    re.DOTALL,
)
_WORDY = re.compile(r"[\w\[*+?{]|\\w")  # what makes a word longer, or a group optional
_WORD = re.compile(r"[A-Za-z_$][\w$]*(?:\.[A-Za-z_$][\w$]*)*")


@dataclass(frozen=True, slots=True)
class Search:
    """`names`: identifiers that are looked for, in their order. `folder`: where."""

    names: tuple[str, ...]
    folder: Path


def search(payload: Payload) -> Search | None:
    """What the tool call looks for; None where that is nothing that has a name."""
    if not payload.folder:
        return None
    given = payload.given
    pattern, where = given.get("pattern") or given.get("query"), given.get("path")
    command = given.get("command", given.get("cmd"))
    names: list[str] = []
    folder = Path(payload.folder)
    if isinstance(pattern, str):
        is_glob = "glob" in payload.tool.lower()
        names = globbed(pattern) if is_glob else identifiers(pattern)
        folder = payload.path(where or given.get("dir_path")) or folder
    elif command is not None:
        names, inside = _of_command(command)
        folder = payload.path(inside) or folder
    return Search(tuple(names[:MAX_NAMES]), folder) if names else None


# -- patterns ---------------------------------------------------------------------------------------------


def identifiers(pattern: str) -> list[str]:
    """The names that a regular expression spells out whole. A part of a name (`get_\\w+`, `[Ff]oo`) is none:
    what it would match is not known."""
    found: list[str] = []
    for piece in _pieces(pattern[:MAX_PATTERN]):
        for match in _WORD.finditer(piece):
            # A wildcard that touches a word makes a part of it.
            touching = (
                piece[match.start() - 1 : match.start()] + piece[match.end() : match.end() + 1]
            )
            if _WILDCARD not in touching:
                found += _named(match.group())
    return list(dict.fromkeys(found))


def globbed(pattern: str) -> list[str]:
    """The names in the last part of a glob, without its ending: `**/*Blueprint*.py` looks for Blueprint."""
    last = pattern[:MAX_PATTERN].rstrip("/").rpartition("/")[2]
    stem = last.partition(".")[0] if not last.startswith(".") else ""
    words = re.split(r"[*?\[\]{},!]+", stem)
    return list(
        dict.fromkeys(name for word in words if _WORD.fullmatch(word) for name in _named(word))
    )


def _named(word: str) -> list[str]:
    parts = word.split(".")
    while len(parts) > 1 and parts[0] in _SELF:
        del parts[0]
    name = ".".join(parts)
    known = name in _NO_NAMES or parts[-1] in _NO_NAMES
    return [] if known or not MIN_NAME <= len(name) <= MAX_NAME else [name]


def _pieces(pattern: str) -> Iterable[str]:
    """The alternatives of a regular expression with each wildcard as a NUL and each boundary as a space;
    literal dots stay."""
    pattern = _GROUP.sub("(", pattern)
    glued = _glued(pattern)
    out: list[str] = []
    at = 0
    while at < len(pattern):
        if at in glued:
            out.append(_WILDCARD)
            at = glued[at] + 1
            continue
        token = _TOKEN.match(pattern, at)
        assert token is not None  # the last alternative takes any character
        if token.lastgroup == "repeat" and out and (out[-1].isalnum() or out[-1] == "_"):
            out[-1] = _WILDCARD  # the last character is optional or repeated
        else:
            out.append(_spelled(token))
        at = token.end()
    return "".join(out).split(" ")


def _spelled(token: re.Match[str]) -> str:
    """What a token of a regular expression spells: a character, a wildcard or a boundary (a space)."""
    text = token[0]
    match token.lastgroup:
        case "set" | "any":
            return _WILDCARD
        case "escape" if text[1:] and text[1] in "wWdDS":
            return _WILDCARD
        case "escape":
            return "." if text[1:] == "." else " "
        case "char" if text.isalnum() or text in "_$.":
            return text
    return " "


def _glued(pattern: str) -> dict[int, int]:
    """The first and last place of each group that a word goes on at, before or after it: what is in it is a
    part of a name."""
    found: dict[int, int] = {}
    opened: list[int] = []
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 2
            continue
        if char == "(":
            opened.append(at)
        elif char == ")" and opened:
            first = opened.pop()
            before, after = pattern[first - 1 : first], pattern[at + 1 : at + 3]
            if _WORDY.match(before) or _WORDY.match(after):
                found[first] = at
        at += 1
    return found


# -- shells -----------------------------------------------------------------------------------------------


def _of_command(command: object) -> tuple[list[str], str]:
    """The names that a shell command greps for, and the folder it changes to before, if any."""
    if isinstance(command, list):  # ["bash", "-lc", "rg foo"]
        words = [word for word in command if isinstance(word, str)]
        command = words[-1] if words[1:2] in (["-c"], ["-lc"]) else shlex.join(words)
    if not isinstance(command, str) or len(command) > MAX_COMMAND:
        return [], ""
    names: list[str] = []
    folder = ""
    for words, piped in _commands(command):
        if words[0] == "cd" and len(words) == 2:
            folder = words[1]
        elif not piped:  # else it filters what another program prints
            names += _grepped(words)
    return list(dict.fromkeys(names)), folder


def _commands(line: str) -> Iterable[tuple[list[str], bool]]:
    """Each command of a shell line, and whether it reads from a pipe."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;()<>\n")
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    piped = False
    try:
        for word in lexer:
            if word.strip("|&;()\n"):
                words.append(word)
                continue
            if words:
                yield words, piped
            words, piped = [], word in ("|", "|&")
    except ValueError:  # a quote that is not closed
        return
    if words:
        yield words, piped


def _grepped(words: Sequence[str]) -> list[str]:
    """The names in the pattern of a grep; none for another command."""
    words = [w for n, w in enumerate(words) if n or "=" not in w]
    if words[:2] == ["git", "grep"]:
        words = words[1:]
    program = words[0].rpartition("/")[2] if words else ""
    if program not in _GREPS:
        return []
    is_grep = "grep" in program and words[0] != "ripgrep"
    return identifiers(
        _pattern(words[1:], _WITH_VALUE - _FLAGS_OF_GREP if is_grep else _WITH_VALUE)
    )


def _pattern(arguments: Sequence[str], with_value: frozenset[str]) -> str:
    """The pattern among a grep's arguments: that of `-e`, else the first word that is no option."""
    rest = iter(arguments)
    for word in rest:
        if word in ("-e", "--regexp"):
            return next(rest, "")
        if word in with_value:
            next(rest, None)
        elif not word.startswith("-") or word == "-":
            return word
    return ""
