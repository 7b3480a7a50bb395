"""Which rows of code a revision holds: the one place that says it in SQL."""

from __future__ import annotations


def held(row: str, number: str) -> str:
    """Whether revision `number` holds `row`, a row of `source_file` or `file_graph`. Both are SQL: an alias, and
    an expression or a bound parameter's place."""
    return f"{row}.rev_from <= {number} AND ({row}.rev_to IS NULL OR {row}.rev_to > {number})"


def chunk(row: str, number: str) -> str:
    """Whether revision `number` holds `row`, a row of `item` or one of its partitions. Agents' items are held by
    every one."""
    return f"{row}.rev_from <= {number} AND ({row}.rev_to IS NULL OR {row}.rev_to > {number})"
