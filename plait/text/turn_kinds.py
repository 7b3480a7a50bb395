"""What a turn of a conversation is, by its words: a question, or an announcement of the next step. English.

Decided once, when a memory is written, and stored with it: ranking reads two booleans. Only short texts are
either; what is longer says something besides.
"""

from __future__ import annotations

import re

MAX_BYTES = 300  # of UTF-8

# One sentence that announces what its speaker is going to do. A dot inside of a file's name ends no sentence.
_STEP = re.compile(
    r"[\W_]*(?:(?:ok|okay|so|now|next|then|first|good|great|alright)[,.:]?\s+)*"
    r"(?:let me|let['’]s|let us|now|i['’]ll|i will|i want to|i['’]d like to|i need to|we need to"
    r"|i['’]m going to|i am going to)\b(?:[^.!?\n]|\.(?=\S))*\Z",
    re.IGNORECASE,
)
# … and why, or what it is not: such a sentence is worth finding.
_REASON = re.compile(
    r"\b(?:because|since|so that|instead|rather|not|n['’]t|never|as the)\b|n['’]t\b", re.IGNORECASE
)


def is_question(text: str) -> bool:
    """Whether `text` is short and nothing but a question: no sentence ends before its question mark."""
    if not _is_short(text):
        return False
    mark = text.find("?", _end_of_words(text))
    return mark >= 0 and not any(end in text[:mark] for end in ".!\n")


def announces_next_step(text: str) -> bool:
    """Whether `text` is short and about what comes next: it ends with a question ("Shall I keep it?"), or is
    one sentence about what its speaker will do ("Let me look at `app.py`"), without a reason."""
    if not _is_short(text):
        return False
    end = _end_of_words(text)
    if "?" in text[end:]:
        return True
    return _STEP.match(text[:end]) is not None and _REASON.search(text) is None


def _end_of_words(text: str) -> int:
    """Behind the last letter or digit; 0 where there is none."""
    return next((n for n in range(len(text), 0, -1) if text[n - 1].isalnum()), 0)


def _is_short(text: str) -> bool:
    return len(text) <= MAX_BYTES and len(text.encode("utf-8", "replace")) <= MAX_BYTES
