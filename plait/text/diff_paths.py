"""The paths in a diff's headers: quoted, prefixed, followed by a time, or not there at all."""

from __future__ import annotations

MAX_PATH = 4096
NOWHERE = "/dev/null"

# What git writes before paths: its default, then `diff.mnemonicPrefix`.
_PREFIXES = {
    ("a/", "b/"), ("b/", "a/"), ("i/", "w/"), ("c/", "i/"), ("c/", "w/"), ("o/", "w/"),
    ("1/", "2/"), ("w/", "i/"), ("i/", "c/"), ("w/", "c/"),
}  # fmt: skip
_OLD = tuple(sorted({old for old, _ in _PREFIXES if old not in ("b/", "w/")}))
_NEW = ("b/", "w/", "i/", "2/")

_ESCAPES = {
    "a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92,
}  # fmt: skip


def header_path(rest: str) -> str:
    """What `--- ` or `+++ ` names: up to a tab, which a time follows; quoted when it begins with `"`."""
    if rest.startswith('"'):
        return unquote(rest)
    return rest.partition("\t")[0].rstrip(" ")[:MAX_PATH]


def unquote(text: str) -> str:
    """A path as git writes it: `"caf\\303\\251"` is café. Without quotes it comes back as it is."""
    return _take_quoted(text)[0] if text.startswith('"') else text[:MAX_PATH]


def git_header_paths(rest: str) -> tuple[str, str]:
    """Both paths of a `diff --git` line, without prefixes; "" each when they are ambiguous.

    Unquoted names with spaces are split by being the same name: renames have their own headers.
    """
    if rest.startswith('"'):
        old, behind = _take_quoted(rest)
        return strip_prefixes(old, unquote(behind.removeprefix(" ")))
    if rest.endswith('"') and ' "' in rest:
        old, _, new = rest.partition(' "')
        return strip_prefixes(old[:MAX_PATH], unquote('"' + new))
    half = len(rest) // 2
    if len(rest) % 2 and rest[half] == " ":
        old, new = rest[:half], rest[half + 1 :]
        if old == new or old.partition("/")[2] == new.partition("/")[2] != "":
            return strip_prefixes(old[:MAX_PATH], new[:MAX_PATH])
    old, _, new = rest.partition(" ")
    if not new or " " in new:
        return "", ""
    return strip_prefixes(old[:MAX_PATH], new[:MAX_PATH])


def strip_prefixes(old: str, new: str) -> tuple[str, str]:
    """Without `a/` and `b/`, and "" for `/dev/null`. A pair without prefixes stays as it is."""
    if old == NOWHERE:
        return "", "" if new == NOWHERE else _plain(new[2:] if new.startswith(_NEW) else new)
    if new == NOWHERE:
        return _plain(old[2:] if old.startswith(_OLD) else old), ""
    if (old[:2], new[:2]) in _PREFIXES:
        old, new = old[2:], new[2:]
    return _plain(old), _plain(new)


def _plain(path: str) -> str:
    """Relative to the repository's root."""
    while path.startswith("./"):
        path = path[2:]
    return path.lstrip("/")


def _take_quoted(text: str) -> tuple[str, str]:
    """`(path, rest)` of text that begins with a C-style quoted string; its bytes are UTF-8."""
    out = bytearray()
    at, end = 1, min(len(text), 4 * MAX_PATH)
    while at < end and text[at] != '"':
        if text[at] != "\\" or at + 1 >= end:
            out += text[at].encode("utf-8", "replace")
            at += 1
            continue
        octal = text[at + 1 : at + 4]
        if len(octal) == 3 and all(c in "01234567" for c in octal):
            out.append(int(octal, 8) & 255)
            at += 4
        else:
            out += bytes([_ESCAPES[text[at + 1]]]) if text[at + 1] in _ESCAPES else b"\\"
            at += 2 if text[at + 1] in _ESCAPES else 1
    return out.decode("utf-8", "replace")[:MAX_PATH], text[at + 1 :]
