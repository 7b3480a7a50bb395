"""References of a text to issues and commits: mentioned, claimed fixed, or blamed.

Conservative: a colour, a step's number, a version, a character set are no issue, and "doesn't fix #1"
is no fix. Code (fenced or in backticks) names nothing. Every pattern is bounded, so time is linear.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

MAX_TEXT = 262_144  # characters looked at
MAX_REFERENCES = 200


Named = list[tuple[int, int, str]]  # start, end, name


@dataclass(frozen=True, slots=True)
class Reference:
    """`name` is a graph node's: `issue/123`, `issue/KEY-123`, `issue/owner/repo#1`, `commit/<sha>`.

    `fixes`: the text claims it is fixed now. `causes`: the text blames it for its subject.
    """

    name: str
    fixes: bool = False
    causes: bool = False

    @property
    def is_issue(self) -> bool:
        return self.name.startswith("issue/")


_OWNER = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,38})"
_PROJECT = r"[A-Za-z0-9_.-]{1,100}"
_END = r"(?![\w-]|\.\d)"
# One pattern a way to name an issue, with what a text must hold for it to be looked for: most texts
# hold none of it, and are done in microseconds.
_WAYS = (
    (
        "://",
        re.compile(
            rf"https?://[\w.:-]{{1,100}}/(?P<path>{_OWNER}(?:/{_PROJECT}){{1,4}}?)/(?:-/)?"
            rf"(?:issues|pull|merge_requests)/(?P<number>[1-9]\d{{0,6}})(?!\w)"
        ),
    ),
    (
        "#",
        re.compile(rf"#(?P<here>[1-9]\d{{0,6}}){_END}"),
    ),
    ("-", re.compile(rf"(?<![\w/.-])(?:GH|gh)-(?P<here>[1-9]\d{{0,6}}){_END}")),
    ("-", re.compile(rf"(?<![\w/.#-])(?P<key>[A-Z][A-Z]{{1,9}}-[1-9]\d{{0,5}}){_END}")),
)
# What stands before a `#12`: nothing that it is a part of, or `owner/repo`. Looked for backwards from
# each `#`: forwards, every word might begin one.
_ELSEWHERE = re.compile(rf"(?<![\w/.@#-])({_OWNER}/{_PROJECT})\Z")
_PART = frozenset("/&#=.@-_")
_HASH = re.compile(r"#[1-9]")
_DIGITS = re.compile(r"-[1-9]")
_HEX_RUN = re.compile(r"[0-9a-fA-F]{7,40}")
# What looks like a JIRA key and is a name of something else.
_KEYS = (
    "AES AMD ANSI ARM ASCII AVX BASE CBC CD CP CPU CRC CVE CWE DES EC ED EUC FIPS FLOAT FP GH GMT GPT GPU"
    " HMAC HTTP HTTPS HTML IEC IEEE INT IP IPV ISO JDK JIS JSR KOI LATIN LLM MD MIT MP MPEG NFKC OAUTH"
    " OPENAI PEP PKCS PR PY PYTHON RFC RGB RSA RTX SAML SHA SHIFT SQL SSE SSL TCP TEST TLS UCS UDP UTC"
    " UTF UUID WIN WINDOWS XML ZIP COVID STEP PHASE PART OPTION VERSION LINE PAGE TODO FIXME ID MIN MAX"
    " TOP ES CSS AWS CIS HIPAA NIST TYPE TIER LEVEL"
)
_NO_KEY = frozenset(_KEYS.split())
# "attempt #2" counts, "bug #2" names. The word before the number.
_COUNTERS = (
    "attempt step test case line option rule priority worker run try round item point part phase page"
    " question number player thread job chapter section section example figure table column row index"
    " iteration epoch version argument arg param parameter no reason todo task turn stage lesson tip"
    " build slot gpu node shard core hunk chunk candidate approach idea plan"
)
_COUNTED = frozenset(_COUNTERS.split())
_WORD_BEFORE = re.compile(r"([A-Za-z]{1,20})[ \t]{0,2}\Z")
_STYLE = re.compile(
    r"(?:colou?r|background|border|fill|stroke|shadow|outline|gradient|theme|palette)"
    r"[\w\"'-]{0,20}\s{0,3}[:=(][^;{}\n]{0,30}\Z",
    re.IGNORECASE,
)
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)
_INLINE = re.compile(r"(`{1,2})[^`\n]{1,200}\1(?!`)")

_FIX = re.compile(
    r"(?<![\w-])(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing))(?!\w)", re.I
)
_FIX_GAP = re.compile(
    r"[ \t]{0,3}(?:\n[ \t]{0,3})?(?:[:\-][ \t]{0,3})?"
    r"(?:(?:the|for|in|issues?|bugs?|tickets?|regression|defects?)[ \t]{1,2}){0,3}[\[(]?",
    re.I,
)
_NOT = re.compile(
    r"(?:\bnot|n['\u2019]t|\bnever|\bcannot|\bwithout|\b(?:fail(?:s|ed|ing)?|unable|tr(?:y|ies|ied|ying)"
    r"|attempt(?:s|ed|ing)?|needs?|wants?|how|going|have|has|had|plans?) to"
    r"|\b(?:would|should|might|may|could|must|will|cannot|can|to be|before|until|unless|if))"
    r"[ \t]{1,2}(?:\w{1,15}[ \t]{1,2})?\Z",
    re.I,
)
_LIST_GAP = re.compile(
    r"[)\]]?[ \t]{0,2}(?:[,;&+][ \t]{0,3}(?:\n[ \t]{0,3})?)?(?:(?:and|or|as well as)[ \t]{1,3})?"
    r"(?:(?:the|issues?|bugs?)[ \t]{1,2}){0,2}[\[(]?",
    re.I,
)
_BLAME = re.compile(
    r"(?<![\w-])(?:caused by|introduced (?:in|by|with|since)|regress(?:ion|ed|es)?"
    r" (?:from|in|of|by|since|introduced (?:in|by)|caused by)|(?:broken|broke) (?:by|in|since|with)"
    r"|bisect(?:s|ed)? to|first bad commit(?: is)?)(?!\w)",
    re.I,
)
_BLAME_GAP = re.compile(
    r"[ \t]{0,3}:?[ \t\n]{0,3}(?:(?:the|commit|pr|pull request|change|changes|revision|rev|merge|of|in"
    r"|issue)[ \t]{1,2}){0,3}[`(\[]{0,2}",
    re.I,
)
# At least one digit and one letter, so that neither a word ("defaced") nor a number is taken for one.
_SHA = re.compile(r"(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,40}(?![\w-])|[0-9a-f]{40}(?![\w-])", re.I)
_COMMIT = re.compile(r"(?<![\w-])(?:commit|revision|cherry picked from commit)[ \t]{1,2}`?", re.I)
_FIRST_BAD = re.compile(r"(?<![\w-])([0-9a-f]{7,40}) is the first bad commit", re.I)


def references(text: str) -> list[Reference]:
    """Everything `text` refers to, in order of first place, one a name; claims of all places united."""
    text = text[:MAX_TEXT]
    if "```" in text or "~~~" in text:
        text = _without_code(text)
    found: dict[str, Reference] = {}
    for name, fixes, causes in _claims(text):
        known = found.get(name)
        if known is None and len(found) >= MAX_REFERENCES:
            break
        found[name] = Reference(
            name,
            fixes or (known is not None and known.fixes),
            causes or (known is not None and known.causes),
        )
    return list(found.values())


def _claims(text: str) -> Iterator[tuple[str, bool, bool]]:
    """`(name, fixes, causes)` by place; a name may come again."""
    named = _named(text)
    has_sha = any(
        len(run) == 40 or not (run.isdecimal() or run.isalpha()) for run in _HEX_RUN.findall(text)
    )
    if not named and not has_sha:
        return
    fixed = _fixed(text, named)
    blamed, commits = _blamed(text, named, has_sha)
    out = [(start, name, start in fixed, start in blamed) for start, _, name in named]
    out += [(start, f"commit/{sha}", False, causes) for start, (sha, causes) in commits.items()]
    for _, name, fixes, causes in sorted(out):
        # "fixes the regression from #4" blames #4; it is not what was fixed.
        yield name, fixes and not causes, causes


def _without_code(text: str) -> str:
    """Fenced blocks blanked, lengths unchanged; a fence without an end goes to the end of the text."""
    marks = [m.start() for m in _FENCE.finditer(text)]
    out, last = [], 0
    for opening, closing in zip(marks[::2], [*marks[1::2], len(text)], strict=False):
        out += [text[last:opening], " " * (closing - opening)]
        last = closing
    return "".join([*out, text[last:]])


def _blank(text: str, pattern: re.Pattern[str]) -> str:
    return pattern.sub(lambda m: " " * len(m.group()), text)


def _named(text: str) -> Named:
    """`(start, end, name)` of every issue, by place."""
    holds = {
        "://": "://" in text,
        "#": "#" in text and _HASH.search(text) is not None,
        "-": "-" in text and _DIGITS.search(text) is not None,
    }
    if not any(holds.values()):
        return []
    if "`" in text:
        text = _blank(text, _INLINE)
    out: Named = []
    for sign, pattern in _WAYS:
        for match in pattern.finditer(text) if holds[sign] else ():
            start, name = _after_hash(match) if sign == "#" else (match.start(), _name(match))
            if name:
                out.append((start, match.end(), name))
    return sorted(out)


def _name(match: re.Match[str]) -> str:
    """The node a match names; "" for what only looks like a key."""
    groups = match.groupdict()
    if number := groups.get("here"):
        return f"issue/{number}"
    if key := groups.get("key"):
        return "" if key.partition("-")[0] in _NO_KEY else f"issue/{key}"
    return f"issue/{groups['path'].lower()}#{groups['number']}"


def _after_hash(match: re.Match[str]) -> tuple[int, str]:
    """Where the reference that ends in `#12` begins, and its name; "" where it is none."""
    start, number = match.start(), match["here"]
    before = match.string[max(0, start - 160) : start]
    if not before or not (before[-1].isalnum() or before[-1] in _PART):
        return start, "" if _counts(before[-60:]) else f"issue/{number}"
    project = _ELSEWHERE.search(before)
    if project is None:
        return start, ""
    return start - len(project[1]), f"issue/{project[1].lower()}#{number}"


def _counts(before: str) -> bool:
    """Whether the number behind `before` is a colour or counts something."""
    word = _WORD_BEFORE.search(before)
    if word is not None and word[1].lower() in _COUNTED:
        return True
    return _STYLE.search(before) is not None


def _fixed(text: str, named: Named) -> set[int]:
    """Starts of the references that a closing word governs, through a list as "#1, #2 and #3"."""
    starts = [start for start, _, _ in named]
    out: set[int] = set()
    for match in _FIX.finditer(text):
        at = bisect_left(starts, match.end())
        gap, position = _FIX_GAP, match.end()
        negated = _NOT.search(text[max(0, match.start() - 40) : match.start()]) is not None
        while not negated and at < len(named) and named[at][0] - position <= 60:
            if gap.fullmatch(text, position, named[at][0]) is None:
                break
            out.add(named[at][0])
            gap, position = _LIST_GAP, named[at][1]
            at += 1
    return out


def _blamed(text: str, named: Named, has_sha: bool) -> tuple[set[int], dict[int, tuple[str, bool]]]:
    """Starts of blamed issues, and commits by start as `(sha, blamed)`."""
    starts = {start: name for start, _, name in named}
    issues: set[int] = set()
    commits: dict[int, tuple[str, bool]] = {}
    for match in _FIRST_BAD.finditer(text) if has_sha else ():
        commits[match.start()] = (match[1].lower(), True)
    for match in _BLAME.finditer(text):
        gap = _BLAME_GAP.match(text, match.end())
        at = gap.end() if gap else match.end()
        if at in starts:
            issues.add(at)
        elif (sha := _SHA.match(text, at)) is not None:
            commits[at] = (sha[0].lower(), True)
    for match in _COMMIT.finditer(text) if has_sha else ():
        if (sha := _SHA.match(text, match.end())) is not None:
            commits.setdefault(match.end(), (sha[0].lower(), False))
    return issues, commits
