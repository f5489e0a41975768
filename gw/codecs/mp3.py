"""Encoding of samples to MP3 with LAME, which is part of every installation: most apps request MP3 when they name no format.

A second of speech takes 4 to 7 ms, in which the interpreter lock is released. Each piece returns the frames that it completes, of
24 to 26 ms. There is no head with a length, because the length is not known when the first frame is sent.
"""

from __future__ import annotations

import lameenc

from gw.types.audio import AudioFormat

RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_KBIT_PER_CHANNEL = 64
"""Between the vendors' own rates for speech: ElevenLabs offers `mp3_24000_48` and `mp3_44100_128`."""
_QUALITY = 7  # LAME's scale from 0, the slowest, to 9; 5 takes twice as long


class Mp3Encoder:
    """A `gw.wire.convert.Converter` from 16-bit samples. LAME converts the rate itself."""

    def __init__(self, pcm: AudioFormat, rate_hz: int = 0) -> None:
        self._block = 2 * pcm.channels
        self._partial = b""  # incomplete block of samples
        self._has_samples = False
        self._encoder = encoder = lameenc.Encoder()
        encoder.set_in_sample_rate(pcm.sample_rate_hz)
        encoder.set_out_sample_rate(_rate_for(pcm.sample_rate_hz, rate_hz))
        encoder.set_channels(pcm.channels)
        encoder.set_bit_rate(_KBIT_PER_CHANNEL * pcm.channels)
        encoder.set_quality(_QUALITY)
        encoder.silence()

    def feed(self, data: bytes) -> bytes:
        data = self._partial + data
        end = len(data) - len(data) % self._block
        self._partial = data[end:]
        if not end:
            return b""
        self._has_samples = True
        return bytes(self._encoder.encode(data[:end]))

    def end(self) -> bytes:
        return bytes(self._encoder.flush()) if self._has_samples else b""


def _rate_for(source_hz: int, wanted_hz: int) -> int:
    """Return the rate wanted, or the next above it that MP3 has.

    Without one, 44.1 or 48 kHz: an MP3 begins with 1,105 samples of silence, which at 24 kHz would be 46 ms.
    """
    if not wanted_hz:
        return 44_100 if source_hz % 11_025 == 0 else 48_000
    return min((rate for rate in RATES_HZ if rate >= wanted_hz), default=RATES_HZ[-1])
