"""Times in words with what they mean: `(words, expected)`, read at a clock in a zone.

`expected` is ISO 8601 in the caller's zone. A trailing `|` says "the last microsecond before": the end
of a period, exclusive. None: not understood, or too vague to guess.
"""

from __future__ import annotations

BERLIN = "Europe/Berlin"
NOW = "2026-03-18T15:30:00+01:00"  # a Wednesday

CASES: tuple[tuple[str, str | None], ...] = (
    # now and near
    ("now", NOW),
    ("today", NOW),  # the day goes on: what is known by now
    ("yesterday", "2026-03-18T00:00|"),
    ("Yesterday", "2026-03-18T00:00|"),
    ("the day before yesterday", "2026-03-17T00:00|"),
    ("tomorrow", "2026-03-20T00:00|"),
    ("this morning", "2026-03-18T12:00|"),
    ("yesterday morning", "2026-03-17T12:00|"),
    ("yesterday afternoon", "2026-03-17T18:00|"),
    ("yesterday evening", "2026-03-18T00:00|"),
    ("last night", "2026-03-18T06:00|"),
    # a time of day
    ("yesterday 14:00", "2026-03-17T14:00"),
    ("yesterday at 14:00", "2026-03-17T14:00"),
    ("yesterday at 2pm", "2026-03-17T14:00"),
    ("yesterday at 2:05 p.m.", "2026-03-17T14:05"),
    ("14:00 yesterday", "2026-03-17T14:00"),
    ("today 09:15", "2026-03-18T09:15"),
    ("9am", "2026-03-18T09:00"),
    ("noon", "2026-03-18T12:00"),
    ("14:00", "2026-03-18T14:00"),
    ("18:00", "2026-03-17T18:00"),  # the latest one: today's has not come
    ("yesterday at noon", "2026-03-17T12:00"),
    ("yesterday at midnight", "2026-03-17T00:00"),
    ("12am today", "2026-03-18T00:00"),
    ("12pm today", "2026-03-18T12:00"),
    ("yesterday 14:00:30", "2026-03-17T14:00:30"),
    ("yesterday 14:00 UTC", "2026-03-17T15:00"),
    ("yesterday 14:00 +05:30", "2026-03-17T09:30"),
    # weekdays
    ("last Tuesday", "2026-03-18T00:00|"),
    ("Tuesday", "2026-03-18T00:00|"),
    ("on Tuesday", "2026-03-18T00:00|"),
    ("tue", "2026-03-18T00:00|"),
    ("last Wednesday", "2026-03-12T00:00|"),  # never today
    ("Wednesday", NOW),  # the latest one is today
    ("last Thursday", "2026-03-13T00:00|"),
    ("Tuesday at noon", "2026-03-17T12:00"),
    ("Wednesday at 18:00", "2026-03-11T18:00"),  # today's has not come
    ("last Friday at 5 pm", "2026-03-13T17:00"),
    ("this Friday", "2026-03-21T00:00|"),
    ("next Tuesday", "2026-03-25T00:00|"),
    ("Tuesday last week", "2026-03-11T00:00|"),
    ("last week Tuesday", "2026-03-11T00:00|"),
    ("Monday morning", "2026-03-16T12:00|"),
    # so long ago
    ("two weeks ago", "2026-03-04T15:30"),
    ("2 weeks ago", "2026-03-04T15:30"),
    ("a week ago", "2026-03-11T15:30"),
    ("3 days ago", "2026-03-15T15:30"),
    ("3 days ago at 10:00", "2026-03-15T10:00"),
    ("an hour ago", "2026-03-18T14:30"),
    ("half an hour ago", "2026-03-18T15:00"),
    ("90 minutes ago", "2026-03-18T14:00"),
    ("1 hour 30 minutes ago", "2026-03-18T14:00"),
    ("45 seconds ago", "2026-03-18T15:29:15"),
    ("a month ago", "2026-02-18T15:30"),
    ("three months ago", "2025-12-18T15:30"),
    ("a year ago", "2025-03-18T15:30"),
    ("a fortnight ago", "2026-03-04T15:30"),
    ("a couple of days ago", "2026-03-16T15:30"),
    ("2h ago", "2026-03-18T13:30"),
    # periods
    ("last week", "2026-03-16T00:00|"),
    ("this week", NOW),
    ("the week before last", "2026-03-09T00:00|"),
    ("last month", "2026-03-01T00:00|"),
    ("last year", "2026-01-01T00:00|"),
    ("end of last month", "2026-03-01T00:00|"),
    ("the end of last week", "2026-03-16T00:00|"),
    ("start of last month", "2026-02-01T00:00"),
    ("beginning of this week", "2026-03-16T00:00"),
    ("end of yesterday", "2026-03-18T00:00|"),
    ("end of February", "2026-03-01T00:00|"),
    ("start of 2026", "2026-01-01T00:00"),
    ("February", "2026-03-01T00:00|"),
    ("March", NOW),
    ("last March", "2025-04-01T00:00|"),
    ("November", "2025-12-01T00:00|"),
    ("November 2025", "2025-12-01T00:00|"),
    ("2025", "2026-01-01T00:00|"),
    ("2025-11", "2025-12-01T00:00|"),
    ("2026-W10", "2026-03-09T00:00|"),
    ("Q4 2025", "2026-01-01T00:00|"),
    ("last quarter", "2026-01-01T00:00|"),
    # dates
    ("2026-03-01", "2026-03-02T00:00|"),
    ("March 3", "2026-03-04T00:00|"),
    ("3 March", "2026-03-04T00:00|"),
    ("Mar 3rd", "2026-03-04T00:00|"),
    ("the 3rd of March", "2026-03-04T00:00|"),
    ("April 3", "2025-04-04T00:00|"),  # the latest one
    ("March 3, 2025", "2025-03-04T00:00|"),
    ("3 March 2025 at 08:00", "2025-03-03T08:00"),
    ("Tuesday, March 3 2026", "2026-03-04T00:00|"),
    ("February 29", "2024-03-01T00:00|"),  # the latest there was
    ("2024-02-29", "2024-03-01T00:00|"),
    # ISO 8601
    ("2026-03-01T14:00", "2026-03-01T14:00"),
    ("2026-03-01 14:00", "2026-03-01T14:00"),
    ("2026-03-01T14:00:30.5", "2026-03-01T14:00:30.500000"),
    ("2026-03-01T14:00Z", "2026-03-01T15:00"),
    ("2026-03-01T14:00:00+05:30", "2026-03-01T09:30"),
    ("20260301T140000Z", "2026-03-01T15:00"),
    ("2026-03-01 14:00 America/New_York", "2026-03-01T20:00"),
    # refused: no time, too vague, or two readings
    ("", None),
    ("   ", None),
    ("banana", None),
    ("recently", None),
    ("a few days ago", None),
    ("sometime last week", None),
    ("3/4/2026", None),
    ("03-04-2026", None),
    ("2026-13-01", None),
    ("2026-02-30", None),
    ("February 30", None),
    ("yesterday 25:00", None),
    ("13pm", None),
    ("Monday, March 3 2026", None),  # a Tuesday
    ("last Tuesday or Wednesday", None),
    ("2000 years ago at the latest", None),
    ("99999999999 years ago", None),
    ("in the beginning", None),
    ("1773842400", None),
    ("５ days ago", None),
    ("May", "2025-06-01T00:00|"),
    ("12", None),
    ("last", None),
    ("ago", None),
    ("at", None),
    ("5", None),
    ("end of", None),
    ("yesterday tomorrow", None),
    ("14:00 15:00", None),
)

