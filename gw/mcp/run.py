"""Run the MCP server: on stdio, on a separate port, or beside a gateway in the same process.

The HTTP transports, `/sse` with `/messages/` and Streamable HTTP at `/mcp`, are behind a bearer token. It is compared first,
on bytes, in constant time; the bodies of a refusal are fixed. Beside a running gateway, its service tokens are accepted too: each request
has the rights of the token that it came with. Without a token everybody who can reach the port is admitted.
So a server without one listens on loopback only (`Settings.mcp_refuses`), and answers only peers whose address is on loopback,
whatever their headers say; the checks of Host and Origin protect it from pages in a browser.
"""

from __future__ import annotations

import hmac
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from typing import Any

import anyio
import msgspec
import structlog
import trio
from mcp.server.lowlevel import Server
from mcp.server.sse import SseServerTransport
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecurityMiddleware, TransportSecuritySettings
from starlette.requests import Request

from gw.config.settings import Serve, Settings
from gw.dialects.auth import principal
from gw.errors import AuthError
from gw.gateway import Gateway
from gw.mcp.server import Holder, build
from gw.types.address import is_loopback
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.types.roles import Access
from gw.types.secret import Secret
from gw.web import listener
from gw.web.control_api import ControlApi, HttpApi, InProcessApi, open_control_api
from gw.web.drain import Drain
from gw.web.http_server import HostedApp

_READ_BYTES = 65_536
MISSING, INVALID = b"Missing bearer token", b"Invalid token"
NOT_LOCAL = b"Only programs of this machine may use MCP without a token"
_log = structlog.get_logger("gw.mcp")


@asynccontextmanager
async def _open_api(settings: Settings, token: Secret, gateway_url: str) -> AsyncIterator[tuple[ControlApi, str]]:
    """Yield the control plane at `gateway_url`, or where that is "" of the configured database; and where it is, in words."""
    if gateway_url:
        yield HttpApi(gateway_url, token, "mcp"), f"the gateway at {gateway_url}"
        return
    async with open_control_api(settings, token, "mcp") as (api, place):
        yield api, place


class Stdin(anyio.AsyncFile[str]):
    """Standard input, line by line: `readline` returns UTF-8 text with its line end, "" at the end. One reader at a time.

    The library reads in a thread that blocks in `read` until the client sends something, and Ctrl-C and SIGTERM would have
    to wait for that. Here the event loop waits for readability. The descriptor is not made non-blocking, since it may be
    a terminal that other programs share.
    """

    def __init__(self, fd: int = 0) -> None:
        super().__init__(sys.stdin)
        self._fd = fd
        self._buffer = bytearray()
        self._ended = False

    async def readline(self) -> str:
        searched = 0
        while (end := self._buffer.find(b"\n", searched) + 1) == 0 and not self._ended:
            searched = len(self._buffer)
            try:
                await trio.lowlevel.wait_readable(self._fd)
            except PermissionError:  # a regular file is always readable
                await trio.lowlevel.checkpoint()
            data = os.read(self._fd, _READ_BYTES)
            self._buffer += data
            self._ended = not data
        line = self._buffer[: end or len(self._buffer)]
        del self._buffer[: len(line)]
        return line.decode("utf-8", "replace")


async def run(
    settings: Settings, token: Secret, *, gateway_url: str = "", read_only: bool, as_text: bool, bind: tuple[str, int] | None,
    ready: Callable[[str, str], None],
) -> None:  # fmt: skip
    """Serve on stdio until stdin ends, or with `bind`, a host and a port, over HTTP until cancelled.

    `ready` gets the server's address, "" on stdio, and the place where the tools work, in words. Raises OSError when it
    cannot listen.
    """
    async with _open_api(settings, token, gateway_url) as (api, place):
        server = build(api, read_only=read_only, as_text=as_text)
        if bind is None:
            async with stdio_server(Stdin()) as (incoming, outgoing):
                ready("", place)
                await server.run(incoming, outgoing, server.create_initialization_options())
            return
        async with trio.open_nursery() as nursery:
            serve = msgspec.structs.replace(settings.serve, host=bind[0], port=bind[1])
            urls = await nursery.start(listen, server, settings.mcp_token, serve)
            ready(urls[0], place)


