"""Plain WebSocket messages without the protocol library, and the order of writers (RFC 6455, section 5.2).

A voice session is a hundred small unfragmented messages a second. Those are parsed and made here, for a third of the
library's time; everything else (control frames, fragments, faults) is passed to the library in complete frames.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Iterator
from typing import Final

import trio
from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C where it could be built, else in Python

MACHINE: Final = 0  # in place of an opcode: bytes for the protocol library
TEXT: Final = 1
BINARY: Final = 2
_CONTINUED: Final = 0
_CLOSE: Final = 8
_KNOWN: Final = frozenset((0, 1, 2, 8, 9, 10))
_CONTROL_BYTES: Final = 125
_KEYS_BYTES: Final = 4_096

Frames = list[tuple[int, bytes]]

_SHORT: Final = struct.Struct(">BB")
_MEDIUM: Final = struct.Struct(">BBH")
_MASKED_MEDIUM: Final = struct.Struct(">BBH4s")
_LONG: Final = struct.Struct(">BBQ")


class Splitter:
    """Cuts the bytes of one connection into frames. `masked`: they come from a client.

    After a close frame, an invalid frame, or one of more than `most` bytes, everything goes to the library. It checks more than
    is checked here: drop messages once it has left its state OPEN.
    """

    __slots__ = ("_buffer", "_given_up", "_masked", "_most", "_needed", "at_message", "fragmented")

    def __init__(self, *, masked: bool, most: int) -> None:
        self._masked = masked
        self._most = most
        self._buffer = bytearray()
        self._needed = 0  # bytes of the frame that `_buffer` begins with, as far as is known
        self.fragmented = False  # the peer has begun a message in parts and not yet ended it
        self._given_up = False
        self.at_message = True  # the next byte may begin a whole message: nothing is buffered, in parts or given up

    def feed(self, data: bytes) -> Frames:
        """Return (TEXT, payload), (BINARY, payload), (MACHINE, bytes), in order. An incomplete frame is buffered."""
        frames = self._split(data)
        self.at_message = not (self._buffer or self.fragmented or self._given_up)
        return frames

    def _split(self, data: bytes) -> Frames:
        if self._given_up:
            return [(MACHINE, data)]
        buffer = self._buffer
        if buffer:
            buffer += data
            if len(buffer) < self._needed:
                return []
            data = bytes(buffer)
            buffer.clear()
        frames: Frames = []
        at = 0
        while at < len(data):
            end = self._end(data, at)
            if end == 0:
                self._given_up = True
                frames.append((MACHINE, data[at:]))
                return frames
            if end > len(data):
                self._needed = end - at
                buffer += data[at:]
                return frames
            frames.append(self._frame(data, at, end))
            closes = data[at] & 15 == _CLOSE
            at = end
            if closes:
                self._given_up = True
                break
        if at < len(data):
            frames.append((MACHINE, data[at:]))
        return frames

    def _end(self, data: bytes, at: int) -> int:
        """Return where the frame at `at` ends, at least; 0 for an invalid frame."""
        if len(data) - at < 2:
            return at + 2
        first, second = data[at], data[at + 1]
        opcode, length = first & 15, second & 127
        if first & 0x70 or opcode not in _KNOWN or (second >= 128) is not self._masked:
            return 0
        if opcode >= _CLOSE and (length > _CONTROL_BYTES or first < 128):
            return 0
        head = 6 if self._masked else 2
        if length < 126:
            return at + head + length
        wide = 2 if length == 126 else 8
        if len(data) - at < 2 + wide:
            return at + 2 + wide
        length = int.from_bytes(data[at + 2 : at + 2 + wide], "big")
        return 0 if length > self._most else at + head + wide + length

    def _frame(self, data: bytes, at: int, end: int) -> tuple[int, bytes]:
        first = data[at]
        if first in (0x81, 0x82) and not self.fragmented:
            length = data[at + 1] & 127
            begins = at + (2 if length < 126 else 4 if length == 126 else 10)
            if not self._masked:
                return first & 15, data[begins:end]
            return first & 15, apply_mask(data[begins + 4 : end], data[begins : begins + 4])
        opcode = first & 15
        if opcode < _CLOSE:
            self.fragmented = first < 128
        return MACHINE, data[at:end]


def plain_from_server(data: bytes, at: int, most: int) -> tuple[str | bytes, int] | None:
    """Return the message that begins at `at`, and where it ends; None where `Splitter.feed` has to look.

    For a session that is at a message. Nearly every message of a voice session is plain and shorter than 64 KiB, and all of it has
    arrived; its frame is at most `most` bytes long. When this process is behind, several are read at once.
    """
    size = len(data)
    if size - at < 4:
        return None
    first, length = data[at], data[at + 1]
    if length == 126:
        begins = at + 4
        end = begins + (data[at + 2] << 8 | data[at + 3])
    elif length < 126:
        begins = at + 2
        end = begins + length
    else:
        return None
    if end > size or end - at > most:
        return None
    if first == 0x82:
        return data[begins:end], end
    if first == 0x81 and (text := text_or_none(data[begins:end])) is not None:
        return text, end
    return None


def plain_from_client(data: bytes, at: int, most: int) -> tuple[str | bytes, int] | None:
    """Do the same with the frame of a client."""
    size = len(data)
    if size - at < 6:
        return None
    first, length = data[at], data[at + 1]
    if length == 254:
        begins = at + 8
        end = begins + (data[at + 2] << 8 | data[at + 3])
    elif 128 <= length < 254:
        begins = at + 6
        end = begins + length - 128
    else:
        return None
    if end > size or end - at > most:
        return None
    if first == 0x82:
        return apply_mask(data[begins:end], data[begins - 4 : begins]), end
    if first == 0x81 and (text := text_or_none(apply_mask(data[begins:end], data[begins - 4 : begins]))) is not None:
        return text, end
    return None


def text_or_none(data: bytes) -> str | None:
    """Return the text; None for what is not UTF-8."""
    try:
        return str(data, "utf-8")
    except UnicodeDecodeError:
        return None


def _head(opcode: int, length: int, mask: int) -> bytes:
    """Return the head of a short or long message. Those between are most of a voice session: their heads are made in place."""
    if length < 126:
        return _SHORT.pack(128 | opcode, mask | length)
    return _LONG.pack(128 | opcode, mask | 127, length)


def from_server(opcode: int, data: bytes) -> bytes:
    """Return an unfragmented message."""
    length = len(data)
    if 125 < length < 65_536:
        return _MEDIUM.pack(128 | opcode, 126, length) + data
    return _head(opcode, length, 0) + data


def _drawn_keys() -> Iterator[bytes]:
    while True:
        for (key,) in struct.iter_unpack("4s", secrets.token_bytes(_KEYS_BYTES)):
            yield key


class Masks:
    """Unpredictable masking keys, drawn many at a time: each draw is a system call."""

    __slots__ = ("_keys",)

    def __init__(self) -> None:
        self._keys = _drawn_keys()

    def from_client(self, opcode: int, data: bytes) -> bytes:
        """Return an unfragmented message."""
        key, length = next(self._keys), len(data)
        if 125 < length < 65_536:
            return _MASKED_MEDIUM.pack(128 | opcode, 254, length, key) + apply_mask(data, key)
        return _head(opcode, length, 128) + key + apply_mask(data, key)


class FrameTurn:
    """The right to write, first come, first served. Costs nothing while nobody waits, unlike `trio.Lock`."""

    __slots__ = ("_waiting", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._waiting: trio.lowlevel.ParkingLot | None = None

    async def take(self) -> None:
        if self.taken:
            if self._waiting is None:
                self._waiting = trio.lowlevel.ParkingLot()
            await self._waiting.park()  # `give_back` hands it over
        self.taken = True

    def give_back(self) -> None:
        if self._waiting:
            self._waiting.unpark()
        else:
            self.taken = False
