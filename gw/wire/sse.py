"""Server-sent events, both directions (WHATWG HTML, section 9.2 "Server-sent events").

Theory of operation: line ends become LF as bytes arrive (a CR at the end of one piece swallows an LF at the start of
the next), so an event is everything up to an empty line and `bytes.split` separates them. Almost every event of a vendor is
the single line `data: {…}`, which is recognised without splitting it into lines. Bytes are never decoded, so a character may be
cut between two pieces. Comments and the fields `id` and `retry` are skipped.
"""

from __future__ import annotations

from gw.wire.sse_event import SseEvent

_CR, _LF = 13, 10   # as numbers: `13 in data` is ten times as fast as `b"\r" in data`
_BOM = b"\xef\xbb\xbf"
MAX_EVENT_BYTES = 4 * 1024 * 1024  # limit for one event; the largest known are base64 audio deltas of a few hundred KB


class SseTooLong(ValueError):
    """An event, or bytes without an empty line, exceeded the limit."""


class SseDecoder:
    """Bytes of an event stream in, complete events out."""

    __slots__ = ("_after_cr", "_buffer", "_first", "_max")

    def __init__(self, max_event_bytes: int = MAX_EVENT_BYTES) -> None:
        self._max = max_event_bytes
        self._buffer: bytearray | None = None  # a part of an event
        self._after_cr = False
        self._first = True

    def feed(self, data: bytes) -> list[SseEvent]:
        """Return the events that `data` completes. Raises SseTooLong."""
        size = len(data)
        is_single = data.startswith(b"data: ") and data.endswith(b"\n\n") and data.find(b"\n") == size - 2 <= self._max
        if is_single and not (self._buffer or self._after_cr or _CR in data):  # a socket mostly brings one event at a time
            self._first = False
            return [SseEvent(data[6:-2])]
        if self._after_cr and data:
            self._after_cr = False
            if data[0] == 10:
                data = data[1:]
        if _CR in data:
            self._after_cr = data.endswith(b"\r")
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        buffer = self._buffer
        if buffer:
            searched = len(buffer) - 1
            buffer += data
            if buffer.find(b"\n\n", searched) < 0:
                self._check(len(buffer))
                return []
            data, self._buffer = bytes(buffer), None
        *blocks, partial = data.split(b"\n\n")
        if partial:
            self._check(len(partial))
            self._buffer = bytearray(partial)
        events: list[SseEvent] = []
        for block in blocks:
            if block.startswith(b"data: ") and _LF not in block:
                self._first = False
                self._check(len(block))
                events.append(SseEvent(block[6:]))
            elif block:
                event = self._lines(block)
                if event is not None:
                    events.append(event)
        return events

    def end(self) -> list[SseEvent]:
        """Return the incomplete event at the end of the stream, if it has data (the standard drops it, some servers rely on it)."""
        block, self._buffer = bytes(self._buffer or b""), None
        event = self._lines(block) if block else None
        return [] if event is None else [event]

    def _check(self, size: int) -> None:
        if size > self._max:
            raise SseTooLong(f"an event is larger than {self._max} bytes")

    def _lines(self, block: bytes) -> SseEvent | None:
        self._check(len(block))
        if self._first:
            self._first = False
            block = block.removeprefix(_BOM)
        data: list[bytes] = []
        event = ""
        for line in block.split(b"\n"):
            name, _, value = line.partition(b":")
            value = value.removeprefix(b" ")
            if name == b"data":
                data.append(value)
            elif name == b"event":
                event = value.decode("utf-8", "replace")
        return SseEvent(b"\n".join(data), event) if data else None


def encode(data: bytes, event: str = "") -> bytes:
    """Return one event. Line ends inside `data` make several `data:` lines, which a reader joins with LF."""
    if _LF in data or _CR in data:
        lines = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n")
        body = b"".join(b"data: " + line + b"\n" for line in lines) + b"\n"
    else:
        body = b"data: " + data + b"\n\n"
    return b"event: " + _one_line(event) + b"\n" + body if event else body


def comment(text: str) -> bytes:
    """Return a line that clients skip; it restarts their read timer, so it serves as keep-alive."""
    return b": " + _one_line(text) + b"\n\n"


def _one_line(text: str) -> bytes:
    return text.replace("\r", " ").replace("\n", " ").encode()
