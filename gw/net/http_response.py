"""One HTTP/1.1 answer, parsed by httptools as it is read."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Final

import httptools
import trio

from gw.errors import ProviderError, ProviderUnreachable, UpstreamCut, UpstreamProtocolError
from gw.net.transport import LOST, READ_BYTES, Transport
from gw.net.unreachable import describe
from gw.types.compiled import mypyc_attr
from gw.types.pending import READY, Pending

HEAD_MAX_BYTES: Final = 65_536
HEAD_MAX_FIELDS: Final = 200
FINISH_S: Final = 0.05
_CODINGS: Final = frozenset((b"content-encoding", b"transfer-encoding"))


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpResponse:
    """An open answer. Use inside `async with pool.open(...)`. The `on_…` methods belong to the parser."""

    __slots__ = (
        "_done", "_failure", "_framed", "_got_head", "_interim", "_keep", "_mute", "_parser", "_parts", "_provider", "_raised",
        "_silent_bytes", "_take", "_transport", "headers", "status",
    )  # fmt: skip

    status: int
    headers: list[tuple[bytes, bytes]]

    def __init__(self, provider: str, transport: Transport) -> None:
        self.status = 0
        self.headers = []
        self._provider = provider
        self._transport: Transport | None = transport
        self._parser: httptools.HttpResponseParser | None = httptools.HttpResponseParser(self)
        self._parts: list[bytes] = []
        self._failure: ProviderError | None = None
        self._take: Callable[[bytes], Pending] | None = None
        self._raised: Exception | None = None  # by `_take`
        self._silent_bytes = 0
        self._got_head = self._interim = self._done = self._mute = False
        self._framed = False  # `_is_framed` of a head that was let go
        self._keep = True

    def header(self, name: bytes) -> bytes | None:
        """First value of lower-case `name`."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def let_head_go(self) -> None:
        """Keep the head's fields no longer: some vendors send kilobytes of them, and an answer may stream for minutes."""
        self._framed = self._is_framed()
        self.headers.clear()

    def _is_framed(self) -> bool:
        """Return whether the head says where the body ends."""
        return bool(self.header(b"content-length") or self.header(b"transfer-encoding"))

    async def receive_some(self) -> bytes:
        """Return the next body bytes, as one socket read brought them; b"" at the end.

        A cancelled read ends the connection. Raises UpstreamCut, UpstreamProtocolError.
        """
        parts = self._parts
        while not parts:
            if self._failure is not None:
                raise self._failure
            if self._done:
                return b""
            transport = self._in_use()
            try:
                piece = await transport.receive_some(READ_BYTES)
            except LOST as error:
                transport.abort()
                raise self._ended(False, describe(error)) from error
            except BaseException:
                transport.abort()
                raise
            self._received(piece, nothing_yet=False)
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        return data

    async def for_each_piece(self, take: Callable[[bytes], Pending]) -> Pending:
        """Call `take` with body bytes where they are read, until it returns something to wait for; return that, None at the end.

        Saves a pass through the scheduler for each piece. A cancelled call ends the connection. Raises as `receive_some` does, and
        what `take` raises.
        """
        self._take = take
        try:
            pending = self._pass_on()
            while pending is None and not self._done:
                transport = self._in_use()
                try:
                    pending = await transport.for_each_piece(self._arrived)
                except LOST as error:
                    transport.abort()
                    raise self._ended(False, describe(error)) from error
                except BaseException:
                    transport.abort()
                    raise
                if pending is None:
                    self._received(b"", nothing_yet=False)
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised
            return pending
        finally:
            self._take = None  # it may refer to this answer's reader: else a reference cycle

    def _arrived(self, data: bytes) -> Pending:
        """Parse a piece and pass it on. Where a poller reads, this runs in its task."""
        self._received(data, nothing_yet=False)
        try:
            pending = self._pass_on()
        except Exception as error:  # not to be taken for a failure of the transport
            self._raised = error
            return READY
        return READY if pending is None and self._done else pending

    def _pass_on(self) -> Pending:
        """Pass on the body bytes that were parsed, and raise the failure behind them."""
        parts, take = self._parts, self._take
        if parts and take is not None:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            if (pending := take(data)) is not None:
                return pending
        if self._failure is not None:
            raise self._failure
        return None

    async def read(self, limit: int = 10_000_000) -> bytes:
        """Return the complete body. Raises UpstreamProtocolError beyond `limit`, and what `receive_some` raises."""
        pieces: list[bytes] = []
        size = 0
        while data := await self.receive_some():
            size += len(data)
            if size > limit:
                raise self._malformed(f"the answer is longer than {limit} bytes")
            pieces.append(data)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def read_now(self) -> bytes | None:
        """Return the body if it has arrived in one piece, as most do with their head; else None, and `read` waits for it."""
        return self._parts.pop() if self._done and len(self._parts) == 1 else None

    def finish(self) -> Pending:
        """After the last event of a stream, look for the end of the answer, so that its connection can be kept.

        The result waits for it, at most 50 ms, and never raises an upstream's failure, since the answer was complete.
        """
        if not self._done:
            self._look()
        return None if self._done else self._await_end()

    async def _await_end(self) -> None:
        with trio.move_on_after(FINISH_S):
            try:
                while await self.receive_some():
                    pass
            except ProviderError:
                self._keep = False

    # --- called by the parser; none may raise

    def on_message_begin(self) -> None:
        if self._done:  # a second answer without a request
            self._keep = False

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._got_head:  # else a trailer, or past the end
            self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        if self._got_head or self._parser is None:
            return
        self.status = self._parser.get_status_code()
        self._interim = 100 <= self.status < 200
        self._got_head = not self._interim

    def on_body(self, data: bytes) -> None:
        if not self._done and not self._mute:
            self._parts.append(data)

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
            self.headers = []
        elif not self._done and self._parser is not None:
            self._done = True
            self._keep = self._keep and self._parser.should_keep_alive()

    # --- for the pool

    def lose(self) -> None:
        """Mark the connection as unusable after this answer, because the request was not sent completely."""
        self._keep = False

    async def await_head(self) -> None:
        """Read until the head is complete.

        Raises ProviderUnreachable if the connection ended before the first byte of an answer, UpstreamProtocolError.
        """
        taken, transport = 0, self._in_use()
        while not self._got_head:
            if self._failure is not None:
                raise self._failure
            if taken > HEAD_MAX_BYTES or len(self.headers) > HEAD_MAX_FIELDS:
                raise self._malformed("the answer's head is too large")
            try:  # here, in `receive_some` and in `for_each_piece`: a coroutine that all await would cost more than decoding a token
                piece = await transport.receive_some(READ_BYTES)
            except LOST as error:
                transport.abort()
                raise self._ended(not taken, describe(error)) from error
            except BaseException:
                transport.abort()
                raise
            self._received(piece, nothing_yet=not taken)
            taken += len(piece)
        if len(self.headers) > HEAD_MAX_FIELDS or (
            taken > HEAD_MAX_BYTES and sum(len(name) + len(value) for name, value in self.headers) > HEAD_MAX_BYTES
        ):
            raise self._malformed("the answer's head is too large")
        self._check_head()
        if not self._parts and not self._done:  # some write the head alone, and the first piece at once after it
            self._look()

    def release(self) -> tuple[Transport, bool]:
        """Return the transport, and whether another call may use it. This answer can no longer be read."""
        transport = self._transport
        assert transport is not None
        self._transport = self._parser = None  # the parser refers to this object: a cycle per call otherwise
        return transport, self._done and self._keep

    def _check_head(self) -> None:
        if not 200 <= self.status < 600:
            raise self._malformed(f"status {self.status} is not an HTTP status")
        if _CODINGS.isdisjoint(dict(self.headers)):
            return
        for name, value in self.headers:
            if name == b"content-encoding" and value.strip().lower() not in (b"", b"identity"):
                if self.status < 400:
                    raise self._malformed("the answer has a content coding that was not requested")
                self._mute = True  # an error keeps its status and loses its text
                self._parts.clear()
            elif name == b"transfer-encoding" and value.strip().lower() != b"chunked":
                raise self._malformed("the answer has a transfer coding other than chunked")

    def _look(self) -> None:
        """Parse what has already arrived, which saves a pass through the scheduler. The next read reports any fault."""
        transport, parser = self._transport, self._parser
        if transport is not None and parser is not None:
            with suppress(*LOST):
                if data := transport.receive_now():
                    self._feed(parser, data)

    def _in_use(self) -> Transport:
        if self._transport is None:
            raise trio.ClosedResourceError("this answer's `async with` block has ended")
        return self._transport

    def _received(self, data: bytes, *, nothing_yet: bool) -> None:
        """Give a piece to the parser; b"": the upstream has closed the connection."""
        if data and self._parser is not None:
            self._feed(self._parser, data)
        elif not self._got_head or self._framed or self._is_framed():
            raise self._ended(nothing_yet, "closed the connection")
        else:
            self._done, self._keep = True, False

    def _feed(self, parser: httptools.HttpResponseParser, data: bytes | bytearray) -> None:
        try:
            parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._keep = False
            if not self._done:  # else the answer is complete and only what follows it is wrong
                self._failure = self._malformed(_why(error))
        self._silent_bytes = 0 if self._parts else self._silent_bytes + len(data)
        if self._silent_bytes > HEAD_MAX_BYTES and self._got_head and not self._done:
            self._failure = self._malformed("too much between two pieces of the body")

    def _ended(self, nothing_yet: bool, how: str) -> ProviderError:
        if nothing_yet:
            return ProviderUnreachable(provider=self._provider, detail=f"{how} before an answer", cause="lost")
        if not self._got_head:
            return self._malformed(f"{how} in the middle of the answer's head")
        return UpstreamCut(provider=self._provider, detail=f"{how} in the middle of the answer")

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        self._keep = False
        return UpstreamProtocolError(provider=self._provider, detail=detail)


def _why(error: Exception) -> str:
    if isinstance(error, httptools.HttpParserUpgrade):
        return "switched to a protocol that was not requested"
    return f"not HTTP/1.1: {error}"
