"""Incremental reading of containers: a piece at a time, buffering only what a piece leaves over, skipping what is not needed.

A `Walk` measures a length. Malformed input ends it; it never raises. A `PacketReader` extracts packets, and raises NoPackets.
Both look at the bytes in front of them and say how many to consume. Those may not have come yet, so a picture or a cluster of
audio is never buffered. Each step consumes something, so both always end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

MAX_BUFFERED_BYTES = 64 * 1024  # limit for a piece of structure; a longer one is not of a kind that we read
MAX_PACKET_BYTES = 2**20  # limit for a page or block of audio, which is kilobytes
MORE = 0
OVER = -1


class NoPackets(ValueError):
    """This is not the container expected, or it has no audio that can be read here."""


class _Reader(ABC):
    def __init__(self) -> None:
        self._buffer = bytearray()
        self._skip = 0

    @abstractmethod
    def _take(self, data: bytearray, at: int) -> int:
        """Look at `data` from `at`: return how many bytes to consume (may be more than there are), MORE, or OVER."""

    def _advance(self, data: bytes) -> bool:
        """Read as far as `data` allows; return False after OVER."""
        if self._skip >= len(data):
            self._skip -= len(data)
            return True
        buffer = self._buffer
        buffer += memoryview(data)[self._skip :]
        self._skip = at = 0
        step = MORE
        while at < len(buffer):
            step = self._take(buffer, at)
            if step <= 0:
                break
            at += step
        self._skip = max(0, at - len(buffer))
        del buffer[:at]
        return step >= 0


class Walk(_Reader):
    """Length of a recording, from the structure of its container."""

    def __init__(self) -> None:
        super().__init__()
        self._over = False

    @property
    @abstractmethod
    def seconds(self) -> float:
        """Length of what has been fed; 0.0 when it is unknown."""

    def feed(self, data: bytes) -> None:
        if self._over:
            return
        if not self._advance(data) or len(self._buffer) > MAX_BUFFERED_BYTES:
            self._over = True
            self._buffer.clear()


class PacketReader(_Reader):
    """Packets of the audio track in a container that is still being written: bytes in, packets out.

    `codec` and `head`, which a decoder needs before its first packet, are set once a packet has come out.
    """

    def __init__(self) -> None:
        super().__init__()
        self.codec = ""  # `opus` or `flac`
        self.head = b""
        self._packets: list[bytes] = []

    def feed(self, data: bytes) -> list[bytes]:
        """Return the packets that `data` completes. Raises NoPackets."""
        self._packets = []
        self._advance(data)
        if len(self._buffer) > MAX_PACKET_BYTES:
            raise NoPackets("a piece of it is too long")
        return self._packets


def id3_bytes(data: bytes | bytearray, at: int) -> int:
    """Return the length of an ID3v2 tag whose head of ten bytes starts at `at`; 0 if there is none (id3.org, ID3v2.4)."""
    if data[at : at + 3] != b"ID3" or len(data) < at + 10:
        return 0
    size = 0
    for byte in data[at + 6 : at + 10]:
        size = size << 7 | byte & 0x7F
    return size + (20 if data[at + 5] & 0x10 else 10)
