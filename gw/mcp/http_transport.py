"""The HTTP transports behind a bearer token: `/sse` with `/messages/`, and Streamable HTTP at `/mcp`.

The token is compared first, on bytes, in constant time; the bodies of a refusal are fixed. Without a token everybody who can
reach the port is admitted: then only the checks of Host and Origin protect a loopback server from pages in a browser.
"""

from __future__ import annotations

import hmac
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from hashlib import sha256
from typing import Any

from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings

from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.types.secret import Secret

MISSING, INVALID = b"Missing bearer token", b"Invalid token"


@asynccontextmanager
async def mounted(server: Server[Any], token: Secret, allowed_hosts: Iterable[str]) -> AsyncIterator[ASGIApp]:
    """Yield the app; its sessions end with the block."""
    security = _security(allowed_hosts)
    sse = SseServerTransport("/messages/", security_settings=security)
    manager = StreamableHTTPSessionManager(server, security_settings=security)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/sse" and scope["method"] == "GET":
            async with sse.connect_sse(scope, receive, send) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        elif path.startswith("/messages/"):
            await sse.handle_post_message(scope, receive, send)
        elif path == "/mcp":
            await manager.handle_request(scope, receive, send)
        else:
            await _answer(send, 404, b"Not found; the server is at /mcp and /sse")

    async with manager.run():
        yield guarded(app, token)


def guarded(app: ASGIApp, token: Secret) -> ASGIApp:
    """Return `app` behind the bearer token; an empty token admits everybody."""
    expected = sha256(token.reveal().encode("utf-8", "surrogateescape")).digest()

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        if token:
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            scheme, _, presented = header.strip().partition(b" ")
            missing = scheme.lower() != b"bearer"
            if missing or not hmac.compare_digest(sha256(presented.strip()).digest(), expected):
                await _answer(send, 401, MISSING if missing else INVALID, (b"www-authenticate", b"Bearer"))
                return
        await app(scope, receive, send)

    return guard


def _security(allowed_hosts: Iterable[str]) -> TransportSecuritySettings:
    hosts = ["127.0.0.1", "localhost", "[::1]", *allowed_hosts]
    names = [pattern for host in hosts for pattern in (host, f"{host}:*")]
    origins = [f"{scheme}://{name}" for scheme in ("http", "https") for name in names]
    return TransportSecuritySettings(enable_dns_rebinding_protection=True, allowed_hosts=names, allowed_origins=origins)


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
