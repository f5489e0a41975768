"""A Wyoming server, for speech or transcription, on a connection in memory or of a socket."""

from __future__ import annotations

import attrs
import trio

from gw.types.audio import AudioFormat
from gw.wire import wyoming
from gw.wire.wyoming import Message


class NotAnEvent(Exception):
    pass


@attrs.define(kw_only=True)
class FakeWyoming:
    transcript: str = "hello there"
    streams: bool = False
    """Pieces of a transcript come before it."""
    speech_pcm: bytes = bytes(9_600)
    rate_hz: int = 22_050
    info: wyoming.Info = attrs.field(
        factory=lambda: wyoming.Info.named(models=("small",), voices=("en_US-lessac-medium",))
    )
    error: str = ""
    """Code of the error that answers every request."""
    answer: bytes | None = None
    """In place of any answer; then the connection is closed."""
    gap_s: float = 0.0

    seen: list[Message] = attrs.field(factory=list)
    """All but audio."""
    audio: bytearray = attrs.field(factory=bytearray)

    async def __call__(self, stream: trio.abc.Stream) -> None:
        decoder = wyoming.WyomingDecoder(NotAnEvent)
        while data := await stream.receive_some(65_536):
            for message in decoder.feed(bytes(data)):
                if isinstance(message, wyoming.AudioPiece):
                    self.audio += message.audio
                    continue
                self.seen.append(message)
                if not isinstance(message, (wyoming.Transcribe, wyoming.AudioStart)):
                    if self.answer is not None:
                        await stream.send_all(self.answer)
                        return
                    for decoded in self._answers(message):
                        await trio.sleep(self.gap_s)
                        await stream.send_all(wyoming.encode(decoded))

    def _answers(self, message: Message) -> list[Message]:
        if isinstance(message, wyoming.Describe):
            return [self.info]
        if self.error:
            return [wyoming.ErrorMessage(text="the text itself", code=self.error)]
        if isinstance(message, wyoming.Synthesize):
            fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=self.rate_hz)
            half = len(self.speech_pcm) // 4 * 2
            pieces = [piece for piece in (self.speech_pcm[:half], self.speech_pcm[half:]) if piece]
            sound = [wyoming.AudioPiece(rate=fmt.sample_rate_hz, audio=piece) for piece in pieces]
            return [wyoming.AudioStart(rate=self.rate_hz), *sound, wyoming.AudioStop()]
        complete: Message = wyoming.FinalTranscript(text=f" {self.transcript}", language="en")
        if not self.streams:
            return [complete]
        pieces_of_text = [wyoming.TranscriptPiece(text=word) for word in self.transcript.split(" ")]
        return [wyoming.TranscriptStart(), *pieces_of_text, complete, wyoming.TranscriptStop()]
