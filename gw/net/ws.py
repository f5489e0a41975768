"""WebSocket upstream: `open_ws()` over the Sans-I/O core of `websockets`, on the same transports as HTTP.

No task of its own: the protocol moves when `receive` or `send_…` is called. One task may receive while others send.
Compression is never offered, since speech does not compress and a small message could otherwise become a huge one.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, NoReturn

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Response as HandshakeResponse
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    ProviderUnreachable,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.net import ws_frames
from gw.net.http1 import Headers, Origin, header_lines, request_target
from gw.net.tls import LOST, READ_BYTES, Connect, Transport, connect_tcp, describe, unreachable

CLOSE_S: Final = 1.0
"""How long a closing handshake may take when a session ends as planned."""
GOODBYE_S: Final = 0.05
"""How long writing the close frame may take when a session ends by an error or a cancellation."""
RETRY_AFTER_MAX_S: Final = 86_400

_MASKS: Final = ws_frames.Masks()
_BLANK_LINE: Final = b"\r\n\r\n"
MAX_MESSAGE_BYTES: Final = 16 * 2**20
MOST_UNASKED: Final = 16
"""Messages to a session that has not been used yet."""

_LOG: Final = logging.getLogger("gw.net.websockets")
_LOG.setLevel(logging.WARNING)  # at DEBUG the library writes out handshake headers, keys included


class WsClosed(Exception):
    """The upstream closed the session with a close frame. `reason` is its own text: judge by it, never show it.

    `code` as of RFC 6455 section 7.4; 1005 = the frame had none.
    """

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(f"closed with code {code}")
        self.code = code
        self.reason = reason


class WebSocket:
    """An open session; made by `open_ws`.

    Unread messages stay in the kernel, except those that came in the same socket read (64 KiB) as the last one. While
    nobody receives, pings are not answered either.
    """

    def __init__(self, provider: str, transport: Transport, protocol: ClientProtocol, most: int) -> None:
        self._provider = provider
        self._transport = transport
        self._protocol = protocol
        self._splitter = ws_frames.Splitter(masked=False, most=most)
        self._frames: deque[Frame | tuple[int, bytes]] = deque()
        self._parts: list[bytes | bytearray | memoryview] = []  # of a fragmented message
        self._text = False
        self._turn = ws_frames.Turn()
        self._owes = False
        """The machine has something to say (pongs), and somebody else was writing."""

    @property
    def is_open(self) -> bool:
        return self._protocol.state is State.OPEN

    async def leave(self) -> None:
        """Close a session that is not needed, without waiting for the answer."""
        try:
            with suppress(UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
                await self._say_goodbye(1001)
        finally:
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
        await self._send(ws_frames.TEXT, text.encode())

    async def send_bytes(self, data: bytes) -> None:
        """An empty message is sent as such. Raises like `send_text`."""
        await self._send(ws_frames.BINARY, data)

    async def receive(self) -> str | bytes:
        """The next whole message; text as str. A cancelled call loses nothing.

        Raises WsClosed at the upstream's close frame (again on each further call), UpstreamCut if the connection ends
        without one, UpstreamProtocolError for broken frames, invalid UTF-8 and messages beyond the limit.
        """
        while True:
            while self._frames:
                frame = self._frames.popleft()
                if isinstance(frame, tuple):
                    opcode, data = frame
                    return data if opcode == ws_frames.BINARY else self._text_of(data)
                message = self._join(frame)
                if message is not None:
                    return message
            if self._protocol.state is not State.OPEN:
                self._raise_why_over()
            await self._read()

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
            if self._protocol.state is not State.OPEN:
                self._raise_why_over()
            await self._write(_MASKS.from_client(opcode, data))
            if self._owes:
                await self._flush()
        finally:
            self._turn.give_back()

    async def _shake_hands(self) -> None:
        protocol, transport = self._protocol, self._transport
        answered, last, rest = False, b"", b""
        with suppress(*LOST):  # a refusal may already wait to be read
            await transport.send_all(b"".join(protocol.data_to_send()))
        while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
            try:
                data = await transport.receive_some(READ_BYTES)
            except LOST as error:
                raise self._unanswered(answered, describe(error)) from error
            if data:
                answered = True
                ends = (last + data).find(_BLANK_LINE)
                cut = ends + len(_BLANK_LINE) - len(last) if ends >= 0 else len(data)
                protocol.receive_data(data[:cut])
                last, rest = bytes(data[-3:]), bytes(data[cut:])
                if rest and protocol.state is State.CONNECTING:  # the body of a refusal
                    protocol.receive_data(rest)
            else:
                protocol.receive_eof()
        refusal = protocol.handshake_exc
        if isinstance(refusal, InvalidStatus):
            raise _rejection(self._provider, refusal.response)
        if refusal is not None and isinstance(refusal.__cause__, EOFError):
            raise self._unanswered(answered, "closed the connection")
        if refusal is not None:
            raise self._malformed("not a WebSocket handshake")
        protocol.events_received()  # the answer itself; frames begin behind it
        self._take(rest)

    def _unanswered(self, answered: bool, how: str) -> ProviderError:
        if answered:
            return self._malformed(f"{how} in the middle of the handshake")
        return ProviderUnreachable(provider=self._provider, detail=f"{how} before an answer", cause="lost")

    async def _flush(self) -> None:
        """Write what the protocol has queued, pongs that came meanwhile included. For whose turn it is."""
        self._owes = False
        while data := b"".join(self._protocol.data_to_send()):
            await self._write(data)

    async def _write(self, data: bytes) -> None:
        try:
            await self._transport.send_all(data)
        except LOST as error:
            # Not aborted: the close frame that explains it may still wait to be read.
            raise UpstreamCut(provider=self._provider, detail=f"{describe(error)} while sending") from error
        except BaseException:  # half a frame may have gone out
            self._transport.abort()
            raise

    async def _read(self) -> None:
        """One socket read into the protocol; pings are answered."""
        try:
            data = await self._transport.receive_some(READ_BYTES)
        except LOST as error:
            self._transport.abort()
            raise UpstreamCut(provider=self._provider, detail=f"{describe(error)} without a close frame") from error
        if data:
            if not self._take(bytes(data)):
                return
        else:
            self._protocol.receive_eof()
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

    def _take(self, data: bytes) -> bool:
        """Frames out of bytes; whether the machine had a part in it, and may have something to say."""
        asked = False
        for found in self._splitter.feed(data):
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

    async def _say_goodbye(self, code: int) -> bool:
        """Whether this began the closing handshake; False if either side had ended the session before."""
        await self._turn.take()
        try:
            begins = self._protocol.state is State.OPEN
            if begins:
                self._protocol.send_close(code)
            await self._flush()
        finally:
            self._turn.give_back()
        return begins

    async def _await_goodbye(self) -> None:
        """Read and drop what comes until the close frame or the end."""
        while self._protocol.state is State.CLOSING and self._protocol.close_rcvd is None:
            await self._read()
            self._frames.clear()


@asynccontextmanager
async def open_ws(
    provider: str,
    origin: Origin,
    path_and_query: bytes,
    *,
    headers: Headers = (),
    subprotocols: Sequence[str] = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES,
    connect: Connect = connect_tcp,
) -> AsyncIterator[WebSocket]:
    """Connect to `origin.prefix + path_and_query` and yield an open session; pass `connect=pool.connect`.

    Leaving sends a close frame; after a block that ended well the answer to it is awaited for at most 1 s. Raises
    ProviderUnreachable (TCP, TLS, DNS, no answer), for another status than 101 RateLimitError, ProviderRejected or
    ProviderFailed, else UpstreamProtocolError; ValueError for a header that could break out of its line. Blocks; no
    deadline of its own.
    """
    protocol = _protocol(origin, path_and_query, headers, subprotocols, max_message_bytes)
    async with hold_ws(await _dial(provider, origin, protocol, connect)) as ws:
        yield ws


async def dial_ws(
    provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers = (), connect: Connect = connect_tcp
) -> WebSocket:
    """As `open_ws`, for a session that is begun in one place and used in another: whoever gets it enters `hold_ws`."""
    return await _dial(provider, origin, _protocol(origin, path_and_query, headers, (), MAX_MESSAGE_BYTES), connect)


async def _dial(provider: str, origin: Origin, protocol: ClientProtocol, connect: Connect) -> WebSocket:
    try:
        transport = await connect(origin)
    except LOST as error:
        raise unreachable(provider, error) from error
    try:
        ws = WebSocket(provider, transport, protocol, protocol.max_message_size or MAX_MESSAGE_BYTES)
        await ws._shake_hands()
    except BaseException:
        transport.abort()
        raise
    return ws


@asynccontextmanager
async def hold_ws(ws: WebSocket) -> AsyncIterator[WebSocket]:
    """Leaving closes the session, as `open_ws` does."""
    try:
        try:
            yield ws
        except BaseException:
            with suppress(UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
                await ws._say_goodbye(1001)
            raise
        with suppress(UpstreamCut), trio.move_on_after(CLOSE_S, shield=True):
            if await ws._say_goodbye(1000):
                await ws._await_goodbye()
    finally:
        ws._transport.abort()


def _protocol(
    origin: Origin, path_and_query: bytes, headers: Headers, subprotocols: Sequence[str], max_message_bytes: int
) -> ClientProtocol:
    """The protocol with its handshake request queued."""
    header_lines(headers)  # refuses what could break out of its line
    path, _, query = request_target(origin, path_and_query).decode("ascii").partition("?")
    protocol = ClientProtocol(
        WebSocketURI(origin.scheme == "https", origin.host, origin.port, path, query),
        subprotocols=[Subprotocol(name) for name in subprotocols] or None,
        max_size=max_message_bytes,
        logger=_LOG,
    )
    request = protocol.connect()
    for name, value in headers:
        request.headers[name.decode("latin-1")] = value.decode("latin-1")
    protocol.send_request(request)
    return protocol


def _rejection(provider: str, response: HandshakeResponse) -> ProviderError:
    """What another status than 101 means. The vendor's text is left out.

    No fault is the caller's: key, model and audio settings of a handshake are this candidate's.
    """
    status = response.status_code
    detail = f"status {status} to the WebSocket handshake"
    if status == 429:
        return RateLimitError(
            provider=provider, limit_source="upstream", retry_after_s=_retry_after(response), detail=detail
        )
    if status >= 500 or status in (402, 408):
        return ProviderFailed(provider=provider, upstream_status=status, detail=detail)
    if status >= 400:
        return ProviderRejected(provider=provider, upstream_status=status, fault="candidate", detail=detail)
    return UpstreamProtocolError(provider=provider, detail=detail)


def _retry_after(response: HandshakeResponse) -> float | None:
    """Only the form in seconds; a date needs a clock."""
    for value in response.headers.get_all("Retry-After"):
        if value.isascii() and value.isdigit() and len(value) <= 6 and int(value) <= RETRY_AFTER_MAX_S:
            return float(value)
    return None
