"""When to begin a second attempt beside a first one that is still silent."""

from __future__ import annotations

import math


def begin_after(hedge_after_ms: float | None) -> float:
    """Seconds to wait for the first attempt's first event; inf = never hedge."""
    return math.inf if hedge_after_ms is None else hedge_after_ms / 1000
