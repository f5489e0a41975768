"""The gateway for asyncio programs, such as agents of LiveKit and Pipecat: `gw.library.asynchronous` through a portal to its trio thread.

    async with gw.asyncio.open_gateway() as g:
        async with g.llm("openai/gpt-4o").chat([{"role": "user", "content": "Hello"}]) as reply:
            async for piece in reply: ...

The methods are those of the trio classes; `emit` alone is a coroutine here.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar

import trio

from gw.config.settings import Settings
from gw.library import responses
from gw.library.answer_views import AnswerView, ChatView, audio_format, read_here
from gw.library.asynchronous import AsyncGateway, AsyncLlm, AsyncStack, AsyncStt, AsyncTts, opened, settings_of
from gw.library.asyncio_portal import AsyncioPortal, AsyncioProxy, StreamTask, crossing, refuse_other_loops
from gw.library.portal import Portal
from gw.library.usage_events import Listener, UsageCollected, add_listener
from gw.types.stt import ListenEvent

A = TypeVar("A", bound=responses.AsyncStream[Any, Any])
M = TypeVar("M", bound="AsyncLlm | AsyncStt | AsyncTts")
H = TypeVar("H")
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
LISTENER_S = 5.0  # for the loop of a listener to call it; then it misses the event, so that the other listeners do not


class AsyncioStream(AsyncioProxy[A], AnswerView[A], Generic[A, V]):
    """Iterated once, by one task at a time, inside its context manager, which closes the upstream."""

    def __init__(self, task: StreamTask[A, V]) -> None:
        self._task = task

    async def _run(self, function: Callable[[A], Awaitable[T]]) -> T:
        answer = self._task.answer
        return await self._task.portal.run(lambda gateway: function(answer))

    @property
    def _answer(self) -> A:
        return self._task.answer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> V:
        return await self._task.next()


class AsyncioChat(AsyncioStream[responses.ChatReply, str], ChatView):
    """Pieces of text. `finish_reason` and `tool_calls` are complete at the end."""


class AsyncioSpeech(AsyncioStream[responses.SpeechReply, bytes]):
    """Pieces of audio in `format`: signed 16-bit samples."""

    format = property(audio_format)


class AsyncioTranscription(AsyncioStream[responses.LiveTranscription, ListenEvent]):
    """A live transcription: one task sends audio and finishes, another iterates the events."""

    send = crossing(responses.LiveTranscription.send)
    finish = crossing(responses.LiveTranscription.finish)


class AsyncioLiveSpeech(AsyncioStream[responses.LiveSpeech, bytes]):
    """Live speech: one task sends text in pieces of any length, another iterates the audio, in `format`."""

    send = crossing(responses.LiveSpeech.send)
    flush = crossing(responses.LiveSpeech.flush)
    clear = crossing(responses.LiveSpeech.clear)
    finish = crossing(responses.LiveSpeech.finish)

    format = property(audio_format)


# ---- models


class _Handle(AsyncioProxy[M]):
    """A model of the trio thread, for coroutines of asyncio."""

    def __init__(self, portal: AsyncioPortal, model: M) -> None:
        self._portal = portal
        self._model = model

    async def _run(self, function: Callable[[M], Awaitable[T]]) -> T:
        return await self._portal.run(lambda gateway: function(self._model))


def _stream(
    method: Callable[Concatenate[M, P], AbstractAsyncContextManager[A]], make: Callable[[StreamTask[A, Any]], S]
) -> Callable[Concatenate[_Handle[M], P], AbstractAsyncContextManager[S]]:
    """Return an async context manager of trio as one of asyncio."""

    @wraps(method)
    @asynccontextmanager
    async def call(self: _Handle[M], /, *args: P.args, **kwargs: P.kwargs) -> AsyncIterator[S]:
        values: Any = [read_here(arg) for arg in args]
        named: Any = {name: read_here(arg) for name, arg in kwargs.items()}
        task: StreamTask[A, Any] = StreamTask(self._portal, lambda gateway: method(self._model, *values, **named))
        await task.open()
        try:
            yield make(task)
        finally:
            await task.close()

    return call


class AsyncioLlm(_Handle[AsyncLlm]):
    """A language model."""

    chat = _stream(AsyncLlm.chat, AsyncioChat)


class AsyncioStt(_Handle[AsyncStt]):
    """A speech-to-text model."""

    transcribe = crossing(AsyncStt.transcribe)
    stream = _stream(AsyncStt.stream, AsyncioTranscription)


class AsyncioTts(_Handle[AsyncTts]):
    """A text-to-speech model."""

    speak = _stream(AsyncTts.speak, AsyncioSpeech)
    stream = _stream(AsyncTts.stream, AsyncioLiveSpeech)


AsyncioStack = responses.StackModels[AsyncioStt, AsyncioLlm, AsyncioTts]


def _asyncio_stack(portal: AsyncioPortal, stack: AsyncStack) -> AsyncioStack:
    return responses.StackModels(
        AsyncioStt(portal, stack.stt), AsyncioLlm(portal, stack.llm), AsyncioTts(portal, stack.tts)
    )


def _factory(
    method: Callable[Concatenate[AsyncGateway, P], T], make: Callable[[AsyncioPortal, T], H]
) -> Callable[Concatenate[AsyncioGateway, P], H]:
    @wraps(method)
    def call(self: AsyncioGateway, /, *args: P.args, **kwargs: P.kwargs) -> H:
        return make(self.portal, method(self.gateway, *args, **kwargs))

    return call


class AsyncioGateway:
    """A running gateway, for any number of tasks in any number of asyncio loops at once; see `AsyncGateway`."""

    def __init__(self, portal: AsyncioPortal, gateway: AsyncGateway, listeners: list[Listener]) -> None:
        self.portal = portal
        self.gateway = gateway
        self._listeners = listeners

    llm = _factory(AsyncGateway.llm, AsyncioLlm)
    stt = _factory(AsyncGateway.stt, AsyncioStt)
    tts = _factory(AsyncGateway.tts, AsyncioTts)
    stack = _factory(AsyncGateway.stack, _asyncio_stack)

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Call `listener` with the usage of every finished request, on the loop that runs now. It must return soon."""
        add_listener([], event, listener)
        add_listener(self._listeners, event, LoopListener(asyncio.get_running_loop(), listener))

    async def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program itself used, as if the gateway had called it; budgets count it.

        Listeners are called too. Raises RequestError, UnknownProjectError.
        """

        async def emit(gateway: AsyncGateway) -> None:
            gateway.emit(usage)

        await self.portal.run(emit)


class LoopListener:
    """A listener that is called on an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, listener: Listener) -> None:
        self._loop = loop
        self._listener = listener
        self.__qualname__ = getattr(listener, "__qualname__", "listener")

    def __call__(self, usage: UsageCollected) -> object:
        return self._listener(usage)

    async def deliver(self, usage: UsageCollected) -> None:
        """Have the loop call the listener, from trio. Raises what it raises, and TooSlowError after LISTENER_S."""
        token, called = trio.lowlevel.current_trio_token(), trio.Event()
        errors: list[Exception] = []

        def call() -> None:
            try:
                self._listener(usage)
            except Exception as error:
                errors.append(error)
            token.run_sync_soon(called.set)

        try:
            self._loop.call_soon_threadsafe(call)
        except RuntimeError:
            return  # the loop has been closed
        with trio.fail_after(LISTENER_S):
            await called.wait()
        if errors:
            raise errors[0]


