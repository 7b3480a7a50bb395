"""Patches as mails: `git format-patch` files, series of them in one mbox, and mails from a list."""

from __future__ import annotations

import codecs
import email
import email.header
import email.message
import email.policy
import email.utils
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import BinaryIO

from etl.ingest.episode_json import Read
from etl.ingest.importers.draft import MAX_RAW_BYTES, Draft, Options
from etl.ingest.importers.trim import plain
from etl.ingest.importers.unified import add_file, split
from plait.domain.errors import TranscriptInvalid
from plait.domain.values import ArtifactKind

MAX_MAIL_BYTES = MAX_RAW_BYTES
MAX_PARTS = 50

# What git writes for each message, and what mail programs write.
_FROM_GIT = re.compile(rb"From ([0-9a-f]{40}|[0-9a-f]{64}) [A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d ")
_FROM = re.compile(rb"From \S{1,300} +[A-Z][a-z]{2} [A-Z][a-z]{2} [ 0-9]\d \d\d:\d\d(?::\d\d)? ")
_HEADER = re.compile(rb"[A-Za-z][A-Za-z0-9-]{0,70}:")
_PREFIX = re.compile(r"(?:\s*\[[^\]\n]{0,60}(?:PATCH|RFC)[^\]\n]{0,60}\])+\s*", re.IGNORECASE)
_PART = re.compile(r"\[[^\]\n]{0,60}?(\d{1,4})/(\d{1,4})\]")
_SIGNATURE = re.compile(r"\n-- \n.{0,200}\Z", re.DOTALL)


def read(stream: BinaryIO, name: str, options: Options) -> Iterator[Read]:
    """An episode a patch: its message as a note, its diffs; the mail itself as evidence.

    A message that can't be read is reported and the next one tried.
    Raises: TranscriptInvalid, when there is no message in it.
    """
    thread, any_ = "", False
    for line, raw, error in _messages(stream, name):
        any_ = True
        if error is not None:
            yield Read(line, None, error)
            continue
        try:
            draft, thread = _draft(raw, name, options, thread)
        except TranscriptInvalid as exc:
            yield Read(line, None, exc)
            continue
        draft.line = line
        yield draft.read()
    if not any_:
        raise TranscriptInvalid(f"{name}: holds no mail; `git format-patch` writes some", file=name)


def _messages(stream: BinaryIO, name: str) -> Iterator[tuple[int, bytes, TranscriptInvalid | None]]:
    """`(first line, bytes, error)` of each mail. One mail too large is skipped, in bounded memory."""
    number, begin, size, blank = 0, 1, 0, True
    parts: list[bytes] = []
    while line := stream.readline(MAX_MAIL_BYTES):
        number += 1
        if blank and (_FROM_GIT.match(line) or _FROM.match(line)) and size:
            yield begin, b"".join(parts), _too_large(name, begin, size)
            parts, size, begin = [], 0, number
        blank = not line.strip()
        size += len(line)
        if size <= MAX_MAIL_BYTES:
            parts.append(line)
        else:
            parts.clear()
    if size and any(part.strip() for part in parts or [b"x"]):
        yield begin, b"".join(parts), _too_large(name, begin, size)


def _too_large(name: str, line: int, size: int) -> TranscriptInvalid | None:
    if size <= MAX_MAIL_BYTES:
        return None
    return TranscriptInvalid(
        f"{name}:{line}: the mail has {size:,} bytes, more than {MAX_MAIL_BYTES:,}; "
        "leave generated files out of the patch",
        file=name,
        line=line,
    )


