"""Audio formats, and conversion between bytes and seconds."""

from __future__ import annotations

from typing import Literal

import msgspec

Encoding = Literal[
    "pcm_s16le", "mulaw", "alaw", "pcm_f32le", "wav", "mp3", "opus", "aac", "flac", "ogg", "webm", "mp4", "unknown"
]
_BYTES_PER_SAMPLE: dict[str, int] = {"pcm_s16le": 2, "mulaw": 1, "alaw": 1, "pcm_f32le": 4, "wav": 2}


class AudioFormat(msgspec.Struct, frozen=True, kw_only=True):
    """Codec and container (`wav`: signed 16-bit PCM in RIFF). Rate 0: the compressed stream carries its own."""

    encoding: Encoding
    sample_rate_hz: int = 0
    channels: int = 1
    kbit_per_s: int = 0
    """Bit rate of MP3; 0: the encoder chooses it."""

    @property
    def is_named_mp3(self) -> bool:
        """Return whether this is MP3 of a certain sample rate or bit rate."""
        return self.encoding == "mp3" and bool(self.sample_rate_hz or self.kbit_per_s)

    @property
    def bytes_per_second(self) -> int:
        """Return the bytes per second of raw samples; 0 for compressed formats, whose duration does not follow from their size."""
        return _BYTES_PER_SAMPLE.get(self.encoding, 0) * self.sample_rate_hz * self.channels

    def seconds(self, n_bytes: int) -> float:
        """Return the seconds of audio in `n_bytes` of raw samples; 0.0 for compressed formats."""
        rate = self.bytes_per_second
        return n_bytes / rate if rate else 0.0


PCM_24K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=24_000)
PCM_16K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000)
MULAW_8K = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)

CONTENT_TYPES: dict[str, str] = {
    **{name: f"audio/{name}" for name in ("wav", "opus", "aac", "flac", "ogg", "webm", "mp4")},
    "pcm_s16le": "audio/pcm",
    "pcm_f32le": "audio/pcm",
    "mp3": "audio/mpeg",
    "mulaw": "audio/basic",
    "alaw": "audio/x-alaw-basic",
    "unknown": "application/octet-stream",
}
