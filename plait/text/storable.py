"""Text in the one form that every store can hold."""

from __future__ import annotations

import re

_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def is_storable(text: str) -> bool:
    """Whether `text` has no NUL and no lone surrogate."""
    return _UNSTORABLE.search(text) is None


def clean(text: str) -> str:
    """`text` without what PostgreSQL's text refuses: NUL and lone surrogates are replaced."""
    if text.isascii() and "\0" not in text:
        return text
    if is_storable(text):
        return text
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode("utf-8")
