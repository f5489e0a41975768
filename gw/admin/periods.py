"""Periods of the reports: UTC days, stretches that end now, or two times; each can be compared with the one before it.

A period ends before `until`, so neighbours share no request.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from gw.admin.request_models import PERIODS, first_day, one_of, whole_number
from gw.errors import RequestError
from gw.store.window_pieces import TimeWindow
from gw.telemetry.clock import DAY_S

PeriodName = Literal["today", "week", "month", "all", "15m", "1h", "24h", "7d", "30d", "custom"]
PeriodField = Annotated[PeriodName, Meta(description="`custom`: between `from` and `to`")]
Unit = Literal["second", "minute", "hour", "day"]
ROLLING: Mapping[str, int] = {"15m": 900, "1h": 3_600, "24h": DAY_S, "7d": 7 * DAY_S, "30d": 30 * DAY_S}
"""Lengths in seconds of the periods that end now."""
NAMES = (*PERIODS, *ROLLING)
BOUNDED = tuple(name for name in NAMES if name != "all")
STEPS = (10, 60, 600, 3_600, DAY_S)
MOST_POINTS = 2_000
_LONGEST_S = 4_000 * DAY_S
_FINEST = ((3_600, 10), (DAY_S, 60), (7 * DAY_S, 3_600), (_LONGEST_S, DAY_S))
_FINEST_SPLIT = ((3_600, 60), (7 * DAY_S, 3_600), (_LONGEST_S, DAY_S))
"""(length in seconds, seconds between two points) of a single line, and of one line per model or the like."""


class Period(msgspec.Struct, frozen=True, kw_only=True):
    """`since` None = the first record. `open`: it ends now, so everything from `since` on is part of it."""

    name: PeriodName
    since: float | None
    until: float
    shift_s: float
    """Seconds by which the period before is earlier."""
    open: bool = True

    @property
    def window(self) -> TimeWindow:
        return TimeWindow(self.since, None if self.open else self.until)

    @property
    def before(self) -> Period | None:
        """Return the period before, as far as this one has come; None for all records."""
        if self.since is None:
            return None
        since, until = self.since - self.shift_s, self.until - self.shift_s
        return Period(name="custom", since=since, until=until, shift_s=self.shift_s, open=False)

    def step(self, wanted: str | int | None, *, split: bool) -> int:
        """Return the seconds between two points: `wanted`, or what suits the period. Raises RequestError."""
        length = self.until - (self.since or 0.0)
        if wanted is None:
            if self.name in PERIODS:
                return 3_600 if self.name == "today" else DAY_S
            return next(step for longest, step in (_FINEST_SPLIT if split else _FINEST) if length <= longest)
        step = whole_number(str(wanted), "step", 1, DAY_S)
        if step not in STEPS:
            raise RequestError(what=f"step must be one of {', '.join(map(str, STEPS))}", param="step")
        if length / step > MOST_POINTS:
            raise RequestError(what=f"step {step} makes more than {MOST_POINTS} points in this period", param="step")
        return step

    def buckets(self, step_s: int) -> range:
        """Return the numbers of the steps, counted from 1970, that the period touches."""
        end = int(self.until // step_s) + 1 if self.open else int(-(-self.until // step_s))
        return range(int((self.since or 0.0) // step_s), end)


def unit(step_s: int) -> Unit:
    return "second" if step_s < 60 else "minute" if step_s < 3_600 else "hour" if step_s < DAY_S else "day"


def read_period(
    now: float, *, period: str | None = None, since: str | None = None, until: str | None = None,
    allowed: tuple[str, ...] = NAMES,
) -> Period:  # fmt: skip
    """Return the period that a caller wants: a name, or two times of which the second may be absent. Raises RequestError."""
    if since is None and until is None:
        return _named(one_of("period", "today" if period is None else period, allowed), now)  # type: ignore[arg-type]  # checked
    if period not in (None, "custom"):
        raise RequestError(what="period and from exclude each other", param="period")
    if since is None:
        raise RequestError(what="from is needed with to", param="from")
    start, end = moment(since, "from"), now if until is None else moment(until, "to")
    if not 0 < end - start <= _LONGEST_S or start < 0:
        raise RequestError(what=f"to must be later than from, by at most {_LONGEST_S // DAY_S} days", param="to")
    return Period(name="custom", since=start, until=end, shift_s=end - start, open=until is None)


def _named(name: PeriodName, now: float) -> Period:
    if name in ROLLING:
        return Period(name=name, since=now - ROLLING[name], until=now, shift_s=ROLLING[name])
    first, days = first_day(name, now), PERIODS[name]
    if first is None or days is None:
        return Period(name=name, since=None, until=now, shift_s=0)
    return Period(name=name, since=float(first * DAY_S), until=now, shift_s=days * DAY_S)


def moment(text: str, param: str) -> float:
    """Parse Unix seconds or an ISO 8601 time; without an offset it is UTC. Raises RequestError."""
    try:
        return _bounded(float(text))
    except ValueError:
        pass
    try:
        time = datetime.fromisoformat(text.replace(" ", "+") if text.count(" ") and "T" in text else text)
        return _bounded(time.replace(tzinfo=time.tzinfo or UTC).timestamp())
    except (ValueError, OverflowError):
        raise RequestError(what=f"{param} must be Unix seconds or a time such as 2026-01-31T09:30:00Z", param=param) from None


def _bounded(seconds: float) -> float:
    if not 0 <= seconds < 10**11:
        raise ValueError(seconds)
    return seconds
