"""whisper.cpp's server, which hears what the tone voice says in the WAV it is sent. On a stream, one request after another."""

from __future__ import annotations

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from gw.types.stt import Final, Transcript, Word
from gw.wire import wav
from tests.fakes.net import ServerSide


def encode(transcript: Transcript) -> bytes:
    segments = [
        {
            "id": number, "text": f" {segment.text}", "start": segment.start_s, "end": segment.end_s,
            "words": [
                {"word": f" {w.text}", "start": w.start_s, "end": w.end_s, "probability": w.confidence or 0.0}
                for w in segment.words
            ],
        }
        for number, segment in enumerate(transcript.segments)
    ]
    return msgspec.json.encode(
        {
            "task": "transcribe", "language": transcript.language or "english",
            "duration": transcript.duration_s or 0.0, "text": f" {transcript.text}\n", "segments": segments,
        }
    )


def read_tone(samples: bytes) -> str:
    """All utterances in samples of 16 kHz."""
    events = fsk.ToneDecoder(16_000).feed(samples)
    return " ".join(event.text for event in events if isinstance(event, fsk.Done))


@attrs.define(kw_only=True)
class FakeWhisperCpp:
    answer_after_s: float = 0.0
    transcript: str = ""
    """Answer in place of the recording's text."""
    requests: int = 0

    async def __call__(self, stream: trio.abc.Stream) -> None:
        server = ServerSide(stream)
        while (request := await server.request()) is not None:
            self.requests += 1
            body = request.body[request.body.index(b"RIFF") :]
            info = wav.parse(body)
            assert info is not None
            samples = body[info.data_offset : info.data_offset + (info.data_bytes or 0)]
            text = self.transcript or read_tone(samples)
            await trio.sleep(self.answer_after_s)
            words = (Word(text="w", start_s=0.25, end_s=0.5, confidence=0.5),)
            answer = Transcript(text=text, language="en", segments=(Final(text=text, end_s=1.0, words=words),))
            await server.respond(200, encode(answer), (b"content-type", b"application/json"))
