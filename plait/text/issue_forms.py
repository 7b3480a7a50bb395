"""What of an issue's text is its form and not its content: hidden instructions, ticked boxes, addresses.

A bug report is written into a template. Its words are alike in every report, so they say nothing about
the code, and fill what a model reads of the text.
"""

from __future__ import annotations

import re

# An unclosed comment is none: it may be code.
_COMMENT = re.compile(r"<!--.*?-->", re.DOTALL)
_BOX = re.compile(r"^[ \t]{0,8}[-*+] \[[ xX]\] .*$", re.MULTILINE)
_IMAGE = re.compile(r"!\[[^\]\n]{0,200}\]\([^)\s]{1,500}\)|<img [^<>]{0,500}>")
_LINK = re.compile(r"\[([^\[\]\n]{1,300})\]\(https?://[^)\s]{1,500}\)")
# Not the prompt `>>>`.
_QUOTED = re.compile(r"^[ \t]{0,3}>(?!>) ?", re.MULTILINE)
_ADDRESS = re.compile(r"https?://[^\s<>\"'`)\]]{1,1000}")


def plain(text: str) -> str:
    """`text` without an issue template's form; as it is where nothing would be left. A link keeps its
    words, an address into a repository's files stays; what is quoted from another report is read as its own."""
    short = text
    if "<!--" in short and "-->" in short:
        short = (
            _COMMENT.sub(" ", short[: short.rindex("-->") + 3]) + short[short.rindex("-->") + 3 :]
        )
    if "- [" in short or "* [" in short:
        short = _BOX.sub("", short)
    if "![" in short or "<img " in short:
        short = _IMAGE.sub(" ", short)
    if "://" in short:
        short = _ADDRESS.sub(_file_only, _LINK.sub(_words_and_file, short))
    if "\n>" in short:
        short = _QUOTED.sub("", short)
    return short if short.strip() else text


def _file_only(match: re.Match[str]) -> str:
    return match[0] if "/blob/" in match[0] else " "


def _words_and_file(match: re.Match[str]) -> str:
    return match[0] if "/blob/" in match[0] else match[1]
