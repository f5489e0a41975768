"""Today's spend per project, in memory: read before a request, reserved while it runs, settled at its end.

The day is the UTC day. It only moves forward: a clock that jumps back does not reopen a day that was booked. A cost
belongs to the day its request began on, as in the stored rollups, so that memory and disk agree after a restart.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from gw.policy import budget
from gw.telemetry.clock import DAY_S, Clock, utc_day
from gw.types.project import BudgetStatus, Project


class Reservation(msgspec.Struct, eq=False):
    """An estimate held against a project's budget while its request runs."""

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
        self._running: dict[str, int] = {}

    @property
    def day(self) -> int:
        """The UTC day in force, days since 1970-01-01."""
        self._roll()
        return self._day

    def _roll(self) -> None:
        now = self._clock.now()
        if now >= self._ends:
            self._day = utc_day(now)
            self._ends = (self._day + 1) * DAY_S
            self._spent.clear()

    def spent(self, project: str) -> int:
        """Nano-USD spent by finished requests of today."""
        self._roll()
        return self._spent.get(project, 0)

    def reserved(self, project: str) -> int:
        """Nano-USD held by running requests."""
        return self._reserved.get(project, 0)

    def running(self, project: str) -> int:
        """Requests that hold a reservation."""
        return self._running.get(project, 0)

    def status(self, project: Project) -> BudgetStatus:
        return budget.status(self.spent(project.id), project.daily_budget_nusd)

    def reserve(self, project: str, nusd: int) -> Reservation:
        self._roll()
        self._running[project] = self._running.get(project, 0) + 1
        if nusd:
            self._reserved[project] = self._reserved.get(project, 0) + nusd
        return Reservation(project, self._day, nusd)

    def settle(self, reservation: Reservation, nusd: int) -> None:
        """Release the reservation and book what the request really cost."""
        project = reservation.project
        self._running[project] -= 1
        if reservation.nusd:
            left = self._reserved[project] - reservation.nusd
            if left:
                self._reserved[project] = left
            else:
                del self._reserved[project]
        if nusd and reservation.day == self._day:  # a day that is over and not yet left: what is added goes when it is
            self._spent[project] = self._spent.get(project, 0) + nusd
