"""TLS over a TCP stream, by `ssl.SSLObject` on buffers, for both roles.

Bytes are decrypted and encrypted without a task of their own, so that live audio passes in callbacks over TLS as well. What
TLS has to send by itself (an answer to a change of keys) goes out with the next write, which is all that RFC 8446 asks;
renegotiation, which would not wait, is refused.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from contextlib import suppress
from functools import cache

import trio

from gw.net.tcp import TcpStream
from gw.net.transport import LOST, READ_BYTES, Address, Transport
from gw.net.unreachable import ConnectFailed, describe, require_descriptor
from gw.types.pending import READY, Pending


@cache
def client_context(*, http2: bool = False) -> ssl.SSLContext:
    """Return the system's trust store; TLS 1.2 and up; HTTP/1.1 only, or HTTP/2. Read once: it takes some milliseconds."""
    require_descriptor()  # a context without the trust store would be kept
    context = ssl.create_default_context()
    context.set_alpn_protocols(["h2" if http2 else "http/1.1"])
    context.options |= ssl.OP_NO_RENEGOTIATION
    return context


class TlsStream(Transport):
    """One task may receive while another sends. An end without a goodbye counts as an end: framing shows a cut answer."""

    __slots__ = ("_ended", "_in", "_out", "_ssl", "_tcp")

    def __init__(self, tcp: TcpStream, context: ssl.SSLContext, host: str | None) -> None:
        """`host`: whose certificate is checked; None = this side is the server."""
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._ssl = context.wrap_bio(self._in, self._out, server_side=host is None, server_hostname=host)
        self._tcp = tcp
        self._ended = False  # the peer has finished sending

    @property
    def tls(self) -> bool:
        return True

    def addresses(self) -> tuple[Address | None, Address | None]:
        return self._tcp.addresses()

    async def shake_hands(self) -> None:
        """Raises ssl.SSLError and one of `LOST`."""
        while True:
            try:
                self._ssl.do_handshake()
            except ssl.SSLWantReadError:
                await self._tcp.send_all(self._out.read())
            except ssl.SSLError:
                with suppress(*LOST):
                    await self._tcp.send_all(self._out.read())  # tells the other side why
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

    def send_or_pending(self, data: bytes) -> Pending:
        return self._tcp.send_or_pending(self._encrypted(data))

    def _encrypted(self, data: bytes | bytearray | memoryview) -> bytes:
        remainder = memoryview(data)
        try:
            while remainder:
                remainder = remainder[self._ssl.write(remainder) :]
        except ssl.SSLError as error:
            raise trio.BrokenResourceError("TLS") from error
        return self._out.read()

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        await trio.lowlevel.checkpoint_if_cancelled()
        while True:
            data = self._decrypted(READ_BYTES if max_bytes is None else max_bytes)
            if data or self._ended:
                return data
            self._ended = not (read := await self._tcp.receive_some(READ_BYTES))
            self._in.write(read)

    def receive_now(self, max_bytes: int = READ_BYTES) -> bytes | None:
        data = self._decrypted(max_bytes)
        if not data and not self._ended and (read := self._tcp.receive_now()) is not None:
            self._ended = not read
            self._in.write(read)
            data = self._decrypted(max_bytes) if read else b""
        return data if data or self._ended else None

    async def for_each_piece(self, take: Callable[[bytes], Pending]) -> Pending:
        def arrived(read: bytes) -> Pending:
            self._in.write(read)
            pending = self._pass_on(take)
            return READY if pending is None and self._ended else pending

        if (pending := self._pass_on(take)) is not None:
            return pending
        while not self._ended:
            if (pending := await self._tcp.for_each_piece(arrived)) is not None:
                return pending
            self._ended = True
        return None

    def _pass_on(self, take: Callable[[bytes], Pending]) -> Pending:
        while data := self._decrypted(READ_BYTES):
            if (pending := take(data)) is not None:
                return pending
        return None

    def _decrypted(self, most: int) -> bytes:
        """Return at most `most` bytes of what was read; b"" where more must be read first, or the peer has finished."""
        try:
            data = self._ssl.read(most)
        except ssl.SSLWantReadError:
            return b""
        except ssl.SSLError as error:
            raise trio.BrokenResourceError("TLS") from error
        self._ended = not data
        return data

    def is_stale(self) -> bool:
        # A session ticket that comes late looks like data too; it costs a new connection, never a wrong answer.
        try:
            return bool(self._decrypted(1)) or self._ended or self._tcp.is_stale()
        except trio.BrokenResourceError:
            return True

    def has_arrived(self) -> bool:
        return self._tcp.has_arrived()

    def abort(self) -> None:
        self._tcp.abort()

    def reset(self) -> None:
        self._tcp.reset()

    async def aclose(self) -> None:
        try:
            with suppress(*LOST, ssl.SSLError):
                with suppress(ssl.SSLWantReadError):
                    self._ssl.unwrap()
                await self._tcp.send_all(self._out.read())
        finally:
            self._tcp.abort()


async def start_tls(tcp: TcpStream, host: str, context: ssl.SSLContext) -> TlsStream:
    """Return the client's side after its handshake. Raises ConnectFailed."""
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
