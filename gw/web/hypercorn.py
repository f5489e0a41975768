"""Hypercorn on trio for the control plane: HTTP/1.1 only, bounded writes, idle connections closed on drain.

`TCPServer`, `H11Protocol`, `Lifespan` and `WorkerContext` are importable but not documented, so pyproject pins
Hypercorn's minor version and this module's tests are what an upgrade must pass. Changed against Hypercorn's own server:

- `protocol_send` there shields a write without limit: a client that stops reading would keep the process alive;
- the idle timer there outlives its connection by up to `keep_alive_timeout`;
- an app that ends without reading its queue there blocks the connection for ever;
- an upgrade to HTTP/2 is never taken;
- a refused WebSocket handshake there keeps its connection open on paper, and what the client sends next crashes.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import h11
import trio
from hypercorn.app_wrappers import ASGIWrapper
from hypercorn.config import Config
from hypercorn.events import Closed, Event, RawData, Updated
from hypercorn.protocol.events import EndBody, Response
from hypercorn.protocol.events import Event as StreamEvent
from hypercorn.protocol.h11 import H11Protocol, H11WSConnection
from hypercorn.trio.lifespan import Lifespan
from hypercorn.trio.task_group import TaskGroup
from hypercorn.trio.tcp_server import TCPServer
from hypercorn.trio.worker_context import WorkerContext
from hypercorn.typing import AppWrapper, ASGIReceiveEvent, ASGISendEvent, ConnectionState, Scope

from gw.types.asgi import ASGIApp
from gw.web.connection import GONE, ServerLimits, send_bounded
from gw.web.drain import Drain
from gw.web.http_errors import Refused
from gw.web.http_server_head import HEAD_BYTES
from gw.web.transport import ClientTransport

SHUTDOWN_S = 5.0
"""For the app's lifespan to end."""
_CLOSE = (b"connection", b"close")


class _Config(Config):
    def __init__(self, drain: Drain, limits: ServerLimits) -> None:
        self._drain = drain
        self.accesslog = None
        self.errorlog = None
        self.include_server_header = False
        self.h11_max_incomplete_size = HEAD_BYTES
        self.keep_alive_timeout = limits.idle_s
        self.keep_alive_max_requests = 2**62

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        headers = super().response_headers(protocol)
        if self._drain.draining:
            headers.append((b"connection", b"close"))
        return headers


class _H11(H11Protocol):
    _refusing: trio.lowlevel.Task | None = None
    """Who answers a WebSocket handshake with anything but a socket."""

    async def _check_protocol(self, event: h11.Request) -> None:
        """Stay with HTTP/1.1; the app in between refuses what asks for more."""

    async def stream_send(self, event: StreamEvent) -> None:
        """An HTTP answer to a WebSocket handshake is the last thing on its connection.

        The app gives it, or the reader to bytes that come before one: whoever is second is not heard.
        """
        if not isinstance(self.connection, H11WSConnection):
            await super().stream_send(event)
            return
        asking = trio.lowlevel.current_task()
        if isinstance(event, Response) and event.status_code >= 200:
            self._refusing = self._refusing or asking
            event = dataclasses.replace(event, headers=[*(h for h in event.headers if h != _CLOSE), _CLOSE])
        if self._refusing not in (None, asking):
            return
        await super().stream_send(event)
        if isinstance(event, EndBody):
            await self.send(Closed())

    async def _send_error_response(self, status_code: int) -> None:
        refused = Refused(status_code, "the request is malformed")
        body = refused.body
        headers = [*refused.headers, (b"content-length", b"%d" % len(body)), _CLOSE]
        await self._send_h11_event(h11.Response(status_code=status_code, headers=headers))
        await self._send_h11_event(h11.Data(data=body))
        await self._send_h11_event(h11.EndOfMessage())


