"""WebSocket sessions with upstreams: `open_ws()`, on the same transports as HTTP.

No task of its own: the protocol moves when messages are received or sent. One task may receive while others send.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, suppress
from functools import partial
from types import TracebackType
from typing import Final, Literal

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus, PayloadTooBig
from websockets.http11 import Response as HandshakeResponse
from websockets.protocol import State
from websockets.uri import WebSocketURI

from gw import errors
from gw.net.connect import Connect, connect_tcp
from gw.net.http1 import Headers, Origin, header_lines, request_target
from gw.net.transport import LOST, READ_BYTES, Transport
from gw.net.unreachable import describe, unreachable
from gw.net.ws_core import CLIENT, MAX_MESSAGE_BYTES, WsSession
from gw.types.pending import Pending, pending_error

CLOSE_S: Final = 1.0  # limit for the closing handshake of a session that ends as planned
GOODBYE_S: Final = 0.01  # limit for writing the close frame when a session ends by an error or a cancellation: only a full socket waits
MAX_IDLE_MESSAGES: Final = 16  # messages to a session that has not been used yet
RETRY_AFTER_MAX_S: Final = 86_400
_BLANK_LINE: Final = b"\r\n\r\n"
_INTERIM: Final = re.compile(rb"HTTP/1\.1 (1\d\d)[ \r]")
_HEAD_BYTES: Final = 65_536  # of one answer to a handshake

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


class WebSocket(WsSession):
    """An open session. `send` and `send_or_pending` raise WsClosed if the upstream has closed, UpstreamCut if it is gone.

    Unread messages stay in the kernel, except those that came in the same socket read (64 KiB) as the last one. While
    nobody receives, pings are not answered either.
    """

    __slots__ = ("_provider",)

    def __init__(self, provider: str, transport: Transport, data: bytes, most: int = MAX_MESSAGE_BYTES) -> None:
        """Begin after the handshake; `data` arrived in the same read as its end. `most`: see `WsSession`."""
        super().__init__(CLIENT, transport, most)
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

    async def for_each_message(self, take: Callable[[str | bytes], Pending]) -> None:
        """Call `take` with every message, where it is read, until something has to be waited for, and wait for that.

        Raises like `receive`, and what `take` raises.
        """
        self._take = take
        try:
            while (pending := self._deliver()) is None:
                if not self.is_open:
                    raise self._closed_error()
                try:
                    pending = await self._transport.for_each_piece(self.feed)
                except LOST as error:
                    raise self._lost(error) from error
                if pending is not None:
                    break
                await self._end_of_stream()
            await pending
        finally:
            self._take = None

    async def _read(self) -> None:
        """Read once; pings are answered."""
        try:
            data = await self._transport.receive_some(READ_BYTES)
        except LOST as error:
            raise self._lost(error) from error
        if not data:
            await self._end_of_stream()
        elif (pending := self.feed(bytes(data))) is not None:
            await pending

    async def _end_of_stream(self) -> None:
        self._protocol.receive_eof()
        self._consulted()
        await self._answer()

    async def _answer(self) -> None:
        with suppress(errors.UpstreamCut):  # reading goes on to what the upstream sent before it left, a close frame perhaps
            await super()._answer()

    def has_unread(self) -> bool:
        """Return whether something has come from the upstream that was not read yet."""
        return self._messages is not None or self._transport.has_arrived()

    async def idle(self) -> None:
        """Answer pings while the session waits to be used; messages are kept for `receive`. Returns when the session is over,
        or more than MAX_IDLE_MESSAGES came."""
        with suppress(errors.UpstreamCut):
            while self.is_open and len(self._messages or ()) <= MAX_IDLE_MESSAGES:
                await self._read()

    async def wait_closed(self) -> None:
        """Read and drop what comes until the close frame or the end."""
        while self._protocol.state is State.CLOSING and self._protocol.close_rcvd is None:
            await self._read()
            self._drop_messages()

    async def leave(self) -> None:
        """Close a session that is not needed, without waiting for the answer."""
        try:
            with suppress(errors.UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
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

    def _write_error(self, error: BaseException) -> errors.UpstreamCut:
        return self._cut(error, "while sending")  # not aborted: the close frame that explains it may still wait to be read

    def _lost(self, error: BaseException) -> errors.UpstreamCut:
        """Let go of a connection that broke while it was read; return the error to raise."""
        self.abort()
        return self._cut(error, "without a close frame")

    def _cut(self, error: BaseException, when: str) -> errors.UpstreamCut:
        return errors.UpstreamCut(provider=self._provider, detail=f"{describe(error)} {when}")

    def _closed_error(self) -> Exception:
        protocol = self._protocol
        error = protocol.parser_exc
        if self._invalid_text:
            return self._malformed("a text message is not UTF-8")
        if error is None and protocol.close_rcvd is not None:
            return WsClosed(protocol.close_rcvd.code, protocol.close_rcvd.reason)
        if isinstance(error, EOFError):
            return errors.UpstreamCut(provider=self._provider, detail="closed the connection without a close frame")
        if isinstance(error, PayloadTooBig):
            return self._malformed("a message is larger than allowed")
        if error is not None:
            return self._malformed("broken WebSocket frames")
        return trio.ClosedResourceError("this session has been closed here")

    def _malformed(self, detail: str) -> errors.UpstreamProtocolError:
        return errors.UpstreamProtocolError(provider=self._provider, detail=detail)


async def _dialled() -> WebSocket:
    """Stand in for the function that has dialled: it refers to the handshake, which takes 3 kB."""
    raise RuntimeError("this session was dialled before")


class HeldWebSocket(AbstractAsyncContextManager[WebSocket]):
    """A session for the time of a block. A class, since a generator for each of thousands of sessions takes three times the memory."""

    __slots__ = ("_dial", "_ws")

    def __init__(self, dial: Callable[[], Awaitable[WebSocket]]) -> None:
        self._dial = dial

    async def __aenter__(self) -> WebSocket:
        dial, self._dial = self._dial, _dialled
        self._ws = await dial()
        return self._ws

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Send a close frame; after a block without an error wait for the answer, for at most 1 s."""
        ws = self._ws
        try:
            with suppress(errors.UpstreamCut), trio.move_on_after(CLOSE_S if error is None else GOODBYE_S, shield=True):
                if await ws.send_close(1000 if error is None else 1001) and error is None:
                    await ws.wait_closed()
        finally:
            ws.abort()


