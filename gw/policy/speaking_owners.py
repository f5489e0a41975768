"""Decides when the other processes are to learn again that a project or a key has speech."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gw.policy.turn_events import Owner

SPREAD_S = 5.0
"""Between two messages that a key has speech: half the time after which processes take it for silent."""
MAX_OWNERS = 2_048


class SpeakingOwners:
    """Remembers when each of the last MAX_OWNERS was announced."""

    def __init__(self) -> None:
        self._announced_at: dict[Owner, float] = {}

    def due(self, owners: Iterable[Owner], now: float) -> Sequence[Owner]:
        """Return those that are to be announced now, each once in SPREAD_S. `now` is monotonic seconds."""
        due = [owner for owner in set(owners) if self._announced_at.get(owner, -math.inf) <= now - SPREAD_S]
        for owner in due:
            self._announced_at.pop(owner, None)
            if len(self._announced_at) >= MAX_OWNERS:
                del self._announced_at[next(iter(self._announced_at))]
            self._announced_at[owner] = now
        return due
