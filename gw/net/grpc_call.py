"""A gRPC call with messages in both directions, over HTTP/2 on a connection of its own: `open_grpc_call()`.

The Sans-I/O library h2 does HTTP/2; here are the transport, flow control and gRPC's framing. Source: grpc/grpc `doc/PROTOCOL-HTTP2.md`,
`doc/statuscodes.md` and `doc/http-grpc-status-mapping.md`. A message is sent and received as bytes; its schema is the caller's business.

No task of its own: the protocol moves when messages are received or sent, on the same transports as HTTP/1. One task may receive while
another sends. What the protocol must send by itself (acknowledgements) goes out with the reader's next step, or with the task that writes.

    state    event                                                     next
    open     headers with status 200, messages                         open
    open     trailers, or headers alone, with `grpc-status`            ended: `GrpcEnded` after the messages before it
    open     another HTTP status                                       ended: `GrpcEnded`, with that status and no status of gRPC
    open     reset of the stream, GOAWAY, end of the connection        ended: UpstreamCut
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any, Final
from urllib.parse import unquote

import attrs
import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    ConnectionTerminated,
    DataReceived,
    RemoteSettingsChanged,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
    WindowUpdated,
)
from h2.exceptions import ProtocolError

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.net.connect import Connect, Origin
from gw.net.http1 import Headers, request_target
from gw.net.transport import LOST, READ_BYTES, Transport
from gw.net.unreachable import describe, unreachable

MOST_MESSAGE_BYTES: Final = 4 * 2**20
"""Longest message received: the default of gRPC's own libraries."""
_PREFIX: Final = struct.Struct(">BI")  # whether it is compressed, and its length
_TYPE: Final = b"application/grpc"
_HTTP_1: Final = b"HTTP/1"
STATUSES: Final[Mapping[int, tuple[str, int]]] = {
    1: ("CANCELLED", 499), 2: ("UNKNOWN", 500), 3: ("INVALID_ARGUMENT", 400), 4: ("DEADLINE_EXCEEDED", 504), 5: ("NOT_FOUND", 404),
    6: ("ALREADY_EXISTS", 409), 7: ("PERMISSION_DENIED", 403), 8: ("RESOURCE_EXHAUSTED", 429), 9: ("FAILED_PRECONDITION", 400),
    10: ("ABORTED", 409), 11: ("OUT_OF_RANGE", 400), 12: ("UNIMPLEMENTED", 501), 13: ("INTERNAL", 500), 14: ("UNAVAILABLE", 503),
    15: ("DATA_LOSS", 500), 16: ("UNAUTHENTICATED", 401),
}  # fmt: skip
"""Status → its name, and the HTTP status of the same meaning (googleapis `google/rpc/code.proto`)."""


@attrs.frozen(auto_exc=True)
class GrpcEnded(Exception):
    """The upstream has ended the call. `message` is its own text: judge by it, never show it unfiltered."""

    status: int | None
    """gRPC's; 0 is OK, None that of an answer that is not gRPC."""
    message: str = ""
    http_status: int = 200
    """The answer's own, or the HTTP status of the same meaning as `status`."""
    retry_after: bytes | None = None

    @property
    def name(self) -> str:
        return STATUSES.get(self.status or 0, ("", 0))[0]


