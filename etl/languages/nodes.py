"""Small reads of syntax nodes, shared by the brace languages. None of them raises on any tree."""

from __future__ import annotations

from tree_sitter import Node


def text_of(node: Node | None) -> str:
    raw = node.text if node is not None else b""
    return raw.decode("utf-8", "replace") if raw else ""


def line_of(node: Node) -> int:
    """1-based."""
    return node.start_point[0] + 1


def named(node: Node | None, index: int = 0) -> Node | None:
    """A named child; None where there is none (the binding's own method raises)."""
    if node is None or node.named_child_count <= index:
        return None
    return node.named_child(index)