def open_ws(
    provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES, connect: Connect = connect_tcp,
) -> HeldWebSocket:  # fmt: skip
    """Connect to `origin.prefix + path_and_query` and yield an open session; pass `connect=pool.connect`.

    Leaving closes it, as `HeldWebSocket` says. Raises ValueError at once for a header that could break out of its line. Entering
    raises ProviderUnreachable (TCP, TLS, DNS, no answer), for another status than 101 RateLimitError, ProviderRejected or
    ProviderFailed, else UpstreamProtocolError. Blocks; no deadline of its own.
    """
    protocol = _protocol(origin, path_and_query, headers, max_message_bytes)
    return HeldWebSocket(partial(_dial, provider, origin, protocol, connect))


async def dial_ws(
    provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers = (), connect: Connect = connect_tcp
) -> WebSocket:
    """Open a session like `open_ws`, for use elsewhere: its user holds it in a `HeldWebSocket`."""
    return await _dial(provider, origin, _protocol(origin, path_and_query, headers, MAX_MESSAGE_BYTES), connect)


async def _dial(provider: str, origin: Origin, protocol: ClientProtocol, connect: Connect) -> WebSocket:
    try:
        transport = await connect(origin)
    except LOST as error:
        raise unreachable(provider, error) from error
    try:
        behind = await _shake_hands(provider, transport, protocol)
        return WebSocket(provider, transport, behind, protocol.max_message_size or MAX_MESSAGE_BYTES)
    except BaseException:
        transport.abort()
        raise


