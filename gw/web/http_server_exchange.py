"""One HTTP request and its response as ASGI `receive` and `send` over a Connection.

`http.response.start` is held back and sent with the first body message, in one write; every later body message is one
write. Framing is the app's content-length, else chunks, else (HTTP/1.0) the end of the connection. An app that sends more
or less than its content-length, or stops in the middle, leaves the response incomplete: the connection is cut.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import Any

import trio

from gw.errors import ClientProtocolError, RequestError, TooLarge
from gw.telemetry.clock import Clock
from gw.types.asgi import Message, Scope
from gw.types.pending import READY
from gw.web.connection import Connection
from gw.web.http_errors import REASONS, Refused, too_large
from gw.web.http_server_head import Head
from gw.web.long_answers import LongAnswers

DRAIN_BYTES = 65_536
"""An unread remainder of a request body up to this size is dropped to keep the connection; a larger one closes it."""
_PIECE_BYTES = 1_048_576
"""Most that is read of a body at once. A recording is passed on in such pieces, and each executes some 1,800 bytecodes."""
_CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
_STATUS_LINES = {status: b"HTTP/1.1 %d %b" % (status, reason) for status, reason in REASONS.items()}
_CR, _LF, _NUL = b"\r\n\0"  # numbers: to look for a piece of one byte costs five times as much
_HOSTS_OWN_FIELDS = frozenset((b"transfer-encoding", b"connection", b"date", b"keep-alive"))
_HOST_FIELDS = _HOSTS_OWN_FIELDS | {b"content-length"}
_ASGI = {"version": "3.0", "spec_version": "2.5"}
_EXTENSIONS: Scope = {"gw.cancels": {}}  # one for all requests: apps only read it


class BodyTooSlow(RequestError):
    status = 408
    code = "timeout"


class DateField:
    """The `date` header line, formatted once a second."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._second = -1
        self._line = b""

    def line(self) -> bytes:
        second = int(self._clock.now())
        if second != self._second:
            self._second = second
            self._line = b"date: %b" % formatdate(second, usegmt=True).encode()
        return self._line


def base_scope(head: Head, connection: Connection, kind: str, scheme: str) -> dict[str, Any]:
    return {
        "type": kind,
        "asgi": _ASGI,
        "http_version": head.version,
        "scheme": scheme + "s" if connection.transport.tls else scheme,
        "path": head.path,
        "raw_path": head.raw_path,
        "query_string": head.query,
        "root_path": "",
        "headers": head.headers,
        "client": connection.client,
        "server": connection.server,
        "extensions": _EXTENSIONS,
        "gw.known": head.facts,
        "gw.link": connection.link,
    }


