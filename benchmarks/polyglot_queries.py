"""Queries over a tree in any of 18 languages, made mechanically: no one judged them.

Of a declaration that stands behind a comment the first sentence of that comment, which is taken out of the file
before it is indexed; of one whose name no other has the name as code writes it, inside a sentence and as plain
words; of a file the first sentence of the comment that it begins with, taken out too. Declarations and
comments are found by line, with one expression a language: what it misses is not asked for.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

MIN_WORDS, MAX_WORDS = 5, 40  # of a sentence
MIN_LINES = 40  # of a file that is asked for as such
SENTENCES = ("{}", "{}", "where is {} defined", "how does {} work")
# Never an answer, by habit of any language.
_APART = re.compile(
    r"(^|/)(tests?|__tests__|specs?|testing|testdata|fixtures?|docs?|examples?|samples?|demos?|bench\w*|"
    r"contrib|vendor|bundled|third_party|node_modules|dist|man)/|(^|[/._-])(test|spec)s?[._-]|_tests?\.|Tests?\.\w+$|Spec\.\w+$"
)


@dataclass(frozen=True, slots=True)
class Asked:
    """One query: what it looks for is in `path`, declared at `line` (from 1; 0: the file itself)."""

    kind: str  # sentence, name, words, file
    text: str
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class Habit:
    """How a language declares and comments. `declares` has the name in its first group that matched."""

    declares: re.Pattern[str]
    suffixes: tuple[str, ...]
    line: tuple[str, ...] = ("///", "//")
    block: tuple[str, str] | None = ("/*", "*/")
    between: re.Pattern[str] = field(default=re.compile(r"(?!)"))  # attributes


def _habit(declares: str, suffixes: str, **more: object) -> Habit:
    return Habit(re.compile(declares), tuple("." + s for s in suffixes.split()), **more)  # type: ignore[arg-type]


_ATTRIBUTE = re.compile(r"\s*(@\w|\[|#\[)")
_TYPE = re.compile(r"^[A-Za-z_][\w \*]*\*?$|^template\s*<|\s*#\[|\s*@|\s*\[")
_JVM = r"(?:public|protected|private|internal|static|final|abstract|sealed|override|virtual|async|default|synchronized|open|data|inline|suspend|partial|implicit|case|lazy)\s+"
HABITS: Mapping[str, Habit] = {
    "bash": _habit(r"^\s*(?:function\s+)?([A-Za-z_][\w:-]+)\s*\(\)", "sh bash", line=("#",), block=None),
    "c": _habit(r"^(?:(?:static|inline|extern|const|unsigned|struct|int|void|char|size_t|long|bool|u?int\d+_t|\w+_t)[ \*]+)+(\w{3,})\([^;]*$|^(\w{3,})\([^;]*\)?\s*\{?$", "c", between=_TYPE),
    "cpp": _habit(r"^\s*(?:class|struct)\s+(?:[A-Z_]+\s+)?(\w{3,})[^;]*$|^\s*(?!return|else)\w[\w:<>,&\* ]*[ \*&](?:\w+::)*([A-Za-z_]\w{2,})\([^;]*\{?$", "cc cpp h hpp", between=_TYPE),
    "csharp": _habit(rf"^\s*(?:{_JVM})+(?:class|interface|struct|enum)\s+(\w+)|^\s*(?:{_JVM})+[\w<>\[\].,? ]+\s(\w+)\s*(?:<\w+>)?\(", "cs", between=_ATTRIBUTE),
    "elixir": _habit(r"^\s*(?:def|defp|defmacro)\s+([a-z]\w+[?!]?)|^\s*(?:defmodule|defprotocol)\s+(?:\w+\.)*(\w+)", "ex", line=("#",), block=(r'@doc """', '"""'), between=re.compile(r"\s*@(spec|impl|since|deprecated|dialyzer|doc\s+\w+:)")),
    "go": _habit(r"^func\s+(?:\([^)]*\)\s*)?(\w+)|^type\s+(\w+)", "go", line=("//",)),
    "haskell": _habit(r"^([a-z]\w+'*)\s*(?:::|$)|^(?:data|newtype|class|type)\s+(?:[^=]*=>\s*)?([A-Z]\w+)", "hs", line=("-- |", "--"), block=("{- |", "-}")),
    "java": _habit(rf"^\s*(?:{_JVM})*(?:class|interface|enum)\s+(\w+)|^\s*(?:{_JVM})*(?:<[^>]+>\s*)?[\w<>\[\].,?]+\s(\w+)\([^;]*\{{?$", "java", between=_ATTRIBUTE),
    "javascript": _habit(r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\*?\s+(\w+)|^\s*(?:export\s+)?class\s+(\w+)|^[\w.]+\.(\w+)\s*=\s*(?:async\s+)?function|^\s+(?:static\s+|async\s+)*(?!if|for|while|switch|catch|function|return)(\w+)\([^)]*\)\s*\{$", "js mjs"),
    "kotlin": _habit(r"\bfun\s+(?:<[^>]+>\s*)?(?:[\w<>?*, ]+\.)?(\w+)\(|^\s*(?:\w+\s+)*(?:class|interface|object)\s+(\w+)", "kt", between=_ATTRIBUTE),
    "lua": _habit(r"^\s*(?:local\s+)?function\s+(?:\w+[.:])*(\w+)", "lua", line=("---", "--"), block=("--[[", "]]")),
    "php": _habit(r"\bfunction\s+&?(\w+)\(|^\s*(?:final\s+|abstract\s+)*(?:class|interface|trait)\s+(\w+)", "php", between=re.compile(r"\s*#\[")),
    "ruby": _habit(r"^\s*def\s+(?:self\.)?(\w+[?!]?)|^\s*(?:class|module)\s+(?:\w+::)*(\w+)", "rb", line=("#",), block=None),
    "rust": _habit(r"^\s*(?:pub(?:\([^)]*\))?\s+)?(?:async\s+|const\s+|unsafe\s+)*fn\s+(\w+)|^\s*(?:pub(?:\([^)]*\))?\s+)?(?:struct|enum|trait)\s+(\w+)", "rs", line=("///",), block=None, between=_ATTRIBUTE),
    "scala": _habit(r"^\s*(?:\w+\s+)*def\s+(\w+)|^\s*(?:\w+\s+)*(?:class|trait|object)\s+(\w+)", "scala", between=_ATTRIBUTE),
    "swift": _habit(r"^\s*(?:@\w+\s+)*(?:\w+\s+)*func\s+(\w+)|^\s*(?:@\w+\s+)*(?:\w+\s+)*(?:class|struct|enum|protocol|actor)\s+(\w+)", "swift", between=_ATTRIBUTE),
    "typescript": _habit(r"^\s*(?:export\s+)?(?:default\s+)?(?:async\s+)?function\*?\s+(\w+)|^\s*(?:export\s+)?(?:abstract\s+)?(?:class|interface|type|enum)\s+(\w+)|^\s*export\s+const\s+(\w+)|^\s+(?:static\s+|async\s+|public\s+|private\s+|protected\s+)*(?!if|for|while|switch|catch|function|return)(\w+)(?:<[^>]*>)?\([^)]*\)[^;]*\{$", "ts tsx"),
    "zig": _habit(r"^\s*(?:pub\s+)?(?:inline\s+)?fn\s+(\w+)|^\s*(?:pub\s+)?const\s+(\w+)\s*=\s*(?:extern\s+|packed\s+)?(?:struct|union|enum)", "zig", line=("///",), block=None),
}  # fmt: skip


@dataclass(slots=True)
class _Found:
    path: str
    line: int  # of the declaration, from 0
    name: str
    said: tuple[int, int, str] | None  # comment: lines [first, last), its sentence


def made(
    language: str, files: Mapping[str, str], each: int, chance: random.Random
) -> tuple[dict[str, str], list[Asked]]:
    """`files` without the comments that became queries, and the queries, `each` of a kind at most."""
    habit = HABITS[language]
    sources = {p: t.split("\n") for p, t in files.items() if _answers(p, habit)}
    found = [f for p in sorted(sources) for f in _declarations(p, sources[p], habit)]
    often = Counter(f.name.lower() for f in found)
    once = [f for f in found if often[f.name.lower()] == 1 and len(f.name) > 3]
    said = _drawn([f for f in found if f.said], each, chance)
    long = [p for p in sorted(sources) if len(sources[p]) >= MIN_LINES]  # not `package-info.java`
    heads = [(p, h) for p in long if (h := _head(sources[p], habit))]
    heads = [h for h in heads if not any(f.path == h[0] and f.said[0] < h[1][1] for f in said if f.said)]  # fmt: skip
    heads = chance.sample(heads, min(len(heads), each // 2))
    cut: dict[str, list[tuple[int, int]]] = {}
    for f in said:
        assert f.said
        cut.setdefault(f.path, []).append(f.said[:2])
    for path, head in heads:
        cut.setdefault(path, []).append(head[:2])
    asked = [Asked("sentence", f.said[2], f.path, _moved(f, cut)) for f in said if f.said]
    asked += [Asked("file", head[2], path, 0) for path, head in heads]
    for n, f in enumerate(_drawn(once, each, chance)):
        asked.append(Asked("name", SENTENCES[n % 4].format(f.name), f.path, _moved(f, cut)))
    several = [f for f in once if len(_parts(f.name)) > 1]
    for f in _drawn(several, each, chance):
        asked.append(Asked("words", " ".join(_parts(f.name)).lower(), f.path, _moved(f, cut)))
    return {p: _without(t, cut.get(p, ())) for p, t in files.items()}, asked


def _answers(path: str, habit: Habit) -> bool:
    return path.endswith(habit.suffixes) and _APART.search(path) is None


def _drawn(found: Sequence[_Found], each: int, chance: random.Random) -> list[_Found]:
    """At most three a file, as long as there are other files."""
    order = chance.sample(found, len(found))
    taken: Counter[str] = Counter()
    first = []
    for f in order:
        taken[f.path] += 1
        if taken[f.path] <= 3:
            first.append(f)
    return first[:each]


def _declarations(path: str, lines: Sequence[str], habit: Habit) -> Iterator[_Found]:
    for n, text in enumerate(lines):
        if len(text) > 300 or (match := habit.declares.search(text)) is None:
            continue
        name = next(group for group in match.groups() if group)
        comment = _above(lines, n, habit)
        yield _Found(path, n, name, _said(lines, comment, name))


def _above(lines: Sequence[str], n: int, habit: Habit) -> tuple[int, int] | None:
    """The lines of the comment right before line `n`, attributes between them left alone."""
    end = n
    while end and n - end < 6 and habit.between.match(lines[end - 1]):
        end -= 1
    if not end:
        return None
    last = lines[end - 1].strip()
    if last.startswith(habit.line):
        first = end - 1
        while first and lines[first - 1].strip().startswith(habit.line):
            first -= 1
        return first, end
    if habit.block and last.endswith(habit.block[1]):
        for first in range(end - 1, max(-1, end - 80), -1):
            bare = lines[first].strip()
            if bare.startswith(habit.block[0]) and (first < end - 1 or len(bare) > len(habit.block[0])):  # fmt: skip
                return first, end
    return None


def _head(lines: Sequence[str], habit: Habit) -> tuple[int, int, str] | None:
    """The first comment of a file within its first 40 lines that says what the file is for."""
    n = 0
    while n < min(len(lines), 40):
        bare = lines[n].strip()
        first = n
        if bare.startswith((*habit.line, "//!")) and not bare.startswith("#!"):
            while n < len(lines) and lines[n].strip().startswith((*habit.line, "//!")):
                n += 1
        elif bare.startswith(('@moduledoc """', habit.block[0] if habit.block else "\0")):
            close = '"""' if bare.startswith("@") else habit.block[1] if habit.block else "\0"
            n += 0 if close in bare[2:] and not bare.startswith("@") else 1
            while n < len(lines) and close not in lines[n]:
                n += 1
            n += 1
        elif not bare or re.match(r"#!|<\?php|package |module |'use strict'|\"use strict\"|defmodule |-\*-|@file", bare):  # fmt: skip
            n += 1
            continue
        else:
            return None
        follows = lines[n].strip() if n < len(lines) else ""
        said = _said(lines, (first, n), "")
        if said and (not follows or bare.startswith("@") or not habit.declares.search(follows)):
            return said
    return None


