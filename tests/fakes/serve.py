"""Host an ASGI app on loopback, for clients that insist on a socket."""

from __future__ import annotations

import ssl

import trio

from gw.net.transport import LOST
from gw.types.asgi import ASGIApp
from tests.fakes.hosting import hosted


async def serve_asgi(
    app: ASGIApp, tls: ssl.SSLContext | None = None, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve `app` on a free port until cancelled; `started` gives `http://127.0.0.1:<port>`, or `https` with `tls`.

    The host is the gateway's own: a close frame reaches a client that is still sending. As in the gateway's listener, a
    connection that its client breaks ends alone; every other error ends the server.
    """
    handle = hosted(app)

    async def serve_connection(stream: trio.abc.Stream) -> None:
        if tls is not None:
            stream = trio.SSLStream(stream, tls, server_side=True, https_compatible=True)
        try:
            await handle(stream)
        except* LOST:
            pass

    (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
    port = listener.socket.getsockname()[1]
    task_status.started(f"http{'s' if tls is not None else ''}://127.0.0.1:{port}")
    await trio.serve_listeners(serve_connection, [listener])
