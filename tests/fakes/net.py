"""A network in memory: hosts by (host, port), each an async function that holds the server's end of a connection.

    net = FakeNet(nursery)
    net.hosts["api.example", 443] = answer_hello          # async def answer_hello(stream): ...
    pool = Pool(connect=net)

TLS is left out: an https origin gets the same plain stream.
"""

from __future__ import annotations

import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress

import attrs
import trio
import trio.testing

from gw.net.connect import Origin
from gw.net.transport import Transport
from gw.types.pending import Pending

Handler = Callable[[trio.abc.Stream], Awaitable[None]]


class StreamTransport(Transport):
    """Any trio stream as a transport, for both roles."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._stream.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        return bytes(await self._stream.receive_some(max_bytes))

    async def send_eof(self) -> None:
        if isinstance(self._stream, trio.abc.HalfCloseableStream):
            await self._stream.send_eof()

    def abort(self) -> None:
        stream = self._stream
        while isinstance(stream, trio.SSLStream):
            stream = stream.transport_stream
        if isinstance(stream, trio.StapledStream):
            stream.send_stream.close()
            stream.receive_stream.close()
        elif isinstance(stream, trio.SocketStream):
            stream.socket.close()
        else:
            stream.abort()

    async def aclose(self) -> None:
        self.abort()
        await trio.lowlevel.checkpoint()


class MemoryTransport(StreamTransport):
    """The client's end. `stale` is what `is_stale` answers; `aborted_at` when it was dropped, in trio's time; `writes` their sizes.

    `send_s`: how long each write takes; `unsendable`: none is taken any more, while nothing arrives that would say so.
    """

    def __init__(self, stream: trio.StapledStream) -> None:
        super().__init__(stream)
        self.stale = self.unsendable = False
        self.send_s = 0.0
        self.aborted_at: float | None = None
        self.writes: list[int] = []

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        self.writes.append(len(data))
        if self.send_s:
            await trio.sleep(self.send_s)
        await super().send_all(data)

    def send_or_pending(self, data: bytes) -> Pending:
        if self.unsendable:
            raise trio.BrokenResourceError("it takes nothing any more")
        return super().send_or_pending(data)

    def is_stale(self) -> bool:
        return self.stale

    def abort(self) -> None:
        if self.aborted_at is None:
            self.aborted_at = trio.current_time()
        super().abort()


class FakeNet:
    """Usable as `connect=`. Handlers run in `nursery`; an unknown host does not resolve, an exception as host is raised."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self.hosts: dict[tuple[str, int], Handler | Exception] = {}
        self.transports: list[MemoryTransport] = []
        """Every connection made, in order."""
        self.connect_s: dict[str, float] = {}
        """Host → how long a connection to it takes."""
        self.live = 0
        """Handlers that still run."""
        self._nursery = nursery

    async def __call__(self, origin: Origin) -> MemoryTransport:
        await trio.sleep(self.connect_s.get(origin.host, 0.0))
        handler = self.hosts.get((origin.host, origin.port))
        if handler is None:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        if isinstance(handler, Exception):
            raise handler
        ours, theirs = trio.testing.memory_stream_pair()
        transport = MemoryTransport(ours)
        self.transports.append(transport)
        self.live += 1
        self._nursery.start_soon(self._serve, handler, theirs)
        return transport

    @property
    def open(self) -> int:
        """Connections the client has not dropped."""
        return sum(transport.aborted_at is None for transport in self.transports)

    async def _serve(self, handler: Handler, stream: trio.StapledStream) -> None:
        try:
            # The client may leave at any time; that is no failure of the server's.
            with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await handler(stream)
        finally:
            self.live -= 1
            stream.send_stream.close()
            stream.receive_stream.close()


async def black_hole(origin: Origin) -> MemoryTransport:
    """A `connect` whose packets vanish."""
    await trio.sleep_forever()
    raise AssertionError


@attrs.frozen(kw_only=True)
class Received:
    """One request as a server sees it. Header names in lower case."""

    method: bytes
    path: bytes
    headers: dict[bytes, bytes]
    body: bytes
    head: bytes
    """The head as it came, without the empty line."""


class ServerSide:
    """HTTP/1.1 for handlers, by hand: it says exactly what a test wants to say, right or wrong."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self.stream = stream
        self._buffer = bytearray()

    async def request(self) -> Received | None:
        """The next request with its body (content-length only); None when the client has closed."""
        while (end := self._buffer.find(b"\r\n\r\n")) < 0:
            if not await self._more():
                return None
        head = bytes(self._buffer[:end])
        del self._buffer[: end + 4]
        first, *lines = head.split(b"\r\n")
        method, path, _ = first.split(b" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
        size = int(headers.get(b"content-length", b"0"))
        while len(self._buffer) < size:
            if not await self._more():
                return None
        body = bytes(self._buffer[:size])
        del self._buffer[:size]
        return Received(method=method, path=path, headers=headers, body=body, head=head)

    async def respond(self, status: int = 200, body: bytes = b"", *headers: tuple[bytes, bytes]) -> None:
        """A whole answer with its content-length."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        await self.send(b"HTTP/1.1 %d X\r\ncontent-length: %d\r\n%b\r\n%b" % (status, len(body), lines, body))

    async def start(self, status: int = 200, *headers: tuple[bytes, bytes]) -> None:
        """Begin a chunked answer."""
        lines = b"".join(b"%b: %b\r\n" % pair for pair in headers)
        await self.send(b"HTTP/1.1 %d X\r\ntransfer-encoding: chunked\r\n%b\r\n" % (status, lines))

    async def chunk(self, data: bytes) -> None:
        """A piece of a chunked answer; b"" ends it."""
        await self.send(b"%x\r\n%b\r\n" % (len(data), data))

    async def send(self, data: bytes) -> None:
        await self.stream.send_all(data)

    async def _more(self) -> bool:
        data = await self.stream.receive_some(65_536)
        self._buffer += data
        return bool(data)
