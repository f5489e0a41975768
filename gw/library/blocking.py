"""The gateway for plain threads: the methods of `gw.library.asynchronous` as calls that block, made through one portal.

Cancel scopes must be left by the task that entered them, so a thread cannot enter an answer's context manager and leave it
later. One task of the portal's thread does both, and passes what it reads over a bounded channel; a slow thread takes many
pieces at a time.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial, wraps
from inspect import signature
from pathlib import Path
from typing import Any, Concatenate, Generic, Literal, ParamSpec, Self, TypeVar

import trio

from gw.config.settings import Settings
from gw.library import responses
from gw.library.answer_views import AnswerView, ChatView, audio_format, read_here
from gw.library.asynchronous import AsyncGateway, AsyncLlm, AsyncStack, AsyncStt, AsyncTts, opened, settings_of
from gw.library.portal import CLOSED, Portal, Proxy, blocking, refuse_running_loop
from gw.library.usage_events import Listener, UsageCollected, add_listener, call_in_thread
from gw.types.stt import ListenEvent

A = TypeVar("A", bound=responses.AsyncStream[Any, Any])
M = TypeVar("M", bound="AsyncLlm | AsyncStt | AsyncTts")
H = TypeVar("H")
P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
V = TypeVar("V")
Open = Callable[[AsyncGateway], AbstractAsyncContextManager[A]]
PIECES = 64  # pieces of text or audio that may wait for a slow thread; then the provider waits too
LIVE_EVENTS = 4_096
"""Events of a live session that may wait: a thread may send a complete recording or text before it reads any of them."""


class _StreamTask(Generic[A, V]):
    """The task that holds an answer open. It must not refer to the stream, so that a forgotten stream is collected."""

    def __init__(self, portal: Portal, open_: Open[A], capacity: int) -> None:
        """Block until the answer has begun. Raises what entering it raises."""
        self.portal = portal
        self.error: BaseException | None = None  # why the answer ended early
        self._open = open_
        self._capacity = capacity
        self.answer: A = portal.run(self._start)

    def close(self) -> None:
        """Close the upstream and block until the record is made."""
        try:
            self.portal.run(self._stop)
        except RuntimeError as error:
            if str(error) != CLOSED:
                raise

    def close_soon(self) -> None:
        """Close the upstream without waiting."""
        self.portal.run_soon(self._scope.cancel)

    async def _start(self, gateway: AsyncGateway) -> A:
        self._scope = trio.CancelScope()
        self._finished = trio.Event()
        self._send, self._receive = trio.open_memory_channel[V](self._capacity)
        answer: A = await self.portal.nursery.start(self._read, gateway)
        return answer

    async def _read(self, gateway: AsyncGateway, task_status: trio.TaskStatus[A]) -> None:
        """Read the answer to its end. A failure is the reader's; a cancellation from outside is the portal's end."""
        started = complete = False
        try:
            with self._scope, self._send:
                async with self._open(gateway) as answer:
                    started = True
                    task_status.started(answer)
                    async for piece in answer:
                        await self._send.send(piece)
                    complete = True
        except Exception as error:
            if not started:
                raise
            self.error = error
        finally:
            if not complete and self.error is None:
                self.error = RuntimeError("this answer was closed" if self._scope.cancel_called else CLOSED)
            self._finished.set()

    async def receive(self, gateway: AsyncGateway) -> list[V]:
        """Wait for a piece, then return all that wait; an empty list at the end."""
        pieces: list[V] = []
        try:
            pieces.append(await self._receive.receive())
            while len(pieces) < self._capacity:
                pieces.append(self._receive.receive_nowait())
        except trio.WouldBlock:
            return pieces
        except trio.EndOfChannel:
            if not pieces:
                await self._finished.wait()  # then the record is made
        return pieces

    async def _stop(self, gateway: AsyncGateway) -> None:
        self._scope.cancel()
        await self._finished.wait()


class BlockingStream(Proxy[A], AnswerView[A], Generic[A, V]):
    """Iterated once. `close`, the end of a `with` block and being forgotten each stop the upstream."""

    def __init__(self, portal: Portal, open_: Open[A], capacity: int = PIECES) -> None:
        self._task: _StreamTask[A, V] = _StreamTask(portal, open_, capacity)
        self._pieces: deque[V] = deque()
        weakref.finalize(self, self._task.close_soon).atexit = False

    def _run(self, function: Callable[[A], Awaitable[T]]) -> T:
        task = self._task
        return task.portal.run(lambda gateway: function(task.answer))

    @property
    def _answer(self) -> A:
        return self._task.answer

    def close(self) -> None:
        """Stop the upstream if it still runs, and make the record."""
        self._task.close()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> V:
        if not self._pieces:
            self._pieces.extend(self._task.portal.run(self._task.receive))
        if self._pieces:
            return self._pieces.popleft()
        if self._task.error is not None:
            raise self._task.error
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class ChatTextStream(BlockingStream[responses.ChatReply, str], ChatView):
    """Pieces of text as they arrive. `finish_reason` and `tool_calls` are complete at the end."""

    def text(self) -> str:
        """Block until the end and return all text that was not iterated yet."""
        return "".join(self)


class SpeechStream(BlockingStream[responses.SpeechReply, bytes]):
    """Pieces of audio as they are made, in `format`: signed 16-bit samples."""

    format = property(audio_format)

    def audio(self) -> bytes:
        """Block until the end and return all audio that was not iterated yet."""
        return b"".join(self)


class Listening(BlockingStream[responses.LiveTranscription, ListenEvent]):
    """A live transcription: send audio in one thread, iterate the events in another, or after `finish`."""

    send = blocking(responses.LiveTranscription.send)
    finish = blocking(responses.LiveTranscription.finish)


class Speaking(BlockingStream[responses.LiveSpeech, bytes]):
    """Live speech: send text in one thread, iterate the audio in another, or after `finish`."""

    send = blocking(responses.LiveSpeech.send)
    flush = blocking(responses.LiveSpeech.flush)
    clear = blocking(responses.LiveSpeech.clear)
    finish = blocking(responses.LiveSpeech.finish)

    format = property(audio_format)


# ---- models


class _Handle(Proxy[M]):
    """A model for calls that block; `find` returns its async form in the portal's thread."""

    def __init__(self, portal: Portal, find: Callable[[AsyncGateway], M]) -> None:
        refuse_running_loop()
        self._portal = portal
        self._find = find

    def _run(self, function: Callable[[M], Awaitable[T]]) -> T:
        return self._portal.run(lambda gateway: function(self._find(gateway)))


