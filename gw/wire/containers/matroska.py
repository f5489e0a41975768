"""WebM and Matroska (RFC 8794, RFC 9559): what the segment declares, and what its blocks show.

A browser's recorder writes no duration and no sizes of segment and clusters. Only elements that matter are entered, the
rest is passed over unseen; as those that are entered need no end of their own, no stack is kept.
"""

from __future__ import annotations

import struct

from gw.wire.containers.walk import MORE, OVER, Walk


class _Id:
    SEGMENT, INFO, CLUSTER, BLOCK_GROUP = 0x18538067, 0x1549A966, 0x1F43B675, 0xA0
    SCALE, DURATION, TIMESTAMP = 0x2AD7B1, 0x4489, 0xE7
    SIMPLE_BLOCK, BLOCK, BLOCK_DURATION = 0xA3, 0xA1, 0x9B


_ENTERED = frozenset({_Id.SEGMENT, _Id.INFO, _Id.CLUSTER, _Id.BLOCK_GROUP})
_READ = frozenset({_Id.SCALE, _Id.DURATION, _Id.TIMESTAMP, _Id.SIMPLE_BLOCK, _Id.BLOCK, _Id.BLOCK_DURATION})
_MAX_READ_BYTES = 12
"""Bytes of an element's content that are needed at most: a track's number and a time."""
_NANO = 1e9
_ALIKE_S = 1.0
"""A declared duration this near to what the blocks show is the more exact of the two."""


class MatroskaWalk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._scale_s = 1e-3
        self._declared = 0.0
        self._cluster = 0
        self._last: dict[int, tuple[int, int]] = {}
        """Track → time of its last block, and that block's length: told, or else as long as the one before."""
        self._track = 0

    @property
    def seconds(self) -> float:
        shown = max((time + length for time, length in self._last.values()), default=0) * self._scale_s
        declared = self._declared * self._scale_s
        return declared if declared and (not shown or abs(declared - shown) < _ALIKE_S) else max(0.0, shown)

    def _take(self, data: bytearray, at: int) -> int:
        if len(data) - at < 2:
            return MORE
        id_width = _width(data[at])
        if not 0 < id_width <= 4:
            return OVER
        if len(data) <= at + id_width:
            return MORE
        size_width = _width(data[at + id_width])
        begins = at + id_width + size_width
        if not size_width:
            return OVER
        if len(data) < begins:
            return MORE
        name = int.from_bytes(data[at : at + id_width], "big")
        if name in _ENTERED:
            return begins - at
        whole = (1 << 7 * size_width) - 1
        size = int.from_bytes(data[at + id_width : begins], "big") & whole
        if size == whole:   # not told, which only what is entered may do
            return OVER
        if name in _READ:
            if len(data) < begins + min(size, _MAX_READ_BYTES):
                return MORE
            self._read(name, bytes(data[begins : begins + min(size, _MAX_READ_BYTES)]))
        return begins - at + size

    def _read(self, name: int, content: bytes) -> None:
        match name:
            case _Id.SCALE:
                self._scale_s = min(int.from_bytes(content, "big") / _NANO, 1.0)
            case _Id.DURATION:
                self._declared = _real(content)
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


def _width(first: int) -> int:
    """Bytes of a number by its first; 0 for what is none."""
    return 9 - first.bit_length() if first else 0


def _real(content: bytes) -> float:
    if len(content) not in (4, 8):
        return 0.0
    value: float = struct.unpack(">f" if len(content) == 4 else ">d", content)[0]
    return value if 0 < value < 1e12 else 0.0
