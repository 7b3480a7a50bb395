"""Runs of coding agents, made up deterministically round real code, with questions about their steps.

A run is one session: what its user wants, what the agent thinks, commands with what they printed, edits,
runs of tests, questions to the user and answers that mean nothing without them. Outputs are pieces of
the standard library of the Python that runs this, so that the facts asked for stand in a few lines of long, real
text, and each history has some forty runs over some of the same modules: other runs have the same words.
The second half of the histories draws on facts that the first never uses. Steps are stored as importers
store them: `$ command`, newline, output; an agent's words and a user's as they are; each is embedded and
indexed behind what its run came to.
"""

from __future__ import annotations

import random
import sysconfig
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

from benchmarks.memory_histories import Entry, History, Question
from plait.memory.item_context import context

RUNS = 40
MODULES = (
    "argparse", "ast", "asyncio/queues", "bisect", "calendar", "cmd", "codecs", "configparser", "copy", "csv",
    "dataclasses", "difflib", "email/message", "fileinput", "fractions", "ftplib", "gettext", "glob", "gzip", "heapq",
    "http/client", "imaplib", "ipaddress", "json/decoder", "linecache", "locale", "logging/handlers", "mailbox", "mimetypes",
    "netrc", "pathlib", "pickle", "plistlib", "poplib", "queue", "sched", "selectors", "shelve", "shlex", "shutil",
    "smtplib", "socketserver", "ssl", "statistics", "string", "tarfile", "tempfile", "textwrap", "threading",
    "timeit", "tokenize", "trace", "urllib/parse", "uuid", "weakref", "zipfile",
)  # fmt: skip

