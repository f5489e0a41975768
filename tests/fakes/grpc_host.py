"""A host for gRPC over HTTP/2 without TLS: each call is a WebSocket to the ASGI app, each message a binary frame.

    client's last message      a frame of no bytes, which no client sends otherwise
    refused handshake          a status without messages, for the HTTP status of the same meaning; 402 has none and stays HTTP
    websocket.close, 1000      the status OK
    websocket.close, 4000 + n  the status n, with the reason as its message
    websocket.close, other     UNAVAILABLE for 1011 to 1013, PERMISSION_DENIED for 1008; else the call is reset
"""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import Any
from urllib.parse import quote

import msgspec
import trio
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import DataReceived, RequestReceived, StreamEnded, StreamReset, WindowUpdated
from h2.exceptions import ProtocolError

from gw.net.transport import LOST
from gw.types.asgi import ASGIApp

PREFACE = b"PRI * HTTP/2.0"
OF_HTTP = {400: 3, 401: 16, 403: 7, 404: 5, 408: 4, 409: 10, 429: 8, 500: 13, 503: 14}
_OF_CLOSE = {1000: 0, 1008: 7, 1011: 14, 1012: 14, 1013: 14}
_HEAD = [(":status", "200"), ("content-type", "application/grpc")]
LEAVE_S = 1.0
"""Time that the app has for its calls when their client has gone."""
_TOLD = 100_000
"""Messages of a client that the app has not read: HTTP/2's own window, which an app that reads makes room in, is smaller."""


class GrpcConnection:
    """One connection of a client, with any number of calls."""

    def __init__(self, app: ASGIApp, stream: trio.abc.Stream, nursery: trio.Nursery) -> None:
        self._app, self._stream, self._nursery = app, stream, nursery
        self._h2 = H2Connection(H2Configuration(client_side=False, header_encoding="utf-8"))
        self._calls: dict[int, _Call] = {}
        self._writing = trio.Lock()
        self.moved = trio.Event()

    async def run(self, first: bytes) -> None:
        self._h2.initiate_connection()
        data = first
        while data:
            try:
                events = self._h2.receive_data(data)
            except ProtocolError:
                break
            for event in events:
                self._take(event)
            await self.write()
            data = bytes(await self._stream.receive_some(65_536))

    def left(self) -> None:
        """Tell the apps that the client has gone."""
        for call in self._calls.values():
            call.tell({"type": "websocket.disconnect", "code": 1006})

    async def wait_over(self) -> None:
        for call in self._calls.values():
            await call.over.wait()

    def _take(self, event: Any) -> None:
        match event:
            case RequestReceived():
                call = self._calls[event.stream_id] = _Call(self, self._h2, event.stream_id, dict(event.headers))
                self._nursery.start_soon(call.run, self._app)
            case DataReceived():
                self._calls[event.stream_id].feed(event.data)
            case StreamEnded():
                self._calls[event.stream_id].tell({"type": "websocket.receive", "bytes": b""})
            case StreamReset():
                self._calls[event.stream_id].tell({"type": "websocket.disconnect", "code": 1006})
            case WindowUpdated():
                self.moved.set()
                self.moved = trio.Event()

    async def write(self) -> None:
        async with self._writing:
            data = self._h2.data_to_send()
            if data:
                await self._stream.send_all(data)


