"""Server-sent events with signs of life while candidates are tried.

Clients give up on a stream that is silent for ten seconds. One task looks after all waiting streams (a task per request
would cost a fifth of the throughput): every few seconds it sends a comment line to each stream that is still waiting.
Once a comment went out, the status line has gone: a failure is then told inside the stream.
"""

from __future__ import annotations

from collections.abc import Awaitable

import trio

from gw.dialects.request_io import Headers, send_piece, send_start
from gw.types.asgi import Send

_UNCACHED_UNBUFFERED: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_COMMENT = b": waiting for the model\n\n"
_COMMENT_DEADLINE_S = 1.0
"""A client whose socket cannot take twenty bytes must not hold up the other streams' comments."""


class SseResponse:
    """One event-stream response; `started` tells whether its head has been sent.

    `early` are the headers of a head that leaves with a comment, before anybody has answered.
    """

    def __init__(self, send: Send, early: Headers | None = None) -> None:
        self.started = False
        self._send = send
        self._early = early or []
        self._commenting: trio.Event | None = None
        self._broken = False

    async def begin(self, headers: Headers) -> None:
        """Send the head, unless a comment has done so already."""
        if self._commenting is not None:
            await self._commenting.wait()
        if not self.started:
            await self._head(headers)

    def write(self, data: bytes, *, more: bool = True) -> Awaitable[None]:
        """Raises ConnectionAbortedError where a comment found a client that does not read."""
        if self._broken or self._commenting is not None:
            return self._write_later(data, more)
        return send_piece(self._send, data, more=more)

    async def _write_later(self, data: bytes, more: bool) -> None:
        if self._commenting is not None:
            await self._commenting.wait()
        if self._broken:
            raise ConnectionAbortedError("the client does not read")
        await send_piece(self._send, data, more=more)

    async def comment(self) -> bool:
        """Only while waiting: `begin` and `write` wait for a comment that is on its way. False when it did not go out."""
        self._commenting = trio.Event()
        self._broken = True
        try:
            with trio.move_on_after(_COMMENT_DEADLINE_S):
                if not self.started:
                    await self._head(self._early)
                await send_piece(self._send, _COMMENT, more=True)
                self._broken = False
        except OSError:
            pass  # the client has gone; its own request notices
        finally:
            self._commenting.set()
            self._commenting = None
        return not self._broken

    def _head(self, headers: Headers) -> Awaitable[None]:
        self.started = True
        return send_start(self._send, b"text/event-stream; charset=utf-8", [*_UNCACHED_UNBUFFERED, *headers])


class KeepAlive:
    """The waiting streams. `run` belongs to whoever serves the data plane; its failure ends the daemon."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: dict[SseResponse, float] = {}

    def watch(self, response: SseResponse) -> None:
        """From now on `response` gets comments; `forget` it before writing and in any case at its end."""
        self._waiting[response] = trio.current_time() + self._every_s

    def forget(self, response: SseResponse) -> None:
        self._waiting.pop(response, None)

    async def run(self) -> None:
        while True:
            await trio.sleep(self._every_s / 4)
            now = trio.current_time()
            due = [response for response, at in self._waiting.items() if at <= now]
            async with trio.open_nursery() as nursery:  # one that blocks must not hold up the others
                for response in due:
                    self._waiting[response] = now + self._every_s
                    nursery.start_soon(self._comment, response)

    async def _comment(self, response: SseResponse) -> None:
        if response in self._waiting and not await response.comment():
            self.forget(response)