class GrpcCall:
    """An open call. Its methods raise GrpcEnded when the upstream has ended it, UpstreamCut when it is gone."""

    def __init__(self, provider: str, transport: Transport) -> None:
        self._provider = provider
        self._transport = transport
        self._h2 = H2Connection(H2Configuration(client_side=True, header_encoding=None))
        self._stream = 0
        self._buffer = bytearray()
        self._messages: deque[bytes] = deque()  # received in one read (64 KiB) and not yet delivered
        self._ended: Exception | None = None
        self._answered = False
        self._writing = False
        self._finished = False
        self._moved = trio.Event()  # replaced whenever there is more room to send, or the call has ended

    async def begin(self, origin: Origin, path: bytes, headers: Headers) -> None:
        """Send the head."""
        self._h2.initiate_connection()
        self._stream = self._h2.get_next_available_stream_id()
        self._h2.send_headers(self._stream, [
            (b":method", b"POST"), (b":scheme", origin.scheme.encode()), (b":path", request_target(origin, path)),
            (b":authority", origin.authority.encode()), (b"te", b"trailers"), (b"content-type", _TYPE), (b"user-agent", b"gw"), *headers,
        ])  # fmt: skip
        await self._write()

    # ---- sending

    async def send(self, messages: Iterable[bytes]) -> None:
        """Send messages in order; waits while the upstream takes no more."""
        for message in messages:
            await self._send(memoryview(_PREFIX.pack(0, len(message)) + message))

    async def _send(self, data: memoryview) -> None:
        while data:
            self._raise_if_ended()
            try:
                room = min(self._h2.local_flow_control_window(self._stream), self._h2.max_outbound_frame_size)
                if room > 0:
                    self._h2.send_data(self._stream, bytes(data[:room]))
            except ProtocolError:
                raise self._cut("the stream is closed") from None
            if room <= 0:
                await self._moved.wait()
                continue
            data = data[room:]
            await self._write()

    async def finish(self) -> None:
        """End this side's messages; the upstream answers the remainder, and ends the call."""
        if self._finished or self._ended is not None:
            return
        self._finished = True
        try:
            self._h2.end_stream(self._stream)
        except ProtocolError:
            raise self._cut("the stream is closed") from None
        await self._write()

    async def _write(self) -> None:
        """Send what the protocol has; a task that finds another one writing leaves it to that."""
        if self._writing:
            return
        self._writing = True
        try:
            while data := self._h2.data_to_send():
                await self._transport.send_all(data)
        except LOST as error:
            if self._ended is None:   # why it ended may still wait to be read
                raise self._cut(f"{describe(error)} while sending") from error
        except BaseException:   # half a frame may have gone out
            self.abort()
            raise
        finally:
            self._writing = False

    # ---- receiving

    async def receive(self) -> bytes:
        """Return the next message. A cancelled call loses nothing."""
        while not self._messages:
            self._raise_if_ended()
            try:
                data = await self._transport.receive_some(READ_BYTES)
            except LOST as error:
                self._end(self._cut(f"{describe(error)} in the middle of the call"))
                continue
            if not data:
                self._end(self._cut("closed the connection in the middle of the call"))
                continue
            self._digest(bytes(data))
            try:
                await self._write()
            except UpstreamCut as cut:   # after the messages that came before
                self._end(cut)
        return self._messages.popleft()

    def _digest(self, data: bytes) -> None:
        if not self._answered and data.startswith(_HTTP_1):   # which h2 takes for the length of a frame
            self._end(self._malformed("the answer is not HTTP/2"))
            return
        try:
            events = self._h2.receive_data(data)
        except ProtocolError:
            self._end(self._malformed("the answer is not HTTP/2" if not self._answered else "broken HTTP/2 frames"))
            return
        for event in events:
            if self._ended is None:
                self._take(event)

    def _take(self, event: Any) -> None:
        match event:
            case ResponseReceived():
                self._answered = True
                self._head(dict(event.headers))
            case DataReceived():
                if event.flow_controlled_length:
                    self._h2.acknowledge_received_data(event.flow_controlled_length, self._stream)
                self._buffer += event.data
                self._split()
            case TrailersReceived():
                self._end(self._status(dict(event.headers)))
            case StreamEnded():
                self._end(self._malformed("the call ended without a status"))
            case StreamReset():
                self._end(self._cut(f"reset the call with code {int(event.error_code or 0)}"))
            case ConnectionTerminated():   # h2 takes nothing more after it, also where the upstream would let the call go on
                self._end(self._cut(f"closed the connection with code {int(event.error_code or 0)}"))
            case WindowUpdated() | RemoteSettingsChanged():
                self._wake()

    def _head(self, headers: dict[bytes, bytes]) -> None:
        status = headers.get(b":status", b"")
        if b"grpc-status" in headers:
            self._end(self._status(headers))
        elif status != b"200":
            code = int(status) if status.isdigit() and len(status) == 3 else 500
            self._end(GrpcEnded(None, http_status=code, retry_after=headers.get(b"retry-after")))
        elif not headers.get(b"content-type", b"").lower().startswith(_TYPE):
            self._end(self._malformed("the answer is not gRPC"))

    def _split(self) -> None:
        buffer = self._buffer
        while len(buffer) >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(buffer)
            if compressed or length > MOST_MESSAGE_BYTES:
                self._end(self._malformed("a message is compressed" if compressed else "a message is larger than allowed"))
                return
            end = _PREFIX.size + length
            if len(buffer) < end:
                return
            self._messages.append(bytes(buffer[_PREFIX.size : end]))
            del buffer[:end]

    def _status(self, headers: dict[bytes, bytes]) -> Exception:
        value = headers.get(b"grpc-status", b"")
        if not (value.isdigit() and len(value) <= 3):
            return self._malformed("the call ended without a status")
        if int(value) == 0 and self._buffer:
            return self._malformed("the call ended in the middle of a message")
        message = unquote(headers.get(b"grpc-message", b"").decode("latin-1"), errors="replace")
        http_status = 200 if int(value) == 0 else STATUSES.get(int(value), ("", 500))[1]
        return GrpcEnded(int(value), message, http_status, headers.get(b"retry-after"))

    # ---- the end

    def _raise_if_ended(self) -> None:
        if self._ended is not None:
            raise self._ended

    def _end(self, why: Exception) -> None:
        if self._ended is None:
            self._ended = why
        self._wake()

    def _wake(self) -> None:
        self._moved.set()
        self._moved = trio.Event()

    def abort(self) -> None:
        """Close the connection at once."""
        self._end(self._cut("this call has been closed here"))
        self._transport.abort()

    async def leave(self) -> None:
        """Reset a call that goes on, and close the connection; waits for nothing that takes time."""
        try:
            if self._ended is None and not self._writing:
                with trio.move_on_after(GOODBYE_S, shield=True):
                    self._h2.reset_stream(self._stream, 8)  # CANCEL
                    await self._write()
        except (ProtocolError, ProviderError):
            pass
        finally:
            self.abort()

    def _cut(self, detail: str) -> UpstreamCut:
        return UpstreamCut(provider=self._provider, detail=detail)

    def _malformed(self, detail: str) -> UpstreamProtocolError:
        return UpstreamProtocolError(provider=self._provider, detail=detail)


GOODBYE_S: Final = 0.01
"""Limit for writing that a call is given up: only a full socket waits."""


async def dial_grpc_call(provider: str, origin: Origin, path: bytes, *, headers: Headers, connect: Connect) -> GrpcCall:
    """Connect to `origin.prefix + path` and begin a call, which its user leaves. Raises ProviderError. No deadline of its own."""
    try:
        transport = await connect(attrs.evolve(origin, http2=True))
    except LOST as error:
        raise unreachable(provider, error) from error
    call = GrpcCall(provider, transport)
    try:
        await call.begin(origin, path, headers)
    except BaseException:
        call.abort()
        raise
    return call
