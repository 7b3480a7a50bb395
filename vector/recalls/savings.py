"""SavingsStore: sums over episodes' metrics and receipts, by session."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from plait.domain import savings
from plait.domain.savings import Paid, SessionCounts
from vector.connection.pool import Scoped
from vector.recalls.rows import plain

# Tags of importers whose episodes are transcripts: without counts they were stored before there were any.
TRANSCRIPTS = ("claude-code", "swe-agent")
# A receipt has the server's clock, a transcript its agent's machine's.
CLOCKS_S = 60.0

_FIELDS = ", ".join(f"{name} float8" for name in (savings.VERSION_METRIC, *savings.METRICS))
_POSSIBLE = " AND ".join(
    f"coalesce(m.{name}, 0) BETWEEN 0 AND {savings.MAX_COUNT}" for name in savings.METRICS
)
_SUMS = ",\n         ".join(
    f"least(coalesce(sum({name}) FILTER (WHERE counted), 0), {savings.MAX_COUNT}) AS {name}"
    for name in savings.METRICS
)

# Names of columns are constants of this program; values are bound. Metrics are anybody's: an episode
# with numbers that no importer writes is not counted, and what is summed stays far from float8's limit.
_SESSIONS = f"""
WITH scope AS MATERIALIZED (
  SELECT id, name FROM repository
   WHERE tenant = %(tenant)s AND (cardinality(%(names)s::text[]) = 0 OR name = ANY(%(names)s))),
run AS MATERIALIZED (
  SELECT e.id, e.repo_id, e.session_key, e.agent_id, e.outcome->>'status' AS status,
         coalesce(e.started_at, e.recorded_at) AS began,
         coalesce(e.started_at, e.recorded_at)
           + make_interval(secs => least(greatest(coalesce(m.seconds, 0), 0), 1e8)) AS ended,
         coalesce(m.{savings.VERSION_METRIC} = %(version)s AND {_POSSIBLE}, false) AS counted,
         {", ".join(f"m.{name}" for name in savings.METRICS)}
    FROM episode e
    JOIN scope ON scope.id = e.repo_id
   CROSS JOIN LATERAL jsonb_to_record(coalesce(e.outcome->'metrics', '{{}}'))
           AS m(seconds float8, {_FIELDS})
   WHERE e.session_key <> ''
     AND (m.{savings.VERSION_METRIC} IS NOT NULL OR e.tags && %(transcripts)s::text[])),
edited AS (
  SELECT r.repo_id, r.session_key, count(DISTINCT i.path) AS files
    FROM run r JOIN diffs i ON i.episode_id = r.id
   WHERE i.path <> '' GROUP BY 1, 2),
session AS MATERIALIZED (
  SELECT repo_id, session_key, min(began) AS began, max(ended) AS ended, count(*) AS episodes,
         count(*) FILTER (WHERE NOT counted) AS not_counted,
         (array_agg(agent_id ORDER BY began DESC, id DESC))[1] AS agent_id,
         (array_agg(status ORDER BY began DESC, id DESC)
            FILTER (WHERE status <> 'unknown'))[1] AS status,
         {_SUMS}
    FROM run GROUP BY 1, 2),
told AS MATERIALIZED (
  SELECT repo_id, range_agg(tstzrange(began - make_interval(secs => %(clocks)s),
                                      ended + make_interval(secs => %(clocks)s))) AS times
    FROM session WHERE context_plait_answers > 0 GROUP BY 1),
receipt AS (
  SELECT a.repo_id, c.session_key, count(*) AS n, sum(c.tokens) AS tokens, min(c.at) AS began,
         max(c.at) AS ended, max(c.agent_id) AS agent_id
    FROM recall c
   CROSS JOIN LATERAL (SELECT min(id) AS repo_id FROM scope WHERE id = ANY(c.repo_ids)) a
    LEFT JOIN session own ON own.repo_id = a.repo_id AND own.session_key = c.session_key
    LEFT JOIN told ON told.repo_id = a.repo_id
   WHERE c.tenant = %(tenant)s AND a.repo_id IS NOT NULL
     AND (own.repo_id IS NOT NULL OR NOT coalesce(c.at <@ told.times, false))
   GROUP BY 1, 2)
SELECT scope.name, coalesce(s.session_key, r.session_key), coalesce(s.agent_id, r.agent_id),
       least(s.began, r.began) AS began, greatest(s.ended, r.ended) AS ended,
       coalesce(s.status, 'unknown'), coalesce(s.episodes, 0), coalesce(s.not_counted, 0),
       coalesce(d.files, 0), coalesce(r.n, 0), coalesce(r.tokens, 0),
       {", ".join(f"coalesce(s.{name}, 0)" for name in savings.METRICS)}
  FROM session s
  FULL JOIN receipt r ON r.repo_id = s.repo_id AND r.session_key = s.session_key
  LEFT JOIN edited d ON d.repo_id = s.repo_id AND d.session_key = s.session_key
  JOIN scope ON scope.id = coalesce(s.repo_id, r.repo_id)
 WHERE (%(session)s::text = '' OR coalesce(s.session_key, r.session_key) = %(session)s)
   AND (%(since)s::timestamptz IS NULL OR least(s.began, r.began) >= %(since)s)
 ORDER BY ended DESC, 1, 2 LIMIT %(limit)s
"""


class Savings:
    def __init__(self, app: Scoped) -> None:
        self._app = app

    async def session_counts(
        self,
        tenant: str,
        repos: Sequence[str],
        *,
        session_key: str = "",
        since: datetime | None = None,
        limit: int,
    ) -> list[SessionCounts]:
        """See `SavingsStore.session_counts`."""
        given = {
            "tenant": tenant,
            "names": list(repos),
            "session": plain(session_key),
            "since": since,
            "limit": limit,
            "version": savings.VERSION,
            "transcripts": list(TRANSCRIPTS),
            "clocks": CLOCKS_S,
        }
        rows = await self._app.rows(_SESSIONS, given, tenant=tenant)
        return [_counts(row) for row in rows]


def _counts(row: Sequence[Any]) -> SessionCounts:
    repo, session_key, agent_id, began, ended, status, *numbers = row
    episodes, not_counted, edited, receipts, receipt_tokens = map(int, numbers[:5])
    sums = dict(zip(savings.METRICS, map(int, numbers[5:]), strict=True))
    paid = {
        kind: Paid(*(sums[savings.metric(kind, what)] for what in ("answers", "tokens", "again")))
        for kind in savings.Looked
    }
    return SessionCounts(
        repo=repo,
        session_key=session_key,
        agent_id=agent_id,
        began=began,
        ended=ended,
        status=status,
        episodes=episodes,
        not_counted=not_counted,
        edited_files=edited,
        calls=sums[savings.CALLS],
        plait=paid[savings.Looked.PLAIT],
        searched=paid[savings.Looked.SEARCH],
        read=paid[savings.Looked.READ],
        sent=sums[savings.SENT],
        sent_calls=sums[savings.SENT_CALLS],
        grown=sums[savings.GROWN],
        grown_counted=sums[savings.GROWN_COUNTED],
        receipts=receipts,
        receipt_tokens=receipt_tokens,
    )