class _Call:
    def __init__(self, connection: GrpcConnection, h2: H2Connection, id_: int, headers: dict[str, str]) -> None:
        self._connection, self._h2, self._id, self._headers = connection, h2, id_, headers
        self._told, self._heard = trio.open_memory_channel[dict[str, Any]](_TOLD)
        self._buffer = bytearray()
        self._closed = False
        self.over = trio.Event()
        self._refusal: dict[str, Any] = {}
        self.tell({"type": "websocket.connect"})

    def tell(self, message: dict[str, Any]) -> None:
        with suppress(trio.BrokenResourceError, trio.ClosedResourceError):
            self._told.send_nowait(message)

    def feed(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 5:
            end = 5 + struct.unpack_from(">I", self._buffer, 1)[0]
            if len(self._buffer) < end:
                return
            self.tell({"type": "websocket.receive", "bytes": bytes(self._buffer[5:end])})
            del self._buffer[:end]

    async def run(self, app: ASGIApp) -> None:
        headers = [(name.encode(), value.encode()) for name, value in self._headers.items() if not name.startswith(":")]
        headers.append((b"host", self._headers[":authority"].encode()))
        path, _, query = self._headers[":path"].partition("?")
        scope = {"type": "websocket", "path": path, "query_string": query.encode(), "headers": headers, "subprotocols": []}
        try:
            with suppress(*LOST, ProtocolError):
                await app(scope, self._receive, self._send)
                if not self._closed:   # to return before the end is how an ASGI app breaks off
                    self._h2.reset_stream(self._id, 2)
                    await self._connection.write()
        finally:
            self.over.set()

    async def _receive(self) -> dict[str, Any]:
        message = await self._heard.receive()
        if message.get("bytes"):
            with suppress(*LOST, ProtocolError):   # the client may have gone
                self._h2.acknowledge_received_data(5 + len(message["bytes"]), self._id)
                await self._connection.write()
        return message

    async def _send(self, message: dict[str, Any]) -> None:
        """Send to a client; to one that has gone, nothing."""
        with suppress(*LOST, ProtocolError):
            await self._send_to_client(message)

    async def _send_to_client(self, message: dict[str, Any]) -> None:
        match message["type"]:
            case "websocket.accept":
                self._h2.send_headers(self._id, _HEAD)
            case "websocket.send":
                data = message["bytes"]
                await self._send_data(b"\0" + struct.pack(">I", len(data)) + data)
                return
            case "websocket.close":
                self._close(message.get("code", 1000), message.get("reason") or "")
            case "websocket.http.response.start":
                self._refusal = message
            case "websocket.http.response.body":
                self._refuse(self._refusal["status"], self._refusal["headers"], message["body"])
        await self._connection.write()

    async def _send_data(self, data: bytes) -> None:
        while data:
            room = min(self._h2.local_flow_control_window(self._id), self._h2.max_outbound_frame_size, len(data))
            if room > 0:
                self._h2.send_data(self._id, data[:room])
                data = data[room:]
                await self._connection.write()
            else:
                await self._connection.moved.wait()

    def _close(self, code: int, reason: str) -> None:
        self._closed = True
        status = code - 4_000 if 4_000 <= code < 4_017 else _OF_CLOSE.get(code)
        if status is None:
            self._h2.reset_stream(self._id, 2)
            return
        self._h2.send_headers(self._id, [("grpc-status", str(status)), ("grpc-message", quote(reason))], end_stream=True)

    def _refuse(self, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
        self._closed = True
        more = [(name.decode(), value.decode()) for name, value in headers if name not in (b"content-type", b"content-length")]
        if status not in OF_HTTP:
            self._h2.send_headers(self._id, [(":status", str(status)), ("content-type", "text/plain"), *more], end_stream=True)
            return
        message = _message(body)
        status_lines = [("grpc-status", str(OF_HTTP[status])), ("grpc-message", quote(message))]
        self._h2.send_headers(self._id, [*_HEAD, *status_lines, *more], end_stream=True)


def _message(body: bytes) -> str:
    """Return the message in the JSON of an error."""
    try:
        return str(msgspec.json.decode(body)["error"]["message"])
    except (msgspec.DecodeError, TypeError, KeyError):
        return body.decode("latin-1")


async def run_grpc(app: ASGIApp, stream: trio.abc.Stream, first: bytes) -> None:
    """Serve a connection whose first bytes were read."""
    async with trio.open_nursery() as nursery:
        connection = GrpcConnection(app, stream, nursery)
        with suppress(*LOST):
            await connection.run(first)
        connection.left()
        with trio.move_on_after(LEAVE_S):
            await connection.wait_over()
        nursery.cancel_scope.cancel()