class ServerExchange:
    """`keep` says whether the connection may carry another request, once `complete`."""

    __slots__ = (
        "_ahead", "_chunked", "_connection", "_continue", "_date", "_delivered", "_long_answers", "_max_body_bytes", "_no_body",
        "_start", "_streams", "_unsent", "_waited_s", "body", "complete", "head", "keep", "refused", "started", "taken_bytes",
    )  # fmt: skip

    def __init__(
        self, head: Head, connection: Connection, date: DateField, max_body_bytes: Callable[[], int], long_answers: LongAnswers
    ) -> None:
        self.head = head
        self.body = head.body
        self.keep = False
        self.complete = False
        self.started = False  # bytes of the response may have been sent
        self.refused: Refused | None = None
        self.taken_bytes = 0
        self._connection = connection
        self._date = date
        self._max_body_bytes = max_body_bytes
        self._long_answers = long_answers
        self._streams = False  # `long_answers` knows of it
        self._continue = head.expects
        self._delivered = False
        self._ahead = b""  # of the body, received and not yet handed out
        self._waited_s = 0.0
        self._start: Message | None = None
        self._chunked = False
        self._no_body = False
        self._unsent: int | None = None  # remainder of the content-length

    def scope(self) -> Scope:
        head = self.head
        if head.scope is None:
            head.scope = base_scope(head, self._connection, "http", "http")
            head.scope["method"] = head.method.decode("latin-1")
        return head.scope.copy()

    @property
    def is_over(self) -> bool:
        """Return whether all was sent and received, and the connection may carry another request."""
        return self.complete and self.keep and self.body.done

    # ------------------------------------------------------------------ request

    async def receive(self) -> Message:
        """Return the next piece of the request body; after its end, wait until the response ends or the client leaves.

        `gw.arrived` says that the piece after this one is here already: to receive it does not wait.
        Raises ClientProtocolError (malformed chunks), BodyTooSlow or TooLarge; the host answers for an app that does not
        catch them.
        """
        connection, body = self._connection, self.body
        while self._delivered and not self.complete and not connection.left:
            await connection.wait_changed()
        if self.complete or connection.left:
            return {"type": "http.disconnect"}
        self._check_size(body.at_least)
        try:
            if self._continue:
                await self._send_continue()
            if self._ahead:
                data, self._ahead = self._ahead, b""
            elif data := body.take(connection.buffer):
                self._read_ahead()
            elif not body.done:
                data = await self._arrived_piece() or await self._awaited_piece()
        except Refused as refused:
            self.refused = refused
            if refused.status == 408:
                raise BodyTooSlow(what=refused.message) from None
            raise ClientProtocolError(what=refused.message) from None
        self.taken_bytes += len(data)
        connection.taken()
        if body.chunked:
            self._check_size(0)
        if self._ahead:
            return {"type": "http.request", "body": data, "more_body": True, "gw.arrived": True}
        self._delivered = body.done
        return {"type": "http.request", "body": data, "more_body": not body.done}

    def _read_ahead(self) -> None:
        """Read what the kernel has of the body beyond the buffer, up to a piece: so a recording that is here is seen to be whole."""
        connection, body = self._connection, self.body
        if body.at_least and not connection.reading:
            self._ahead = connection.receive_now(min(body.at_least, _PIECE_BYTES))
            body.count(len(self._ahead))

    def _check_size(self, coming: int) -> None:
        """Raise TooLarge if the body is larger than allowed. `coming`: bytes announced and not received."""
        if (size := self.taken_bytes + coming) and size > (limit := self._max_body_bytes()):
            self.refused = too_large(limit)
            raise TooLarge(what=self.refused.message, limit_bytes=limit)

    async def _send_continue(self) -> None:
        self._continue = False
        if not self.started and not self.body.done and not self._connection.buffer:
            await self._connection.send(_CONTINUE)

    async def _arrived_piece(self) -> bytes:
        """Return a piece that the kernel has already: it needs no deadline, which costs more than reading it. b"" if it has none."""
        connection, body = self._connection, self.body
        if not body.at_least or connection.reading:
            return b""
        data = await connection.receive_arrived(min(body.at_least, _PIECE_BYTES))
        body.count(len(data))
        return data

    async def _awaited_piece(self) -> bytes:
        """Wait for a piece that has not arrived yet. Raises Refused."""
        connection, body, data = self._connection, self.body, b""
        began = trio.current_time()
        slack_s = connection.limits.body_idle_s + self.taken_bytes / connection.limits.body_rate - self._waited_s
        with trio.move_on_after(max(0.0, min(connection.limits.body_idle_s, slack_s))):
            while not data and not body.done:
                if body.at_least and not connection.reading:  # straight from the socket: a large body is not copied
                    data = await connection.receive(min(body.at_least, _PIECE_BYTES))
                    body.count(len(data))
                else:
                    await connection.wait()
                    data = body.take(connection.buffer)
                if connection.left:
                    await trio.sleep_forever()  # the reader has cancelled the app
        self._waited_s += trio.current_time() - began
        if not data and not body.done:
            raise Refused(408, "the request body came too slowly")
        return data

    async def drop_body(self) -> None:
        """Read and drop the request body before the app runs, which then receives an empty one. Raises like `receive`."""
        while self._ahead or not self.body.done:
            await self.receive()
        self._delivered = False

    async def drop_unread(self) -> bool:
        """Read and drop what the app left unread of the request body; False when that is too much or takes too long."""
        if self._body_is_cheap() and not self.body.done:
            self.body.take(self._connection.buffer)
            self._connection.taken()
            return self.body.done
        dropped = 0
        with trio.move_on_after(1.0):
            while not self.body.done and dropped <= DRAIN_BYTES and not self._connection.left:
                try:
                    data = self.body.take(self._connection.buffer)
                except Refused:
                    return False
                self._connection.taken()
                dropped += len(data)
                if not data and not self.body.done:
                    await self._connection.wait()
        return self.body.done

    # ------------------------------------------------------------------ response

    def send(self, message: Message) -> Awaitable[None]:
        """Send what needs no waiting at once, and return the remainder.

        Raises OSError when the client is gone or does not read in time, RuntimeError for messages out of order.
        """
        kind = message["type"]
        if kind == "http.response.body":
            more = bool(message.get("more_body", False))
            out = self._framed(message.get("body", b""), more)
            self.started = True
            if out and (unsent := self._connection.send_now(out)):
                return self._send_remainder(unsent, more)
            if not more:
                self._end()
        elif kind == "http.response.start" and self._start is None and not self.started:
            self._start = message
        else:
            raise RuntimeError(f"unexpected ASGI message {kind!r}")
        return READY

    async def _send_remainder(self, unsent: bytes, more: bool) -> None:
        await self._connection.send(unsent)
        if not more:
            self._end()

    def _end(self) -> None:
        self.complete = True
        if self._streams:
            self._long_answers.end(self.head)
        self._connection.on_left = None
        self._connection.wake()

    def _framed(self, data: bytes, more: bool) -> bytes:
        """Return the bytes of a body message, with the response head before the first."""
        if self.complete or (self._start is None and not self.started):
            raise RuntimeError("a body message outside of a response")
        head = b"" if self.started else self._response_head()
        if more and not self._streams:
            self._streams = True
            self._long_answers.begin(self.head)
        if self._unsent is not None:
            self._unsent -= len(data)
            if self._unsent < 0 or (self._unsent and not more):
                raise RuntimeError("the body does not match its content-length")
        if self._no_body:
            return head
        if not self._chunked:
            return head + data if head else data
        out = b"%b%x\r\n%b\r\n" % (head, len(data), data) if data else head
        return out if more else out + b"0\r\n\r\n"

    def _response_head(self) -> bytes:
        start, self._start = self._start, None
        assert start is not None
        status, fields = start["status"], list(start.get("headers", ()))
        lines = [_STATUS_LINES.get(status) or b"HTTP/1.1 %d Status" % status, self._date.line()]
        values = dict(fields)
        length = values.get(b"content-length")
        is_plain = len(values) == len(fields) and _HOSTS_OWN_FIELDS.isdisjoint(values)
        is_plain = is_plain and (length is None or (length.isdigit() and status != 204))
        if is_plain:  # nearly always
            lines += map(b": ".join, fields)
        else:
            lines += [b": ".join(field) for field in fields if field[0] not in _HOST_FIELDS]
        keep = self.head.keep and not self._connection.drain.leaving and self._body_is_cheap()
        keep = keep and (is_plain or values.get(b"connection", b"").lower() != b"close")
        self._no_body = self.head.method == b"HEAD" or status in (204, 304)
        if length is not None and status != 204:
            if not is_plain:
                lines.append(b"content-length: %d" % int(length))
            self._unsent = None if self._no_body else int(length)
        elif not self._no_body:
            self._chunked = self.head.version == "1.1"
            if self._chunked:
                lines.append(b"transfer-encoding: chunked")
        if not keep:
            lines.append(b"connection: close")
        self.keep = keep
        text = b"".join(lines)
        if _LF in text or _CR in text or _NUL in text:
            raise ValueError("a response header holds a line break")
        lines.append(b"\r\n")
        return b"\r\n".join(lines)

    def _body_is_cheap(self) -> bool:
        """Return whether the unread remainder of the request body is here already.

        One that is still coming may come too slowly to wait for, and by then it is too late to announce the close.
        """
        if self.body.done:
            return self.refused is None
        unread = self.body.left
        return unread is not None and unread <= len(self._connection.buffer) and self.refused is None
