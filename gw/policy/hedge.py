"""Hedging: when the next candidate is started beside a slow one, and how much that may cost in a day.

`routing.hedge: auto` starts it after the candidate's own 95th percentile, so about one request in twenty is hedged at most, and
never spends more than `routing.hedge_spend` of what the project has spent today.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

import msgspec

Hedge: TypeAlias = float | Literal["off", "auto"]
"""Milliseconds, or a rule."""

MIN_AFTER_S = 0.25
UNKNOWN_AFTER_S = 1.5
"""For a candidate of which too few answers are known."""


def after_s(hedge: Hedge, p95_s: float | None) -> float | None:
    """Return how long a candidate may be silent before the next one starts beside it; None: for ever."""
    if hedge == "off":
        return None
    if hedge == "auto":
        return UNKNOWN_AFTER_S if p95_s is None else max(MIN_AFTER_S, p95_s)
    return hedge / 1000


class HedgeSpend(msgspec.Struct, frozen=True):
    """Cost and number of a project's hedges in a day, and the number of its requests."""

    nusd: int
    hedges: int
    requests: int


class HedgeBudget:
    """The extra spend of today's hedges, by project. Days are UTC days; a new day starts at nothing."""

    def __init__(self) -> None:
        self._day = 0
        self._nusd: dict[str, int] = {}
        self._requests: dict[str, int] = {}
        self._hedges: dict[str, int] = {}

    def load(self, day: int, spent: Mapping[str, HedgeSpend]) -> None:
        """Begin with what was recorded on `day` before a restart."""
        self._day = day
        self._nusd = {project: spend.nusd for project, spend in spent.items()}
        self._requests = {project: spend.requests for project, spend in spent.items()}
        self._hedges = {project: spend.hedges for project, spend in spent.items()}

    def _roll(self, day: int) -> None:
        if day != self._day:
            self._day = day
            self._nusd, self._requests, self._hedges = {}, {}, {}

    def count_request(self, project: str, day: int) -> None:
        self._roll(day)
        self._requests[project] = self._requests.get(project, 0) + 1

    def take(self, project: str, day: int, *, estimate_nusd: int | None, spent_nusd: int, share: float) -> bool:
        """Return whether a hedge that costs about `estimate_nusd` is within its share of the day's spend, and count it.

        Where the price is unknown, hedges are held to their share of the day's requests. What costs nothing is allowed.
        """
        self._roll(day)
        if estimate_nusd is None:
            allowed = self._hedges.get(project, 0) + 1 <= share * self._requests.get(project, 0)
        else:
            allowed = not estimate_nusd or self._nusd.get(project, 0) + estimate_nusd <= share * spent_nusd
        if allowed:
            self._hedges[project] = self._hedges.get(project, 0) + 1
            self._nusd[project] = self._nusd.get(project, 0) + (estimate_nusd or 0)
        return allowed

    def settle(self, project: str, day: int, *, estimate_nusd: int, cost_nusd: int) -> None:
        """Count what a hedge has cost in place of its estimate, as a restart would read it from the records."""
        if day == self._day:
            self._nusd[project] = self._nusd.get(project, 0) + cost_nusd - estimate_nusd

    def spent_nusd(self, project: str) -> int:
        """Return what the day's hedges of a project have cost, with the estimates of those that still run."""
        return self._nusd.get(project, 0)
