"""Speech as lines of JSON: the base of decoders for vendors that stream audio in base64, one object a line."""

from __future__ import annotations

from abc import ABC, abstractmethod
from base64 import b64decode
from typing import TypeVar

import msgspec

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.compiled import mypyc_attr
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent
from gw.wire.json_codec import BAD_JSON
from gw.wire.stream_decoder import StreamDecoder

T = TypeVar("T")

_MAX_LINE_BYTES = 4 * 2**20


@mypyc_attr(allow_interpreted_subclasses=True)
class SpeechLinesDecoder(StreamDecoder[SpeakEvent], ABC):
    """Decoder of an answer of lines; `_decode` takes one line apart."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._partial = b""
        self._has_audio = False

    def feed(self, data: bytes) -> list[SpeakEvent]:
        """Raises UpstreamProtocolError, and what `_decode` raises for an error among the lines."""
        *lines, self._partial = (self._partial + data).split(b"\n")
        if len(self._partial) > _MAX_LINE_BYTES:
            raise UpstreamProtocolError(provider=self._provider, detail="a line without end")
        events: list[SpeakEvent] = []
        try:
            for line in lines:
                events += self._decode(line) if line.strip() else []
        except ProviderError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[SpeakEvent]:
        """Return the last events after the connection ended normally. Raises UpstreamCut in the middle of a line."""
        events: list[SpeakEvent] = []
        if self._partial.strip():
            try:
                events += self._decode(self._partial)
            except UpstreamProtocolError:
                raise UpstreamCut(provider=self._provider, detail="the stream ended in the middle of a line") from None
        if not self._has_audio:
            raise UpstreamProtocolError(provider=self._provider, detail="empty answer")
        return [*events, *self._last(), SpeakEnd()]

    @abstractmethod
    def _decode(self, line: bytes) -> list[SpeakEvent]:
        """Return the events of one line. Raises ProviderError."""

    def _last(self) -> list[SpeakEvent]:
        """Return the events that were held back until the end."""
        return []

    def _object(self, decoder: msgspec.json.Decoder[T], line: bytes) -> T:
        try:
            return decoder.decode(line)
        except BAD_JSON:
            raise self._malformed("a line is not the JSON expected") from None

    def _audio(self, encoded: str | None) -> list[SpeakEvent]:
        """Return the audio in base64 as an event; nothing for no audio."""
        try:
            audio = b64decode(encoded or "", validate=True)
        except ValueError:
            raise self._malformed("a line is not the JSON expected") from None
        self._has_audio = self._has_audio or bool(audio)
        return [AudioChunk(data=audio)] if audio else []
