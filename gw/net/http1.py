"""HTTP/1.1 upstream: a keep-alive pool on trio streams and httptools.

One call = one write and, for a short answer, one read, in the caller's own task. A connection goes back to the pool
only if its answer was read to the end; otherwise leaving `async with pool.open(...)` closes it at once, which cancels the
upstream. Redirects are never followed and no content coding is accepted.
"""

from __future__ import annotations

import ssl
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import aclosing
from functools import partial
from typing import Final, Protocol

import trio

from gw.errors import ProviderUnreachable, StaleConnection
from gw.net.connect import Connect, Origin, connect_tcp
from gw.net.http_response import HttpResponse
from gw.net.transport import LOST, READ_BYTES, Transport
from gw.net.unreachable import unreachable

__all__ = ["ClientExchange", "Headers", "HttpResponse", "Origin", "Pool", "RequestBody", "header_lines", "request_target"]

Headers = Sequence[tuple[bytes, bytes]]

IDLE_MAX_S: Final = 30.0
"""Servers commonly drop idle connections after 60 s or more; a younger one is rarely found dead."""
IDLE_MAX: Final = 256
"""Idle connections kept per origin; one file descriptor each. Beyond it a finished connection is closed."""
CONNECT_S: Final = 5.0
"""For TCP and TLS together; an answer may take much longer, a host that does not even accept need not be waited for."""
OPENINGS_MAX: Final = 256  # request lines kept per origin: one per path
JOIN_MAX_BYTES: Final = READ_BYTES + 4_096
"""Up to this size a body is joined to its head for one write: what one read of an upload returns fits; above, copying costs more."""
_LEAST_BYTES: Final = 16_384  # of a body whose pieces may come slowly: less than that waits for the next piece

_PRINTABLE: Final = bytes(range(0x21, 0x7F))


class RequestBody(Protocol):
    """A request body that is read in pieces. `size` in bytes is known beforehand.

    `chunks()` begins anew each time it is called: a call that meets a dead idle connection is made again.
    """

    size: int

    def chunks(self) -> AsyncIterator[bytes]: ...


def header_lines(headers: Headers) -> bytes:
    """`name: value` lines, each ended by CRLF. Raises ValueError, without the value, if one holds CR, LF or NUL."""
    lines = b"".join([b"%b: %b\r\n" % pair for pair in headers])
    if lines.count(b"\r") != len(headers) or lines.count(b"\n") != len(headers) or b"\0" in lines:
        raise ValueError("a header may not hold CR, LF or NUL")
    return lines


def request_target(origin: Origin, path: bytes) -> bytes:
    """Return the target for the request line. Raises ValueError for a path that could break out of it."""
    if path.translate(None, _PRINTABLE):
        raise ValueError("a path may hold printable ASCII only")
    return (origin.prefix + path) or b"/"


class _Site:
    """The pool's state for one scheme, host and port."""

    __slots__ = ("_openings", "host_line", "idle", "in_use")

    def __init__(self, origin: Origin) -> None:
        self.host_line = b"host: %b\r\naccept-encoding: identity\r\n" % origin.authority.encode("ascii")
        self.idle: deque[tuple[Transport, float]] = deque()  # oldest first; at most IDLE_MAX
        self.in_use = 0
        self._openings: dict[tuple[bytes, bytes, bytes], bytes] = {}

    def opening(self, method: bytes, origin: Origin, path: bytes) -> bytes:
        """Return the beginning of a request's head, the same for all requests to this path. Raises ValueError."""
        key = (method, origin.prefix, path)
        opening = self._openings.get(key)
        if opening is None:
            target = request_target(origin, path)
            opening = b"%b %b HTTP/1.1\r\n%b" % (method, target, self.host_line)
            if len(self._openings) >= OPENINGS_MAX:
                self._openings.clear()
            self._openings[key] = opening
        return opening


