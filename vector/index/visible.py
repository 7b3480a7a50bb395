"""Which rows of code a revision holds: the one place that says it in SQL.

A file's content is written once, by the revision `written`, with its chunks; intervals of revisions
(`file_member`) say which revisions hold it. So code that comes back costs rows of intervals only.
"""

from __future__ import annotations

# Keeps the planner from making a join of a look-up, which reads every chunk where an index gives the best in order.
ONE_BY_ONE = " OFFSET 0"
# Joins chunks `f` of the partition `files` to the intervals `m` of their file's version.
CHUNKS_OF = "f.repo_id = m.repo_id AND f.path = m.path AND f.rev_from = m.written"


def held(row: str, number: str) -> str:
    """Whether revision `number` holds `row`, a row with an interval: of `source_file`, `file_graph`, `file_member`
    or `graph_member`. Both are SQL: an alias, and an expression or a bound parameter's place."""
    return f"{row}.rev_from <= {number} AND ({row}.rev_to IS NULL OR {row}.rev_to > {number})"


def chunk(row: str, number: str) -> str:
    """Whether revision `number` holds `row`, a row of `files`.

    One look-up by index for each row that all else fits; without `ONE_BY_ONE`, which suits a statement that reads
    all of them, the planner chooses.
    """
    return (
        f"{row}.rev_from <= {number} AND EXISTS (SELECT FROM plait.file_member member"
        f" WHERE member.repo_id = {row}.repo_id AND member.path = {row}.path"
        f" AND member.written = {row}.rev_from AND {held('member', number)}{ONE_BY_ONE})"
    )


def item(row: str, number: str) -> str:
    """As `chunk`, of a row of `item`: every revision holds agents' items."""
    return f"({row}.rev_from = 0 OR {chunk(row, number)})"
