"""A WebSocket session for either role (RFC 6455, no extensions), over the Sans-I/O core of `websockets`.

`gw.net.ws` reads from a vendor and `gw.web.http_server_websocket` serves a client; both inherit messages, frames, the order of
writers and the closing handshake from here. Compression is never agreed on: speech does not compress, and a small message
could become a huge one. The handshake comes before; a session begins OPEN.

    state    event                                     sent                      next
    OPEN     text or binary message, whole or in parts                           OPEN     delivered or queued
    OPEN     ping                                      pong                      OPEN
    OPEN     close frame of the peer                   close, with its code      CLOSING
    OPEN     broken frame, bad UTF-8, too large        close 1002, 1007, 1009    CLOSING
    OPEN     `send_close`                              close                     CLOSING
    CLOSING  message                                                             CLOSING  dropped
    CLOSING  close frame of the peer                                             CLOSED
    any      end of the stream                                                   CLOSED

Sending never waits where the transport takes a frame at once. One writer at a time has the `FrameTurn`; what the protocol
itself must send meanwhile (pongs) is owed, and sent by the writer when it has finished.

The library's protocol object takes 4 kB, so a session has one only while there is something for it: from a control frame or fragment
until that is answered, and while it closes.
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Awaitable, Callable
from functools import update_wrapper
from types import FunctionType
from typing import Final

import trio
from websockets.frames import Frame, Opcode
from websockets.protocol import Protocol, Side, State

from gw.net import ws_frames
from gw.net.transport import LOST, Transport
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending

MAX_MESSAGE_BYTES: Final = 16 * 2**20  # a larger message closes the session with 1009

OPEN: Final = State.OPEN  # compared for every frame, and an enum's member takes a while to find
CLIENT: Final = Side.CLIENT
SERVER: Final = Side.SERVER
_BINARY: Final = ws_frames.BINARY
_TEXT: Final = ws_frames.TEXT
_MASKS: Final = ws_frames.Masks()
_QUIET: Final = logging.getLogger("gw.net.ws_protocol")
_QUIET.setLevel(logging.ERROR)  # the library's own debug lines quote frames


@mypyc_attr(allow_interpreted_subclasses=True)
class WsSession(ABC):
    """`side` is this one's role. Subclasses read, bound their writes and translate errors."""

    __slots__ = (
        "__weakref__", "_encode", "_fragments", "_invalid_text", "_library", "_messages", "_most", "_owes", "_plain", "_side",
        "_splitter", "_take", "_text", "_transport", "_turn", "_unread", "_write", "is_open",
    )  # fmt: skip

    def __init__(self, side: Side, transport: Transport, most: int = MAX_MESSAGE_BYTES) -> None:
        """`most`: bytes of the longest message received."""
        client = side is CLIENT
        self._side = side
        self._most = most
        self._library: Protocol | None = None
        self.is_open = True
        self._transport = transport
        self._write: Callable[[bytes], Pending] = transport.send_or_pending
        self._encode = _MASKS.from_client if client else ws_frames.from_server
        self._splitter = ws_frames.Splitter(masked=not client, most=most)
        self._plain = ws_frames.plain_from_server if client else ws_frames.plain_from_client
        self._messages: deque[str | bytes] | None = None  # received and not yet delivered; None when there are none
        self._unread = 0  # length of `_messages` together
        self._fragments: list[bytes | bytearray | memoryview] = []
        self._text = False  # the fragmented message is text
        self._invalid_text = False
        self._take: Callable[[str | bytes], Pending] | None = None
        """Receives messages where they are read, in place of the queue."""
        self._turn = ws_frames.FrameTurn()
        self._owes = False  # the protocol has something to send (pongs), and another task is writing

    @property
    def _protocol(self) -> Protocol:
        """Return the library's protocol, in the state of this session; call `_consulted` after each change."""
        if self._library is None:
            self._library = Protocol(self._side, state=OPEN, max_size=self._most, logger=_QUIET)
        return self._library

    def _consulted(self) -> None:
        """Note the state that the protocol is in now."""
        self.is_open = self._protocol.state is OPEN

    def _release(self) -> None:
        """Let go of a protocol that has sent all it had, if a new one would be in the same state."""
        if self.is_open and not self._splitter.fragmented:
            self._library = None

    def __init_subclass__(cls) -> None:
        """Give each role copies of the functions that run for every frame: the interpreter adapts code to the class that runs it."""
        for function in (cls.feed, cls.send_or_pending):
            if not isinstance(function, FunctionType):
                return  # compiled
            copied = FunctionType(
                function.__code__.replace(), function.__globals__, function.__name__, function.__defaults__, function.__closure__
            )
            setattr(cls, function.__name__, update_wrapper(copied, function))

    # ------------------------------------------------------------------ hooks of the roles

    @abstractmethod
    def _closed_error(self) -> Exception:
        """Return the error for using a session that is over."""

    @abstractmethod
    def _write_error(self, error: BaseException) -> Exception:
        """Translate one of `LOST`."""

    @abstractmethod
    async def _wait_written(self, pending: Awaitable[None], size: int) -> None:
        """Wait for a write of `size` bytes that did not fit at once. Raises what `_write_error` returns."""

    def _after_take(self, pending: Awaitable[None]) -> Pending:
        """Return what the reader waits for when `take` has left something to wait for."""
        return pending

    def _after_frames(self, consulted: bool) -> Pending:
        """Return what the reader waits for after frames that were queued. `consulted`: the protocol may have an answer."""
        return self._answer() if consulted else self._deliver()

    @abstractmethod
    def _take_failed(self, error: Exception) -> Pending:
        """Handle an error of `take`; it must not be mistaken for one of the connection."""

    # ------------------------------------------------------------------ receiving

    def feed(self, data: bytes) -> Pending:
        """Deliver or queue the messages in `data`; return what must be awaited before more is read."""
        at = 0
        try:
            take, plain = self._take, self._plain  # a function in an attribute is called by way of a variable: half the price
            if take is not None and self._messages is None and self.is_open and self._splitter.at_message:
                while (frame := plain(data, at, self._most)) is not None:
                    message, at = frame
                    if (pending := take(message)) is not None:
                        return self._take_later(pending, data, at)
                    if at == len(data):  # nearly every message comes alone
                        return None
            rest, at = data[at:] if at else data, len(data)
            return self._after_frames(self._digest(self._splitter.feed(rest)))
        except Exception as error:
            try:
                return self._take_failed(error)
            finally:
                if at < len(data):  # a close frame may be among what was read with it
                    self._digest(self._splitter.feed(data[at:]))

    def _take_later(self, pending: Awaitable[None], data: bytes, at: int) -> Pending:
        """Queue the messages from `at` on; they are delivered when `pending` has been awaited."""
        if at < len(data) and self._digest(self._splitter.feed(data[at:])):
            pending = self._answer_after(pending)
        return self._after_take(pending)

    async def _answer_after(self, pending: Awaitable[None]) -> None:
        await pending
        await self._answer()

    def _digest(self, frames: ws_frames.Frames) -> bool:
        """Queue the messages of `frames`. Returns whether the protocol was consulted and may have something to send."""
        consulted = False
        for opcode, payload in frames:
            if opcode != ws_frames.MACHINE:
                if self.is_open:
                    self._queue(payload, opcode == ws_frames.TEXT)
                continue
            consulted, protocol = True, self._protocol
            protocol.receive_data(payload)
            self._consulted()
            for event in protocol.events_received():
                if isinstance(event, Frame):
                    self._join(event)
        return consulted or not self.is_open

    def _join(self, frame: Frame) -> None:
        """Queue the message that `frame` completes, if it does."""
        opcode = frame.opcode
        if opcode is Opcode.TEXT or opcode is Opcode.BINARY:
            self._text = opcode is Opcode.TEXT
        elif opcode is not Opcode.CONT:
            return
        if len(frame.data):  # empty fragments would make a list without end
            self._fragments.append(frame.data)
        if frame.fin:
            data = b"".join(self._fragments)
            self._fragments.clear()
            if self._protocol.close_sent is None or self._protocol.close_rcvd is not None:  # not after our own close
                self._queue(data, self._text)

    def _queue(self, data: bytes, text: bool) -> None:
        message = ws_frames.text_or_none(data) if text else data
        if message is None:
            self._invalid_text = True
            self._protocol.fail(1007, "text is not UTF-8")
            self._consulted()
            return
        if self._messages is None:
            self._messages = deque()
        self._unread += len(message)
        self._messages.append(message)

    def _pop(self) -> str | bytes:
        assert self._messages is not None
        message = self._messages.popleft()
        self._unread -= len(message)
        if not self._messages:
            self._messages = None
        return message

    def _drop_messages(self) -> None:
        self._messages, self._unread = None, 0

    def _deliver(self) -> Pending:
        """Give queued messages to `take`, as far as it goes without waiting."""
        while self._messages and (take := self._take) is not None:
            if (pending := take(self._pop())) is not None:
                return pending
        return None

    # ------------------------------------------------------------------ sending

    async def send(self, message: str | bytes) -> None:
        """Send one message; an empty one is sent as such. Raises the role's errors."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if (pending := self.send_or_pending(message)) is not None:
            await pending

    def send_or_pending(self, message: str | bytes) -> Pending:
        """Send one message, as far as that needs no waiting. Raises the role's errors."""
        if isinstance(message, bytes):
            opcode, data = _BINARY, message
        else:
            opcode, data = _TEXT, message.encode()
        if self._turn.taken or not self.is_open:
            return self._send_in_turn(opcode, data)
        encode, write = self._encode, self._write
        frame = encode(opcode, data)
        try:
            if (pending := write(frame)) is None:  # nearly always
                return None
        except LOST as error:
            raise self._write_error(error) from error
        self._turn.taken = True
        return self._finish_frame(pending, len(frame))

    async def _finish_frame(self, pending: Awaitable[None], size: int) -> None:
        """Finish a frame that was begun; the turn is ours."""
        try:
            await self._wait_written(pending, size)
            if self._owes:
                await self._flush()
        finally:
            self._turn.give_back()

    async def _send_in_turn(self, opcode: int, data: bytes) -> None:
        await self._turn.take()
        try:
            if not self.is_open:
                raise self._closed_error()
            await self._write_all(self._encode(opcode, data))
            if self._owes:
                await self._flush()
        finally:
            self._turn.give_back()

    async def _answer(self) -> None:
        """Send what the protocol has queued, pongs mostly."""
        if self._turn.taken:
            self._owes = True  # the writer sends it as well; waiting for it could be waiting for ourselves
            return
        await self._turn.take()
        try:
            await self._flush()
        finally:
            self._turn.give_back()

    async def _flush(self) -> None:
        """Send what the protocol has queued, including what it queues meanwhile. For the owner of the turn."""
        self._owes = False
        while self._library is not None and (data := b"".join(self._library.data_to_send())):
            await self._write_all(data)
        self._release()

    async def _write_all(self, data: bytes) -> None:
        try:
            pending = self._write(data)
        except LOST as error:
            raise self._write_error(error) from error
        if pending is not None:
            await self._wait_written(pending, len(data))

    async def send_close(self, code: int, reason: str = "") -> bool:
        """Begin the closing handshake; return False if either side had already ended the session."""
        await self._turn.take()
        try:
            begins = self.is_open
            if begins:
                self._protocol.send_close(code, reason)
                self._consulted()
            await self._flush()
        finally:
            self._turn.give_back()
        return begins
