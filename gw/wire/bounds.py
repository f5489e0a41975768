"""Bounds for counts and durations that a vendor or a caller reports.

JSON numbers have no bounds, and these go into prices, sums and 64-bit columns.
"""

from __future__ import annotations

MOST_TOKENS = 10**9  # a thousand times the largest context window of any model (November 2026)
MAX_DURATION_S = 1e7  # four months of audio


def tokens(count: int | None) -> int:
    """Return a count from 0 to MOST_TOKENS; 0 for None."""
    if not count or count < 0:
        return 0
    return count if count < MOST_TOKENS else MOST_TOKENS


def seconds(duration: float | str | None) -> float | None:
    """Return a duration of at most MAX_DURATION_S; None for None and for an impossible one (negative, infinite, no number)."""
    try:
        value = None if duration is None else float(duration)  # older servers write it as text
    except (ValueError, OverflowError):
        return None
    if value is None or not 0 <= value < float("inf"):
        return None
    return min(value, MAX_DURATION_S)
