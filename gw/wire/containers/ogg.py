"""Ogg: Opus, Vorbis, FLAC and Speex, one after another or one beside another (RFC 3533).

A granule position counts samples: at 48 kHz for Opus, less the pre-skip (RFC 7845 §4), at its own rate for the others. A
recording cut out of a longer one begins with a high position; the first page with sound tells how much it holds itself.
"""

from __future__ import annotations

import attrs

from gw.wire.containers.walk import MORE, OVER, Walk

_UNKNOWN = 2**64 - 1
"""No packet ends on this page."""
_OPUS_HZ = 48_000
_RATES_HZ = range(1_000, 1_000_000)
_FRAME_SAMPLES = (
    *(480, 960, 1_920, 2_880) * 3,   # SILK: 10, 20, 40, 60 ms, three bandwidths
    *(480, 960) * 2,                 # hybrid
    *(120, 240, 480, 960) * 4,       # CELT: 2.5, 5, 10, 20 ms
)
"""Samples of a frame by the configuration in a packet's first byte (RFC 6716 §3.1)."""


@attrs.define
class _Stream:
    """One logical stream."""

    opus: bool
    rate_hz: int
    pre_skip: int
    first: int | None = None
    """Where its sound begins, in granules; known with the first page that has some."""
    last: int = 0

    @property
    def seconds(self) -> float:
        return max(0, self.last - (self.first or 0) - self.pre_skip) / self.rate_hz if self.rate_hz else 0.0


class OggWalk(Walk):
    def __init__(self) -> None:
        super().__init__()
        self._streams: dict[int, _Stream] = {}
        """Those going on, by serial number."""
        self._ended_s = 0.0

    @property
    def seconds(self) -> float:
        """Of streams side by side the longest."""
        return self._ended_s + self._longest()

    def _longest(self) -> float:
        return max((stream.seconds for stream in self._streams.values()), default=0.0)

    def _take(self, data: bytearray, at: int) -> int:
        if len(data) - at < 27:
            return MORE
        if data[at : at + 4] != b"OggS":
            return OVER
        segments = data[at + 26]
        begins = at + 27 + segments
        if len(data) < begins:
            return MORE
        sizes = data[at + 27 : begins]
        size = sum(sizes)
        if len(data) < begins + size:
            return MORE
        self._page(data, at, sizes, begins)
        return 27 + segments + size

    def _page(self, data: bytearray, at: int, sizes: bytearray, begins: int) -> None:
        kind = data[at + 5]
        granule = int.from_bytes(data[at + 6 : at + 14], "little")
        serial = int.from_bytes(data[at + 14 : at + 18], "little")
        if kind & 2:
            if any(stream.last for stream in self._streams.values()):   # a new chain
                self._ended_s += self._longest()
                self._streams.clear()
            if len(self._streams) < 16:
                self._streams[serial] = _opened(bytes(data[begins : begins + 64]))
            return
        stream = self._streams.get(serial)
        if stream is None or granule in (0, _UNKNOWN) or granule >= 2**62:
            return
        if stream.first is None:
            held = _opus_samples(data, sizes, begins) if stream.opus else granule
            # The last page of a short stream may end early: its position is then less than it holds.
            stream.first = max(0, granule - held)
        stream.last = max(stream.last, granule)


def _opened(head: bytes) -> _Stream:
    """What the first packet of a stream says; a rate of 0 for what is no sound."""
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


def _opus_samples(data: bytearray, sizes: bytearray, at: int) -> int:
    """Samples of the packets that begin on this page."""
    samples, length = 0, 0
    for size in sizes:
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
