"""The gateway for plain threads: the factories of `gw.library.asynchronous`, with calls that block."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, Literal, TypeVar

import attrs
import trio

from gw.config.settings import Settings
from gw.library.asynchronous import AsyncGateway, AsyncLlm, AsyncStt, AsyncTts, add_listener, opened, settings_of
from gw.library.blocking_stream import Held
from gw.library.portal import Engine, refuse_running_loop
from gw.library.responses import (
    Answered,
    ChatReply,
    LiveSpeech,
    LiveTranscription,
    SpeechReply,
    ToolCall,
    Transcription,
)
from gw.library.usage_events import Listener, UsageCollected, tell_in_thread
from gw.types.audio import AudioFormat
from gw.types.stt import ListenEvent
from gw.types.usage import RequestRecord

A = TypeVar("A", bound=Answered[Any])
V = TypeVar("V")
S = TypeVar("S", bound="_Stream[Any, Any]")
PIECES = 64
"""Pieces of text or audio that wait for a thread that does not read; then the provider waits too."""
LIVE_EVENTS = 4_096
"""What a live session gives may wait: a thread may send a whole recording, or text, before it reads any of it."""


class _Stream(Generic[A, V]):
    """Iterated once. Left by `close`, by the end of a `with`, or by being forgotten: each stops the upstream."""

    def __init__(
        self, engine: Engine, opening: Callable[[AsyncGateway], AbstractAsyncContextManager[A]], waiting: int
    ) -> None:
        self._held: Held[A, V] = Held(engine, opening, waiting)
        self._pieces: deque[V] = deque()
        weakref.finalize(self, self._held.leave_soon).atexit = False

    @property
    def model(self) -> str:
        """Id of the model that answers."""
        return self._held.answer.model

    @property
    def record(self) -> RequestRecord | None:
        """What the gateway recorded; None until the end."""
        return self._held.answer.record

    def close(self) -> None:
        """Stop the upstream, if it still runs; the record is made then."""
        self._held.leave()

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> V:
        if not self._pieces:
            self._pieces.extend(self._held.pieces())
        if self._pieces:
            return self._pieces.popleft()
        if self._held.error is not None:
            raise self._held.error
        raise StopIteration

    def __enter__(self: S) -> S:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ChatStream(_Stream[ChatReply, str]):
    """Pieces of text as they come. `finish_reason` and `tool_calls` are whole at the end."""

    @property
    def finish_reason(self) -> str | None:
        return self._held.answer.finish_reason

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self._held.answer.tool_calls

    def text(self) -> str:
        """All of it that was not iterated yet; blocks until the end."""
        return "".join(self)


class SpeechStream(_Stream[SpeechReply, bytes]):
    """Pieces of audio as they are made, in `format`: signed 16-bit samples."""

    @property
    def format(self) -> AudioFormat:
        return self._held.answer.format

    def audio(self) -> bytes:
        """All of it that was not iterated yet; blocks until the end."""
        return b"".join(self)


class Listening(_Stream[LiveTranscription, ListenEvent]):
    """A live transcription: send audio in one thread, iterate the events in another, or after `finish`."""

    def send(self, audio: bytes) -> None:
        """The next samples. A provider that fails is replaced: it shows in the events, if at all."""

        async def send(gateway: AsyncGateway, nursery: trio.Nursery) -> None:
            await self._held.answer.send(audio)

        self._held.engine.run(send)

    def finish(self) -> None:
        """No more audio: the events end when all of it has been transcribed."""

        async def finish(gateway: AsyncGateway, nursery: trio.Nursery) -> None:
            await self._held.answer.finish()

        self._held.engine.run(finish)


class Speaking(_Stream[LiveSpeech, bytes]):
    """Live speech: send text in one thread, iterate the audio in another, or after `finish`."""

    @property
    def format(self) -> AudioFormat:
        return self._held.answer.format

    def send(self, text: str) -> None:
        """The next piece of text, of any length."""

        async def send(gateway: AsyncGateway, nursery: trio.Nursery) -> None:
            await self._held.answer.send(text)

        self._held.engine.run(send)

    def flush(self) -> None:
        """Speak what there is, without waiting for more."""
        self._tell(LiveSpeech.flush)

    def clear(self) -> None:
        """The listener interrupted: drop what has not been spoken."""
        self._tell(LiveSpeech.clear)

    def finish(self) -> None:
        """No more text: the audio ends when all of it has been spoken."""
        self._tell(LiveSpeech.finish)

    def _tell(self, what: Callable[[LiveSpeech], Awaitable[None]]) -> None:
        async def tell(gateway: AsyncGateway, nursery: trio.Nursery) -> None:
            await what(self._held.answer)

        self._held.engine.run(tell)


class Llm:
    def __init__(self, engine: Engine, of: Callable[[AsyncGateway], AsyncLlm]) -> None:
        refuse_running_loop()
        self._engine = engine
        self._of = of

    def chat(self, messages: Iterable[Mapping[str, object]], **fields: object) -> ChatStream:
        """`messages`, and `fields` such as `temperature` and `tools`, are those of OpenAI's chat completions.

        Returns when the first content has come. Raises GwError; TypeError for what is no JSON.
        """
        listed = list(messages)
        return ChatStream(self._engine, lambda g: self._of(g).chat(listed, **fields), PIECES)


class Stt:
    def __init__(self, engine: Engine, of: Callable[[AsyncGateway], AsyncStt]) -> None:
        refuse_running_loop()
        self._engine = engine
        self._of = of

    def transcribe(
        self,
        audio: bytes | str | Path,
        *,
        sample_rate_hz: int = 0,
        language: str | None = None,
        prompt: str | None = None,
        timestamps: Iterable[Literal["word", "segment"]] = (),
    ) -> Transcription:
        """A whole recording: the path or the bytes of an audio file, or, with `sample_rate_hz`, bare samples.

        Samples are signed, 16 bits, mono. Raises GwError; OSError for a file.
        """
        kinds = tuple(timestamps)

        async def ask(gateway: AsyncGateway, nursery: trio.Nursery) -> Transcription:
            return await self._of(gateway).transcribe(
                audio, sample_rate_hz=sample_rate_hz, language=language, prompt=prompt, timestamps=kinds
            )

        return self._engine.run(ask)

    def stream(
        self, *, sample_rate_hz: int = 16_000, language: str | None = None, interim_results: bool = True
    ) -> Listening:
        """Live: signed 16-bit mono samples in, events of `gw.types.stt` out. Raises GwError."""
        return Listening(
            self._engine,
            lambda g: self._of(g).stream(
                sample_rate_hz=sample_rate_hz, language=language, interim_results=interim_results
            ),
            LIVE_EVENTS,
        )


class Tts:
    def __init__(self, engine: Engine, of: Callable[[AsyncGateway], AsyncTts]) -> None:
        refuse_running_loop()
        self._engine = engine
        self._of = of

    def speak(
        self, text: str, *, voice: str = "", sample_rate_hz: int = 24_000, **fields: object
    ) -> SpeechStream:
        """Signed 16-bit mono samples as they are made; `fields` as `speed` and `instructions` are OpenAI's.

        `voice` is a provider's voice, or an alias of `voices`. Returns when the first audio has come. Raises GwError.
        """
        return SpeechStream(
            self._engine,
            lambda g: self._of(g).speak(text, voice=voice, sample_rate_hz=sample_rate_hz, **fields),
            PIECES,
        )

    def stream(self, *, voice: str = "", sample_rate_hz: int = 24_000, language: str | None = None) -> Speaking:
        """Live: text in pieces in, as a language model gives it; signed 16-bit mono samples out. Raises GwError."""
        return Speaking(
            self._engine,
            lambda g: self._of(g).stream(voice=voice, sample_rate_hz=sample_rate_hz, language=language),
            LIVE_EVENTS,
        )


@attrs.frozen(kw_only=True)
class Stack:
    """The three models of a stack."""

    stt: Stt
    llm: Llm
    tts: Tts


class Gateway:
    """For plain threads, any number at once. Opened by its first call, closed by `close` or with the program.

    `config`: the path of a gw.yaml, or settings; None = the file that `gw serve` would take. `project` owns the requests.
    Raises ConfigError, and RuntimeError inside a running event loop; the first call raises what opening the database does
    (DatabaseLocked where a daemon holds it) and UnknownProjectError.
    """

    def __init__(self, config: str | Path | Settings | None = None, *, project: str = "default") -> None:
        refuse_running_loop()
        settings = settings_of(config)
        self._listeners: list[Listener] = []
        self._engine = Engine(lambda: opened(settings, project, self._listeners, tell=tell_in_thread))

    def llm(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> Llm:
        """A model id, an alias or a stack; empty = the project's usual one. `fallback` False stops after this model."""
        return Llm(self._engine, lambda g: g.llm(model, session_id=session_id, turn_id=turn_id, fallback=fallback))

    def stt(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> Stt:
        return Stt(self._engine, lambda g: g.stt(model, session_id=session_id, turn_id=turn_id, fallback=fallback))

    def tts(
        self, model: str = "", *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> Tts:
        return Tts(self._engine, lambda g: g.tts(model, session_id=session_id, turn_id=turn_id, fallback=fallback))

    def stack(
        self, name: str, *, session_id: str | None = None, turn_id: str | None = None, fallback: bool = True
    ) -> Stack:
        """The three models of a stack. A name that there is not is a ValueError at the first call."""

        def of(gateway: AsyncGateway) -> Any:
            return gateway.stack(name, session_id=session_id, turn_id=turn_id, fallback=fallback)

        return Stack(
            stt=Stt(self._engine, lambda g: of(g).stt),
            llm=Llm(self._engine, lambda g: of(g).llm),
            tts=Tts(self._engine, lambda g: of(g).tts),
        )

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Have `listener` told of every finished request, one after the other, in a thread of gw's."""
        add_listener(self._listeners, event, listener)

    def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program's own has used, as if the gateway had called it; budgets count it.

        It is told to listeners as well. Raises RequestError, UnknownProjectError.
        """

        async def emit(gateway: AsyncGateway, nursery: trio.Nursery) -> None:
            gateway.emit(usage)

        self._engine.run(emit)

    def close(self) -> None:
        """End the engine; everything recorded is in the database then. Also done when the program ends."""
        self._engine.close()

    def __enter__(self) -> Gateway:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
