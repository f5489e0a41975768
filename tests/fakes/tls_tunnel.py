"""A proxy whose tunnels all end in one app, for clients that take no other address of a vendor, but a proxy and a CA of the environment."""

from __future__ import annotations

import ssl
from typing import Any

import trio

from gw.net.transport import LOST
from gw.types.asgi import ASGIApp
from tests.fakes.hosting import hosted

_MOST_HEAD = 16_384


async def _head(stream: trio.abc.Stream) -> bytes:
    """Return a request up to its empty line, and nothing behind it; less if the client leaves."""
    head = b""
    while not head.endswith(b"\r\n\r\n") and len(head) < _MOST_HEAD and (data := await stream.receive_some(1)):
        head += data
    return head


class _FirstHeaders:
    """A connection of which the app gets each header of the first request once, the first one.

    Amazon takes such requests: Pipecat sends `Connection` and `Sec-WebSocket-Key` twice, and checks the answer by the first key.
    """

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._begun = False

    async def receive_some(self, max_bytes: int | None = None) -> bytes | bytearray:
        if self._begun:
            return await self._stream.receive_some(max_bytes)
        self._begun = True
        request, *lines = (await _head(self._stream)).split(b"\r\n")
        first = {line.partition(b":")[0].lower(): line for line in reversed(lines) if line}
        return b"\r\n".join((request, *reversed(first.values()), b"", b""))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


async def serve_tunnels(app: ASGIApp, context: ssl.SSLContext, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    """Serve `app` over TLS behind a proxy on a free port until cancelled; `started` gives the proxy's address."""
    handle = hosted(app)

    async def serve_connection(stream: trio.SocketStream) -> None:
        if not (await _head(stream)).startswith(b"CONNECT "):
            return
        await stream.send_all(b"HTTP/1.1 200 Connected\r\n\r\n")
        try:
            await handle(_FirstHeaders(trio.SSLStream(stream, context, server_side=True, https_compatible=True)))
        except* LOST:
            pass

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    task_status.started(f"http://127.0.0.1:{port}")
    await trio.serve_listeners(serve_connection, [listener])
