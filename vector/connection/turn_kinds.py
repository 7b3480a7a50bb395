"""The part of migration 0015 that reads words: which of the memories stored before it ask or announce."""

from __future__ import annotations

from plait.text.turn_kinds import MAX_BYTES, announces_next_step, is_question
from vector.connection.pool import Connection

PAGE = 10_000
SHORT = """
SELECT id, content, source = 'agent' FROM memories
 WHERE octet_length(content) <= %(most)s AND (%(after)s::uuid IS NULL OR id > %(after)s)
 ORDER BY id LIMIT %(page)s
"""
# Only those that are either are written: a row that is updated goes into each of the table's indexes again.
MARK = """
UPDATE memories m SET is_question = f.is_question, announces_step = f.announces_step
  FROM unnest(%(ids)s::uuid[], %(questions)s::boolean[], %(steps)s::boolean[])
       AS f (id, is_question, announces_step)
 WHERE m.id = f.id
"""


async def fill(conn: Connection) -> None:
    """Decide for every memory that is there. Run inside the migration's transaction."""
    after = None
    while True:
        given = {"most": MAX_BYTES, "after": after, "page": PAGE}
        rows = await (await conn.execute(SHORT, given)).fetchall()
        if not rows:
            return
        after = rows[-1][0]
        kinds = [
            (id_, is_question(text), by_agent and announces_next_step(text))
            for id_, text, by_agent in rows
        ]
        marked = [kind for kind in kinds if kind[1] or kind[2]]
        if marked:
            ids, questions, steps = zip(*marked, strict=True)
            found = {"ids": list(ids), "questions": list(questions), "steps": list(steps)}
            await conn.execute(MARK, found)