def _stream(
    method: Callable[Concatenate[M, P], AbstractAsyncContextManager[A]], make: Callable[[Portal, Open[A]], S]
) -> Callable[Concatenate[_Handle[M], P], S]:
    """Return the blocking form of an async context manager; it returns when the manager is entered."""

    @wraps(method)
    def call(self: _Handle[M], /, *args: P.args, **kwargs: P.kwargs) -> S:
        values: Any = [read_here(arg) for arg in args]
        named: Any = {name: read_here(arg) for name, arg in kwargs.items()}
        return make(self._portal, lambda gateway: method(self._find(gateway), *values, **named))

    return call


class Llm(_Handle[AsyncLlm]):
    """A language model."""

    chat = _stream(AsyncLlm.chat, ChatTextStream)


class Stt(_Handle[AsyncStt]):
    """A speech-to-text model."""

    transcribe = blocking(AsyncStt.transcribe)
    stream = _stream(AsyncStt.stream, partial(Listening, capacity=LIVE_EVENTS))


class Tts(_Handle[AsyncTts]):
    """A text-to-speech model."""

    speak = _stream(AsyncTts.speak, SpeechStream)
    stream = _stream(AsyncTts.stream, partial(Speaking, capacity=LIVE_EVENTS))


BlockingStack = responses.StackModels[Stt, Llm, Tts]


def _blocking_stack(portal: Portal, find: Callable[[AsyncGateway], AsyncStack]) -> BlockingStack:
    return responses.StackModels(
        Stt(portal, lambda gateway: find(gateway).stt),
        Llm(portal, lambda gateway: find(gateway).llm),
        Tts(portal, lambda gateway: find(gateway).tts),
    )


def _factory(
    method: Callable[Concatenate[AsyncGateway, P], T], handle: Callable[[Portal, Callable[[AsyncGateway], T]], H]
) -> Callable[Concatenate[BlockingGateway, P], H]:
    """Return a method that makes the `handle` of what `method` returns; an unknown name is an error at the first call."""

    @wraps(method)
    def make(self: BlockingGateway, /, *args: P.args, **kwargs: P.kwargs) -> H:
        signature(method).bind(self, *args, **kwargs)  # a wrong argument fails here, not at the first request
        return handle(self.portal, lambda gateway: method(gateway, *args, **kwargs))

    return make


class BlockingGateway:
    """A gateway for any number of plain threads at once. The first call opens it; `close` or the program's end closes it.

    `config`: the path of a gw.yaml, or settings; None means the file that `gw serve` would take. `project` owns the
    requests. Raises ConfigError, and RuntimeError inside a running event loop; the first call raises what opening the
    database raises (DatabaseLocked where a daemon holds it) and UnknownProjectError.
    """

    def __init__(self, config: str | Path | Settings | None = None, *, project: str = "default") -> None:
        refuse_running_loop()
        settings = settings_of(config)
        self._listeners: list[Listener] = []
        self.portal = Portal(lambda: opened(settings, project, self._listeners, call=call_in_thread))

    llm = _factory(AsyncGateway.llm, Llm)
    stt = _factory(AsyncGateway.stt, Stt)
    tts = _factory(AsyncGateway.tts, Tts)
    stack = _factory(AsyncGateway.stack, _blocking_stack)

    def on(self, event: Literal["usage_collected"], listener: Listener) -> None:
        """Call `listener` with the usage of every finished request, one after the other, in a thread of gw."""
        add_listener(self._listeners, event, listener)

    def emit(self, usage: UsageCollected) -> None:
        """Record what an engine of the program itself used, as if the gateway had called it; budgets count it.

        Listeners are called too. Raises RequestError, UnknownProjectError.
        """

        async def emit(gateway: AsyncGateway) -> None:
            gateway.emit(usage)

        self.portal.run(emit)

    def close(self) -> None:
        """Stop the portal's thread; everything recorded is in the database then. Also done when the program ends."""
        self.portal.close()

    def __enter__(self) -> BlockingGateway:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()
