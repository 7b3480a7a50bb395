"""Credentials in text and bytes, replaced by a visible marker: `[redacted:github-token]`.

Only what is a credential by its form, or by the name it is given. A pattern never takes a quote, a
backslash or a line end with it, so that JSON stays JSON and a diff keeps its lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from plait.domain.values import Artifact, Episode, Evidence

# By form: what it is, what it begins with, what follows. Lengths are those the issuers use, or a little
# less. Each beginning is looked for as a plain string: 30 times faster than one pattern for all.
_FORMS: tuple[tuple[str, tuple[str, ...], str], ...] = (
    ("anthropic-key", ("sk-ant-",), r"[A-Za-z0-9_-]{20,300}"),
    ("stripe-key", ("sk_live_", "sk_test_", "rk_live_", "rk_test_"), r"[A-Za-z0-9]{16,300}"),
    ("openai-key", ("sk-",), r"[A-Za-z0-9_-]{20,300}"),
    ("github-token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"[A-Za-z0-9]{30,300}"),
    ("github-token", ("github_pat_",), r"[A-Za-z0-9_]{22,300}"),
    ("gitlab-token", ("glpat-", "gldt-", "glrt-", "glptt-"), r"[A-Za-z0-9_-]{20,300}"),
    ("aws-key-id", ("AKIA", "ASIA", "ABIA", "ACCA"), r"[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("google-key", ("AIza",), r"[0-9A-Za-z_-]{35}"),
    ("google-token", ("ya29.",), r"[0-9A-Za-z_-]{20,2000}"),
    ("slack-token", tuple(f"xox{c}-" for c in "abeoprs"), r"[A-Za-z0-9-]{10,300}"),
    ("slack-hook", ("hooks.slack.com/services/",), r"[A-Za-z0-9_/]{20,200}"),
    ("npm-token", ("npm_",), r"[A-Za-z0-9]{36}"),
    ("pypi-token", ("pypi-",), r"[A-Za-z0-9_-]{50,1000}"),
    ("huggingface-token", ("hf_",), r"[A-Za-z0-9]{30,300}"),
    ("sendgrid-key", ("SG.",), r"[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    ("digitalocean-token", ("dop_v1_", "doo_v1_", "dor_v1_"), r"[a-f0-9]{64}"),
    ("jwt", ("eyJ",), r"[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,2000}"),
)
_BY_FORM = tuple(
    (what, start, re.compile(re.escape(start) + rest))
    for what, starts, rest in _FORMS
    for start in starts
)

# By the name before it; `\\*["']?` is a quote, escaped as often as JSON in JSON has it.
_QUOTE = r"(?:\\{0,8}[\"'])?"
_HEADER = re.compile(
    r"(?i)(authorization" + _QUOTE + r"\s{0,4}[:=]\s{0,4}" + _QUOTE
    + r"(?:(?:bearer|basic|token|digest|apikey)\s{1,4})?)([A-Za-z0-9+/=._~-]{8,4000})"
)  # fmt: skip
_BEARER = re.compile(r"(?i)(bearer\s{1,4})([A-Za-z0-9+/=._~-]{20,4000})")
_URL_PASSWORD = re.compile(r"([^\s/:@\"'\\<>]{0,200}:)([^\s/@\"'\\<>]{1,200})(?=@)")
_NAMES = ("key", "token", "secret", "password", "passwd", "passphrase", "pwd")
_ALONE = ("password", "passwd", "passphrase", "pwd")  # the others need a word before them
_BEFORE = re.compile(
    r"(?:api|access|secret|auth|private|client|encryption|signing|account|session)[_-]?(?:access[_-]?)?\Z"
)
_VALUE = re.compile(
    r"("
    + _QUOTE
    + r"[ \t]{0,4}(?:=>|:=|[=:])[ \t]{0,4}"
    + _QUOTE
    + r")([A-Za-z0-9+/=_.~!@#%^&*-]{8,500})"
)
_KEY_EDGE = re.compile(r"-----(BEGIN|END) [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
MAX_KEY = 20_000  # characters of one key
_LINE_END = re.compile(r"(\r?\n|\\{1,8}[rn])")
_MARKER = "[redacted"
# A value that is code or a placeholder, not a credential: `password=os.environ`, `token: xxxxxxxx`.
_PLAIN = re.compile(
    r"[A-Za-z_]{1,100}|(?:[A-Za-z_]\w{0,80}\.){1,8}\w{1,80}|[*xX.#-]{1,500}|\d{1,500}"
)


def redact(text: str) -> tuple[str, int]:
    """`(text without credentials, how many were taken out)`. Linear in its length."""
    found = 0
    for step in (_key_blocks, _by_form, _by_header, _in_urls, _by_name):
        text, n = step(text)
        found += n
    return text, found


def _key_blocks(text: str) -> tuple[str, int]:
    if "PRIVATE KEY" not in text:
        return text, 0

    out: list[str] = []
    end = found = 0
    begin: re.Match[str] | None = None
    for edge in _KEY_EDGE.finditer(text):
        if edge[1] == "BEGIN":
            begin = edge
        elif begin is not None and 0 < edge.start() - begin.end() <= MAX_KEY:
            parts = _LINE_END.split(text[begin.end() : edge.start()])
            lines = [part if i % 2 else _blank(part) for i, part in enumerate(parts)]
            out += [text[end : begin.end()], *lines]
            end, found, begin = edge.start(), found + (any(parts[::2]) and lines != parts), None
    return "".join([*out, text[end:]]), found


def _by_form(text: str) -> tuple[str, int]:
    found = 0
    for what, start, pattern in _BY_FORM:
        if start not in text:
            continue

        def form(match: re.Match[str], what: str = what) -> str:
            nonlocal found
            before = match.string[match.start() - 1 : match.start()]
            mixed = what != "openai-key" or _mixed(match[0])
            if before.isalnum() or before == "_" or not mixed:
                return match[0]  # the middle of a longer word, or a name as `sk-loading-indicator`
            found += 1
            return f"{_MARKER}:{what}]"

        text = pattern.sub(form, text)
    return text, found


def _mixed(word: str) -> bool:
    return any(c.isdigit() for c in word) and any(c.isupper() for c in word)


def _by_header(text: str) -> tuple[str, int]:
    found = 0
    for what, pattern in (("authorization", _HEADER), ("bearer", _BEARER)):
        spans = []
        for at in _places(_lowered(text), what):
            match = pattern.match(text, at)
            if match is not None and not match[2].startswith("["):
                spans.append((match.start(2), match.end(2), what))
        text, n = _replaced(text, spans)
        found += n
    return text, found


def _in_urls(text: str) -> tuple[str, int]:
    spans = []
    for at in _places(text, "://"):
        match = _URL_PASSWORD.match(text, at + 3)
        if match is not None and not match[2].startswith("["):
            spans.append((match.start(2), match.end(2), "password"))
    return _replaced(text, spans)


def _by_name(text: str) -> tuple[str, int]:
    lowered = _lowered(text)
    spans = []
    for name in _NAMES:
        for at in _places(lowered, name):
            match = _VALUE.match(text, at + len(name))
            if match is None or not _is_secret(match[1], match[2]):
                continue
            if name in _ALONE or _BEFORE.search(lowered, max(0, at - 24), at):
                spans.append((match.start(2), match.end(2), name))
    return _replaced(text, spans)


def _lowered(text: str) -> str:
    """In lower case and as long: a letter or two of Unicode grow, and places would be off."""
    lowered = text.lower()
    if len(lowered) == len(text):
        return lowered
    return "".join(c.lower() if c.isascii() else c for c in text)


def _places(text: str, word: str) -> Iterator[int]:
    at = text.find(word)
    while at >= 0:
        yield at
        at = text.find(word, at + len(word))


def _replaced(text: str, spans: list[tuple[int, int, str]]) -> tuple[str, int]:
    """`text` with a marker in place of each span; of two that overlap, the first."""
    out, end, n = [], 0, 0
    for start, stop, what in sorted(spans):
        if start < end:
            continue
        out += [text[end:start], f"{_MARKER}:{what}]"]
        end, n = stop, n + 1
    return ("".join([*out, text[end:]]), n) if n else (text, 0)


def _blank(line: str) -> str:
    """One line of a key; what a diff writes before it stays."""
    if not line.strip("+- \t") or line.endswith(f"{_MARKER}:private-key]"):
        return line
    return (line[0] if line[0] in "+- " else "") + f"{_MARKER}:private-key]"


def _is_secret(between: str, value: str) -> bool:
    """A literal: letters and digits mixed. Unquoted behind `: ` it is a sentence or a type, mostly."""
    if _PLAIN.fullmatch(value) or not (re.search(r"\d", value) and re.search(r"[A-Za-z]", value)):
        return False
    quoted = between[-1] in "\"'"
    return quoted or between.strip() in ("=", ":")


def redact_bytes(body: bytes) -> tuple[bytes, int]:
    """As `redact`, for bytes of any encoding that writes ASCII as ASCII."""
    text, found = redact(body.decode("latin-1"))
    return (text.encode("latin-1"), found) if found else (body, 0)


def redact_episode(episode: Episode) -> Episode:
    """`episode` without credentials, and with `redacted` among its metrics where there were any.

    Ids and names that the caller chose stay as they are.
    """
    counted = _Counter()
    artifacts = tuple(counted.artifact(a) for a in episode.artifacts)
    summary = counted.text(episode.outcome.summary)
    evidence = tuple(counted.evidence(e) for e in episode.evidence)
    if not counted.found:
        return episode
    metrics = {**episode.outcome.metrics, "redacted": float(counted.found)}
    outcome = replace(episode.outcome, summary=summary, metrics=metrics)
    return replace(episode, artifacts=artifacts, outcome=outcome, evidence=evidence)


class _Counter:
    def __init__(self) -> None:
        self.found = 0

    def text(self, text: str) -> str:
        text, found = redact(text)
        self.found += found
        return text

    def artifact(self, artifact: Artifact) -> Artifact:
        content, meta = self.text(artifact.content), self._value(artifact.meta, 0)
        return replace(artifact, content=content, meta=meta)

    def evidence(self, evidence: Evidence) -> Evidence:
        body, found = redact_bytes(evidence.body)
        self.found += found
        return replace(evidence, body=body)

    def _value(self, value: Any, depth: int) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if depth > 20:
            return value  # `check` refuses it for its depth
        if isinstance(value, Mapping):
            return {k: self._value(v, depth + 1) for k, v in value.items()}
        if isinstance(value, list | tuple):
            return [self._value(v, depth + 1) for v in value]
        return value
