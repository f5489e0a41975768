"""When to begin a second attempt beside a first one that is still silent."""

from __future__ import annotations

import math


def begin_after(hedge_after_ms: float | None, p95_ttfb_s: float | None) -> float:
    """Seconds to wait for the first attempt's first event; inf = never hedge.

    The setting is a lower bound: where the candidate is usually slower, its own 95th percentile counts, so that about
    one request in twenty is sent twice and not all of them.
    """
    if hedge_after_ms is None:
        return math.inf
    return max(hedge_after_ms / 1000, p95_ttfb_s or 0.0)
