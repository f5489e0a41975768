"""A WebSocket session with an upstream, over the Sans-I/O core of `websockets`; `gw.net.ws_dial` opens one.

No task of its own: the protocol moves when `receive` or `send_…` is called. One task may receive while others send.
Compression is never offered, since speech does not compress and a small message could otherwise become a huge one.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final, NoReturn

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from gw.errors import (
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.net import ws_frames
from gw.net.tcp import LOST, READ_BYTES, Transport, describe
from gw.types.pending import READY, Pending, pending_error

GOODBYE_S: Final = 0.05
"""How long writing the close frame may take when a session ends by an error or a cancellation."""
_MASKS: Final = ws_frames.Masks()
_OPEN: Final = State.OPEN  # looked at for every frame, and an enum's member takes a while to find
MAX_MESSAGE_BYTES: Final = 16 * 2**20
MOST_UNASKED: Final = 16
"""Messages to a session that has not been used yet."""

class WsClosed(Exception):
    """The upstream closed the session with a close frame. `reason` is its own text: judge by it, never show it.

    `code` as of RFC 6455 section 7.4; 1005 = the frame had none.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with code {code}")
        self.code = code
        self.reason = reason


class WebSocket:
    """An open session.

    Unread messages stay in the kernel, except those that came in the same socket read (64 KiB) as the last one. While
    nobody receives, pings are not answered either.
    """

    def __init__(self, provider: str, transport: Transport, protocol: ClientProtocol, read: bytes) -> None:
        """`protocol` has its handshake behind it; `read` is what came in the same read as its end."""
        self._provider = provider
        self._transport = transport
        self._protocol = protocol
        self._splitter = ws_frames.Splitter(masked=False, most=protocol.max_message_size or MAX_MESSAGE_BYTES)
        self._frames: deque[Frame | tuple[int, bytes]] = deque()
        self._parts: list[bytes | bytearray | memoryview] = []  # of a fragmented message
        self._text = False
        self._turn = ws_frames.FrameTurn()
        self._owes = False
        """The machine has something to say (pongs), and somebody else was writing."""
        self._take(read)

    @property
    def is_open(self) -> bool:
        return self._protocol.state is _OPEN

    async def leave(self) -> None:
        """Close a session that is not needed, without waiting for the answer."""
        try:
            with suppress(UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
                await self.say_goodbye(1001)
        finally:
            self.abort()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    async def idle(self) -> None:
        """Answer pings while nobody asks for messages; those that come are kept for `receive`. Returns when the session is
        over, or more than MOST_UNASKED came."""
        with suppress(UpstreamCut):
            while self.is_open and len(self._frames) <= MOST_UNASKED:
                await self._read()

    @property
    def subprotocol(self) -> str | None:
        """What the upstream chose of the offered subprotocols."""
        return self._protocol.subprotocol

    async def send_text(self, text: str) -> None:
        """Raises WsClosed if the upstream has closed, UpstreamCut if the connection is gone."""
        await self.send(text)

    async def send_bytes(self, data: bytes) -> None:
        """An empty message is sent as such. Raises like `send_text`."""
        await self.send(data)

    async def send(self, message: str | bytes) -> None:
        """Raises like `send_text`."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if (rest := self.put(message)) is not None:
            await rest

    def put(self, message: str | bytes) -> Pending:
        """As `send`; what of it is left to wait for."""
        if isinstance(message, bytes):
            opcode, data = ws_frames.BINARY, message
        else:
            opcode, data = ws_frames.TEXT, message.encode()
        if self._turn.taken or self._owes or not self.is_open:
            return self._send(opcode, data)
        made = _MASKS.from_client(opcode, data)
        try:
            rest = self._transport.send_or_pending(made)
        except LOST as error:
            raise self._cut(error, "while sending") from error
        if rest is None:
            return None
        self._turn.taken = True
        return self._send_others(rest)

    async def _send_others(self, rest: Awaitable[None]) -> None:
        """Of a frame that was begun; it is our turn."""
        try:
            await self._written(rest)
            if self._owes:
                await self._flush()
        finally:
            self._turn.give_back()

    async def receive(self) -> str | bytes:
        """The next whole message; text as str. A cancelled call loses nothing.

        Raises WsClosed at the upstream's close frame (again on each further call), UpstreamCut if the connection ends
        without one, UpstreamProtocolError for broken frames, invalid UTF-8 and messages beyond the limit.
        """
        while True:
            if (message := self._next()) is not None:
                return message
            if not self.is_open:
                self._raise_why_over()
            await self._read()

    async def each(self, take: Callable[[str | bytes], Pending], enough: Callable[[], bool]) -> None:
        """Give every message to `take`, where it is read, until `enough`. Raises like `receive`, and what `take` raises."""

        def arrived(data: bytes) -> Pending:
            try:
                found = self._splitter.feed(data)
                if len(found) == 1 and found[0][0] != ws_frames.MACHINE and not self._frames and self.is_open:
                    opcode, payload = found[0]
                    rest = take(payload if opcode == ws_frames.BINARY else self._text_of(payload))
                    return READY if rest is None and enough() else rest
                return self._answer() if self._keep(found) else self._hand_over(take, enough)
            except Exception as error:  # none of the connection's
                return pending_error(error)

        while not enough():
            if (rest := self._hand_over(take, enough)) is not None:
                await rest
            elif not self.is_open:
                self._raise_why_over()
            else:
                await self._for_each_piece(arrived)

    async def _for_each_piece(self, arrived: Callable[[bytes], Pending]) -> None:
        try:
            rest = await self._transport.for_each_piece(arrived)
        except LOST as error:
            self._transport.abort()
            raise self._cut(error, "without a close frame") from error
        if rest is not None:
            await rest
        else:
            self._protocol.receive_eof()
            await self._answer()

    def _hand_over(self, take: Callable[[str | bytes], Pending], enough: Callable[[], bool]) -> Pending:
        """Give away what has been read, as far as it goes without waiting."""
        while (message := self._next()) is not None:
            rest = take(message)
            if rest is not None:
                return rest
            if enough():
                return READY
        return None

    def _next(self) -> str | bytes | None:
        """The next whole message of what has been read."""
        while self._frames:
            frame = self._frames.popleft()
            if isinstance(frame, tuple):
                opcode, data = frame
                return data if opcode == ws_frames.BINARY else self._text_of(data)
            if (message := self._join(frame)) is not None:
                return message
        return None

    def _join(self, frame: Frame) -> str | bytes | None:
        """The message this frame completes, if it does."""
        opcode = frame.opcode
        if opcode is Opcode.TEXT or opcode is Opcode.BINARY:
            self._text = opcode is Opcode.TEXT
            if frame.fin:
                return self._whole(frame.data)
        elif opcode is not Opcode.CONT:
            return None
        if len(frame.data):  # empty fragments would be a list without end
            self._parts.append(frame.data)
        if not frame.fin:
            return None
        data = b"".join(self._parts)
        self._parts.clear()
        return self._whole(data)

    def _whole(self, data: bytes | bytearray | memoryview) -> str | bytes:
        return self._text_of(data) if self._text else bytes(data)

    def _text_of(self, data: bytes | bytearray | memoryview) -> str:
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            self._protocol.fail(1007)
            raise self._malformed("a text message is not UTF-8") from None

    async def _send(self, opcode: int, data: bytes) -> None:
        await self._turn.take()
        try:
            if self._protocol.state is not _OPEN:
                self._raise_why_over()
            await self._write(_MASKS.from_client(opcode, data))
            if self._owes:
                await self._flush()
        finally:
            self._turn.give_back()

    async def _flush(self) -> None:
        """Write what the protocol has queued, pongs that came meanwhile included. For whose turn it is."""
        self._owes = False
        while data := b"".join(self._protocol.data_to_send()):
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        await self._written(self._transport.send_all(data))

    async def _written(self, rest: Awaitable[None]) -> None:
        try:
            await rest
        except LOST as error:
            # Not aborted: the close frame that explains it may still wait to be read.
            raise self._cut(error, "while sending") from error
        except BaseException:  # half a frame may have gone out
            self._transport.abort()
            raise

    async def _read(self) -> None:
        """One socket read into the protocol; pings are answered."""
        try:
            data = await self._transport.receive_some(READ_BYTES)
        except LOST as error:
            self._transport.abort()
            raise self._cut(error, "without a close frame") from error
        if data:
            if not self._take(bytes(data)):
                return
        else:
            self._protocol.receive_eof()
        await self._answer()

    async def _answer(self) -> None:
        """Write what the machine has to say, pongs mostly."""
        if self._turn.taken:
            self._owes = True  # whoever writes takes it along; waiting for him could be waiting for ourselves
            return
        await self._turn.take()
        try:
            await self._flush()
        except UpstreamCut:
            if not self._frames:
                raise
        finally:
            self._turn.give_back()

    def _cut(self, error: BaseException, when: str) -> UpstreamCut:
        return UpstreamCut(provider=self._provider, detail=f"{describe(error)} {when}")

    def _take(self, data: bytes) -> bool:
        return self._keep(self._splitter.feed(data))

    def _keep(self, frames: ws_frames.Found) -> bool:
        """For `receive`; whether the machine had a part in it, and may have something to say."""
        asked = False
        for found in frames:
            if found[0] != ws_frames.MACHINE:
                if self.is_open:
                    self._frames.append(found)
                continue
            asked = True
            self._protocol.receive_data(found[1])
            self._frames.extend(event for event in self._protocol.events_received() if isinstance(event, Frame))
        return asked

    def _raise_why_over(self) -> NoReturn:
        protocol = self._protocol
        error = protocol.parser_exc
        if error is None and protocol.close_rcvd is not None:
            raise WsClosed(protocol.close_rcvd.code, protocol.close_rcvd.reason)
        if isinstance(error, EOFError):
            raise UpstreamCut(provider=self._provider, detail="closed the connection without a close frame")
        if isinstance(error, PayloadTooBig):
            raise self._malformed("a message is larger than allowed")
        if error is not None:
            raise self._malformed("broken WebSocket frames")
        raise trio.ClosedResourceError("this session has been closed here")

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._provider, detail=detail)

    async def say_goodbye(self, code: int) -> bool:
        """Whether this began the closing handshake; False if either side had ended the session before."""
        await self._turn.take()
        try:
            begins = self._protocol.state is _OPEN
            if begins:
                self._protocol.send_close(code)
            await self._flush()
        finally:
            self._turn.give_back()
        return begins

    async def await_goodbye(self) -> None:
        """Read and drop what comes until the close frame or the end."""
        while self._protocol.state is State.CLOSING and self._protocol.close_rcvd is None:
            await self._read()
            self._frames.clear()