# kind // step // question. Steps: `role: text`, the one that answers marked by `*`; several stand in their order
# with `^`, `\n` is a new line in one. {m} module, {f} a function of it, {n}, {k} numbers, {v} one of the last field.
_FACTS = r"""
error//tool*: $ python -m pytest tests/test_{t}.py -x\n{code}\nE   {v}: unexpected value in {f}\n1 failed, {n} passed in {k}.2s//Which exception did the tests of {m} end with at first?|What was raised in {f} of {m}?//OverflowError;LookupError;BufferError;RecursionError
where//tool*: $ grep -rn "{v}" src/\nsrc/{m}.py:{n}: {v} = {k}\n{code}//Where is {v} set?|Which value does {v} have in {m}?//MAX_BACKLOG;READ_LIMIT;RETRY_AFTER;GRACE_SECONDS
cause//tool: $ cat src/{m}.py\n{code}^agent*: So {f} takes the lock before it calls back, and the callback wants {v} too. That is why it never returns.//Why does {f} in {m} hang?|What makes {m} stand still forever?//the same lock;the registry;the event loop;its own queue
reply//agent: There is an old flag in {m} that changes how {f} behaves. Shall I keep it?^user*: yes, for {v}, people still have it in scripts//How long does the old switch of {m} stay?|What did the user decide about the flag of {f}?//two more releases;half a year;the rest of this year;as long as 3.9
limit//user*: one thing though: don't change {v}, others build on it//What must stay as it is when {m} is worked on?|What did the user forbid in the work on {m}?//the signature of {f};the format of the file on disk;the text of the messages;the order of the results
version//tool*: $ python --version && pip list | head -{k}\nPython 3.{k}.{n}\n{v}\nwheel 0.4{k}//Which interpreter was used for the work on {m}?|What was installed on the machine of the {m} run?//numpy 1.26.4;lxml 5.2.1;attrs 23.2.0;pyyaml 6.0.1
edit//agent*: Edited src/{m}.py: {f} now checks {v} before it does anything else//What was changed in {f} of {m}?|How was {m} made safer?//whether the handle is closed;the length of the header;that both ends are aware of a zone;for an empty list
count//tool*: $ python -m pytest tests/test_{t}.py\n{code}\n{k} failed, {n} passed, {v} in 1{k}.09s^agent: Better. The rest is about the fixtures.//How many tests of {m} failed in the middle of the work?|How far were the tests of {m} after the first change?//2 skipped;1 xfailed;3 warnings;1 error
---
crash//tool*: $ ./run.sh --{v}\n{code}\nsrc/{m}.py:{n}: Segmentation fault (core dumped)//With which option does {m} crash?|What did starting it with special options do to {m}?//fast-path;no-cache;strict;jobs=8
config//tool*: $ cat config/{t}.toml\n[{t}]\nworkers = {k}\nbackend = "{v}"\ntimeout = {n}\n{code}//What backend is {m} configured with?|How many workers does {m} get?//sqlite;memcached;lmdb;s3
reason//tool: $ git log -p --follow -- src/{m}.py\n{code}^agent*: The commit that added this to {f} was about {v}, so the extra copy is there on purpose.//Why does {f} make a copy?|What was the old change in {m} good for?//callers that mutate what they get;a race in the tests;Windows, where the file stays open;a bug in an old compiler
choice//agent: For {m} I see two ways: a patch of {f}, or a new class beside it. Which do you prefer?^user*: the {v} please, I can explain it to the others//Which of two designs was taken for {m}?|What did the user choose about {f}?//second;first;smaller one;one with fewer files
wish//user*: and when you are done with it, {v}//What should happen after the {m} work is finished?|What else did the user want at the end of the task on {m}?//write to the list about it;open a draft pull request;bump the minor version;tell me the timings before and after
network//tool*: $ curl -sv localhost:{n}80/{t}\n< HTTP/1.1 {v}\n{code}//How did the server answer for {m}?|Which status did the request about {m} get?//503 Service Unavailable;429 Too Many Requests;301 Moved Permanently;418 I'm a teapot
rename//agent*: Renamed {f} of {m} to {v} and left the old name as an alias that warns//What is the new name of {f}?|How is {f} of {m} called now?//open_quietly;merge_all;rebuild_index;drain_pending
speed//tool*: $ python -m timeit -s "import {m}" "{m}.{f}()"\n{code}\n{k}00 loops, best of 5: {v} per loop^agent: Good enough, I leave it at that.//How fast is {f} of {m}?|What did the measurement of {m} give?//312 usec;1.4 msec;87.6 nsec;2.05 sec
"""
_ASKS = (
    "{f} in {m} misbehaves when the input is empty, can you have a look",
    "please make {m} a bit faster, {f} shows up in every profile",
    "I'd like {m} to take paths as well as strings",
    "the docs of {m} and what {f} does don't agree, which of them is right?",
)  # fmt: skip
# What a run came to, as agents say at the end: the outcome's summary of its episode.
_ENDS = (
    "{f} in {m} returns early when there is nothing to read; the tests pass.",
    "{m} keeps what it computed between calls, so the profile is flat now.",
    "{m} takes paths as well as strings; I left the old behaviour for bytes.",
    "The code was right: I corrected the docs of {m} and added an example of {f}.",
)  # fmt: skip
_THOUGHTS = (
    "Let me look at {m} first.", "I'll check who calls {f}.", "That looks fine. Next the callers.",
    "Now the tests of {m}.", "I want to see how {f} was meant to be used.", "The style here is to return early; I'll do the same.",
    "This is unrelated, leaving it alone.", "I'm going to write a small script that shows the problem in {m}.",
)  # fmt: skip
_TOOLS = (
    "$ sed -n '{n},{n}9p' src/{m}.py\n{code}", "$ cat src/{m}.py | head -{n}\n{code}", "$ grep -rn {f} src tests\n{code}",
    "$ git diff --stat\n src/{m}.py | {k} +-\n 1 file changed", "$ ls src tests\n{m}.py\ntest_{t}.py\nconftest.py",
    "$ python -m pytest tests/test_{t}.py -q\n{n} passed in {k}.11s", "$ git status --short\n M src/{m}.py",
)  # fmt: skip
_UNKNOWN = (
    "Which licence header did we add to {m}?", "How much memory does the container for {m} get?",
    "Who reviewed the pull request about {m}?", "Which mirror are the wheels for {m} fetched from?",
)  # fmt: skip


