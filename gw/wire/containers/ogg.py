"""Ogg: Opus, Vorbis, FLAC and Speex, one after another or one beside another (RFC 3533).

A granule position counts samples: at 48 kHz for Opus, less the pre-skip (RFC 7845 §4), at its own rate for the others. A
recording cut out of a longer one begins with a high position; the samples on the first page with audio tell where it starts.
"""

from __future__ import annotations

from typing import NamedTuple

import attrs

from gw.wire.containers.walk import MAX_PACKET_BYTES, MORE, OVER, NoPackets, PacketReader, Walk

_HEAD_BYTES = 27
_UNKNOWN = 2**64 - 1  # granule position of a page on which no packet ends
_OPUS_HZ = 48_000
_RATES_HZ = range(1_000, 1_000_000)
_FRAME_SAMPLES = (
    *(480, 960, 1_920, 2_880) * 3,   # SILK: 10, 20, 40, 60 ms, three bandwidths
    *(480, 960) * 2,                 # hybrid
    *(120, 240, 480, 960) * 4,       # CELT: 2.5, 5, 10, 20 ms
)
"""Samples of a frame by the configuration in a packet's first byte (RFC 6716 §3.1)."""
_OPUS_TAGS = b"OpusTags"
_FLAC_HEAD_BYTES = 13
"""Bytes before STREAMINFO in the first packet of FLAC in Ogg (RFC 9639 §10.1), without STREAMINFO's own head of four."""


class _Page(NamedTuple):
    is_first: bool
    """First page of its stream."""
    granule: int
    serial: int
    sizes: bytearray
    start: int
    """Offset of its content."""
    end: int


def _page_at(data: bytearray, at: int) -> _Page | None:
    """Return the page that starts at `at`; None while it is incomplete."""
    if len(data) - at < _HEAD_BYTES:
        return None
    start = at + _HEAD_BYTES + data[at + 26]
    sizes = data[at + _HEAD_BYTES : start]
    end = start + sum(sizes)
    if len(data) < end:
        return None
    granule = int.from_bytes(data[at + 6 : at + 14], "little")
    serial = int.from_bytes(data[at + 14 : at + 18], "little")
    return _Page(bool(data[at + 5] & 2), granule, serial, sizes, start, end)


# ---- length


@attrs.define
class _Stream:
    """One logical stream."""

    opus: bool
    rate_hz: int
    pre_skip: int
    first: int | None = None
    """Granule position at which its audio starts; known with the first page that has some."""
    last: int = 0

    @property
    def seconds(self) -> float:
        return max(0, self.last - (self.first or 0) - self.pre_skip) / self.rate_hz if self.rate_hz else 0.0


class OggWalk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._streams: dict[int, _Stream] = {}  # current streams by serial number
        self._ended_s = 0.0

    @property
    def seconds(self) -> float:
        """Length; the longest counts of streams side by side."""
        return self._ended_s + self._longest()

    def _longest(self) -> float:
        return max((stream.seconds for stream in self._streams.values()), default=0.0)

    def _take(self, data: bytearray, at: int) -> int:
        if len(data) - at >= _HEAD_BYTES and data[at : at + 4] != b"OggS":
            return OVER
        page = _page_at(data, at)
        if page is None:
            return MORE
        self._page(data, page)
        return page.end - at

    def _page(self, data: bytearray, page: _Page) -> None:
        if page.is_first:
            if any(stream.last for stream in self._streams.values()):   # a new chain
                self._ended_s += self._longest()
                self._streams.clear()
            if len(self._streams) < 16:
                self._streams[page.serial] = _open_stream(bytes(data[page.start : page.start + 64]))
            return
        stream = self._streams.get(page.serial)
        if stream is None or page.granule in (0, _UNKNOWN) or page.granule >= 2**62:
            return
        if stream.first is None:
            samples = _opus_samples(data, page) if stream.opus else page.granule
            # The last page of a short stream may end early: its position is then less than its samples.
            stream.first = max(0, page.granule - samples)
        stream.last = max(stream.last, page.granule)


def _open_stream(head: bytes) -> _Stream:
    """Read the first packet of a stream; the rate is 0 for anything but audio."""
    opus, rate, pre_skip = False, 0, 0
    if head.startswith(b"OpusHead") and len(head) >= 12:
        opus, rate, pre_skip = True, _OPUS_HZ, int.from_bytes(head[10:12], "little")
    elif head.startswith(b"\x01vorbis"):
        rate = int.from_bytes(head[12:16], "little")
    elif head.startswith(b"\x7fFLAC"):
        rate = int.from_bytes(head[27:30], "big") >> 4
    elif head.startswith(b"Speex   "):
        rate = int.from_bytes(head[36:40], "little")
    return _Stream(opus, rate if rate in _RATES_HZ else 0, pre_skip)


def _opus_samples(data: bytearray, page: _Page) -> int:
    """Return the samples of the packets that begin on this page."""
    samples, length, at = 0, 0, page.start
    for size in page.sizes:
        length += size
        if size < 255:
            samples += _packet_samples(data[at : at + min(length, 2)])
            at += length
            length = 0
    return samples


def _packet_samples(packet: bytearray) -> int:
    if not packet:
        return 0
    code = packet[0] & 3
    frames = 1 if code == 0 else 2 if code < 3 else packet[1] & 0x3F if len(packet) > 1 else 0
    return frames * _FRAME_SAMPLES[packet[0] >> 3]


# ---- packets


class OggPackets(PacketReader):
    """Packets of Opus or FLAC."""

    def __init__(self) -> None:
        super().__init__()
        self._serial: int | None = None
        self._part = b""  # first part of a packet that continues on the next page

    def _take(self, data: bytearray, at: int) -> int:
        if data[at : at + 4] != b"OggS"[: len(data) - at]:
            raise NoPackets("this is not Ogg")
        page = _page_at(data, at)
        if page is None:
            return MORE
        if page.is_first and self._opens(bytes(data[page.start : page.end])):
            self._serial, self._part = page.serial, b""
        elif page.serial == self._serial:
            self._page(data, page)
        return page.end - at

    def _opens(self, head: bytes) -> bool:
        """Return whether a first page, which contains the first packet only, opens a stream that we read."""
        if head.startswith(b"OpusHead"):
            self.codec, self.head = "opus", head
        elif head.startswith(b"\x7fFLAC") and len(head) >= _FLAC_HEAD_BYTES + 38:
            self.codec, self.head = "flac", head[_FLAC_HEAD_BYTES + 4 : _FLAC_HEAD_BYTES + 38]
        elif head.startswith((b"\x01vorbis", b"Speex   ")):
            raise NoPackets("Ogg with a codec other than Opus or FLAC cannot be decoded as it comes")
        else:
            return False
        return True

    def _page(self, data: bytearray, page: _Page) -> None:
        length, at = 0, page.start
        for size in page.sizes:
            length += size
            if size < 255:
                packet = self._part + bytes(data[at : at + length])
                self._part = b""
                if self._is_audio(packet):
                    self._packets.append(packet)
                at += length
                length = 0
        if length:
            self._part += bytes(data[at : at + length])
            if len(self._part) > MAX_PACKET_BYTES:
                raise NoPackets("a packet is too long")

    def _is_audio(self, packet: bytes) -> bool:
        if self.codec == "flac":
            return packet[:1] == b"\xff"    # else a block of metadata
        return bool(packet) and not packet.startswith(_OPUS_TAGS)
