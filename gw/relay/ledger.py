"""Today's spend per project, in memory: read before a request, reserved while it runs, settled at its end.

The day is the UTC day. It only moves forward: a clock that jumps back does not reopen a past day. A cost
belongs to the day its request began on, as in the stored rollups, so that memory and disk agree after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gw.policy import budget
from gw.telemetry.clock import DAY_S, Clock, utc_day
from gw.types.entities import BudgetStatus, Project


class Reservation(msgspec.Struct, eq=False):
    """An estimate set aside from a project's budget while its request runs."""

    project: str
    day: int
    nusd: int


class Ledger:
    def __init__(self, clock: Clock, spent_today: Mapping[str, int]) -> None:
        self._clock = clock
        self._day = utc_day(clock.now())
        self._ends = (self._day + 1) * DAY_S
        self._spent = dict(spent_today)
        self._reserved: dict[str, int] = {}
        self._in_flight: dict[str, int] = {}

    @property
    def day(self) -> int:
        """Current UTC day, in days since 1970-01-01."""
        self._roll()
        return self._day

    def _roll(self) -> None:
        now = self._clock.now()
        if now >= self._ends:
            self._day = utc_day(now)
            self._ends = (self._day + 1) * DAY_S
            self._spent.clear()

    def spent(self, project: str) -> int:
        """Return the nano-USD spent by finished requests of today."""
        self._roll()
        return self._spent.get(project, 0)

    def reserved(self, project: str) -> int:
        """Return the nano-USD reserved by requests in flight."""
        return self._reserved.get(project, 0)

    def in_flight(self, project: str) -> int:
        """Return the number of requests that hold a reservation."""
        return self._in_flight.get(project, 0)

    def status(self, project: Project) -> BudgetStatus:
        return budget.status(self.spent(project.id), project.daily_budget_nusd)

    def reserve(self, project: str, nusd: int) -> Reservation:
        self._roll()
        self._in_flight[project] = self._in_flight.get(project, 0) + 1
        if nusd:
            self._reserved[project] = self._reserved.get(project, 0) + nusd
        return Reservation(project, self._day, nusd)

    def settle(self, reservation: Reservation, nusd: int) -> None:
        """Release the reservation and add the real cost of the request."""
        project = reservation.project
        self._in_flight[project] -= 1
        if reservation.nusd:
            left = self._reserved[project] - reservation.nusd
            if left:
                self._reserved[project] = left
            else:
                del self._reserved[project]
        if nusd and reservation.day == self._day:  # else its day is over
            self._spent[project] = self._spent.get(project, 0) + nusd
