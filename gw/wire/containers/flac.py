"""FLAC (RFC 9639): the total in STREAMINFO, or if it was unknown when that was written, the last frame's number."""

from __future__ import annotations

from gw.wire.containers.walk import MORE, OVER, Walk, id3_bytes

_BLOCK_SAMPLES = {1: 192, **{n: 144 << n for n in range(2, 6)}, **{n: 1 << n for n in range(8, 16)}}
"""Code in a frame's head → samples; 6 and 7 stand for a number that follows."""
_MAX_HEAD_BYTES = 16


class FlacWalk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._rate = 0
        self._total = 0
        self._block = 0  # samples of every block but the last, if all have the same size
        self._reached = 0
        self._state = self._start

    @property
    def seconds(self) -> float:
        return (self._total or self._reached) / self._rate if self._rate else 0.0

    def _take(self, data: bytearray, at: int) -> int:
        return self._state(data, at)

    def _start(self, data: bytearray, at: int) -> int:
        if len(data) - at < 10:
            return MORE
        if tag := id3_bytes(data, at):
            return tag
        if data[at : at + 4] != b"fLaC":
            return OVER
        self._state = self._metadata
        return 4

    def _metadata(self, data: bytearray, at: int) -> int:
        if len(data) - at < 4:
            return MORE
        kind, size = data[at] & 0x7F, int.from_bytes(data[at + 1 : at + 4], "big")
        if kind == 0:
            if len(data) - at < 4 + 34:
                return MORE
            self._stream_info(data, at + 4)
        if data[at] & 0x80:
            self._state = self._frames
            if self._total or not self._rate:
                return OVER
        return 4 + size

    def _stream_info(self, data: bytearray, at: int) -> None:
        facts = int.from_bytes(data[at + 10 : at + 18], "big")
        self._rate, self._total = facts >> 44, facts & (1 << 36) - 1
        least, most = int.from_bytes(data[at : at + 2], "big"), int.from_bytes(data[at + 2 : at + 4], "big")
        self._block = least if least == most else 0

    def _frames(self, data: bytearray, at: int) -> int:
        """Look for heads; a checksum distinguishes them from audio that looks like one."""
        sync = data.find(b"\xff", at)
        if sync < 0:
            return len(data) - at
        if len(data) - sync < _MAX_HEAD_BYTES:
            return sync - at or MORE
        if data[sync + 1] & 0xFE == 0xF8:
            reached = self._head(data, sync)
            if reached:
                self._reached = max(self._reached, reached)
        return sync + 1 - at

    def _head(self, data: bytearray, at: int) -> int:
        """Return the samples up to the end of the frame that starts here; 0 if there is none."""
        code, rate_code = data[at + 2] >> 4, data[at + 2] & 0x0F
        number, width = _coded_number(data, at + 4)
        if not width or code == 0:
            return 0
        end = at + 4 + width
        samples = _BLOCK_SAMPLES.get(code, 0)
        if code in (6, 7):
            samples = int.from_bytes(data[end : end + code - 5], "big") + 1
            end += code - 5
        end += 1 if rate_code == 12 else 2 if rate_code in (13, 14) else 0
        if end >= len(data) or crc8(data[at:end], 0) != data[end]:
            return 0
        return (number if data[at + 1] & 1 else number * (self._block or samples)) + samples


def _coded_number(data: bytearray, at: int) -> tuple[int, int]:
    """Return a number of up to 36 bits, coded like a UTF-8 character, and its bytes; (0, 0) if there is none."""
    first = data[at]
    if first < 0x80:
        return first, 1
    width = next((n for n in range(2, 8) if first & (0x80 >> n) == 0), 0)
    if first < 0xC0 or not width:
        return 0, 0
    number = first & (0x7F >> width)
    for byte in data[at + 1 : at + width]:
        if byte & 0xC0 != 0x80:
            return 0, 0
        number = number << 6 | byte & 0x3F
    return number, width


def crc8(data: bytes | bytearray, crc: int = 0xFF) -> int:
    """Return the check of `data`, starting from `crc`."""
    for byte in data:
        crc = _TABLE[crc ^ byte]
    return crc


def _entry(crc: int) -> int:
    for _ in range(8):
        crc = (crc << 1 ^ 0x07 if crc & 0x80 else crc << 1) & 0xFF
    return crc


_TABLE = tuple(map(_entry, range(256)))
