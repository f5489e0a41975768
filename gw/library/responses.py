"""Answers as a trio program reads them: text, audio or live events as they arrive, then the record."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from gw.errors import UpstreamProtocolError
from gw.library.exceptions import as_python_errors
from gw.relay.listening import ListeningSession
from gw.relay.relay import ChatAnswer, SpeakAnswer
from gw.relay.speaking import SpeakingSession
from gw.types.audio import AudioFormat
from gw.types.llm import ChatEvent, Completion, Delta, ToolCallPiece
from gw.types.stt import Final, ListenEvent, Word
from gw.types.tts import AudioChunk
from gw.types.usage import RequestRecord

V = TypeVar("V")
A = TypeVar("A", bound=ChatAnswer | SpeakAnswer)
L = TypeVar("L", bound=ListeningSession | SpeakingSession)


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


class AsyncStream(Generic[V]):
    """Iterated once, to the end or not, inside its context manager, which closes the upstream."""

    def __init__(self) -> None:
        self._pieces: deque[V] = deque()

    def __aiter__(self) -> AsyncStream[V]:
        return self

    async def __anext__(self) -> V:
        while not self._pieces:
            if self._done:
                raise StopAsyncIteration
            with as_python_errors():
                self._pieces.extend(await self._receive())
        return self._pieces.popleft()

    @property
    @abstractmethod
    def _done(self) -> bool: ...

    @abstractmethod
    async def _receive(self) -> Sequence[V]:
        """Return the next pieces; there may be none."""

    @property
    @abstractmethod
    def model(self) -> str:
        """Id of the model that answers."""

    @property
    @abstractmethod
    def record(self) -> RequestRecord | None:
        """The gateway's record; None until the end."""


class _Reply(AsyncStream[V], Generic[V, A]):
    """The answer to a single request."""

    def __init__(self, answer: A) -> None:
        super().__init__()
        self._answer = answer

    @property
    def model(self) -> str:
        return self._answer.call.model.id

    @property
    def record(self) -> RequestRecord | None:
        return self._answer.record

    @property
    def _done(self) -> bool:
        return self._answer.done


class _Live(AsyncStream[V], Generic[V, L]):
    """A live session: one task sends and finishes, another iterates."""

    def __init__(self, live: L) -> None:
        super().__init__()
        self._live = live

    async def finish(self) -> None:
        """Send nothing more: the iteration ends when everything sent has been transcribed or spoken."""
        await self._live.finish()

    @property
    def model(self) -> str:
        call = self._live.call
        return call.model.id if call is not None else self._live.meter.requested

    @property
    def record(self) -> RequestRecord | None:
        return self._live.meter.record

    @property
    def _done(self) -> bool:
        return self._live.done


class ChatReply(_Reply[str, ChatAnswer]):
    """Pieces of text. `finish_reason` and `tool_calls` are complete at the end."""

    def __init__(self, answer: ChatAnswer) -> None:
        super().__init__(answer)
        self._calls: dict[int, list[str]] = {}
        self.finish_reason: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(id=id_, name=name, arguments=arguments) for _, (id_, name, arguments) in sorted(self._calls.items())
        )

    async def _receive(self) -> Sequence[str]:
        return [text for event in await self._answer.receive() if (text := self._text(event))]

    def _text(self, event: ChatEvent) -> str:
        """Return an event's text. Further choices than the first are left out, here and in `tool_calls`."""
        if not isinstance(event, (Delta, Completion)) or (isinstance(event, Delta) and event.choice):
            return ""
        self.finish_reason = event.finish_reason or self.finish_reason
        for piece in event.tool_calls:
            self._add(piece)
        return event.text

    def _add(self, piece: ToolCallPiece) -> None:
        call = self._calls.setdefault(piece.index, ["", "", ""])
        call[0] = piece.id or call[0]
        call[1] = piece.name or call[1]
        call[2] += piece.arguments


class SpeechReply(_Reply[bytes, SpeakAnswer]):
    """Pieces of audio in `format`: signed 16-bit samples."""

    @property
    def format(self) -> AudioFormat:
        return self._answer.stream.format

    async def _receive(self) -> Sequence[bytes]:
        events = await self._answer.receive()
        if self.format.encoding != "pcm_s16le":
            detail = f"sends {self.format.encoding}, which cannot be decoded to samples here"
            raise UpstreamProtocolError(provider=self._answer.call.provider.id, detail=detail)
        return [event.data for event in events if isinstance(event, AudioChunk) and event.data]


class LiveTranscription(_Live[ListenEvent, ListeningSession]):
    """A live transcription: one task sends audio and finishes, another iterates the events."""

    async def send(self, audio: bytes) -> None:
        """Send the next samples. A provider that fails is replaced, which only the events may show."""
        await self._live.send_audio(audio)

    async def _receive(self) -> Sequence[ListenEvent]:
        return await self._live.receive()


class LiveSpeech(_Live[bytes, SpeakingSession]):
    """Live speech: one task sends text in pieces of any length, another iterates the audio, in `format`."""

    def __init__(self, live: SpeakingSession) -> None:
        super().__init__(live)
        self.format = live.format

    async def send(self, text: str) -> None:
        """Send the next piece of text."""
        await self._live.send_text(text)

    async def flush(self) -> None:
        """Speak the text sent so far, without waiting for more."""
        await self._live.flush()

    async def clear(self) -> None:
        """Drop what has not been spoken, since the listener interrupted."""
        await self._live.clear()

    async def _receive(self) -> Sequence[bytes]:
        return [event.data for event in await self._live.receive() if isinstance(event, AudioChunk) and event.data]
