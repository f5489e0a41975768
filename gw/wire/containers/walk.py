"""How every container is read: a piece at a time, holding only what a piece leaves over, passing over what says nothing.

A `Walk` looks at the bytes in front of it and says how many of them are done with. What is passed over need not have come
yet, so that a picture or a cluster of sound is never held. Malformed input ends a walk; it never raises, and each step
moves on, so it always ends.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

MOST_HELD = 64 * 1024
"""A piece of structure that is longer than this is not one we read."""
MORE = 0
OVER = -1


class Walk(ABC):
    def __init__(self) -> None:
        self._held = bytearray()
        self._skip = 0
        self._over = False

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Length of what has been fed; 0.0 when it cannot be told."""

    @abstractmethod
    def _take(self, data: bytearray, at: int) -> int:
        """Look at `data` from `at`: how many bytes are done with (may be more than there are), MORE, or OVER."""

    def feed(self, data: bytes) -> None:
        if self._over:
            return
        if self._skip >= len(data):
            self._skip -= len(data)
            return
        held = self._held
        held += memoryview(data)[self._skip :]
        self._skip = 0
        at = 0
        while at < len(held):
            step = self._take(held, at)
            if step == MORE:
                break
            if step < 0:
                self._over = True
                break
            at += step
        self._skip = max(0, at - len(held))
        del held[:at]
        if self._over or len(held) > MOST_HELD:
            self._over = True
            held.clear()


def id3_bytes(data: bytearray, at: int) -> int:
    """Length of an ID3v2 tag that begins here with all ten bytes of its head; 0 when there is none (id3.org, ID3v2.4)."""
    if data[at : at + 3] != b"ID3" or len(data) < at + 10:
        return 0
    size = 0
    for byte in data[at + 6 : at + 10]:
        size = size << 7 | byte & 0x7F
    return size + (20 if data[at + 5] & 0x10 else 10)