class Pool:
    """Keep-alive connections by origin. Any number of calls at a time; limiting them is the relay's business."""

    def __init__(self, connect: Connect | None = None, *, ssl_context: ssl.SSLContext | None = None) -> None:
        """`ssl_context` replaces the system's trust store; it is not used with another `connect`."""
        self.connect: Connect = connect or partial(connect_tcp, ssl_context=ssl_context)
        """Also for WebSockets, so that they reach the same network."""
        self.opened = 0  # connections opened so far
        self.reused = 0  # calls that began on a kept connection
        self._sites: dict[tuple[str, str, int, bool], _Site] = {}
        self._closed = False
        self._now: Callable[[], float] = trio.current_time  # the run's own clock once it is known, which saves the look-up

    def open(
        self, provider: str, method: bytes, origin: Origin, path: bytes, headers: Headers | bytes,
        body: bytes | RequestBody = b"",
    ) -> ClientExchange:  # fmt: skip
        """Send a request to `origin.prefix + path` (query included) and read the answer's head.

        `headers`: pairs, or the result of `header_lines`.

        `host`, `accept-encoding` and `content-length` are added here. Any status is an answer. Raises ValueError at once for a
        path or header that could break out of its line; on entering, ProviderUnreachable and UpstreamProtocolError. A kept
        connection that turns out dead while the request is written is replaced once; one that dies after that raises
        StaleConnection, since the upstream may have read the request.
        """
        site = self._site(origin)
        length = len(body) if isinstance(body, bytes) else body.size
        sized = b"content-length: %d\r\n" % length if length or method != b"GET" else b""
        lines = headers if isinstance(headers, bytes) else header_lines(headers)
        head = b"%b%b%b\r\n" % (site.opening(method, origin, path), sized, lines)
        return ClientExchange(self, site, provider, origin, head, body)

    async def warm(self, provider: str, origin: Origin) -> None:
        """Connect to `origin` for a request that may come soon, unless there is an idle connection. Raise ProviderUnreachable."""
        site = self._site(origin)
        if not site.idle:
            self._give_back(site, await self._connect(provider, origin), keep=True)

    @property
    def in_use(self) -> dict[str, int]:
        """Return the number of connections that carry a call now, by origin (`https://host`)."""
        return {f"{scheme}://{host}:{port}": s.in_use for (scheme, host, port, _), s in tuple(self._sites.items()) if s.in_use}

    @property
    def idle(self) -> int:
        """Return the number of idle connections."""
        return sum(len(site.idle) for site in tuple(self._sites.values()))

    async def aclose(self) -> None:
        """Close the idle connections; those in use close when their calls end."""
        self._closed = True
        for site in tuple(self._sites.values()):
            self._drop_idle(site)
        await trio.lowlevel.checkpoint()

    def _site(self, origin: Origin) -> _Site:
        key = (origin.scheme, origin.host, origin.port, origin.public_only)
        site = self._sites.get(key)
        if site is None:
            site = self._sites[key] = _Site(origin)
        return site

    def _take(self, site: _Site) -> Transport | None:
        """Return the connection used last, if it is young and silent.

        Each is looked at, however recently it was used: bytes that no request asked for would become the answer of the next
        caller, perhaps of another project.
        """
        if not site.idle:
            return None
        now = self._now()
        while site.idle:
            transport, since = site.idle.pop()
            if now - since < IDLE_MAX_S and not transport.is_stale():
                self.reused += 1
                return transport
            transport.abort()
        return None

    async def _connect(self, provider: str, origin: Origin) -> Transport:
        self._drop_expired()
        try:
            with trio.move_on_after(CONNECT_S) as scope:
                transport = await self.connect(origin)
        except LOST as error:
            raise unreachable(provider, error) from error
        if scope.cancelled_caught:
            detail = f"no connection within {CONNECT_S:g} s"
            raise ProviderUnreachable(provider=provider, detail=detail, cause="timeout")
        self.opened += 1
        self._now = trio.lowlevel.current_clock().current_time
        return transport

    def _give_back(self, site: _Site, transport: Transport, keep: bool) -> None:
        if not keep or self._closed or len(site.idle) >= IDLE_MAX:
            transport.abort()
            return
        now = self._now()
        site.idle.append((transport, now))
        if now - site.idle[0][1] > IDLE_MAX_S:
            site.idle.popleft()[0].abort()

    def _drop_idle(self, site: _Site) -> None:
        while site.idle:
            site.idle.pop()[0].abort()

    def _drop_expired(self) -> None:
        """Close connections that were idle too long, also of origins that are no longer called."""
        limit = trio.current_time() - IDLE_MAX_S
        for site in tuple(self._sites.values()):
            while site.idle and site.idle[0][1] < limit:
                site.idle.popleft()[0].abort()


