"""Running the MCP server: on stdio, on a port of its own, or beside a gateway.

The database has one writer. Where a gateway runs, the tools go through it, over HTTP; else this process opens the
database itself, and is the writer until it ends.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import attrs
import structlog
import trio
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

from gw.config.settings import Serve, Settings
from gw.errors import DatabaseLocked
from gw.gateway import Gateway, open_gateway
from gw.mcp.api import Api, Daemon, Inside
from gw.mcp.http_transport import mounted
from gw.mcp.server import build
from gw.mcp.stdin import Stdin
from gw.store.lock import holder
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.types.secret import Secret
from gw.web import listener
from gw.web.app import make_app
from gw.web.drain import Drain

_log = structlog.get_logger("gw.mcp")


@asynccontextmanager
async def open_api(settings: Settings, token: Secret, through: str = "") -> AsyncIterator[tuple[Api, str]]:
    """The control plane, and in words where it is. `token`: the admin token for a gateway that runs elsewhere.

    `through` is that gateway's address, where it is not the one that holds the configured database.

    Raises ConfigError, StoreUnavailable; DatabaseLocked when a process holds the database and does not say where it is.
    """
    if through:
        yield Daemon(through, token), f"the gateway at {through}"
        return
    path = settings.cost_tracking.db_path
    facts = await trio.to_thread.run_sync(holder, path)
    if facts is not None:
        url = str(facts.get("url") or "")
        if not url:
            raise DatabaseLocked(what=f"{path} is held by process {facts.get('pid')}, which does not answer at any address")
        yield Daemon(url, token), f"the gateway at {url}"
        return
    async with open_gateway(settings) as gateway:
        yield Inside(control_plane(gateway), settings.auth.admin_token), f"the database {path}"


def control_plane(gateway: Gateway) -> ASGIApp:
    """Without the data plane: no tool needs it."""

    async def no_data_plane(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nothing is hot here")

    return make_app(gateway, no_data_plane, lambda method, path: False, Drain())


async def run_stdio(
    settings: Settings, token: Secret, *, through: str = "", read_only: bool, ready: Callable[[str], None]
) -> None:
    """Until stdin ends. `ready` is told where the tools work."""
    async with open_api(settings, token, through) as (api, where), stdio_server(Stdin()) as (incoming, outgoing):
        ready(where)
        server = build(api, read_only=read_only)
        await server.run(incoming, outgoing, server.create_initialization_options())


async def run_http(
    settings: Settings,
    token: Secret,
    bearer: Secret,
    *,
    through: str = "",
    host: str,
    port: int,
    read_only: bool,
    ready: Callable[[str, str], None],
) -> None:
    """Until cancelled. `ready` is told the address and where the tools work. Raises OSError when it cannot listen."""
    async with open_api(settings, token, through) as (api, where), trio.open_nursery() as nursery:
        server = build(api, read_only=read_only)
        serve = attrs.evolve(settings.serve, host=host, port=port)
        urls = await nursery.start(_listen, server, bearer, serve, Drain())
        ready(urls[0], where)


async def serve_beside(
    gateway: Gateway, bearer: Secret, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED
) -> None:
    """The MCP server of a running gateway, on its own port, until cancelled. Its failure ends the daemon."""
    settings = gateway.settings
    api = Inside(control_plane(gateway), settings.auth.admin_token)
    serve = attrs.evolve(settings.serve, port=settings.mcp.port)
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(_listen, build(api), bearer, serve, Drain())
        _log.info("mcp_listening", url=urls[0], token_asked_for=bool(bearer))
        task_status.started(urls[0])


async def _listen(
    server: Server[Any],
    bearer: Secret,
    serve: Serve,
    drain: Drain,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    async def nothing_hot(scope: Scope, receive: Receive, send: Send) -> None:
        raise AssertionError("nothing is hot here")

    async with mounted(server, bearer, serve.allowed_hosts) as app:
        await listener.serve(
            hot=nothing_hot,
            is_hot=lambda method, path: False,
            cold=app,
            config=serve,
            drain=drain,
            task_status=task_status,
        )
