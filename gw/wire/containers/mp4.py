"""MP4 and M4A (ISO/IEC 14496-12): the movie's header, wherever it is, or the samples of a fragmented file.

As with Matroska, only relevant boxes are entered and others are skipped, so no stack is kept.
"""

from __future__ import annotations

import struct

from gw.wire.containers.walk import MORE, OVER, Walk

_ENTERED = frozenset({b"moov", b"trak", b"mdia", b"mvex", b"moof", b"traf"})
_READ = frozenset({b"mvhd", b"mehd", b"tkhd", b"mdhd", b"hdlr", b"trex", b"tfhd", b"trun"})
_MAX_READ_BYTES = 32 * 1024  # A longer table of samples is counted by its default length


class Mp4Walk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._movie_scale = 0
        self._movie = 0
        self._track = 0
        self._scales: dict[int, int] = {}  # audio track → ticks per second
        self._scale = 0
        self._defaults: dict[int, int] = {}
        self._default = 0
        self._ticks: dict[int, int] = {}  # track → length of its fragments in ticks

    @property
    def seconds(self) -> float:
        if self._movie and self._movie_scale:
            return self._movie / self._movie_scale
        lengths = (ticks / self._scales[track] for track, ticks in self._ticks.items() if self._scales.get(track))
        return max(lengths, default=0.0)

    def _take(self, data: bytearray, at: int) -> int:
        if len(data) - at < 8:
            return MORE
        size, name, head = int.from_bytes(data[at : at + 4], "big"), bytes(data[at + 4 : at + 8]), 8
        if size == 1:
            if len(data) - at < 16:
                return MORE
            size, head = int.from_bytes(data[at + 8 : at + 16], "big"), 16
        if name in _ENTERED and size != 0:
            return head
        if size < head:   # 0: extends to the end of the file
            return OVER
        if name in _READ:
            wanted = min(size, _MAX_READ_BYTES)
            if len(data) - at < wanted:
                return MORE
            self._read(name, bytes(data[at + head : at + wanted]))
        return size

    def _read(self, name: bytes, box: bytes) -> None:
        try:
            getattr(self, "_" + name.decode())(box)
        except struct.error:
            return   # too short for its kind

    def _mvhd(self, box: bytes) -> None:
        self._movie_scale, self._movie = _header(box)

    def _mehd(self, box: bytes) -> None:
        (length,) = struct.unpack_from(">Q" if box[:1] == b"\1" else ">I", box, 4)
        self._movie = self._movie or length

    def _tkhd(self, box: bytes) -> None:
        (self._track,) = struct.unpack_from(">I", box, 20 if box[:1] == b"\1" else 12)

    def _mdhd(self, box: bytes) -> None:
        self._scale = _header(box)[0]

    def _hdlr(self, box: bytes) -> None:
        if box[8:12] == b"soun" and len(self._scales) < 64:
            self._scales[self._track] = self._scale

    def _trex(self, box: bytes) -> None:
        track, _, duration = struct.unpack_from(">III", box, 4)
        if len(self._defaults) < 64:
            self._defaults[track] = duration

    def _tfhd(self, box: bytes) -> None:
        flags, self._track = struct.unpack_from(">II", box)
        self._default = self._defaults.get(self._track, 0)
        if flags & 8:
            (self._default,) = struct.unpack_from(">I", box, 8 + (8 if flags & 1 else 0) + (4 if flags & 2 else 0))

    def _trun(self, box: bytes) -> None:
        flags, count = struct.unpack_from(">II", box)
        flags &= 0xFFFFFF
        at = 8 + (4 if flags & 1 else 0) + (4 if flags & 4 else 0)
        width = 4 * (flags >> 8 & 0xF).bit_count()
        if flags & 0x100 and len(box) >= at + count * width:
            length = sum(struct.unpack_from(">I", box, at + n * width)[0] for n in range(count))
        else:
            length = count * self._default
        if self._track in self._scales:
            self._ticks[self._track] = self._ticks.get(self._track, 0) + length


def _header(box: bytes) -> tuple[int, int]:
    """Return ticks per second, and the length in ticks: 0 if it is unknown (all ones)."""
    if box[:1] == b"\1":
        scale, length = struct.unpack_from(">IQ", box, 20)
        return scale, 0 if length == 2**64 - 1 else length
    scale, length = struct.unpack_from(">II", box, 12)
    return scale, 0 if length == 2**32 - 1 else length