class _Tasks(TaskGroup):
    """Closes an app's queue when the app has ended, so that what it left unread blocks nobody."""

    async def spawn_app(
        self,
        app: AppWrapper,
        config: Config,
        scope: Scope,
        send: Callable[[ASGISendEvent | None], Awaitable[None]],
    ) -> Callable[[ASGIReceiveEvent], Awaitable[None]]:
        to_app, from_client = trio.open_memory_channel[ASGIReceiveEvent](config.max_app_queue_size)

        async def run() -> None:
            try:
                with from_client, contextlib.suppress(OSError):  # the client is gone
                    await app(scope, from_client.receive, send, trio.to_thread.run_sync, trio.from_thread.run)
            finally:
                with contextlib.suppress(OSError):
                    await send(None)

        async def put(event: ASGIReceiveEvent) -> None:
            with contextlib.suppress(*GONE):
                await to_app.send(event)

        self.spawn(run)
        return put


class _Connection(TCPServer):
    def __init__(self, host: Hypercorn, transport: ClientTransport) -> None:
        super().__init__(host.wrapper, host.config, host.context, host.state, cast("Any", transport))
        self._host = host
        self._transport = transport
        self._reading = True

    async def run(self) -> None:
        transport = self._transport
        try:
            async with _Tasks() as task_group:
                self._task_group = task_group
                self.protocol = cast("Any", self._protocol(task_group))
                await self.idle_task.restart(task_group, self._idle_timeout)
                await self._read_data()
                self._reading = False
                await self.idle_task.stop()
        finally:
            await transport.aclose()

    def _protocol(self, task_group: TaskGroup) -> H11Protocol:
        host, transport = self._host, self._transport
        state = ConnectionState(cast("Any", host.state))
        return _H11(
            cast("Any", host.wrapper),
            host.config,
            cast("Any", host.context),
            cast("Any", task_group),
            state,
            transport.tls,
            transport.client,
            transport.server,
            self.protocol_send,
        )

    async def protocol_send(self, event: Event) -> None:
        if isinstance(event, RawData):
            async with self.send_lock:
                try:
                    await send_bounded(
                        self._transport, bytes(event.data), self._host.limits.write_s, self._host.drain, shield=True
                    )
                except OSError:
                    await self._transport.abort()  # which ends `_read_data`, and that tells the app
                    raise
        elif not isinstance(event, Updated) or self._reading:
            await super().protocol_send(event)

    async def _close(self) -> None:
        with contextlib.suppress(*GONE, trio.BusyResourceError):
            await self._transport.send_eof()
        await self._transport.aclose()


class Hypercorn:
    """Made by `open_hypercorn`; `run` serves one connection."""

    def __init__(self, app: ASGIApp, drain: Drain, limits: ServerLimits) -> None:
        self.drain = drain
        self.limits = limits
        self.config = _Config(drain, limits)
        self.wrapper = ASGIWrapper(cast("Any", app))
        self.context = WorkerContext(None)
        self.state: dict[str, Any] = {}

    async def run(self, transport: ClientTransport) -> None:
        """Serve requests until the connection ends; closes the transport. Raises what Hypercorn does not handle."""
        await _Connection(self, transport).run()

    async def close_idle(self) -> None:
        """Close idle connections now, and every other one after the response it is giving."""
        await self.context.terminated.set()


@asynccontextmanager
async def open_hypercorn(app: ASGIApp, drain: Drain, limits: ServerLimits | None = None) -> AsyncIterator[Hypercorn]:
    """Start the app's lifespan, yield the host, end the lifespan. Raises what the app's start-up raises."""
    host = Hypercorn(app, drain, limits or ServerLimits())
    lifespan = Lifespan(cast("Any", host.wrapper), host.config, cast("Any", host.state))
    alive = trio.CancelScope(shield=True)  # the app ends by its shutdown message, also when we are cancelled

    async def live(task_status: trio.TaskStatus[None]) -> None:
        with alive:
            await lifespan.handle_lifespan(task_status=task_status)

    async with trio.open_nursery() as nursery:
        await nursery.start(live)
        try:
            with contextlib.suppress(*GONE):  # an app without a lifespan
                await lifespan.wait_for_startup()
            yield host
        finally:
            with trio.move_on_after(SHUTDOWN_S, shield=True), contextlib.suppress(*GONE):
                await lifespan.wait_for_shutdown()
            alive.cancel()
