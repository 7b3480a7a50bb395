"""A time in words → the instant it means, against the caller's clock and zone. Pure.

Why a grammar of our own: on the cases of tests/timewords_table.py, with any instant inside a named
day counted as right, dateparser 1.5 got 101 of 148, parsedatetime 2.6 and recurrent 0.4 got 75 each;
each took 10 or 11 texts for a time that name none. A wrong time would answer another question.

Interpretation, for reads "as of":

- a time of day is that instant; a day, week, month, quarter or year without one means its end,
  exclusive: the last microsecond in it. A period that has not ended means now.
- as the bound of a range (`since`, `until`) a period means its start, also one that still goes on.
- what has no year or date (`Tuesday`, `March 3`, `18:00`) is the latest one that has begun. `last
  Tuesday` is the latest before today, `Tuesday last week` that of the week before (weeks begin on Monday).
- `two weeks ago` is an instant: days and longer count on the wall clock, hours and shorter on the real one.
- a wall time that a change of clocks skips is taken as late as it is after the change; one that is there
  twice is the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from typing import NoReturn
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from plait.domain.errors import InvalidInput, TimeNotUnderstood

MAX_WORDS = 200
EXAMPLES = (
    "`last Tuesday`, `yesterday 14:00`, `two weeks ago`, `end of last month`, `March 3`, "
    "`2026-03-01` or `2026-03-01T14:00+01:00`"
)

_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_MONTHS = (
    *("january", "february", "march", "april", "may", "june", "july"),
    *("august", "september", "october", "november", "december"),
)
_WEEKDAY = {n: i for i, day in enumerate(_DAYS) for n in (day, day[:3])} | {
    **{"tues": 1, "weds": 2, "thur": 3, "thurs": 3}
}
_MONTH = {n: i for i, month in enumerate(_MONTHS, 1) for n in (month, month[:3])} | {"sept": 9}
_NUMBERS = {
    **{"a": 1, "an": 1, "one": 1, "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7},
    **{"eight": 8, "nine": 9, "ten": 10, "eleven": 11, "twelve": 12, "twenty": 20, "thirty": 30},
    **{"couple": 2, "a couple": 2},
}
_UNITS = {
    **{"s": "second", "sec": "second", "m": "minute", "min": "minute", "h": "hour", "hr": "hour"},
    **{"d": "day", "w": "week", "y": "year", "secs": "second", "mins": "minute", "hrs": "hour"},
    **{"fortnight": "fortnight", "fortnights": "fortnight"},
    **{u: u for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")},
    **{f"{u}s": u for u in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")},
}
_PARTS = {"morning": (6, 12), "afternoon": (12, 18), "evening": (18, 24), "night": (18, 30)}

_wd, _mo = "|".join(_WEEKDAY), "|".join(_MONTH)
_num, _unit = "|".join(sorted(_NUMBERS, key=len, reverse=True)), "|".join(_UNITS)
_amount = rf"(?:\d{{1,6}}|{_num}) ?(?:{_unit})"
_which = "(?P<which>last|previous|this|next)"
_year = r"(?P<year>(?:19|20|21)\d\d)"

_FILLER = re.compile(r"\b(?:the|on|at|of|in|and)\b|,")
_MERIDIEM = re.compile(r"\b(\d{1,2}(?::\d\d){0,2}) ?([ap])\.?m\b\.?")
_CLOCK = re.compile(
    r"(?<!\S)(?:(?P<h>\d{1,2}):(?P<m>\d\d)(?::(?P<s>\d\d)(?:\.(?P<f>\d{1,6}))?)?(?P<ap>[ap]m)?"
    r"|(?P<h2>\d{1,2})(?P<ap2>[ap]m)|(?P<word>noon|midday|midnight))(?!\S)"
)
_ZONE = re.compile(
    r"(?:^|\s|(?<=\d))(utc|gmt|z|[+-]\d\d(?::?\d\d)?|[a-z_]+(?:/[a-z0-9_+-]+){1,2})$"
)
_ISO = re.compile(
    r"\d{4}-\d\d-\d\d[t ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,6})?)?|\d{8}t\d{4}(?:\d\d)?", re.ASCII
)


@dataclass(frozen=True, slots=True)
class _Span:
    """A period in wall time, half-open. `step`: what to go back by while it has not begun."""

    start: datetime
    end: datetime
    step: Callable[[datetime], datetime] | None = None

    @property
    def is_day(self) -> bool:
        return self.end - self.start == timedelta(days=1) and self.start.time() == time()


def resolve(
    words: str, now: datetime, zone: tzinfo, field: str = "words", *, bound: bool = False
) -> datetime:
    """The instant that `words` mean to a caller at `now` in `zone`, in that zone.

    `bound`: of a half-open range (`since`, `until`), where a period means its start.
    Raises: TimeNotUnderstood, on `field`.
    """
    try:
        return _Reader(words, now.astimezone(zone), zone, bound=bound).read()
    except (ValueError, OverflowError):
        shown = words if len(words) <= 60 else f"{words[:60]}…"
        raise TimeNotUnderstood(
            f"{field}: {shown!r} names no one time; write it as {EXAMPLES}", field=field
        ) from None


def zone_of(name: str, field: str = "time_zone") -> tzinfo:
    """An IANA name or an offset; empty is UTC. Raises: InvalidInput."""
    if name in ("", "UTC", "Z"):
        return UTC
    try:
        if name[0] in "+-":
            return _offset(name)
        if not re.fullmatch(r"[A-Za-z0-9_+-]+(?:/[A-Za-z0-9_+-]+){0,2}", name):
            raise ValueError(name)
        return ZoneInfo(name)
    except (ValueError, ZoneInfoNotFoundError, OSError):
        raise InvalidInput(
            f"{field} {name[:60]!r} is no time zone; use an IANA name as Europe/Berlin, or an "
            "offset as +02:00",
            field=field,
        ) from None


def _offset(text: str) -> tzinfo:
    found = re.fullmatch(r"([+-])(\d\d):?(\d\d)?", text, re.ASCII)
    if found is None or int(found[2]) > 14 or int(found[3] or 0) > 59:
        raise ValueError(text)
    minutes = int(found[2]) * 60 + int(found[3] or 0)
    return timezone(timedelta(minutes=minutes if found[1] == "+" else -minutes))


def _refuse() -> NoReturn:
    raise ValueError("not understood")


class _Reader:
    """One text, taken apart from its ends: zone, edge of a period, time of day; what is left is a day."""

    def __init__(self, words: str, now: datetime, zone: tzinfo, *, bound: bool = False) -> None:
        if len(words) > MAX_WORDS or not words.isascii():
            _refuse()
        self.text = " ".join(words.lower().split()).rstrip(".!?")
        self.now = now
        self.wall = now.replace(tzinfo=None, fold=0)
        self.zone = zone
        self.bound = bound

    def read(self) -> datetime:
        if not self.text:
            _refuse()
        self._take_zone()
        if _ISO.fullmatch(self.text):
            return self._at(datetime.fromisoformat(self.text.upper().replace(",", ".")))
        text = _MERIDIEM.sub(r"\1\2m", self.text)
        text = " ".join(_FILLER.sub(" ", text).split())
        edge = re.match(r"(start|beginning|end) (?=\S)", text)
        if edge:
            span = self._span(text[edge.end() :], None)
            return self._last(span) if edge[1] == "end" else self._at(span.start)
        return self._point(text)

    def _take_zone(self) -> None:
        found = _ZONE.search(self.text)
        # 2026-03-01: the last two digits are no offset.
        if found is None or re.fullmatch(r"[\d-]+", self.text):
            return
        name = found[1]
        if name in ("utc", "gmt", "z"):
            self.zone = UTC
        elif name[0] in "+-":
            self.zone = _offset(name)
        else:
            self.zone = _named_zone(name)
        self.text = self.text[: found.start()].strip()
        self.wall = self.now.astimezone(self.zone).replace(tzinfo=None, fold=0)

    def _point(self, text: str) -> datetime:
        clock, text = _take_clock(text)
        if clock is not None:
            span = self._span(text, clock) if text else self._one_day(self.wall, _back_days(1))
            if not span.is_day:
                _refuse()
            day = self._begun(span, clock)
            return self._at(datetime.combine(day.start.date(), clock))
        if text == "now" or text == "right now":
            return self.now
        if (ago := self._ago(text)) is not None:
            return ago
        span = self._span(text, None)
        if self.bound:
            return self._at(span.start)
        if self._at(span.start) <= self.now < self._at(span.end):
            return self.now
        return self._last(span)

    # -- wall time → instants ---------------------------------------------------------------------

    def _at(self, wall: datetime) -> datetime:
        """Through UTC: a skipped wall time moves behind the change, of a doubled one the first counts."""
        return wall.replace(tzinfo=self.zone).astimezone(UTC).astimezone(self.zone)

    def _last(self, span: _Span) -> datetime:
        end = span.end.replace(tzinfo=self.zone).astimezone(UTC)
        if self.bound:  # the bound itself is exclusive
            return end.astimezone(self.zone)
        return (end - timedelta(microseconds=1)).astimezone(self.zone)

    def _begun(self, span: _Span, clock: time | None) -> _Span:
        """The latest of a recurring span that has begun (or whose `clock` has passed)."""
        while span.step is not None:
            first = datetime.combine(span.start.date(), clock) if clock else span.start
            if self._at(first) <= self.now:
                break
            span = _Span(span.step(span.start), span.step(span.end), span.step)
        return span

    # -- periods ------------------------------------------------------------------------------------

    def _span(self, text: str, clock: time | None) -> _Span:
        """The period `text` names. Raises: ValueError."""
        for pattern, method in _PERIODS:
            if (found := pattern.fullmatch(text)) is not None:
                return self._begun(method(self, found), clock)
        if clock is not None and (ago := self._ago(text, whole_days=True)) is not None:
            return self._one_day(ago)
        _refuse()

    def _one_day(
        self, day: date | datetime, step: Callable[[datetime], datetime] | None = None
    ) -> _Span:
        start = datetime(day.year, day.month, day.day)
        return _Span(start, start + timedelta(days=1), step)

    def _today(self, found: re.Match[str]) -> _Span:
        days = {"today": 0, "yesterday": -1, "day before yesterday": -2, "tomorrow": 1}
        return self._one_day(self.wall + timedelta(days=days[found[0]]))

    def _part(self, found: re.Match[str]) -> _Span:
        text, part = found["day"], found["part"]
        if part == "night" and text == "last":
            text = "yesterday"
        day = self._span("today" if text == "this" else text, None)
        if not day.is_day:
            _refuse()
        first, last = (timedelta(hours=h) for h in _PARTS[part])
        return _Span(day.start + first, day.start + last)

    def _tonight(self, found: re.Match[str]) -> _Span:
        day = self._one_day(self.wall).start
        return _Span(day + timedelta(hours=18), day + timedelta(hours=24))

    def _weekday(self, found: re.Match[str]) -> _Span:
        which, number = found["which"], _WEEKDAY[found["day"]]
        today = self._one_day(self.wall).start
        back = (today.weekday() - number) % 7
        if which == "this":
            return self._one_day(today + timedelta(days=number - today.weekday()))
        if which == "next":
            return self._one_day(today + timedelta(days=7 - back))
        if which is not None:
            return self._one_day(today - timedelta(days=back or 7))
        return self._one_day(today - timedelta(days=back), _back_days(7))

    def _weekday_of_week(self, found: re.Match[str]) -> _Span:
        week = self._unit(found["which"], "week")
        return self._one_day(week.start + timedelta(days=_WEEKDAY[found["day"]]))

    def _relative(self, found: re.Match[str]) -> _Span:
        return self._unit(found["which"], found["unit"])

    def _before_last(self, found: re.Match[str]) -> _Span:
        return self._unit("last", found["unit"], back=2)

    def _unit(self, which: str, unit: str, back: int = 1) -> _Span:
        steps = {"this": 0, "next": 1}.get(which, -back)
        today = self._one_day(self.wall).start
        match unit:
            case "day":
                return self._one_day(today + timedelta(days=steps))
            case "week":
                start = today - timedelta(days=today.weekday()) + timedelta(weeks=steps)
                return _Span(start, start + timedelta(weeks=1))
            case "month":
                return _months(_shift(today.replace(day=1), steps), 1)
            case "quarter":
                first = today.replace(month=(today.month - 1) // 3 * 3 + 1, day=1)
                return _months(_shift(first, 3 * steps), 3)
        return _months(_shift(today.replace(month=1, day=1), 12 * steps), 12)

    def _month(self, found: re.Match[str]) -> _Span:
        number, which = _MONTH[found["month"]], found["which"]
        if (year := found["year"]) is not None:
            if which is not None:
                _refuse()
            return _months(datetime(int(year), number, 1), 1)
        this = datetime(self.wall.year, number, 1)
        if which is None:
            return _Span(this, _shift(this, 1), lambda at: _shift(at, -12))
        if which == "this":
            return _months(this, 1)
        if which == "next":
            return _months(this if number > self.wall.month else _shift(this, 12), 1)
        return _months(this if number < self.wall.month else _shift(this, -12), 1)

    def _date(self, found: re.Match[str]) -> _Span:
        month, day = _MONTH[found["month"]], int(found["d"])
        if (year := found["year"]) is not None:
            out = self._one_day(date(int(year), month, day))
        else:
            datetime(2000, month, day)  # a day that no year has would be looked for forever
            out = self._one_day(_in_year(self.wall.year, month, day), _back_year(month, day))
        weekday = found["day"]
        if weekday is not None:
            out = self._begun(out, None)
            if out.start.weekday() != _WEEKDAY[weekday]:
                _refuse()
        return out

    def _iso(self, found: re.Match[str]) -> _Span:
        if found["week"] is not None:
            start = date.fromisocalendar(int(found["year"]), int(found["week"]), 1)
            first = self._one_day(start).start
            return _Span(first, first + timedelta(weeks=1))
        year = int(found["year"])
        if found["m"] is None:
            return _months(datetime(year, 1, 1), 12)
        if found["d"] is None:
            return _months(datetime(year, int(found["m"]), 1), 1)
        return self._one_day(date(year, int(found["m"]), int(found["d"])))

    def _quarter(self, found: re.Match[str]) -> _Span:
        return _months(datetime(int(found["year"]), 3 * int(found["q"]) - 2, 1), 3)

    # -- so long ago --------------------------------------------------------------------------------

    def _ago(self, text: str, *, whole_days: bool = False) -> datetime | None:
        text = re.sub(r"\bhalf an? hour\b", "30 minutes", text)
        if re.fullmatch(rf"{_amount}(?: {_amount})* ago", text) is None:
            return None
        wall, rest = self.wall, timedelta()
        for amount, name in re.findall(rf"(\d+|{_num}) ?({_unit})\b", text):
            number = int(amount) if amount.isdigit() else _NUMBERS[amount]
            unit = _UNITS[name]
            if unit in ("second", "minute", "hour"):
                rest += timedelta(**{f"{unit}s": number})
            elif unit in ("day", "week", "fortnight"):
                wall -= timedelta(days=number * {"day": 1, "week": 7, "fortnight": 14}[unit])
            else:
                wall = _shift(wall, -number * {"month": 1, "quarter": 3, "year": 12}[unit])
        if whole_days and rest:
            _refuse()
        base = self.now if wall == self.wall else self._at(wall)
        return (base.astimezone(UTC) - rest).astimezone(self.zone)


def _take_clock(text: str) -> tuple[time | None, str]:
    """The time of day in `text`, and the rest. Raises: ValueError, for two of them or for none such."""
    found = list(_CLOCK.finditer(text))
    if not found:
        return None, text
    if len(found) > 1:
        _refuse()
    (m,) = found
    rest = " ".join((text[: m.start()] + text[m.end() :]).split())
    if m["word"]:
        return time(0 if m["word"] == "midnight" else 12), rest
    hour, half = int(m["h"] or m["h2"]), m["ap"] or m["ap2"]
    if half:
        if not 1 <= hour <= 12:
            _refuse()
        hour = hour % 12 + (12 if half == "pm" else 0)
    fraction = int((m["f"] or "0").ljust(6, "0"))
    return time(hour, int(m["m"] or 0), int(m["s"] or 0), fraction), rest


def _named_zone(name: str) -> tzinfo:
    """An IANA name in any case."""
    parts = [part.title() if part != "of" else part for part in re.split(r"([/_-])", name)]
    try:
        return ZoneInfo("".join(parts))
    except (ZoneInfoNotFoundError, OSError):
        _refuse()


def _months(start: datetime, count: int) -> _Span:
    return _Span(start, _shift(start, count))


def _shift(at: datetime, months: int) -> datetime:
    """`at` so many months later; a day that the month lacks becomes its last."""
    index = at.year * 12 + at.month - 1 + months
    year, month = divmod(index, 12)
    if not 1 <= year <= 9998:
        _refuse()
    last = (datetime(year + month // 11, (month + 1) % 12 + 1, 1) - timedelta(days=1)).day
    return at.replace(year=year, month=month + 1, day=min(at.day, last))


def _back_days(days: int) -> Callable[[datetime], datetime]:
    return lambda at: at - timedelta(days=days)


def _in_year(year: int, month: int, day: int) -> datetime:
    """That day in `year`, or in the latest year before it that has one (29 February)."""
    while True:
        try:
            return datetime(year, month, day)
        except ValueError:
            year -= 1


def _back_year(month: int, day: int) -> Callable[[datetime], datetime]:
    def back(at: datetime) -> datetime:
        # The end of a day moves with its start.
        if (at.month, at.day) == (month, day):
            return _in_year(at.year - 1, month, day)
        return _in_year((at - timedelta(days=1)).year - 1, month, day) + timedelta(days=1)

    return back


_day = rf"(?P<day>{_wd})"
_d = r"(?P<d>\d{1,2})(?:st|nd|rd|th)?"
_PERIODS: tuple[tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], _Span]], ...] = tuple(
    (re.compile(pattern, re.ASCII), method)
    for pattern, method in (
        (r"today|yesterday|day before yesterday|tomorrow", _Reader._today),
        (rf"(?P<day>\S.*) (?P<part>{'|'.join(_PARTS)})", _Reader._part),
        (r"tonight", _Reader._tonight),
        (rf"(?:{_which} )?{_day}", _Reader._weekday),
        (rf"{_day} {_which} week", _Reader._weekday_of_week),
        (rf"{_which} week {_day}", _Reader._weekday_of_week),
        (rf"{_which} (?P<unit>day|week|month|quarter|year)", _Reader._relative),
        (r"(?P<unit>week|month|quarter|year) before last", _Reader._before_last),
        (rf"(?:{_which} )?(?P<month>{_mo})(?: {_year})?", _Reader._month),
        (rf"(?:(?P<day>{_wd}) )?(?P<month>{_mo}) {_d}(?: {_year})?", _Reader._date),
        (rf"(?:(?P<day>{_wd}) )?{_d} (?P<month>{_mo})(?: {_year})?", _Reader._date),
        (
            rf"{_year}(?:-(?:w(?P<week>\d\d)|(?P<m>\d\d)(?:-(?P<d>\d\d))?))?",
            _Reader._iso,
        ),
        (rf"q(?P<q>[1-4]) {_year}", _Reader._quarter),
    )
)
