"""Streams for plain threads: an answer of the async library, iterated with calls that block.

Cancel scopes must be left by the task that entered them, so a thread cannot enter an answer's context manager and leave it
later. One task of the portal's thread does both, and passes what it reads over a bounded channel; a slow thread takes many
pieces at a time.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Generic, TypeVar

import trio

from gw.library.asynchronous import AsyncGateway
from gw.library.portal import CLOSED, Portal, Proxy, blocking
from gw.library.responses import AsyncStream, ChatReply, LiveSpeech, LiveTranscription, SpeechReply, ToolCall
from gw.types.audio import AudioFormat
from gw.types.stt import ListenEvent
from gw.types.usage import RequestRecord

A = TypeVar("A", bound=AsyncStream[Any, Any])
T = TypeVar("T")
V = TypeVar("V")
S = TypeVar("S", bound="BlockingStream[Any, Any]")
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


class BlockingStream(Proxy[A], Generic[A, V]):
    """Iterated once. `close`, the end of a `with` block and being forgotten each stop the upstream."""

    def __init__(self, portal: Portal, open_: Open[A], capacity: int = PIECES) -> None:
        self._task: _StreamTask[A, V] = _StreamTask(portal, open_, capacity)
        self._pieces: deque[V] = deque()
        weakref.finalize(self, self._task.close_soon).atexit = False

    def _run(self, function: Callable[[A], Awaitable[T]]) -> T:
        task = self._task
        return task.portal.run(lambda gateway: function(task.answer))

    @property
    def model(self) -> str:
        """Id of the model that answers."""
        return self._task.answer.model

    @property
    def record(self) -> RequestRecord | None:
        """The gateway's record; None until the end."""
        return self._task.answer.record

    def close(self) -> None:
        """Stop the upstream if it still runs, and make the record."""
        self._task.close()

    def __iter__(self: S) -> S:
        return self

    def __next__(self) -> V:
        if not self._pieces:
            self._pieces.extend(self._task.portal.run(self._task.receive))
        if self._pieces:
            return self._pieces.popleft()
        if self._task.error is not None:
            raise self._task.error
        raise StopIteration

    def __enter__(self: S) -> S:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.close()


class ChatTextStream(BlockingStream[ChatReply, str]):
    """Pieces of text as they arrive. `finish_reason` and `tool_calls` are complete at the end."""

    @property
    def finish_reason(self) -> str | None:
        return self._task.answer.finish_reason

    @property
    def tool_calls(self) -> tuple[ToolCall, ...]:
        return self._task.answer.tool_calls

    def text(self) -> str:
        """Block until the end and return all text that was not iterated yet."""
        return "".join(self)


class SpeechStream(BlockingStream[SpeechReply, bytes]):
    """Pieces of audio as they are made, in `format`: signed 16-bit samples."""

    @property
    def format(self) -> AudioFormat:
        return self._task.answer.format

    def audio(self) -> bytes:
        """Block until the end and return all audio that was not iterated yet."""
        return b"".join(self)


class Listening(BlockingStream[LiveTranscription, ListenEvent]):
    """A live transcription: send audio in one thread, iterate the events in another, or after `finish`."""

    send = blocking(LiveTranscription.send)
    finish = blocking(LiveTranscription.finish)


class Speaking(BlockingStream[LiveSpeech, bytes]):
    """Live speech: send text in one thread, iterate the audio in another, or after `finish`."""

    send = blocking(LiveSpeech.send)
    flush = blocking(LiveSpeech.flush)
    clear = blocking(LiveSpeech.clear)
    finish = blocking(LiveSpeech.finish)

    @property
    def format(self) -> AudioFormat:
        return self._task.answer.format
