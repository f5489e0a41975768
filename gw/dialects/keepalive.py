"""Server-sent events with keep-alive comments while candidates are tried.

Clients give up on a stream that is silent for ten seconds. One task serves all waiting streams (a task per request
would cost a fifth of the throughput): every few seconds it sends a comment line to each stream that is still waiting.
The first comment sends the status line too, so a later failure is reported inside the stream.
"""

from __future__ import annotations

from collections.abc import Awaitable

import trio

from gw.dialects.request_io import Headers, send_body, send_start
from gw.types.asgi import Send

_UNCACHED_UNBUFFERED: Headers = [(b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no")]
_COMMENT = b": waiting for the model\n\n"
_COMMENT_DEADLINE_S = 1.0  # a client whose socket cannot take twenty bytes must not hold up the other streams' comments


class SseResponse:
    """One event-stream response; `started` tells whether its head has been sent.

    `early` are the headers of a head that is sent with a comment, before any provider has answered.
    """

    __slots__ = ("_broken", "_commenting", "_early", "_send", "started")

    def __init__(self, send: Send, early: Headers | None = None) -> None:
        self.started = False
        self._send = send
        self._early: Headers | tuple[()] = early or ()
        self._commenting: trio.Event | None = None
        self._broken = False

    async def begin(self, headers: Headers) -> None:
        """Send the head, unless a comment has done so."""
        if self._commenting is not None:
            await self._commenting.wait()
        if not self.started:
            await self._head(headers)

    def write(self, data: bytes, *, more: bool = True) -> Awaitable[None]:
        """Send `data`. Raises ConnectionAbortedError if a comment met a client that does not read."""
        if self._broken or self._commenting is not None:
            return self._write_later(data, more)
        return send_body(self._send, data, more=more)

    async def _write_later(self, data: bytes, more: bool) -> None:
        if self._commenting is not None:
            await self._commenting.wait()
        if self._broken:
            raise ConnectionAbortedError("the client does not read")
        await send_body(self._send, data, more=more)

    async def comment(self) -> bool:
        """Send a comment; `begin` and `write` wait for it. Return False if it could not be sent."""
        self._commenting = trio.Event()
        self._broken = True
        try:
            with trio.move_on_after(_COMMENT_DEADLINE_S):
                if not self.started:
                    await self._head(self._early)
                await send_body(self._send, _COMMENT, more=True)
                self._broken = False
        except OSError:
            pass  # the client has left; its own request notices
        finally:
            self._commenting.set()
            self._commenting = None
        return not self._broken

    def _head(self, headers: Headers | tuple[()]) -> Awaitable[None]:
        self.started, self._early = True, ()
        return send_start(self._send, b"text/event-stream; charset=utf-8", [*_UNCACHED_UNBUFFERED, *headers])


class KeepAlive:
    """The waiting streams. `run` must run beside the data plane; its failure ends the daemon."""

    def __init__(self, every_s: float) -> None:
        self._every_s = every_s
        self._waiting: dict[SseResponse, float] = {}

    def watch(self, response: SseResponse) -> None:
        """Send comments to `response` from now on; `forget` it before writing and in any case at its end."""
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
