"""The stages of a turn as text: a bar for each, below each other, on one time line."""

from __future__ import annotations

from collections.abc import Sequence

from gw.cli.output import ms
from gw.cli.voice_client import VoiceCall

WIDTH = 32
"""Columns of the time line."""


def waterfall(calls: Sequence[VoiceCall], *, blocks: bool) -> list[str]:
    """Return a line for each call: light up to its first byte, full while it streams. Without `blocks` plain ASCII."""
    wait, stream = ("░", "█") if blocks else ("-", "#")
    origin = min(call.start for call in calls)
    span = max(call.end for call in calls) - origin or 1e-9
    name_width = max(len(call.model) for call in calls)

    def column(at: float) -> int:
        return round((at - origin) / span * WIDTH)

    lines = []
    for call in calls:
        start, first = min(column(call.start), WIDTH - 1), column(call.first)
        end = max(column(call.end), start + 1)
        bar = " " * start + wait * (first - start) + stream * (end - max(first, start))
        lines.append(f"{call.modality} {call.model:{name_width}}  {bar:{WIDTH}}  {ms(call.total_ms):>8}")
    return lines
