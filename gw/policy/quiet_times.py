"""Quiet times: parts of the week at which messages that are not urgent wait."""

from __future__ import annotations

import re
from collections.abc import Collection

import msgspec

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_FORM = re.compile(r"(?:(?P<first>[a-z]{3})(?:-(?P<last>[a-z]{3}))? )?(?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)")
_DAY_MINUTES = 24 * 60


class QuietTime(msgspec.Struct, frozen=True):
    """From `begin` to `end`, in minutes of the day, on these days (0 = Monday). `end` <= `begin`: until that time of the next day."""

    days: frozenset[int]
    begin: int
    end: int

    @classmethod
    def parse(cls, text: str) -> QuietTime:
        """Parse `22:00-07:00` (every day) or `sat-sun 00:00-24:00`. Raises ValueError with the reason."""
        match = _FORM.fullmatch(text.strip().lower())
        if match is None:
            raise ValueError("write it as 22:00-07:00, or with days as sat-sun 00:00-24:00")
        begin, end = _minutes(match["begin"]), _minutes(match["end"])
        if begin == _DAY_MINUTES:
            raise ValueError("it cannot begin at 24:00")
        return cls(_days(match["first"], match["last"]), begin, end)

    def includes(self, weekday: int, minute: int) -> bool:
        """Return whether a moment of the local week is quiet."""
        if self.end > self.begin:
            return weekday in self.days and self.begin <= minute < self.end
        return (weekday in self.days and minute >= self.begin) or ((weekday - 1) % 7 in self.days and minute < self.end)


def is_quiet(times: Collection[QuietTime], weekday: int, minute: int) -> bool:
    return any(time.includes(weekday, minute) for time in times)


def _minutes(text: str) -> int:
    hours, minutes = int(text[:2]), int(text[3:])
    if minutes > 59 or hours * 60 + minutes > _DAY_MINUTES:
        raise ValueError(f"{text} is not a time of the day")
    return hours * 60 + minutes


def _days(first: str | None, last: str | None) -> frozenset[int]:
    if first is None:
        return frozenset(range(7))
    for name in (first, last or first):
        if name not in DAYS:
            raise ValueError(f"{name!r} is not a day: use {', '.join(DAYS)}")
    begin, end = DAYS.index(first), DAYS.index(last or first)
    return frozenset((begin + step) % 7 for step in range((end - begin) % 7 + 1))
