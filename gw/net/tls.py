"""TLS over a TCP stream, by `ssl.SSLObject` on buffers.

What was read is decrypted, and what is said encrypted, without a task of its own, so that live audio passes in callbacks over
TLS as well. What TLS has to say by itself (an answer to a change of keys) goes out with the next thing that is said, which is
all that RFC 8446 asks; renegotiation, which would not wait, is refused.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import trio

from gw.net.tcp import LOST, READ_BYTES, ConnectFailed, TcpStream, UpstreamTransport, describe
from gw.types.pending import Pending, done


@cache
def client_context() -> ssl.SSLContext:
    """The system's trust store; TLS 1.2 and up; HTTP/1.1 only. Read once: it takes some milliseconds."""
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


class TlsStream(UpstreamTransport):
    """One task may receive while another sends. An end without a goodbye counts as an end: framing shows a cut answer."""

    __slots__ = ("_in", "_out", "_over", "_ssl", "_tcp")

    def __init__(self, tcp: TcpStream, context: ssl.SSLContext, host: str) -> None:
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_hostname=host)
        self._tcp = tcp
        self._over = False
        """The peer says no more."""

    async def shake_hands(self) -> None:
        """Raises ssl.SSLError and one of `LOST`."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._tcp.send_all(self._out.read())
            except ssl.SSLError:
                with suppress(*LOST):
                    await self._tcp.send_all(self._out.read())  # why, for the other side
                raise
            else:
                await self._tcp.send_all(self._out.read())
                return
            data = await self._tcp.receive_some(READ_BYTES)
            if not data:
                raise ssl.SSLEOFError("closed during the handshake")
            self._in.write(data)

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._tcp.send_all(self._encrypted(data))

    def put(self, data: bytes) -> Pending:
        return self._tcp.put(self._encrypted(data))

    def _encrypted(self, data: bytes | bytearray | memoryview) -> bytes:
        left = memoryview(data)
        try:
            while left:
                left = left[self._ssl.write(left) :]
        except ssl.SSLError as error:
            raise trio.BrokenResourceError("TLS") from error
        return self._out.read()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            data = self._decrypted(READ_BYTES if max_bytes is None else max_bytes)
            if data or self._over:
                return data
            self._over = not (read := await self._tcp.receive_some(READ_BYTES))
            self._in.write(read)

    def receive_now(self) -> bytes | None:
        data = self._decrypted(READ_BYTES)
        if not data and not self._over and (read := self._tcp.receive_now()) is not None:
            self._over = not read
            self._in.write(read)
            data = self._decrypted(READ_BYTES) if read else b""
        return data if data or self._over else None

    async def receive_each(self, take: Callable[[bytes], Pending]) -> Pending:
        def arrived(read: bytes) -> Pending:
            self._in.write(read)
            rest = self._give(take)
            return done() if rest is None and self._over else rest

        if (rest := self._give(take)) is not None:
            return rest
        while not self._over:
            if (rest := await self._tcp.receive_each(arrived)) is not None:
                return rest
            self._over = True
        return None

    def _give(self, take: Callable[[bytes], Pending]) -> Pending:
        while data := self._decrypted(READ_BYTES):
            if (rest := take(data)) is not None:
                return rest
        return None

    def _decrypted(self, most: int) -> bytes:
        """At most that much of what has been read; b"" where more must be read first, or the peer has said goodbye."""
        try:
            data = self._ssl.read(most)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise trio.BrokenResourceError("TLS") from error
        self._over = not data
        return data

    async def wait_send_all_might_not_block(self) -> None:
        await self._tcp.wait_send_all_might_not_block()

    def is_stale(self) -> bool:
        # A session ticket that comes late looks like data too; it costs a new connection, never a wrong answer.
        try:
            return bool(self._decrypted(1)) or self._over or self._tcp.is_stale()
        except trio.BrokenResourceError:
            return True

    def abort(self) -> None:
        self._tcp.abort()

    async def aclose(self) -> None:
        try:
            with suppress(*LOST, ssl.SSLError):
                with suppress(ssl.SSLWantReadError):
                    self._ssl.unwrap()
                await self._tcp.send_all(self._out.read())
        finally:
            self._tcp.abort()


async def start_tls(tcp: TcpStream, host: str, context: ssl.SSLContext) -> TlsStream:
    """Raises ConnectFailed."""
    stream = TlsStream(tcp, context, host)
    try:
        await stream.shake_hands()
    except LOST as error:
        tcp.abort()
        raise ConnectFailed(f"TLS: {_reason(error)}", "tls") from error
    except BaseException:
        tcp.abort()
        raise
    return stream


def _reason(error: BaseException) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"certificate not accepted: {error.verify_message}"
    if isinstance(error, ssl.SSLEOFError):
        return "closed the connection during the handshake"
    if isinstance(error, ssl.SSLError) and error.reason:
        return error.reason.replace("_", " ").lower()
    return describe(error)
