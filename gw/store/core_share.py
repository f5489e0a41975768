"""Sharing a core with requests: the process that writes calls one of these functions between two steps of its work.

Linux leaves a core to its process for some milliseconds, whichever process wakes up meanwhile. So the steps are short, most of them 50 to
250 µs, and after each the core is offered. Writing the pages of a transaction is one step: 0.4 ms for 50 records.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeAlias

BetweenSteps: TypeAlias = Callable[[], bool]
"""Returns False: SQLite, which calls it as its progress handler, ends the statement otherwise."""


def give_way() -> bool:
    """Let another process have the core, if one waits for it."""
    os.sched_yield()
    return False


def keep_the_core() -> bool:
    """Take the share of the core that the system gives, as a writer that is behind has to."""
    return False
