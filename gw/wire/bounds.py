"""Bounds for counts and durations that a vendor or a caller reports.

JSON numbers have no bounds, and these go into prices, sums and 64-bit columns.
"""

from __future__ import annotations

from gw.types.usage import Usage

MOST_TOKENS = 10**9  # a thousand times the largest context window of any model (November 2026)
MOST_USED_TOKENS = 2 * 10**7
"""Most tokens of one answer: twice the largest context window (Llama 4 Scout's ten million). More cannot have been used."""
MOST_SEARCHES = 1_000
MOST_AUDIO_S = 1e6
"""Longest audio of one answer: a recording of seventeen hours with sixteen channels."""
MAX_DURATION_S = 1e7  # four months of audio


def tokens(count: int | None) -> int:
    """Return a count from 0 to MOST_TOKENS; 0 for None."""
    if not count or count < 0:
        return 0
    return count if count < MOST_TOKENS else MOST_TOKENS


def part_of(count: int | None, whole: int | None) -> int | None:
    """Return a count that is part of another one; None for None."""
    if count is None:
        return None
    part, most = tokens(count), tokens(whole)
    return part if part < most else most


def plausible(usage: Usage) -> Usage | None:
    """Return a usage that an answer reports; None if it cannot be true, so that an estimate takes its place."""
    sent = usage.input_tokens > MOST_USED_TOKENS or usage.cached_input_tokens > MOST_USED_TOKENS
    made = usage.output_tokens > MOST_USED_TOKENS or usage.cache_write_tokens > MOST_USED_TOKENS
    other = usage.audio_seconds > MOST_AUDIO_S or usage.dimensions.searches > MOST_SEARCHES
    return None if sent or made or other else usage


def seconds(duration: float | str | None) -> float | None:
    """Return a duration of at most MAX_DURATION_S; None for None and for an impossible one (negative, infinite, no number)."""
    try:
        value = None if duration is None else float(duration)  # older servers write it as text
    except (ValueError, OverflowError):
        return None
    if value is None or not 0 <= value < float("inf"):
        return None
    return min(value, MAX_DURATION_S)
