"""Numbers that a vendor or a caller reports, brought within what can be true.

JSON numbers have no bounds, and what is counted here goes into prices, sums and 64-bit columns.
"""

from __future__ import annotations

MOST_TOKENS = 10**9
"""A thousand times the largest context window there is (November 2026)."""
LONGEST_S = 1e7
"""Four months of audio."""


def tokens(told: int | None) -> int:
    """A count of 0 to MOST_TOKENS; 0 for none."""
    if not told or told < 0:
        return 0
    return told if told < MOST_TOKENS else MOST_TOKENS


def seconds(told: float | str | None) -> float | None:
    """A duration of at most LONGEST_S; None for none and for what is no duration (negative, infinite, no number)."""
    try:
        value = None if told is None else float(told)  # older servers write it as text
    except (ValueError, OverflowError):
        return None
    if value is None or not 0 <= value < float("inf"):
        return None
    return min(value, LONGEST_S)