def _draft(raw: bytes, name: str, options: Options, thread: str) -> tuple[Draft, str]:
    """The episode of one mail, and the thread it belongs to."""
    message = _parse(raw, name)
    subject = _header(message, "Subject")
    body = _body(message)
    draft = Draft("patch", options, name, "message/rfc822")
    # Between the mails of an mbox stands an empty line: the same mail in a file of its own has none.
    draft.keep(raw.rstrip(b"\r\n") + b"\n")
    if match := _FROM_GIT.match(raw):
        sha = match[1].decode()
        draft.commit = sha if sha.strip("0") else ""
    draft.started_at = _date(_header(message, "Date"))
    text, diff = _message_and_diff(body)
    title = _PREFIX.sub("", " ".join(subject.split())).strip() or "(no subject)"
    summary = f"{title}\n\n{text}".strip()
    draft.summary = summary
    meta = {
        "subject": subject,
        "author": _header(message, "From"),
        "date": _header(message, "Date"),
    }
    id_ = _header(message, "Message-ID")
    if id_:
        meta["message_id"] = id_
    if match_ := _PART.search(subject):
        draft.metrics["part"], draft.metrics["parts"] = float(match_[1]), float(match_[2])
    draft.add(ArtifactKind.NOTE, summary, meta=meta)
    files, _ = split(diff)
    for file in files[:450]:
        add_file(draft, file)
    if len(files) > 450:
        draft.count("files_cut", len(files) - 450)
    root = _root(message) or id_
    thread = root if root and (_root(message) or not thread) else thread
    draft.session_key = thread.strip("<>")
    return draft, thread


def _parse(raw: bytes, name: str) -> email.message.Message:
    head, _, rest = raw.partition(b"\n")
    data = rest if head.startswith(b"From ") else raw
    if not _HEADER.match(data):
        raise TranscriptInvalid(
            f"{name}: does not begin with a mail's headers; `git format-patch` writes them",
            file=name,
        )
    try:
        return email.message_from_bytes(data, policy=email.policy.compat32)
    except Exception as exc:  # the package raises many kinds on hostile headers
        raise TranscriptInvalid(
            f"{name}: the mail can't be read ({exc}); send it anew", file=name
        ) from exc


def _header(message: email.message.Message, name: str) -> str:
    """A header with its encoded words decoded; "" when it is not there. Cut at 2,000 characters."""
    value = ""
    try:
        value = str(message.get(name, ""))[:8_000]
        text = str(email.header.make_header(email.header.decode_header(value)))
    except Exception:  # a header that can't be decoded is shown as it stands
        text = value
    return " ".join(plain(text).split())[:2_000]


def _charset(name: str | None) -> str:
    try:
        return "ascii" if not name else codecs.lookup(name).name
    except LookupError:
        return "latin-1"


def _body(message: email.message.Message) -> str:
    """The text of all text parts, in order: a patch may be attached."""
    out: list[str] = []
    for n, part in enumerate(message.walk()):
        if n >= MAX_PARTS:
            break
        kind = part.get_content_type()
        patch = kind.startswith("text/") or kind in ("application/x-patch", "application/x-diff")
        if part.is_multipart() or not patch or kind == "text/html":
            continue
        try:
            payload = part.get_payload(decode=True)
            if not isinstance(payload, bytes):
                continue
            text = payload.decode(_charset(part.get_content_charset() or "utf-8"), "replace")
        except Exception:  # an encoding that is not what it says: the bytes as they are
            payload = part.get_payload()
            text = payload if isinstance(payload, str) else ""
        out.append(text.replace("\r\n", "\n"))
    return "\n".join(out)


def _message_and_diff(body: str) -> tuple[str, str]:
    """The commit's message, and what follows it: a `---` line stands between, then the diffstat."""
    lines = body.split("\n")
    for i, line in enumerate(lines):
        if line.rstrip() == "---" or line.startswith(("diff --git ", "Index: ")):
            return "\n".join(lines[:i]).strip(), "\n".join(lines[i:])
        if line.startswith("--- ") and i + 1 < len(lines) and lines[i + 1].startswith("+++ "):
            return "\n".join(lines[:i]).strip(), "\n".join(lines[i:])
    return _SIGNATURE.sub("", body).strip(), ""


def _date(text: str) -> datetime | None:
    """The author's date; `-0000` is UTC of an unknown place."""
    try:
        time = email.utils.parsedate_to_datetime(text)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def _root(message: email.message.Message) -> str:
    """The first mail of the thread, by this one's references."""
    known = (_header(message, "References") or _header(message, "In-Reply-To")).split()
    return known[0] if known else ""
