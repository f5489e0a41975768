"""Speech and recordings over HTTP, whatever their dialect: audio out of a body, a file into a form. Not itself a provider."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator

from gw.errors import UpstreamProtocolError
from gw.net.http1 import HttpResponse
from gw.types.audio import AudioFormat
from gw.types.stt import AudioSource
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent
from gw.types.usage import Usage
from gw.wire import wav


class FormBody:
    """A multipart form around an audio source: read in pieces, its length known beforehand."""

    def __init__(self, head: bytes, audio: AudioSource, tail: bytes) -> None:
        self._head = head
        self._audio = audio
        self._tail = tail
        self.size = len(head) + audio.size + len(tail)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self._head
        reading = self._audio.chunks()
        try:
            async for piece in reading:
                yield piece
        finally:
            if isinstance(reading, AsyncGenerator):   # whoever sends may give up
                await reading.aclose()
        yield self._tail


class SpokenAudio:
    """The body is the audio. Its first bytes tell a WAV's real rate; a header may say what is billed."""

    def __init__(self, response: HttpResponse, provider: str, asked: AudioFormat, characters_header: bytes = b"") -> None:
        self._response = response
        self._provider = provider
        self._characters_header = characters_header
        self._seen = False
        self.format = asked

    async def receive(self) -> list[SpeakEvent]:
        data = await self._response.receive_some()
        if not data:
            if not self._seen:
                raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
            return [SpeakEnd(usage=self._usage())]
        if not self._seen and self.format.encoding == "wav" and (info := wav.parse(data)) is not None:
            self.format = info.format
        self._seen = True
        return [AudioChunk(data=data)]

    def _usage(self) -> Usage | None:
        told = (self._response.header(self._characters_header) or b"") if self._characters_header else b""
        return Usage(characters=int(told), source="vendor") if told.isdigit() and len(told) < 10 else None
