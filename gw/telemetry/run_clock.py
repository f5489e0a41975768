"""The clock of a Trio run that serves requests."""

from __future__ import annotations

import time

from trio.abc import Clock


class RunClock(Clock):
    """Reads the time as Trio's own clock does, without its random offset: so it is one call of a C function.

    The offset only shows mistakes in which times of two clocks are compared. A request reads the time fourteen times.
    """

    __slots__ = ()
    current_time = staticmethod(time.perf_counter)

    def start_clock(self) -> None:
        """Do nothing: the time runs already."""

    def deadline_to_sleep_time(self, deadline: float) -> float:
        """Return how long to sleep until a deadline."""
        return deadline - time.perf_counter()
