"""The stages of a turn drawn under each other in text, one bar each, on one time line."""

from __future__ import annotations

from collections.abc import Sequence

from gw.cli.output import ms
from gw.cli.voice_client import VoiceCall

WIDTH = 32
"""Columns of the time line."""


def waterfall(calls: Sequence[VoiceCall], *, blocks: bool) -> list[str]:
    """A line per call: light up to its first byte, full while it streams. Without `blocks` plain ASCII."""
    wait, stream = ("░", "█") if blocks else ("-", "#")
    begin = min(call.began for call in calls)
    span = max(call.ended for call in calls) - begin or 1e-9
    name_width = max(len(call.model) for call in calls)

    def column(at: float) -> int:
        return round((at - begin) / span * WIDTH)

    lines = []
    for call in calls:
        start, first = min(column(call.began), WIDTH - 1), column(call.first)
        end = max(column(call.ended), start + 1)
        bar = " " * start + wait * (first - start) + stream * (end - max(first, start))
        lines.append(f"{call.modality} {call.model:{name_width}}  {bar:{WIDTH}}  {ms(call.total_ms):>8}")
    return lines
