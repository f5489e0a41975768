"""A WebSocket session with an upstream; `gw.net.ws_dial` opens one.

No task of its own: the protocol moves when messages are received or sent. One task may receive while others send.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig
from websockets.protocol import State

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.net.tcp import LOST, READ_BYTES, Transport, describe
from gw.net.ws_core import WsSession
from gw.types.pending import Pending, pending_error

GOODBYE_S: Final = 0.05
"""Limit for writing the close frame when a session ends by an error or a cancellation."""
MAX_IDLE_MESSAGES: Final = 16
"""Messages to a session that has not been used yet."""


class WsClosed(Exception):
    """The upstream closed the session with a close frame. `reason` is its own text: judge by it, never show it.

    `code` as of RFC 6455 section 7.4; 1005 = the frame had none.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with code {code}")
        self.code = code
        self.reason = reason


class WebSocket(WsSession):
    """An open session. `send` and `send_or_pending` raise WsClosed if the upstream has closed, UpstreamCut if it is gone.

    Unread messages stay in the kernel, except those that came in the same socket read (64 KiB) as the last one. While
    nobody receives, pings are not answered either.
    """

    def __init__(self, provider: str, transport: Transport, protocol: ClientProtocol, data: bytes) -> None:
        """`protocol` has completed its handshake; `data` arrived in the same read as its end."""
        super().__init__(protocol, transport)
        self._provider = provider
        self._digest(self._splitter.feed(data))

    async def receive(self) -> str | bytes:
        """Return the next message. A cancelled call loses nothing.

        Raises WsClosed at the upstream's close frame (again on each further call), UpstreamCut if the connection ends
        without one, UpstreamProtocolError for broken frames, invalid UTF-8 and messages beyond the limit.
        """
        while not self._messages:
            if not self.is_open:
                raise self._closed_error()
            await self._read()
        return self._pop()

    async def for_each_message(self, take: Callable[[str | bytes], Pending], enough: Callable[[], bool]) -> None:
        """Call `take` with every message, where it is read, until `enough`. Raises like `receive`, and what `take` raises."""
        self._take, self._enough = take, enough
        try:
            while not enough():
                if (pending := self._deliver()) is not None:
                    await pending
                elif not self.is_open:
                    raise self._closed_error()
                else:
                    await self._read_on()
        finally:
            self._take = self._enough = None

    async def _read_on(self) -> None:
        """Read until something must be awaited, and await it."""
        try:
            pending = await self._transport.for_each_piece(self.feed)
        except LOST as error:
            self.abort()
            raise self._cut(error, "without a close frame") from error
        await (self._end_of_stream() if pending is None else pending)

    async def _read(self) -> None:
        """Read once; pings are answered."""
        try:
            data = await self._transport.receive_some(READ_BYTES)
        except LOST as error:
            self.abort()
            raise self._cut(error, "without a close frame") from error
        if not data:
            await self._end_of_stream()
        elif (pending := self.feed(bytes(data))) is not None:
            await pending

    async def _end_of_stream(self) -> None:
        self._protocol.receive_eof()
        await self._answer()

    async def _answer(self) -> None:
        with suppress(UpstreamCut):  # reading goes on to what the upstream sent before it left, a close frame perhaps
            await super()._answer()

    async def idle(self) -> None:
        """Answer pings while the session waits to be used; messages are kept for `receive`. Returns when the session is over,
        or more than MAX_IDLE_MESSAGES came."""
        with suppress(UpstreamCut):
            while self.is_open and len(self._messages) <= MAX_IDLE_MESSAGES:
                await self._read()

    async def wait_closed(self) -> None:
        """Read and drop what comes until the close frame or the end."""
        while self._protocol.state is State.CLOSING and self._protocol.close_rcvd is None:
            await self._read()
            self._messages.clear()

    async def leave(self) -> None:
        """Close a session that is not needed, without waiting for the answer."""
        try:
            with suppress(UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
                await self.send_close(1001)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    # ------------------------------------------------------------------ hooks

    def _take_failed(self, error: Exception) -> Pending:
        return pending_error(error)

    async def _wait_written(self, pending: Awaitable[None], size: int) -> None:
        try:
            await pending
        except LOST as error:
            raise self._write_error(error) from error
        except BaseException:  # half a frame may have gone out
            self.abort()
            raise

    def _write_error(self, error: BaseException) -> UpstreamCut:
        return self._cut(error, "while sending")  # not aborted: the close frame that explains it may still wait to be read

    def _cut(self, error: BaseException, when: str) -> UpstreamCut:
        return UpstreamCut(provider=self._provider, detail=f"{describe(error)} {when}")

    def _closed_error(self) -> Exception:
        protocol = self._protocol
        error = protocol.parser_exc
        if self._invalid_text:
            return self._malformed("a text message is not UTF-8")
        if error is None and protocol.close_rcvd is not None:
            return WsClosed(protocol.close_rcvd.code, protocol.close_rcvd.reason)
        if isinstance(error, EOFError):
            return UpstreamCut(provider=self._provider, detail="closed the connection without a close frame")
        if isinstance(error, PayloadTooBig):
            return self._malformed("a message is larger than allowed")
        if error is not None:
            return self._malformed("broken WebSocket frames")
        return trio.ClosedResourceError("this session has been closed here")

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._provider, detail=detail)
