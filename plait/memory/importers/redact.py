"""Credentials in text and bytes, replaced by a visible marker: `[redacted:github-token]`.

Only what is a credential by its form, or by the name it is given. A pattern never takes a quote, a
backslash or a line end with it, so that JSON stays JSON and a diff keeps its lines.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from plait.domain.values import Artifact, Episode, Evidence

_B = r"(?<![A-Za-z0-9_])"  # not inside a longer word
# By form: (what it is, pattern). Lengths are those the issuers use, or a little less.
_FORMS: tuple[tuple[str, str], ...] = (
    ("anthropic-key", _B + r"sk-ant-[A-Za-z0-9_-]{20,300}"),
    ("stripe-key", _B + r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,300}"),
    ("openai-key", _B + r"sk-(?:proj-|svcacct-|admin-)?[A-Za-z0-9_-]{20,300}"),
    ("github-token", _B + r"(?:gh[pousr]_[A-Za-z0-9]{30,300}|github_pat_[A-Za-z0-9_]{22,300})"),
    ("gitlab-token", _B + r"gl(?:pat|dt|rt|ptt)-[A-Za-z0-9_-]{20,300}"),
    ("aws-key-id", _B + r"(?:AKIA|ASIA|ABIA|ACCA)[0-9A-Z]{16}(?![A-Za-z0-9])"),
    ("google-key", _B + r"AIza[0-9A-Za-z_-]{35}"),
    ("google-token", _B + r"ya29\.[0-9A-Za-z_-]{20,2000}"),
    ("slack-token", _B + r"xox[abeoprs]-[A-Za-z0-9-]{10,300}"),
    ("slack-hook", r"hooks\.slack\.com/services/[A-Za-z0-9_/]{20,200}"),
    ("npm-token", _B + r"npm_[A-Za-z0-9]{36}"),
    ("pypi-token", _B + r"pypi-[A-Za-z0-9_-]{50,1000}"),
    ("huggingface-token", _B + r"hf_[A-Za-z0-9]{30,300}"),
    ("sendgrid-key", _B + r"SG\.[A-Za-z0-9_-]{16,64}\.[A-Za-z0-9_-]{16,128}"),
    ("digitalocean-token", _B + r"do[opr]_v1_[a-f0-9]{64}"),
    ("jwt", _B + r"eyJ[A-Za-z0-9_-]{8,4000}\.eyJ[A-Za-z0-9_-]{8,8000}\.[A-Za-z0-9_-]{8,2000}"),
)
_BY_FORM = re.compile("|".join(f"(?P<f{n}>{pattern})" for n, (_, pattern) in enumerate(_FORMS)))

# By the name before it; `\\*["']?` is a quote, escaped as often as JSON in JSON has it.
_QUOTE = r"(?:\\{0,8}[\"'])?"
_HEADER = re.compile(
    r"(?i)((?:proxy-)?authorization" + _QUOTE + r"\s{0,4}[:=]\s{0,4}" + _QUOTE
    + r"(?:(?:bearer|basic|token|digest|apikey)\s{1,4})?)([A-Za-z0-9+/=._~-]{8,4000})"
)  # fmt: skip
_BEARER = re.compile(r"(?i)(\bbearer\s{1,4})([A-Za-z0-9+/=._~-]{20,4000})")
_URL = re.compile(
    r"(\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s/:@\"'\\<>]{0,200}:)([^\s/@\"'\\<>]{1,200})(?=@)"
)
_NAMED = re.compile(
    r"(?i)((?:api|access|secret|auth|private|client|encryption|signing|account|session)"
    r"[_-]?(?:access[_-]?)?(?:key|token|secret)|x-api-key|passw(?:or)?d|passphrase|pwd)"
    r"(" + _QUOTE + r"[ \t]{0,4}(?:=>|:=|[=:])[ \t]{0,4}" + _QUOTE + r")([A-Za-z0-9+/=_.~!@#%^&*-]{8,500})"
)  # fmt: skip
_KEY_BLOCK = re.compile(
    r"(-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)(.{1,20000}?)"
    r"(-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----)",
    re.DOTALL,
)
_LINE_END = re.compile(r"(\r?\n|\\{1,8}[rn])")
_MARKER = "[redacted"
# A value that is code or a placeholder, not a credential: `password=os.environ`, `token: xxxxxxxx`.
_PLAIN = re.compile(
    r"[A-Za-z_]{1,100}|(?:[A-Za-z_]\w{0,80}\.){1,8}\w{1,80}|[*xX.#-]{1,500}|\d{1,500}"
)


def redact(text: str) -> tuple[str, int]:
    """`(text without credentials, how many were taken out)`. Linear in its length."""
    found = 0

    def form(match: re.Match[str]) -> str:
        nonlocal found
        found += 1
        return f"{_MARKER}:{_FORMS[int(str(match.lastgroup)[1:])][0]}]"

    def behind(what: str) -> Callable[[re.Match[str]], str]:
        def sub(match: re.Match[str]) -> str:
            nonlocal found
            if match[2].startswith("[") or _MARKER in match[0]:
                return match[0]
            found += 1
            return f"{match[1]}{_MARKER}:{what}]"

        return sub

    def named(match: re.Match[str]) -> str:
        nonlocal found
        if _MARKER in match[0] or not _is_secret(match[2], match[3]):
            return match[0]
        found += 1
        return f"{match[1]}{match[2]}{_MARKER}:{match[1].lower()}]"

    def block(match: re.Match[str]) -> str:
        nonlocal found
        found += 1
        parts = _LINE_END.split(match[2])
        lines = [part if i % 2 else _blank(part) for i, part in enumerate(parts)]
        return match[1] + "".join(lines) + match[3]

    if "PRIVATE KEY" in text:
        text = _KEY_BLOCK.sub(block, text)
    text = _BY_FORM.sub(form, text)
    text = _HEADER.sub(behind("authorization"), text)
    text = _BEARER.sub(behind("bearer"), text)
    text = _URL.sub(behind("password"), text)
    return _NAMED.sub(named, text), found


def _blank(line: str) -> str:
    """One line of a key; what a diff writes before it stays."""
    if not line.strip("+- \t"):
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
