"""Small reads of syntax nodes, shared by the brace languages. None of them raises on any tree."""

from __future__ import annotations

from tree_sitter import Node


def text_of(node: Node | None, limit: int = 2000) -> str:
    """The text of a node; "" for one longer than `limit` bytes.

    A call can hold the rest of its file, at every level of its nesting: such text is not even copied.
    """
    if node is None or node.end_byte - node.start_byte > limit:
        return ""
    raw = node.text
    return raw.decode("utf-8", "replace") if raw else ""


def short_text(node: Node | None, limit: int = 200) -> str:
    return text_of(node, limit)


def line_of(node: Node) -> int:
    """1-based."""
    return node.start_point[0] + 1


def named(node: Node | None, index: int = 0) -> Node | None:
    """A named child; None where there is none (the binding's own method raises)."""
    if node is None or node.named_child_count <= index:
        return None
    return node.named_child(index)
