"""Answers as a trio program reads them: text, audio or live events as they arrive, then the record."""

from __future__ import annotations

import errno
import os
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Generic, TypeVar

import attrs

from gw.errors import KeyDecryptError, ProviderUnreachable, UpstreamProtocolError
from gw.relay.listening import ListeningSession
from gw.relay.relay import ChatAnswer, SpeakAnswer
from gw.relay.speaking import SpeakingSession
from gw.types.audio import AudioFormat
from gw.types.llm import ChatEvent, Completion, Delta
from gw.types.stt import Final, ListenEvent, Word
from gw.types.tts import AudioChunk
from gw.types.usage import RequestRecord

S = TypeVar("S")
L = TypeVar("L")
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R", bound=ChatAnswer | SpeakAnswer | ListeningSession | SpeakingSession)


@attrs.frozen(kw_only=True)
class ToolCall:
    """`arguments` is JSON text, as the model wrote it."""

    id: str
    name: str
    arguments: str


@attrs.frozen(kw_only=True)
class Transcription:
    """A transcript. `model` answered; `segments` and `words` are present where they were requested and supported."""

    text: str
    model: str
    language: str | None
    seconds: float | None
    segments: tuple[Final, ...]
    words: tuple[Word, ...]
    record: RequestRecord


@attrs.frozen
class StackModels(Generic[S, L, T]):
    """The three models of a stack."""

    stt: S
    llm: L
    tts: T


class AsyncStream(Generic[V, R]):
    """Iterated once, to the end or not, inside its context manager, which closes the upstream.

    `response`: the relay's response or live session.
    """

    def __init__(self, response: R) -> None:
        self._response = response
        self._pieces: deque[V] = deque()

    def __aiter__(self) -> AsyncStream[V, R]:
        return self

    async def __anext__(self) -> V:
        while not self._pieces:
            if self._response.done:
                raise StopAsyncIteration
            with as_python_errors():
                self._pieces.extend(self._convert(await self._response.receive()))
        return self._pieces.popleft()

    @abstractmethod
    def _convert(self, events: Sequence[Any]) -> Iterable[V]:
        """Return the pieces that these events bring; there may be none."""

    @property
    def model(self) -> str:
        """Id of the model that answers."""
        call = self._response.call
        return call.model.id if call is not None else self._response.meter.requested

    @property
    def record(self) -> RequestRecord | None:
        """Return the gateway's record; None until the end."""
        return self._response.meter.record


class ChatReply(AsyncStream[str, ChatAnswer]):
    """Pieces of text. `finish_reason` and `tool_calls` are complete at the end."""

    def __init__(self, response: ChatAnswer) -> None:
        super().__init__(response)
        self._calls: dict[int, ToolCall] = {}
        self.finish_reason: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(call for _, call in sorted(self._calls.items()))

    def _convert(self, events: Sequence[ChatEvent]) -> Iterable[str]:
        return [text for event in events if (text := self._text(event))]

    def _text(self, event: ChatEvent) -> str:
        """Return an event's text and note its tool calls. Choices after the first are left out."""
        if not isinstance(event, (Delta, Completion)) or (isinstance(event, Delta) and event.choice):
            return ""
        self.finish_reason = event.finish_reason or self.finish_reason
        for piece in event.tool_calls:
            call = self._calls.get(piece.index) or ToolCall(id="", name="", arguments="")
            self._calls[piece.index] = ToolCall(
                id=piece.id or call.id, name=piece.name or call.name, arguments=call.arguments + piece.arguments
            )
        return event.text or event.refusal


class SpeechReply(AsyncStream[bytes, SpeakAnswer]):
    """Pieces of audio in `format`: signed 16-bit samples."""

    @property
    def format(self) -> AudioFormat:
        return self._response.stream.format

    def _convert(self, events: Sequence[object]) -> Iterable[bytes]:
        if self.format.encoding != "pcm_s16le":
            detail = f"sends {self.format.encoding}, which cannot be decoded to samples here"
            raise UpstreamProtocolError(provider=self._response.call.provider.id, detail=detail)
        return _audio(events)


class LiveTranscription(AsyncStream[ListenEvent, ListeningSession]):
    """A live transcription: one task sends audio and finishes, another iterates the events."""

    async def send(self, audio: bytes) -> None:
        """Send the next samples. A provider that fails is replaced, which only the events may show."""
        await self._response.send_audio(audio)

    async def finish(self) -> None:
        """Send nothing more: the iteration ends when everything sent has been transcribed."""
        await self._response.finish()

    def _convert(self, events: Sequence[ListenEvent]) -> Iterable[ListenEvent]:
        return events


class LiveSpeech(AsyncStream[bytes, SpeakingSession]):
    """Live speech: one task sends text in pieces of any length, another iterates the audio, in `format`."""

    @property
    def format(self) -> AudioFormat:
        return self._response.format

    async def send(self, text: str) -> None:
        """Send the next piece of text."""
        await self._response.send_text(text)

    async def flush(self) -> None:
        """Speak the text sent so far, without waiting for more."""
        await self._response.flush()

    async def clear(self) -> None:
        """Drop what has not been spoken, since the listener interrupted."""
        await self._response.clear()

    async def finish(self) -> None:
        """Send nothing more: the iteration ends when everything sent has been spoken."""
        await self._response.finish()

    def _convert(self, events: Sequence[object]) -> Iterable[bytes]:
        return _audio(events)


def _audio(events: Sequence[object]) -> Iterable[bytes]:
    return [event.data for event in events if isinstance(event, AudioChunk) and event.data]


# ---- errors of the tree that are also those of Python, so that a program can catch either


class ConnectionRefused(ProviderUnreachable, ConnectionRefusedError):
    """Nothing listens at the provider's address, such as a local server that does not run."""


@cache
def _undecryptable() -> type[KeyDecryptError]:
    """Return a class that is made when first needed: its base's library takes a tenth of a second to import."""
    from cryptography.fernet import InvalidToken

    class StoredKeyInvalid(KeyDecryptError, InvalidToken):
        """A stored key that the current secret cannot decrypt."""

    return StoredKeyInvalid


@contextmanager
def as_python_errors() -> Iterator[None]:
    """Raise a refused connection as a ConnectionRefusedError too, an undecryptable key as cryptography's InvalidToken."""
    try:
        yield
    except ConnectionRefused:
        raise
    except ProviderUnreachable as error:
        if not error.detail.startswith(os.strerror(errno.ECONNREFUSED)):
            raise
        raise ConnectionRefused(provider=error.provider, detail=error.detail) from error
    except KeyDecryptError as error:
        if isinstance(error, _undecryptable()):
            raise
        raise _undecryptable()(provider=error.provider, detail=error.detail) from error
