"""What a program reads an answer from, in trio: text, audio or live events as they come, then the record."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import Generic, TypeVar

import attrs

from gw.errors import UpstreamProtocolError
from gw.library.exceptions import in_python_terms
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
    """What was heard. `model` is who answered; `segments` and `words` where they were asked for and given."""

    text: str
    model: str
    language: str | None
    seconds: float | None
    segments: tuple[Final, ...]
    words: tuple[Word, ...]
    record: RequestRecord


class Answered(Generic[V]):
    """Iterated once, to its end or not. Used inside its context manager, which closes the upstream."""

    def __init__(self) -> None:
        self._pieces: deque[V] = deque()

    def __aiter__(self) -> Answered[V]:
        return self

    async def __anext__(self) -> V:
        while not self._pieces:
            if self._done:
                raise StopAsyncIteration
            with in_python_terms():
                self._pieces.extend(await self._more())
        return self._pieces.popleft()

    @property
    @abstractmethod
    def _done(self) -> bool: ...

    @abstractmethod
    async def _more(self) -> Sequence[V]:
        """The next pieces; may be none."""

    @property
    @abstractmethod
    def model(self) -> str:
        """Id of the model that answers."""

    @property
    @abstractmethod
    def record(self) -> RequestRecord | None:
        """What the gateway recorded; None until the end."""


class _Reply(Answered[V], Generic[V, A]):
    """What was asked for at once."""

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


class _Live(Answered[V], Generic[V, L]):
    """What is asked for little by little: one task sends and finishes, another iterates."""

    def __init__(self, live: L) -> None:
        super().__init__()
        self._live = live

    async def finish(self) -> None:
        """Nothing more is sent: the iteration ends when all that was sent has been transcribed, or spoken."""
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
    """Pieces of text. `finish_reason` and `tool_calls` are whole at the end."""

    def __init__(self, answer: ChatAnswer) -> None:
        super().__init__(answer)
        self._calls: dict[int, list[str]] = {}
        self.finish_reason: str | None = None

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return tuple(
            ToolCall(id=id_, name=name, arguments=arguments) for _, (id_, name, arguments) in sorted(self._calls.items())
        )

    async def _more(self) -> Sequence[str]:
        return [text for event in await self._answer.receive() if (text := self._text(event))]

    def _text(self, event: ChatEvent) -> str:
        """Of the first choice, like everything here."""
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

    async def _more(self) -> Sequence[bytes]:
        events = await self._answer.receive()
        if self.format.encoding != "pcm_s16le":
            detail = f"sends {self.format.encoding}, which cannot be made into samples here"
            raise UpstreamProtocolError(provider=self._answer.call.provider.id, detail=detail)
        return [event.data for event in events if isinstance(event, AudioChunk) and event.data]


class LiveTranscription(_Live[ListenEvent, ListeningSession]):
    """A live session: one task sends audio and finishes, another iterates the events."""

    async def send(self, audio: bytes) -> None:
        """The next samples. A provider that fails is replaced: it shows in the events, if at all."""
        await self._live.send_audio(audio)

    async def _more(self) -> Sequence[ListenEvent]:
        return await self._live.receive()


class LiveSpeech(_Live[bytes, SpeakingSession]):
    """Text goes in as it comes, in pieces of any length; one task sends, another iterates the audio, in `format`."""

    def __init__(self, live: SpeakingSession) -> None:
        super().__init__(live)
        self.format = live.format

    async def send(self, text: str) -> None:
        """The next piece of text."""
        await self._live.send_text(text)

    async def flush(self) -> None:
        """Speak what there is, without waiting for more."""
        await self._live.flush()

    async def clear(self) -> None:
        """The listener interrupted: drop what has not been spoken."""
        await self._live.clear()

    async def _more(self) -> Sequence[bytes]:
        return [event.data for event in await self._live.receive() if isinstance(event, AudioChunk) and event.data]
