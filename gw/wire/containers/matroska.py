"""WebM and Matroska (RFC 8794, RFC 9559): the length a segment declares or its blocks show, and the packets of Opus in it.

A browser's recorder writes no duration, and no sizes of segment and clusters. Only relevant elements are entered, others are
skipped; as those entered need no end, no stack is kept.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from gw.wire.containers.walk import MAX_PACKET_BYTES, MORE, OVER, NoPackets, PacketReader, Walk


class _Id:
    EBML, SEGMENT, INFO, TRACKS, ENTRY = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1654AE6B, 0xAE
    NUMBER, CODEC, PRIVATE = 0xD7, 0x86, 0x63A2
    SCALE, DURATION, TIMESTAMP = 0x2AD7B1, 0x4489, 0xE7
    CLUSTER, BLOCK_GROUP, BLOCK, SIMPLE_BLOCK, BLOCK_DURATION = 0x1F43B675, 0xA0, 0xA1, 0xA3, 0x9B


class _Element(NamedTuple):
    name: int
    start: int
    """Offset of its content."""
    size: int | None
    """None if it is not declared."""


def _element_at(data: bytearray, at: int) -> _Element | None:
    """Return the element that starts at `at`; None while its head is incomplete. Raises ValueError if there is none."""
    if len(data) - at < 2:
        return None
    id_width = _width(data[at])
    if not 0 < id_width <= 4:
        raise ValueError
    if len(data) <= at + id_width:
        return None
    size_width = _width(data[at + id_width])
    if not size_width:
        raise ValueError
    start = at + id_width + size_width
    if len(data) < start:
        return None
    undeclared = (1 << 7 * size_width) - 1
    size = int.from_bytes(data[at + id_width : start], "big") & undeclared
    return _Element(int.from_bytes(data[at : at + id_width], "big"), start, None if size == undeclared else size)


def _width(first: int) -> int:
    """Return the bytes of a number by its first byte; 0 if no number starts so."""
    return 9 - first.bit_length() if first else 0


# ---- length


_WALK_ENTERED = frozenset({_Id.SEGMENT, _Id.INFO, _Id.CLUSTER, _Id.BLOCK_GROUP})
_WALK_READ = frozenset({_Id.SCALE, _Id.DURATION, _Id.TIMESTAMP, _Id.SIMPLE_BLOCK, _Id.BLOCK, _Id.BLOCK_DURATION})
_MAX_READ_BYTES = 12  # bytes needed of an element's content: at most a track's number and a time
_NANO = 1e9
_TOLERANCE_S = 1.0  # A declared duration this close to what the blocks show is the more exact of the two


class MatroskaWalk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._scale_s = 1e-3
        self._declared = 0.0
        self._cluster = 0
        self._last: dict[int, tuple[int, int]] = {}
        """Track → time of its last block, and that block's length: as declared, or else that of the one before."""
        self._track = 0

    @property
    def seconds(self) -> float:
        shown = max((time + length for time, length in self._last.values()), default=0) * self._scale_s
        declared = self._declared * self._scale_s
        return declared if declared and (not shown or abs(declared - shown) < _TOLERANCE_S) else max(0.0, shown)

    def _take(self, data: bytearray, at: int) -> int:
        try:
            element = _element_at(data, at)
        except ValueError:
            return OVER
        if element is None:
            return MORE
        name, start, size = element
        if name in _WALK_ENTERED:
            return start - at
        if size is None:   # allowed only for elements that are entered
            return OVER
        if name in _WALK_READ:
            end = start + min(size, _MAX_READ_BYTES)
            if len(data) < end:
                return MORE
            self._read(name, bytes(data[start:end]))
        return start - at + size

    def _read(self, name: int, content: bytes) -> None:
        match name:
            case _Id.SCALE:
                self._scale_s = min(int.from_bytes(content, "big") / _NANO, 1.0)
            case _Id.DURATION:
                self._declared = _float(content)
            case _Id.TIMESTAMP:
                self._cluster = int.from_bytes(content[:8], "big")
            case _Id.BLOCK_DURATION:
                if self._track in self._last:
                    self._last[self._track] = (self._last[self._track][0], int.from_bytes(content[:8], "big"))
            case _:
                self._block(content)

    def _block(self, content: bytes) -> None:
        width = _width(content[0]) if content else 0
        if not width or len(content) < width + 2:
            return
        self._track = int.from_bytes(content[:width], "big")
        time = self._cluster + int.from_bytes(content[width : width + 2], "big", signed=True)
        before, length = self._last.get(self._track, (time, 0))
        if len(self._last) < 64 or self._track in self._last:
            self._last[self._track] = (max(time, before), time - before if time > before else length)


def _float(content: bytes) -> float:
    if len(content) not in (4, 8):
        return 0.0
    value: float = struct.unpack(">f" if len(content) == 4 else ">d", content)[0]
    return value if 0 < value < 1e12 else 0.0


# ---- packets


_PACKETS_ENTERED = frozenset({_Id.SEGMENT, _Id.TRACKS, _Id.ENTRY, _Id.CLUSTER, _Id.BLOCK_GROUP})
_PACKETS_READ = frozenset({_Id.NUMBER, _Id.CODEC, _Id.PRIVATE, _Id.BLOCK, _Id.SIMPLE_BLOCK})
_LACED = 0x06


class MatroskaPackets(PacketReader):
    """Packets of Opus."""

    def __init__(self) -> None:
        super().__init__()
        self._started = False
        self._number = 0  # number of the track entry being read
        self._track: int | None = None  # number of the track whose packets are read

    def _take(self, data: bytearray, at: int) -> int:
        try:
            element = _element_at(data, at)
        except ValueError:
            raise NoPackets("this is not WebM") from None
        if element is None:
            return MORE
        name, start, size = element
        if not self._started and name != _Id.EBML:
            raise NoPackets("this is not WebM")
        self._started = True
        if name in _PACKETS_ENTERED:
            return start - at
        if size is None:
            raise NoPackets("an element has no end")
        if name in _PACKETS_READ:
            if size > MAX_PACKET_BYTES:
                raise NoPackets("a block is too long")
            if len(data) < start + size:
                return MORE
            self._read(name, bytes(data[start : start + size]))
        return start - at + size

    def _read(self, name: int, content: bytes) -> None:
        match name:
            case _Id.NUMBER:
                self._number = int.from_bytes(content[:8], "big")
            case _Id.CODEC if self._track is None:
                if content.startswith(b"A_"):
                    if content.rstrip(b"\0") != b"A_OPUS":
                        raise NoPackets("WebM with a codec other than Opus cannot be decoded as it comes")
                    self.codec, self._track = "opus", self._number
            case _Id.PRIVATE if self._number == self._track and not self.head:
                self.head = content
            case _Id.BLOCK | _Id.SIMPLE_BLOCK:
                self._block(content)

    def _block(self, content: bytes) -> None:
        width = _width(content[0]) if content else 0
        if not width or len(content) < width + 3:
            raise NoPackets("a block has no head")
        number = int.from_bytes(content[:width], "big") & ((1 << 7 * width) - 1)
        if number != self._track or len(content) == width + 3:
            return
        if content[width + 2] & _LACED:
            raise NoPackets("laced frames cannot be read")
        self._packets.append(content[width + 3 :])