async def _shake_hands(provider: str, transport: Transport, protocol: ClientProtocol) -> bytes:
    """Return the bytes that arrived behind the handshake in the same read."""
    answered, head, behind = False, b"", b""
    with suppress(*LOST):  # a refusal may already wait to be read
        await transport.send_all(b"".join(protocol.data_to_send()))
    while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
        try:
            data = await transport.receive_some(READ_BYTES)
        except LOST as error:
            raise _unanswered(provider, answered, describe(error)) from error
        if not data:
            protocol.receive_data(head)
            protocol.receive_eof()
            break
        answered = True
        head = _without_interim(head + data)
        ends = head.find(_BLANK_LINE)
        if ends < 0 and len(head) <= _HEAD_BYTES:
            continue
        cut = ends + len(_BLANK_LINE) if ends >= 0 else len(head)
        protocol.receive_data(head[:cut])
        head, behind = b"", head[cut:]
        if behind and protocol.state is State.CONNECTING:  # the body of a refusal
            protocol.receive_data(behind)
    refusal = protocol.handshake_exc
    if isinstance(refusal, InvalidStatus):
        raise _rejection(provider, refusal.response)
    if refusal is not None and isinstance(refusal.__cause__, EOFError):
        raise _unanswered(provider, answered, "closed the connection")
    if refusal is not None:
        raise errors.UpstreamProtocolError(provider=provider, detail="not a WebSocket handshake")
    protocol.events_received()  # the answer itself; frames begin behind it
    return behind


def _without_interim(head: bytes) -> bytes:
    """Drop complete interim responses (100, 103), which may precede the answer to any request (RFC 9110 section 15.2)."""
    while (interim := _INTERIM.match(head)) is not None and (ends := head.find(_BLANK_LINE)) >= 0 and interim[1] != b"101":
        head = head[ends + len(_BLANK_LINE) :]
    return head


def _unanswered(provider: str, answered: bool, how: str) -> errors.ProviderError:
    if answered:
        return errors.UpstreamProtocolError(provider=provider, detail=f"{how} in the middle of the handshake")
    return errors.ProviderUnreachable(provider=provider, detail=f"{how} before an answer", cause="lost")


def _protocol(origin: Origin, path_and_query: bytes, headers: Headers, max_message_bytes: int) -> ClientProtocol:
    """Return the protocol with its handshake request queued. Raises ValueError."""
    header_lines(headers)  # raises for what could break out of its line
    path, _, query = request_target(origin, path_and_query).decode("ascii").partition("?")
    protocol = ClientProtocol(
        WebSocketURI(origin.scheme == "https", origin.host, origin.port, path, query),
        max_size=max_message_bytes,
        logger=_LOG,
    )
    request = protocol.connect()
    for name, value in headers:
        request.headers[name.decode("latin-1")] = value.decode("latin-1")
    protocol.send_request(request)
    return protocol


_CANDIDATE_STATUSES = frozenset({401, 403, 404, 405, 410, 426})


def _rejection(provider: str, response: HandshakeResponse) -> errors.ProviderError:
    """Return the error for a status other than 101. The vendor's text is left out.

    Key, model and address are this candidate's. Everything else in a handshake follows from the caller's settings, which another
    candidate may understand: it must not count against this one, whose other callers are served.
    """
    status = response.status_code
    detail = f"status {status} to the WebSocket handshake"
    if status == 429:
        return errors.RateLimitError(
            provider=provider, limit_source="upstream", retry_after_s=_retry_after(response), detail=detail
        )
    if status >= 500 or status in (402, 408):
        return errors.ProviderFailed(provider=provider, upstream_status=status, detail=detail)
    if status >= 400:
        fault: Literal["request", "candidate"] = "candidate" if status in _CANDIDATE_STATUSES else "request"
        return errors.ProviderRejected(provider=provider, upstream_status=status, fault=fault, detail=detail)
    return errors.UpstreamProtocolError(provider=provider, detail=detail)


def _retry_after(response: HandshakeResponse) -> float | None:
    """Return the form in seconds; a date would need a clock."""
    for value in response.headers.get_all("Retry-After"):
        if value.isascii() and value.isdigit() and len(value) <= 6 and int(value) <= RETRY_AFTER_MAX_S:
            return float(value)
    return None
