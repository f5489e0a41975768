"""Sharing a core with requests: the process that writes calls such a function between two steps of its work.

Linux leaves a core to its process for some milliseconds, whichever process wakes up meanwhile. So the steps are short, most of them 50 to
250 µs, and after each the core is offered. Writing the pages of a transaction is one step: 0.4 ms for 50 records.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import TypeAlias

GIVE_WAY_S = 0.02
"""Time that a transaction leaves to requests at most. 50 records are 2 ms of work."""
BetweenSteps: TypeAlias = Callable[[], bool]
"""Returns False: SQLite, which calls it as its progress handler, ends the statement otherwise."""


def give_way(seconds: float = GIVE_WAY_S) -> BetweenSteps:
    """Return a function that lets another process have the core, if one waits for it, within the next `seconds`.

    After that the writer takes the share of the core that the system gives it: requests that leave a core no rest would leave it none.
    """
    until = time.monotonic() + seconds

    def offer_core() -> bool:
        if time.monotonic() < until:
            os.sched_yield()
        return False

    return offer_core


def keep_the_core() -> bool:
    """Go on at once: for a thread that writes, and where waiting for a server does it."""
    return False