async def call_on_loop(listener: Listener, usage: UsageCollected) -> None:
    """Call a listener on its asyncio loop and wait until it has returned."""
    assert isinstance(listener, LoopListener), "AsyncioGateway.on adds no others"
    await listener.deliver(usage)


@asynccontextmanager
async def _open(config: str | Path | Settings | None, project: str) -> AsyncIterator[AsyncioGateway]:
    listeners: list[Listener] = []

    @asynccontextmanager
    async def gateway() -> AsyncIterator[AsyncGateway]:
        settings = await trio.to_thread.run_sync(settings_of, config)
        async with opened(settings, project, listeners, call=call_on_loop) as opened_:
            yield opened_

    portal = AsyncioPortal(Portal(gateway))
    inner = await portal.open()
    try:
        yield AsyncioGateway(portal, inner, listeners)
    finally:
        await portal.close()


def open_gateway(
    config: str | Path | Settings | None = None, *, project: str = "default"
) -> AbstractAsyncContextManager[AsyncioGateway]:
    """Return a gateway inside an asyncio program, for the block of an `async with`. One database has one writer.

    It runs in a thread of its own. `config`: the path of a gw.yaml, or settings; None means the file that `gw serve` would take.
    `project` owns the requests. Raises RuntimeError outside asyncio; when entered ConfigError, DatabaseLocked, StoreUnavailable,
    UnknownProjectError.
    """
    refuse_other_loops()
    return _open(config, project)
