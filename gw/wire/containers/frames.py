"""Streams of frames without a container: MPEG audio (mp3) and AAC in ADTS. Each frame declares its bytes and its samples.

Sources: ISO/IEC 11172-3 and 13818-3 (MPEG audio frames), ISO/IEC 13818-7 §6.2 (ADTS). The count declared by a Xing, Info or
VBRI frame is not used, as anyone can write a false one; such a frame is only not counted as audio.
"""

from __future__ import annotations

from abc import abstractmethod

from gw.types.audio import AudioFormat
from gw.wire.containers.walk import MORE, OVER, Walk, id3_bytes

MAX_JUNK_BYTES = 64 * 1024  # limit for other bytes between two frames; a stream with more is something else

_KBIT: dict[tuple[bool, int], tuple[int, ...]] = {
    (True, 3): (0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 1): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 3): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    (False, 1): (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
}
"""(MPEG version 1, layer bits) → kbit/s by index; layer bits: 1 = layer III, 3 = layer I."""
_RATES_HZ = {3: (44_100, 48_000, 32_000), 2: (22_050, 24_000, 16_000), 0: (11_025, 12_000, 8_000)}
"""Version bits → rates: 3 = version 1, 2 = version 2, 0 = version 2.5."""
_ADTS_RATES_HZ = (
    96_000, 88_200, 64_000, 48_000, 44_100, 32_000, 24_000, 22_050, 16_000, 12_000, 11_025, 8_000, 7_350,
)  # fmt: skip


class FrameWalk(Walk):
    """Frames one after another. After other bytes, the next position that looks like a frame is tried."""

    HEAD_BYTES: int

    def __init__(self) -> None:
        super().__init__()
        self._samples: dict[int, int] = {}  # sample rate → samples
        self._junk = 0

    @property
    def seconds(self) -> float:
        return sum(samples / rate for rate, samples in self._samples.items())

    @staticmethod
    @abstractmethod
    def _frame(head: bytes | bytearray) -> tuple[int, int, int] | None:
        """Return bytes, samples and rate of the frame with the first HEAD_BYTES bytes `head`; None if there is none."""

    def _silent(self, data: bytearray, at: int, size: int) -> bool | None:
        """Return whether this frame holds metadata instead of audio; None if more of it is needed to tell."""
        return False

    def _take(self, data: bytearray, at: int) -> int:
        if len(data) - at < (10 if data[at : at + 1] == b"I" else self.HEAD_BYTES):
            return MORE
        if tag := id3_bytes(data, at):
            return tag
        frame = self._frame(data[at : at + self.HEAD_BYTES])
        return self._junk_bytes(data, at) if frame is None else self._count(data, at, frame)

    def _count(self, data: bytearray, at: int, frame: tuple[int, int, int]) -> int:
        size, samples, rate = frame
        silent = False if self._samples else self._silent(data, at, size)
        if silent is None:
            return MORE
        self._junk = 0
        if not silent:
            self._samples[rate] = self._samples.get(rate, 0) + samples
        return size

    def _junk_bytes(self, data: bytearray, at: int) -> int:
        next_sync = data.find(b"\xff", at + 1)
        junk = (next_sync if next_sync > 0 else len(data)) - at
        self._junk += junk
        return OVER if self._junk > MAX_JUNK_BYTES else junk


def mpeg_frame(head: bytes | bytearray) -> tuple[int, int, int] | None:
    """Return bytes, samples and rate of the MPEG frame with these first four bytes; None if there is none."""
    second, third = head[1], head[2]
    if head[0] != 0xFF or second & 0xE0 != 0xE0:
        return None
    version, layer, kbit, rate = second >> 3 & 3, second >> 1 & 3, third >> 4, third >> 2 & 3
    if version == 1 or layer == 0 or kbit in (0, 15) or rate == 3:
        return None
    rate_hz = _RATES_HZ[version][rate]
    bits_per_s = 1_000 * _KBIT[version == 3, layer][kbit]
    padding = third >> 1 & 1
    if layer == 3:
        return (12 * bits_per_s // rate_hz + padding) * 4, 384, rate_hz
    samples = 576 if layer == 1 and version != 3 else 1_152
    return samples // 8 * bits_per_s // rate_hz + padding, samples, rate_hz


def adts_frame(head: bytes | bytearray) -> tuple[int, int, int] | None:
    """Return bytes, samples and rate of the ADTS frame with these first seven bytes; None if there is none."""
    if head[0] != 0xFF or head[1] & 0xF6 != 0xF0:
        return None
    rate = head[2] >> 2 & 0x0F
    size = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    if rate >= len(_ADTS_RATES_HZ) or size < 7:
        return None
    return size, 1_024 * ((head[6] & 3) + 1), _ADTS_RATES_HZ[rate]


class MpegWalk(FrameWalk):
    HEAD_BYTES = 4
    _frame = staticmethod(mpeg_frame)

    def _silent(self, data: bytearray, at: int, size: int) -> bool | None:
        """Look for Xing and Info, after the side information, or VBRI, after 32 bytes of it: all within 40 bytes of the head."""
        if len(data) - at < min(size, 40):
            return None
        content = data[at + 4 : at + min(size, 40)]
        return b"Xing" in content or b"Info" in content or b"VBRI" in content


class AdtsWalk(FrameWalk):
    HEAD_BYTES = 7
    _frame = staticmethod(adts_frame)


def format_of(head: bytes) -> AudioFormat | None:
    """Return sample rate and channels of the first frame of a stream; None if `head` does not have one."""
    at = id3_bytes(head, 0) if len(head) >= 10 else 0
    frame = head[at : at + AdtsWalk.HEAD_BYTES]
    if len(frame) < AdtsWalk.HEAD_BYTES:
        return None
    if (adts := adts_frame(frame)) is not None:
        channels = (frame[2] & 1) << 2 | frame[3] >> 6
        return AudioFormat(encoding="aac", sample_rate_hz=adts[2], channels=channels or 1)
    if (mpeg := mpeg_frame(frame)) is not None:
        return AudioFormat(encoding="mp3", sample_rate_hz=mpeg[2], channels=1 if frame[3] >> 6 == 3 else 2)
    return None
