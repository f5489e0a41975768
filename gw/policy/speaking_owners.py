"""Which projects and keys have speech, to be said to other processes from time to time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from gw.policy.turn_events import Owner

SPREAD_S = 5.0
"""Between two messages that a key has speech: half the time after which processes take it for silent."""
MAX_OWNERS = 2_048


class SpeakingOwners:
    """Remembers when each of the last MAX_OWNERS was said."""

    def __init__(self) -> None:
        self._said_at: dict[Owner, float] = {}

    def due(self, owners: Iterable[Owner], now: float) -> Sequence[Owner]:
        """Return those that are to be said now, each once in SPREAD_S. `now` is monotonic seconds."""
        due = [owner for owner in set(owners) if self._said_at.get(owner, -math.inf) <= now - SPREAD_S]
        for owner in due:
            self._said_at.pop(owner, None)
            if len(self._said_at) >= MAX_OWNERS:
                del self._said_at[next(iter(self._said_at))]
            self._said_at[owner] = now
        return due
