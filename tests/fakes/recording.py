"""Recordings as providers are handed them, and answers read to their end."""

from __future__ import annotations

from collections.abc import AsyncIterator

from gw.types.audio import AudioFormat
from gw.types.stt import Transcript
from gw.types.tts import AudioChunk, SpeakEnd
from gw.wire import wav


class Recording:
    def __init__(self, data: bytes, filename: str = "a.wav", content_type: str = "audio/wav") -> None:
        self.data = data
        self.size = len(data)
        self.filename, self.content_type = filename, content_type

    async def chunks(self) -> AsyncIterator[bytes]:
        for at in range(0, self.size, 1_000):
            yield self.data[at : at + 1_000]


def wav_of(samples: bytes, rate_hz: int = 16_000) -> Recording:
    fmt = AudioFormat(encoding="wav", sample_rate_hz=rate_hz)
    return Recording(wav.header(fmt, len(samples)) + samples)


async def recognized(opening):
    """The events of a transcription."""
    events = []
    async with opening as stream:
        while not events or not isinstance(events[-1], Transcript):
            events += await stream.receive()
    return events


async def spoken(opening):
    """Format and sound."""
    events = []
    async with opening as stream:
        while not events or not isinstance(events[-1], SpeakEnd):
            events += await stream.receive()
        return stream.format, b"".join(event.data for event in events if isinstance(event, AudioChunk))