_MARKS = re.compile(r"^\s*(?:/\*+!?|\*+/|\*|///?!?|--+\s*\|?|\{-\s*\|?|--\[\[|\]\]|#+|@(?:module)?doc\s+(?:~[sS])?\"\"\"|\"\"\")\s?|\s*\*+/\s*$")  # fmt: skip
_TAGS = re.compile(r"</?\w+[^>]{0,80}>|\{@\w+\s+([^}]*)\}|@(?:brief|short|summary|description|fileoverview|file|name)\b|\[\[?([^\]]+)\]\]?(?:\([^)]*\))?|[`*]{1,3}(?=\w)|(?<=\w)[`*]{1,3}")  # fmt: skip
_LEGAL = re.compile(r"copyright|licen[sc]e|SPDX|all rights reserved|permission|warranty|@author|vim:|-\*-|eslint|rubocop|shellcheck|generated|https?:|TODO|FIXME|XXX|frozen_string|import |part of|^Example|[={}]|;\s*$", re.IGNORECASE)  # fmt: skip


def _said(
    lines: Sequence[str], comment: tuple[int, int] | None, name: str
) -> tuple[int, int, str] | None:
    """The comment's lines and its first sentence; None where it says too little, or law, or `name` itself."""
    if comment is None:
        return None
    text: list[str] = []
    for line in lines[comment[0] : comment[1]]:
        bare = _MARKS.sub("", _MARKS.sub("", line)).strip()
        if not bare and text:
            break
        if bare.startswith(("@param", "@return", "@throws", "@see", ":param", "- Parameter")):
            break
        if bare:
            text.append(bare)
    whole = _TAGS.sub(lambda m: m[1] or m[2] or " ", " ".join(text))
    sentence = " ".join(re.split(r"(?<=[.!?])\s", whole, maxsplit=1)[0].split())
    sentence = re.sub(rf"^{re.escape(name)}\s+", "", sentence) if name else sentence
    words = sentence.split()
    if not MIN_WORDS <= len(words) <= MAX_WORDS or _LEGAL.search(" ".join(text)):
        return None
    if name and re.search(rf"(?<!\w){re.escape(name)}(?!\w)", sentence):
        return None
    letters = sum(c.isalpha() or c.isspace() for c in sentence)
    return (*comment, sentence) if letters > 0.85 * len(sentence) else None


def _parts(name: str) -> list[str]:
    return re.findall(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+", name)


def _moved(found: _Found, cut: Mapping[str, Sequence[tuple[int, int]]]) -> int:
    gone = sum(last - first for first, last in cut.get(found.path, ()) if last <= found.line)
    return found.line + 1 - gone


def _without(text: str, cut: Sequence[tuple[int, int]]) -> str:
    gone = {n for first, last in cut for n in range(first, last)}
    return "\n".join(line for n, line in enumerate(text.split("\n")) if n not in gone)