async def serve_beside(
    gateway: Gateway, bearer: Secret, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """Serve a running gateway's tools on their own port, until cancelled. A failure ends the daemon."""
    settings = gateway.settings
    api = InProcessApi(gateway, settings.auth.admin_token, "mcp")
    async with trio.open_nursery() as nursery:
        serve = msgspec.structs.replace(settings.serve, port=settings.mcp.port)
        server = build(api, holder_of=partial(_holder, gateway, api))
        urls = await nursery.start(partial(listen, server, bearer, serve, is_token=partial(_is_service_token, gateway)))
        _log.info("mcp_listening", url=urls[0], token_asked_for=bool(bearer))
        task_status.started(urls[0])


def _is_service_token(gateway: Gateway, presented: bytes) -> bool:
    return _token_access(gateway, presented) is not None


def _token_access(gateway: Gateway, presented: bytes) -> Access | None:
    """Return the rights of a service token, None for another credential and for none."""
    try:
        holder = principal(gateway, presented)
    except AuthError:
        return None
    return holder.access if holder.kind == "token" else None


def _holder(gateway: Gateway, api: InProcessApi, context: Any) -> Holder | None:
    """Return who sends a request with a service token of their own; it counts for each request anew."""
    headers = getattr(context.request, "headers", None)
    presented = _bearer(str(headers.get("authorization", "")).encode("latin-1")) if headers is not None else b""
    access = _token_access(gateway, presented) if presented else None
    return None if access is None else Holder(api.with_credential(presented), access)


def _bearer(authorization: bytes) -> bytes:
    """Return the bearer token of a header, empty for none."""
    scheme, _, presented = authorization.strip().partition(b" ")
    return presented.strip() if scheme.lower() == b"bearer" else b""


async def listen(
    server: Server[Any], bearer: Secret, serve: Serve, is_token: Callable[[bytes], bool] = lambda _presented: False,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:  # fmt: skip
    """Serve the HTTP transports until cancelled; report the addresses when ready. Raises OSError."""
    local = not bearer and is_loopback(serve.host)
    async with mounted(server, bearer, serve.allowed_hosts, local_only=local, is_token=is_token) as app:
        hosted = HostedApp(app=app)
        await listener.serve(dispatch=lambda method, path: hosted, config=serve, drain=Drain(), task_status=task_status)


@asynccontextmanager
async def mounted(
    server: Server[Any], token: Secret, allowed_hosts: Iterable[str], *, local_only: bool,
    is_token: Callable[[bytes], bool] = lambda _presented: False,
) -> AsyncIterator[ASGIApp]:  # fmt: skip
    """Yield the app; its sessions end with the block."""
    hosts = ["127.0.0.1", "localhost", "[::1]", *allowed_hosts]
    names = [pattern for host in hosts for pattern in (host, f"{host}:*")]
    security = TransportSecuritySettings(
        enable_dns_rebinding_protection=True,
        allowed_hosts=names,
        allowed_origins=[f"{scheme}://{name}" for scheme in ("http", "https") for name in names],
    )
    pages = TransportSecurityMiddleware(security)
    sse = SseServerTransport("/messages/", security_settings=security)
    manager = StreamableHTTPSessionManager(server, security_settings=security)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == "/sse" and scope["method"] == "GET":
            # The transport would check this too, but after its refusal it raises what the host has to log as a crash.
            if (refusal := await pages.validate_request(Request(scope))) is not None:
                await refusal(scope, receive, send)
                return
            async with sse.connect_sse(scope, receive, send) as (incoming, outgoing):
                await server.run(incoming, outgoing, server.create_initialization_options())
        elif path.startswith("/messages/"):
            await sse.handle_post_message(scope, receive, send)
        elif path == "/mcp":
            await manager.handle_request(scope, receive, send)
        else:
            await _answer(send, 404, b"Not found; the server is at /mcp and /sse")

    async with manager.run():
        yield guarded(app, token, local_only=local_only, is_token=is_token)


def guarded(
    app: ASGIApp, token: Secret, *, local_only: bool, is_token: Callable[[bytes], bool] = lambda _presented: False
) -> ASGIApp:
    """Return `app` behind the bearer token; an empty token admits everybody, or with `local_only` every peer on loopback.

    `is_token` says whether a credential is a service token, which is admitted too; what it may do is decided for each request.
    """
    expected = sha256(token.reveal().encode("utf-8", "surrogateescape")).digest()

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "websocket":
                await send({"type": "websocket.close", "code": 1008})
            return
        if token:
            header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
            missing = header.strip().partition(b" ")[0].lower() != b"bearer"
            presented = _bearer(header)
            if missing or not (hmac.compare_digest(sha256(presented).digest(), expected) or is_token(presented)):
                await _answer(send, 401, MISSING if missing else INVALID, (b"www-authenticate", b"Bearer"))
                return
        elif local_only and not _on_loopback(scope.get("client")):
            await _answer(send, 403, NOT_LOCAL)
            return
        await app(scope, receive, send)

    return guard


def _on_loopback(client: tuple[str, int] | None) -> bool:
    return client is not None and is_loopback(client[0].removeprefix("::ffff:"))


async def _answer(send: Send, status: int, body: bytes, *headers: tuple[bytes, bytes]) -> None:
    fields = [(b"content-type", b"text/plain; charset=utf-8"), (b"content-length", b"%d" % len(body)), *headers]
    await send({"type": "http.response.start", "status": status, "headers": fields})
    await send({"type": "http.response.body", "body": body})
