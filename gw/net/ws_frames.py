"""Plain WebSocket messages without a protocol machine, and the order of those who write (RFC 6455, section 5.2).

A voice session is a hundred small whole messages a second. Those are read and made here, for a third of what the library's
machine takes; whatever else comes (control frames, fragments, faults) it is given, in whole frames, and its state holds.
"""

from __future__ import annotations

import secrets
from typing import Final

import trio
from websockets.frames import apply_mask  # type: ignore[attr-defined]  # in C where it could be built, else in Python

MACHINE: Final = 0
"""In place of an opcode: bytes for the library's machine."""
TEXT: Final = 1
BINARY: Final = 2
_CONTINUED: Final = 0
_CLOSE: Final = 8
_KNOWN: Final = frozenset((0, 1, 2, 8, 9, 10))
_CONTROL_BYTES: Final = 125
_KEY_BYTES: Final = 4_096

Found = list[tuple[int, bytes]]


class Splitter:
    """Cuts what comes over one connection. `masked`: it comes from a client.

    After a close frame, a frame that cannot be, or one of more than `most` bytes, everything is the machine's. It may find more
    amiss than is looked for here: messages are of no use once it has left its state OPEN.
    """

    __slots__ = ("_fragmented", "_given_up", "_held", "_masked", "_most", "_needed")

    def __init__(self, *, masked: bool, most: int) -> None:
        self._masked = masked
        self._most = most
        self._held = bytearray()
        self._needed = 0
        """Bytes of the frame that `_held` begins with, as far as is known."""
        self._fragmented = False
        self._given_up = False

    def feed(self, data: bytes) -> Found:
        """(TEXT, payload), (BINARY, payload), (MACHINE, bytes), in order. What is not whole yet is held."""
        if self._given_up:
            return [(MACHINE, data)]
        held = self._held
        if not held and not self._fragmented and (frame := self._only_frame(data)) is not None:
            return [frame]
        if held:
            held += data
            if len(held) < self._needed:
                return []
            data = bytes(held)
            held.clear()
        found: Found = []
        at = 0
        while at < len(data):
            end = self._end(data, at)
            if end == 0:
                self._given_up = True
                found.append((MACHINE, data[at:]))
                return found
            if end > len(data):
                self._needed = end - at
                held += data[at:]
                return found
            found.append(self._frame(data, at, end))
            closes = data[at] & 15 == _CLOSE
            at = end
            if closes:
                self._given_up = True
                break
        if at < len(data):
            found.append((MACHINE, data[at:]))
        return found

    def _only_frame(self, data: bytes) -> tuple[int, bytes] | None:
        """A plain message of less than 64 KiB that is all there is: what nearly every read of a voice session brings."""
        size = len(data)
        if size < 8:
            return None
        first = data[0]
        if first != 0x82 and first != 0x81:
            return None
        length, begins = data[1], 2
        if self._masked:
            length -= 128
        if length == 126:
            length, begins = data[2] << 8 | data[3], 4
        elif not 0 <= length < 126:
            return None
        if length > self._most:
            return None
        if not self._masked:
            return (first & 15, data[begins:]) if begins + length == size else None
        if begins + 4 + length != size:
            return None
        return first & 15, apply_mask(data[begins + 4 :], data[begins : begins + 4])

    def _end(self, data: bytes, at: int) -> int:
        """Where the frame at `at` ends, at least; 0 when it is no good frame."""
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
        if first in (0x81, 0x82) and not self._fragmented:
            length = data[at + 1] & 127
            begins = at + (2 if length < 126 else 4 if length == 126 else 10)
            if not self._masked:
                return first & 15, data[begins:end]
            return first & 15, apply_mask(data[begins + 4 : end], data[begins : begins + 4])
        opcode = first & 15
        if opcode < _CLOSE:
            self._fragmented = first < 128
        return MACHINE, data[at:end]


def _head(opcode: int, length: int, mask: int) -> bytes:
    if length < 126:
        return bytes((128 | opcode, mask | length))
    if length < 65_536:
        return bytes((128 | opcode, mask | 126)) + length.to_bytes(2, "big")
    return bytes((128 | opcode, mask | 127)) + length.to_bytes(8, "big")


def from_server(opcode: int, data: bytes) -> bytes:
    """A whole message."""
    return _head(opcode, len(data), 0) + data


class Masks:
    """Masking keys nobody can foresee, drawn many at a time: each draw is a system call."""

    __slots__ = ("_at", "_keys")

    def __init__(self) -> None:
        self._keys = b""
        self._at = 0

    def from_client(self, opcode: int, data: bytes) -> bytes:
        """A whole message."""
        at = self._at
        key = self._keys[at : at + 4]
        if not key:
            self._keys = secrets.token_bytes(_KEY_BYTES)
            at, key = 0, self._keys[:4]
        self._at = at + 4
        return _head(opcode, len(data), 128) + key + apply_mask(data, key)


class FrameTurn:
    """Whose turn it is to write: first come, first served. While nobody waits it costs nothing, unlike `trio.Lock`."""

    __slots__ = ("_waiting", "taken")

    def __init__(self) -> None:
        self.taken = False
        self._waiting = trio.lowlevel.ParkingLot()

    async def take(self) -> None:
        if self.taken:
            await self._waiting.park()  # whoever gives it back hands it over
        self.taken = True

    def give_back(self) -> None:
        if self._waiting:
            self._waiting.unpark()
        else:
            self.taken = False
