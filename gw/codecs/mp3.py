"""Encoding of samples to MP3 with LAME, which is part of every installation: most apps request MP3 when they name no format.

A second of speech takes 4 to 7 ms, in which the interpreter lock is released. Each piece returns the frames that it completes, of
24 to 26 ms. There is no head with a length, because the length is not known when the first frame is sent.
"""

from __future__ import annotations

import lameenc

from gw.types.audio import AudioFormat
from gw.wire.convert import CannotConvert

RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_KBIT_PER_CHANNEL = 64
"""Between the vendors' own rates for speech: ElevenLabs offers `mp3_24000_48` and `mp3_44100_128`."""
_KBIT = {
    32_000: (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    16_000: (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160),
    8_000: (8, 16, 24, 32, 40, 48, 56, 64),
}
"""Lowest sample rate → bit rates that MP3 has from there on: MPEG version 1, 2, and 2.5 as LAME writes it."""
_AT_ONCE_BYTES = 9_600
"""LAME's output buffer follows from the size of its input: for a longer piece at a higher sample rate it is too small."""
_QUALITY = 7  # LAME's scale from 0, the slowest, to 9; 5 takes twice as long


class Mp3Encoder:
    """A `gw.wire.convert.Converter` from 16-bit samples. LAME converts the rate itself."""

    def __init__(self, pcm: AudioFormat, rate_hz: int = 0, kbit_per_s: int = 0) -> None:
        """Raise CannotConvert for a bit rate that MP3 does not have at this sample rate."""
        rate_hz = _rate_for(pcm.sample_rate_hz, rate_hz)
        if kbit_per_s and not has_bit_rate(rate_hz, kbit_per_s):
            raise CannotConvert(f"mp3 of {rate_hz} Hz cannot have {kbit_per_s} kbit/s")
        self._block = 2 * pcm.channels
        self._partial = b""  # incomplete block of samples
        self._has_samples = False
        self._encoder = encoder = lameenc.Encoder()
        encoder.set_in_sample_rate(pcm.sample_rate_hz)
        encoder.set_out_sample_rate(rate_hz)
        encoder.set_channels(pcm.channels)
        encoder.set_bit_rate(kbit_per_s or _usual_kbit(rate_hz, pcm.channels))
        encoder.set_quality(_QUALITY)
        encoder.silence()

    def feed(self, data: bytes) -> bytes:
        data = self._partial + data
        end = len(data) - len(data) % self._block
        self._partial = data[end:]
        if not end:
            return b""
        self._has_samples = True
        pieces = (data[at : min(at + _AT_ONCE_BYTES, end)] for at in range(0, end, _AT_ONCE_BYTES))
        return b"".join(bytes(self._encoder.encode(piece)) for piece in pieces)

    def end(self) -> bytes:
        return bytes(self._encoder.flush()) if self._has_samples else b""


def has_bit_rate(rate_hz: int, kbit_per_s: int) -> bool:
    """Return whether MP3 of this sample rate can have this bit rate."""
    return kbit_per_s in next(kbit for lowest_hz, kbit in _KBIT.items() if rate_hz >= lowest_hz)


def _usual_kbit(rate_hz: int, channels: int) -> int:
    return min(_KBIT_PER_CHANNEL * channels, 64 if rate_hz < 16_000 else 128)


def _rate_for(source_hz: int, wanted_hz: int) -> int:
    """Return the rate wanted, or the next above it that MP3 has.

    Without one, 44.1 or 48 kHz: an MP3 begins with 1,105 samples of silence, which at 24 kHz would be 46 ms.
    """
    if not wanted_hz:
        return 44_100 if source_hz % 11_025 == 0 else 48_000
    return min((rate for rate in RATES_HZ if rate >= wanted_hz), default=RATES_HZ[-1])