class ClientExchange:
    """One request and its answer. A class and not a generator: entering costs less."""

    __slots__ = (
        "_aborted", "_body", "_connecting", "_head", "_origin", "_pool", "_provider", "_response", "_sent", "_site", "_transport",
        "began",
    )  # fmt: skip

    def __init__(self, pool: Pool, site: _Site, provider: str, origin: Origin, head: bytes, body: bytes | RequestBody) -> None:
        self._pool = pool
        self._site = site
        self._provider = provider
        self._origin = origin
        self._head = head
        self._body = body
        self._sent = False
        self.began = False  # some of the request was sent
        self._aborted = False
        self._connecting: trio.CancelScope | None = None
        self._transport: Transport | None = None
        self._response: HttpResponse | None = None

    def abort(self) -> None:
        """Let whatever this call waits for fail at once, as if its connection had broken. Called by another task."""
        self._aborted = True
        if self._connecting is not None:
            self._connecting.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def __aenter__(self) -> HttpResponse:
        site, pool = self._site, self._pool
        site.in_use += 1
        try:
            if (transport := pool._take(site)) is not None:
                try:
                    return await self._request(transport)
                except ProviderUnreachable as error:  # the upstream had dropped it, and perhaps the others as well
                    if self._aborted:
                        raise
                    pool._drop_idle(site)
                    if self._sent:
                        raise StaleConnection(provider=self._provider, detail=error.detail, cause="lost") from error
            return await self._request(await self._connect())
        except BaseException:
            site.in_use -= 1
            raise

    async def __aexit__(self, *exc: object) -> None:
        self.leave()

    def leave(self) -> None:
        """Leave the `async with` block; never waits."""
        response, self._response = self._response, None
        assert response is not None
        self._transport = None  # it may now carry another call
        self._site.in_use -= 1
        self._pool._give_back(self._site, *response.release())

    async def _connect(self) -> Transport:
        with trio.CancelScope() as self._connecting:
            transport = await self._pool._connect(self._provider, self._origin)
        scope, self._connecting = self._connecting, None
        if scope.cancelled_caught:
            raise ProviderUnreachable(provider=self._provider, detail="given up while connecting", cause="timeout")
        return transport

    async def _request(self, transport: Transport) -> HttpResponse:
        self._transport = transport
        response: HttpResponse | None = None
        try:
            if self._aborted:  # and connected in the same moment
                raise ProviderUnreachable(provider=self._provider, detail="given up", cause="timeout")
            self.began = True
            if (sending := self._send(transport)) is not None:
                self._sent = await sending
            response = HttpResponse(self._provider, transport)  # only now: the upstream works meanwhile
            if not self._sent:
                # An upstream may answer and hang up before it has read a large body: look for that answer first.
                response.lose()
            await response.await_head()
        except BaseException:
            self._transport = None
            if response is not None:
                response.release()
            transport.abort()
            raise
        self._response = response
        self._head = self._body = b""  # a prompt is not kept for as long as its answer takes
        return response

    def _send(self, transport: Transport) -> Awaitable[bool] | None:
        """Send the request, as far as that needs no waiting. Return the wait for the remainder, for whether all was written."""
        body = self._body
        if not isinstance(body, bytes):
            return _send_chunks(transport, self._head, body)
        if len(body) > JOIN_MAX_BYTES:
            return _write_both(transport, self._head, body)
        try:
            pending = transport.send_or_pending(self._head + body)
        except LOST:
            return None
        if pending is not None:
            return _is_written(pending)
        self._sent = True
        return None


async def _is_written(pending: Awaitable[None]) -> bool:
    """Wait for the remainder of a write; return whether it was written."""
    try:
        await pending
    except LOST:
        return False
    return True


async def _write_both(transport: Transport, head: bytes, body: bytes) -> bool:
    return await _write(transport, head) and await _write(transport, body)


async def _write(transport: Transport, data: bytes) -> bool:
    try:
        if (pending := transport.send_or_pending(data)) is not None:
            await pending
    except LOST:
        return False
    return True


async def _send_chunks(transport: Transport, head: bytes, body: RequestBody) -> bool:
    """Send head and body; return whether all was written. Raises ValueError if the body is not as long as its `size`."""
    chunks = body.chunks()
    if not isinstance(chunks, AsyncGenerator):
        return await _send_pieces(transport, head, body.size, chunks)
    async with aclosing(chunks):
        return await _send_pieces(transport, head, body.size, chunks)


async def _send_pieces(transport: Transport, head: bytes, size: int, chunks: AsyncIterator[bytes]) -> bool:
    left = size
    unsent = head  # small pieces go out together
    async for chunk in chunks:
        left -= len(chunk)
        if left < 0:
            raise ValueError("the request body is longer than its announced size")
        if len(unsent) + len(chunk) <= JOIN_MAX_BYTES:
            unsent += chunk
        else:
            if unsent and not await _write(transport, unsent):
                return False
            unsent = chunk
        if len(unsent) >= _LEAST_BYTES:  # the next one may still have to arrive
            if not await _write(transport, unsent):
                return False
            unsent = b""
    if unsent and not await _write(transport, unsent):
        return False
    if left:
        raise ValueError(f"the request body ended {left} bytes short of its announced size")
    return True