# Where clocks change: `(words, now with its offset, zone, expected with its offset)`.
DST: tuple[tuple[str, str, str, str], ...] = (
    # Berlin, 29 March 2026: 02:00 becomes 03:00
    ("yesterday", "2026-03-30T10:00+02:00", BERLIN, "2026-03-30T00:00+02:00|"),
    ("today", "2026-03-29T10:00+02:00", BERLIN, "2026-03-29T10:00+02:00"),
    ("start of today", "2026-03-29T10:00+02:00", BERLIN, "2026-03-29T00:00+01:00"),
    ("a day ago", "2026-03-30T01:00+02:00", BERLIN, "2026-03-29T01:00+01:00"),
    ("24 hours ago", "2026-03-30T01:00+02:00", BERLIN, "2026-03-29T00:00+01:00"),
    ("yesterday 02:30", "2026-03-30T10:00+02:00", BERLIN, "2026-03-29T03:30+02:00"),
    ("two weeks ago", "2026-04-08T12:00+02:00", BERLIN, "2026-03-25T12:00+01:00"),
    ("an hour ago", "2026-03-29T03:30+02:00", BERLIN, "2026-03-29T01:30+01:00"),
    # Berlin, 25 October 2026: 03:00 becomes 02:00, so 02:30 is there twice; the first is meant
    ("yesterday 02:30", "2026-10-26T10:00+01:00", BERLIN, "2026-10-25T02:30+02:00"),
    ("yesterday", "2026-10-26T10:00+01:00", BERLIN, "2026-10-26T00:00+01:00|"),
    ("an hour ago", "2026-10-25T02:30+01:00", BERLIN, "2026-10-25T02:30+02:00"),
    ("last month", "2026-11-05T10:00+01:00", BERLIN, "2026-11-01T00:00+01:00|"),
    # New York, 8 March 2026
    ("last Sunday", "2026-03-10T09:00-04:00", "America/New_York", "2026-03-09T00:00-04:00|"),
    ("3 days ago", "2026-03-10T09:00-04:00", "America/New_York", "2026-03-07T09:00-05:00"),
    # the day changes elsewhere than in UTC
    ("yesterday", "2026-03-18T00:30+13:00", "Pacific/Auckland", "2026-03-18T00:00+13:00|"),
    ("yesterday", "2026-03-17T23:30-07:00", "America/Los_Angeles", "2026-03-17T00:00-07:00|"),
    # Sao Paulo 2018-11-04: midnight itself was skipped, the day began at 01:00
    ("start of today", "2018-11-04T12:00-02:00", "America/Sao_Paulo", "2018-11-04T01:00-02:00"),
    ("yesterday", "2018-11-04T12:00-02:00", "America/Sao_Paulo", "2018-11-04T01:00-02:00|"),
    # a zone that is an offset
    ("yesterday", "2026-03-18T15:30+05:45", "+05:45", "2026-03-18T00:00+05:45|"),
    ("yesterday", "2026-03-18T15:30+00:00", "UTC", "2026-03-18T00:00+00:00|"),
)
