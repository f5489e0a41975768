"""Encoding of samples to MP3 with LAME, which is part of every installation: most apps request MP3 when they name no format.

A second of speech takes about 3 ms, so it is encoded where it passes. Each piece returns the frames that it completes; a frame is
24 ms at 24 kHz. There is no head with a length, because the length is not known when the first frame is sent.
"""

from __future__ import annotations

import lameenc

from gw.types.audio import AudioFormat

RATES_HZ = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
_KBIT_PER_CHANNEL = 64
"""Between the vendors' own rates for speech: ElevenLabs offers `mp3_24000_48` and `mp3_44100_128`."""
_QUALITY = 5  # LAME's scale from 0, the slowest, to 9; 2 takes four times as long


class Mp3Encoder:
    """A `gw.wire.convert.Converter` from 16-bit samples at one of `RATES_HZ`."""

    def __init__(self, pcm: AudioFormat) -> None:
        self._block = 2 * pcm.channels
        self._partial = b""  # incomplete block of samples
        self._has_samples = False
        self._encoder = encoder = lameenc.Encoder()
        encoder.set_in_sample_rate(pcm.sample_rate_hz)
        encoder.set_out_sample_rate(pcm.sample_rate_hz)
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
