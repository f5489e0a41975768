"""Opening WebSocket sessions with upstreams: `open_ws()`, on the same transports as HTTP."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

import trio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.http11 import Response as HandshakeResponse
from websockets.protocol import State
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
from gw.net.connect import Connect, connect_tcp
from gw.net.http1 import Headers, Origin, header_lines, request_target
from gw.net.tcp import LOST, READ_BYTES, Transport, describe, unreachable
from gw.net.ws import GOODBYE_S, WebSocket
from gw.net.ws_core import MAX_MESSAGE_BYTES

CLOSE_S: Final = 1.0
"""Limit for the closing handshake of a session that ends as planned."""
RETRY_AFTER_MAX_S: Final = 86_400

_BLANK_LINE: Final = b"\r\n\r\n"

_LOG: Final = logging.getLogger("gw.net.websockets")
_LOG.setLevel(logging.WARNING)  # at DEBUG the library writes out handshake headers, keys included


@asynccontextmanager
async def open_ws(
    provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers = (),
    max_message_bytes: int = MAX_MESSAGE_BYTES, connect: Connect = connect_tcp,
) -> AsyncIterator[WebSocket]:  # fmt: skip
    """Connect to `origin.prefix + path_and_query` and yield an open session; pass `connect=pool.connect`.

    Leaving sends a close frame; after a block without an error the answer to it is awaited for at most 1 s. Raises
    ProviderUnreachable (TCP, TLS, DNS, no answer), for another status than 101 RateLimitError, ProviderRejected or
    ProviderFailed, else UpstreamProtocolError; ValueError for a header that could break out of its line. Blocks; no
    deadline of its own.
    """
    protocol = _protocol(origin, path_and_query, headers, max_message_bytes)
    async with hold_ws(await _dial(provider, origin, protocol, connect)) as ws:
        yield ws


async def dial_ws(
    provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers = (), connect: Connect = connect_tcp
) -> WebSocket:
    """Open a session like `open_ws`, for use elsewhere: its user enters `hold_ws`."""
    return await _dial(provider, origin, _protocol(origin, path_and_query, headers, MAX_MESSAGE_BYTES), connect)


async def _dial(provider: str, origin: Origin, protocol: ClientProtocol, connect: Connect) -> WebSocket:
    try:
        transport = await connect(origin)
    except LOST as error:
        raise unreachable(provider, error) from error
    try:
        return WebSocket(provider, transport, protocol, await _shake_hands(provider, transport, protocol))
    except BaseException:
        transport.abort()
        raise


async def _shake_hands(provider: str, transport: Transport, protocol: ClientProtocol) -> bytes:
    """Return the bytes that arrived behind the handshake in the same read."""
    answered, last, behind = False, b"", b""
    with suppress(*LOST):  # a refusal may already wait to be read
        await transport.send_all(b"".join(protocol.data_to_send()))
    while protocol.state is State.CONNECTING and protocol.handshake_exc is None:
        try:
            data = await transport.receive_some(READ_BYTES)
        except LOST as error:
            raise _unanswered(provider, answered, describe(error)) from error
        if data:
            answered = True
            ends = (last + data).find(_BLANK_LINE)
            cut = ends + len(_BLANK_LINE) - len(last) if ends >= 0 else len(data)
            protocol.receive_data(data[:cut])
            last, behind = bytes(data[-3:]), bytes(data[cut:])
            if behind and protocol.state is State.CONNECTING:  # the body of a refusal
                protocol.receive_data(behind)
        else:
            protocol.receive_eof()
    refusal = protocol.handshake_exc
    if isinstance(refusal, InvalidStatus):
        raise _rejection(provider, refusal.response)
    if refusal is not None and isinstance(refusal.__cause__, EOFError):
        raise _unanswered(provider, answered, "closed the connection")
    if refusal is not None:
        raise UpstreamProtocolError(provider=provider, detail="not a WebSocket handshake")
    protocol.events_received()  # the answer itself; frames begin behind it
    return behind


def _unanswered(provider: str, answered: bool, how: str) -> ProviderError:
    if answered:
        return UpstreamProtocolError(provider=provider, detail=f"{how} in the middle of the handshake")
    return ProviderUnreachable(provider=provider, detail=f"{how} before an answer", cause="lost")


@asynccontextmanager
async def hold_ws(ws: WebSocket) -> AsyncIterator[WebSocket]:
    """Close the session when the block is left, like `open_ws`."""
    try:
        try:
            yield ws
        except BaseException:
            with suppress(UpstreamCut), trio.move_on_after(GOODBYE_S, shield=True):
                await ws.send_close(1001)
            raise
        with suppress(UpstreamCut), trio.move_on_after(CLOSE_S, shield=True):
            if await ws.send_close(1000):
                await ws.wait_closed()
    finally:
        ws.abort()


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


def _rejection(provider: str, response: HandshakeResponse) -> ProviderError:
    """Return the error for a status other than 101. The vendor's text is left out.

    None is the caller's fault: key, model and audio settings of a handshake are this candidate's.
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
    """Return the form in seconds; a date would need a clock."""
    for value in response.headers.get_all("Retry-After"):
        if value.isascii() and value.isdigit() and len(value) <= 6 and int(value) <= RETRY_AFTER_MAX_S:
            return float(value)
    return None