def runs(n: int = 4) -> list[History]:
    """`n` histories, the second half of them held out. The same for one version of Python."""
    return [_history(i, held_out=i >= n // 2) for i in range(n)]


@cache
def _source(module: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The module's lines, and names of functions defined in it."""
    file = Path(sysconfig.get_path("stdlib")) / f"{module}.py"
    if not file.is_file():  # a package
        file = file.with_suffix("") / "__init__.py"
    lines = tuple(file.read_text(encoding="utf-8").splitlines())
    heads = (line.strip() for line in lines)
    names = {h[4:].partition("(")[0] for h in heads if h.startswith("def ") and "__" not in h}
    return lines, tuple(sorted(names)) or ("main",)


class _Run:
    """One run while it is made."""

    def __init__(self, rng: random.Random, module: str, session: str, at: datetime) -> None:
        self.rng, self.session, self.at = rng, session, at
        self.module = module
        self.lines, names = _source(module)
        self.function = rng.choice(names)
        self.entries: list[Entry] = []

    def fill(self, text: str, **more: str) -> str:
        rng = self.rng
        m = self.module.replace("/", ".")
        out = text.replace("\\n", "\n").replace("{v}", more.get("v", ""))
        if "{code}" in out:
            start = rng.randrange(max(1, len(self.lines) - 40))
            out = out.replace("{code}", "\n".join(self.lines[start : start + rng.randint(5, 40)]))
        for name, value in (
            ("{m}", m), ("{t}", m.replace(".", "_")), ("{f}", self.function),
            ("{n}", str(rng.randint(11, 99))), ("{k}", str(rng.randint(2, 9))),
        ):  # fmt: skip
            out = out.replace(name, value)
        return out

    def say(self, role: str, text: str) -> int:
        source = {"user": "user", "agent": "agent", "tool": "system"}[role]
        self.at += timedelta(seconds=self.rng.randint(3, 90))
        weight = {"user": 0.5, "agent": 0.4, "tool": 0.3}[role]
        self.entries.append(
            Entry(
                text, self.at, source=source, importance=weight, session=self.session, speaker=role
            )
        )
        return len(self.entries) - 1


def _history(seed: int, *, held_out: bool) -> History:
    rng = random.Random(9_000 + seed)
    facts = [
        line.split("//") for line in _FACTS.strip().split("\n---\n")[int(held_out)].splitlines()
    ]
    first = datetime(2025, 2, 3, 8, tzinfo=UTC) + timedelta(days=17 * seed)
    entries: list[Entry] = []
    questions: list[Question] = []
    pool = rng.sample(MODULES, RUNS // 2)
    order = {module: rng.sample(facts, len(facts)) for module in pool}
    for number in range(RUNS):
        # Each module is worked on twice, and asked about no fact of one kind twice.
        module = pool[number % len(pool)]
        at = first + timedelta(days=2 * number)
        run = _Run(rng, module, f"run-{seed}-{number}", at)
        told, order[module] = order[module][:3], order[module][3:]
        base = len(entries)
        for text, gold in _made(run, told):
            questions.append(Question("run", text, frozenset(base + g for g in gold)))
        entries += run.entries
        if number % 4 == 0:
            questions.append(Question("unanswerable", run.fill(rng.choice(_UNKNOWN)), frozenset()))
    return History(f"runs-{seed}", held_out, entries, questions, "runs")


def _made(run: _Run, facts: Sequence[Sequence[str]]) -> Iterator[tuple[str, list[int]]]:
    rng = run.rng
    asks, ends = rng.choice(list(zip(_ASKS, _ENDS, strict=True)))
    run.say("user", run.fill(asks))
    for _, steps, asked, values in facts:
        _noise(run, rng.randint(2, 6))
        value, gold = run.fill(rng.choice(values.split(";"))), []
        for step in steps.split("^"):
            role, _, text = step.partition(": ")
            at = run.say(role.rstrip("*"), run.fill(text, v=value))
            if role.endswith("*"):
                gold.append(at)
        question = run.fill(rng.choice(asked.split("|")), v=value)
        module = run.module.replace("/", ".")
        yield question if module in question else f"{question[:-1]} in {module}?", gold
    _noise(run, rng.randint(1, 4))
    end = run.fill(ends)
    run.say("agent", end)
    run.entries = [replace(entry, context=context(end)) for entry in run.entries]


def _noise(run: _Run, n: int) -> None:
    for _ in range(n):
        if run.rng.random() < 0.35:
            run.say("agent", run.fill(run.rng.choice(_THOUGHTS)))
        else:
            run.say("tool", run.fill(run.rng.choice(_TOOLS)))
