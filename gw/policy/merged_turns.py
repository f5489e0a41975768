"""Finds the turns of requests in several processes, by one memory: the events of all are applied in the order of their times.

    worker 1 ── events, complete until t1 ──┐
    worker 2 ── events, complete until t2 ──┼─▶ pending, by time ── until min(t1, t2), or HOLD_S old ──▶ `Turns`
    own requests ── events ─────────────────┘                                                             │
    finished record ───────────────────────────────────────────── its session and its turn ◀──────────────┘

`Turns` may trust that a request's own source is among those that fit only if it knows all sources. So no process looks for turns by
itself, and nothing is applied while an earlier event may still be on its way. A process that reports nothing says nothing of what it
has seen until now, so an event waits for HOLD_S at most. Requests never wait; their records do, for as long.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from gw.policy.turn_events import TurnEvent
from gw.policy.turn_steps import TurnProcess, TurnSteps

HOLD_S = 0.1
"""For earlier events of other processes, which report every 20 ms what there is."""
MAX_PENDING = 20_000
"""Events that wait; when there are more, the earliest are applied without waiting for others."""


class MergedTurns(TurnSteps):
    """`now` of its methods is on a monotonic clock, `at` and `until` are Unix seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived: deque[tuple[float, float]] = deque()
        """(arrival, time) of events that were pending then."""

    def expect(self, process: str) -> None:
        """Wait for the reports of a process from now on."""
        self._processes[process] = TurnProcess()

    def add(self, process: str, events: Sequence[TurnEvent], until: float, now: float) -> None:
        """Take over events of a process; it has reported all of its events up to `until`."""
        known = self._processes.setdefault(process, TurnProcess())
        for event in events:
            self.add_step(event.at, self._step(known, event, event.at), now)
        known.until = until
        self.apply(now)

    def add_step(self, at: float, step: Callable[[], object], now: float) -> None:
        """Call `step` when its time has come."""
        self._push(at, step)
        self._arrived.append((now, at))

    @property
    def due_at(self) -> float:
        """Return when to call `apply` at the latest; infinite if nothing is pending."""
        return self._arrived[0][0] + HOLD_S if self._arrived else math.inf

    def apply(self, now: float) -> None:
        """Apply all events before which no other can come, and those that have waited for HOLD_S."""
        latest = max((at for at, _, _ in self._pending), default=-math.inf) if not self._processes else -math.inf
        limit = max(self.applied_until, min((known.until for known in self._processes.values()), default=latest))
        while self._arrived and (self._arrived[0][0] + HOLD_S <= now or len(self._arrived) > MAX_PENDING):
            limit = max(limit, self._arrived.popleft()[1])
        self._apply_until(limit)
        if not self._pending:
            self._arrived.clear()
