"""The time by which retention deletes: the system clock, but never far ahead of what was seen before.

A clock that is wrong by months would delete every record at the next start. So the time of the last look is kept in the
database, and retention's own time may run ahead of it only as fast as this process has run, twice over.

    following ──the clock leaps further ahead than `allowed_s`──▶ held ──the clock is back, or has been caught up with──▶ following
"""

from __future__ import annotations

from gw.store import entity_rows
from gw.store.sql_connection import SqlConnection
from gw.telemetry.clock import DAY_S

LEAP_S = 7 * DAY_S  # a gateway that was off for a week deletes as usual when it is back
_SEEN = "retention_time"
_NEVER_SET_S = 1_577_836_800.0  # 2020: earlier times are those of a machine without a clock, before the network has set it


class Retention:
    """Says before which time records are deleted. Used by the committer."""

    def __init__(self, days: int) -> None:
        self.keep_s = float(days * DAY_S)
        self.allowed_s = min(LEAP_S, self.keep_s / 2)
        self.why_held = ""
        """Why fewer records are deleted than the clock asks for; empty = as many as it asks for."""
        self.ahead_days = 0.0
        """Days by which the clock is ahead of the last records, if that holds retention; else 0."""
        self._time: float | None = None
        self._looked_at = 0.0

    def cutoff(self, db: SqlConnection, now: float, monotonic: float) -> float:
        """Return the time before which records may go, and store how far retention has come. Raises the database's errors."""
        elapsed = 0.0 if self._time is None else max(0.0, monotonic - self._looked_at)
        before = _stored_time(db, now) if self._time is None else self._time
        time = self._follow(before, elapsed, now, something_to_lose=_any_before(db, now - self.keep_s))
        entity_rows.set_meta(db, _SEEN, repr(time))
        self._time, self._looked_at = time, monotonic
        return min(now, time) - self.keep_s

    def _follow(self, before: float, elapsed: float, now: float, *, something_to_lose: bool) -> float:
        ahead = now - before - elapsed
        if ahead <= self.allowed_s or before < _NEVER_SET_S or not something_to_lose:
            self.why_held, self.ahead_days = "", 0.0
            return max(before, now)
        self.ahead_days = round(ahead / DAY_S, 1)
        self.why_held = (
            f"the clock is {ahead / DAY_S:.0f} days ahead of the last records: old ones are deleted at most two days per day"
        )
        return before + 2 * elapsed


def _any_before(db: SqlConnection, time: float) -> bool:
    return bool(db.execute("select exists (select 1 from requests where timestamp < ?)", (time,)).get)


def _stored_time(db: SqlConnection, now: float) -> float:
    """Return how far an earlier run had come, else the time of the newest record, else `now`."""
    if (stored := entity_rows.meta(db, _SEEN)) is not None:
        return float(stored)
    newest: float | None = db.execute("select max(timestamp) from requests").get
    return now if newest is None else min(now, newest)
