"""One HTTP/1.1 answer. httptools parses its head; its body is framed here, since a parser takes 0.8 kB for as long as an answer streams."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import httptools
import trio

from gw.errors import ProviderError, ProviderUnreachable, UpstreamCut, UpstreamProtocolError
from gw.net.http_chunks import ChunkedBody, MalformedChunks
from gw.net.transport import LOST, READ_BYTES, Transport
from gw.net.unreachable import describe
from gw.types.compiled import mypyc_attr
from gw.types.pending import READY, Pending

HEAD_MAX_BYTES: Final = 65_536
HEAD_MAX_FIELDS: Final = 200
FINISH_S: Final = 0.05
_UNTIL_END: Final = -1
_BLANK_LINE: Final = b"\r\n\r\n"
_CODINGS: Final = frozenset((b"content-encoding", b"transfer-encoding"))


@mypyc_attr(allow_interpreted_subclasses=True)
class HttpResponse:
    """An open answer. Use inside `async with pool.open(...)`. The `on_…` methods belong to the parser."""

    __slots__ = (
        "_chunks", "_coded", "_done", "_failure", "_got_head", "_interim", "_keep", "_left", "_mute", "_parser", "_parts", "_provider",
        "_raised", "_seen", "_take", "_transport", "headers", "status",
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
        self._seen = b""  # the end of what was read of the head, in which a blank line may begin
        self._chunks: ChunkedBody | None = None
        self._left = 0  # of a body with a length; _UNTIL_END: the end of the connection is the body's
        self._got_head = self._interim = self._done = self._mute = False
        self._coded = False  # the head may have a coding
        self._keep = True

    def header(self, name: bytes) -> bytes | None:
        """First value of lower-case `name`."""
        for key, value in self.headers:
            if key == name:
                return value
        return None

    def let_head_go(self) -> None:
        """Keep the head's fields no longer: some vendors send kilobytes of them, and an answer may stream for minutes."""
        self.headers.clear()

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

    async def for_each_piece(self, take: Callable[[bytes], Pending]) -> Awaitable[None]:
        """Call `take` with body bytes where they are read, and with b"" at their end, until it returns something to wait for; return that.

        Saves a pass through the scheduler for each piece. READY is returned at the end where `take` returns nothing. A cancelled call
        ends the connection. Raises as `receive_some` does, and what `take` raises.
        """
        self._take = take
        try:
            pending = self._pass_on()
            while pending is None:
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
                    pending = self._pass_on()
            raised, self._raised = self._raised, None
            if raised is not None:
                raise raised
            return pending
        finally:
            self._take = None  # it may refer to this answer's reader: else a reference cycle

    def _arrived(self, data: bytes) -> Pending:
        """Pass on the body bytes of a piece. Where a poller reads, this runs in its task."""
        chunks, take = self._chunks, self._take
        try:
            if chunks is not None and take is not None and not self._mute and (piece := chunks.whole(data)) is not None:
                return take(piece)
            self._frame(data)
            return self._pass_on()
        except Exception as error:  # not to be taken for a failure of the transport
            self._raised = error
            return READY

    def _pass_on(self) -> Pending:
        """Pass on body bytes that have come, then raise the failure behind them or pass on their end."""
        parts, take = self._parts, self._take
        assert take is not None
        if parts:
            data = parts[0] if len(parts) == 1 else b"".join(parts)
            parts.clear()
            if (pending := take(data)) is not None:
                return pending
        if self._failure is not None:
            raise self._failure
        return (take(b"") or READY) if self._done else None

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

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        parser = self._parser
        assert parser is not None
        self.status = parser.get_status_code()
        self._interim = 100 <= self.status < 200
        if not self._interim:
            self._got_head = True
            self._keep = self._keep and parser.should_keep_alive()

    def on_message_complete(self) -> None:
        if self._interim:
            self._interim = False
            self.headers = []

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
        if not self._coded:
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
        transport = self._transport
        if transport is not None:
            with suppress(*LOST):
                if data := transport.receive_now():
                    self._feed(data)

    def _in_use(self) -> Transport:
        if self._transport is None:
            raise trio.ClosedResourceError("this answer's `async with` block has ended")
        return self._transport

    def _received(self, data: bytes, *, nothing_yet: bool) -> None:
        """Give a piece to the parser; b"": the upstream has closed the connection."""
        if data:
            self._feed(bytes(data))
        elif not self._got_head or self._left != _UNTIL_END:
            raise self._ended(nothing_yet, "closed the connection")
        else:
            self._done, self._keep = True, False

    def _feed(self, data: bytes) -> None:
        if self._got_head or (data := self._parse_head(data)):
            self._frame(data)

    def _parse_head(self, data: bytes) -> bytes:
        """Parse what belongs to the head, and to interim ones before it; return what follows it."""
        parser, seen = self._parser, self._seen
        while data and parser is not None and self._failure is None:
            known = seen + data
            end = known.find(_BLANK_LINE)
            size = len(data) if end < 0 else end + 4 - len(seen)
            try:
                parser.feed_data(data[:size])
            except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
                self._failure = self._malformed(_why(error))
                return b""
            data = data[size:]
            if self._got_head:
                self._parser = None  # it refers to this object, and takes 0.8 kB
                self._choose_framing()
                return data
            seen = known[-3:] if end < 0 else b""
        self._seen = seen
        return b""

    def _choose_framing(self) -> None:
        fields = dict(self.headers)
        self._coded = not _CODINGS.isdisjoint(fields)
        if self.status in (204, 304):
            self._done = True
        elif b"transfer-encoding" in fields:
            self._chunks = ChunkedBody()
        elif b"content-length" in fields:
            self._left = int(fields[b"content-length"])
            self._done = not self._left
        else:
            self._left = _UNTIL_END

    def _frame(self, data: bytes) -> None:
        """Keep the body bytes of what has arrived."""
        parts, chunks = self._parts, self._chunks
        if self._done:  # a second answer without a request
            self._keep = False
        elif chunks is not None:
            try:
                chunks.feed(data, parts)
            except MalformedChunks as error:
                self._failure = self._malformed(str(error))
            if chunks.done:
                self._done, self._keep = True, self._keep and not chunks.has_surplus
        elif self._left == _UNTIL_END:
            parts.append(data)
        else:
            if len(data) > self._left:
                self._keep, data = False, data[: self._left]
            parts.append(data)
            self._left = left = self._left - len(data)
            self._done = left == 0
        if self._mute:
            parts.clear()

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
