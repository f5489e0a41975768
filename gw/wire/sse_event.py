"""One server-sent event."""

from __future__ import annotations

import msgspec


class SseEvent(msgspec.Struct, frozen=True, gc=False):
    """`data` is the event's data lines joined by LF; `event` is "" if the event has no type."""

    data: bytes
    event: str = ""
