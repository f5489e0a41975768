"""The daemon: one root nursery. The gateway is opened first and so closes last; its end flushes the records.

open_gateway
└ root nursery
  ├ stop on signal       first: drain, then cancel; second: cancel now
  ├ data plane keepalive
  └ front.serve          every connection
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path

import attrs
import structlog
import trio

from gw.config.settings import Settings
from gw.dialects.routes import DataPlane
from gw.gateway import Gateway, open_gateway
from gw.telemetry.clock import process_age_s
from gw.telemetry.log import setup_logging
from gw.web import front
from gw.web.app import make_app
from gw.web.drain import Drain

_log = structlog.get_logger("gw.serve")


@attrs.frozen(kw_only=True)
class Ready:
    """What is known once the daemon listens."""

    url: str
    started_s: float
    """Age of the process when it began to listen."""
    db_path: Path


def run(settings: Settings, *, on_ready: Callable[[Ready], None]) -> int:
    """Serve until SIGTERM or SIGINT; 0 = orderly end. `on_ready` is called once it listens.

    Raises ConfigError, DatabaseLocked, StoreUnavailable, OSError (address in use).
    """
    setup_logging()
    trio.run(_main, settings, on_ready)
    return 0


async def _main(settings: Settings, on_ready: Callable[[Ready], None]) -> None:
    async with open_gateway(settings) as gateway:
        drain = Drain()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_stop_on_signal, drain, settings.serve.drain_s, nursery.cancel_scope)
            urls = await nursery.start(serve, gateway, drain, nursery.cancel_scope)
            gateway.store.set_address(urls[0])
            on_ready(Ready(url=urls[0], started_s=process_age_s(), db_path=settings.cost_tracking.db_path))


async def serve(
    gateway: Gateway,
    drain: Drain,
    stop: trio.CancelScope,
    *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Both planes on one port; returns (and cancels `stop`) when a drain has ended the last connection."""
    plane = DataPlane(gateway)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plane.run)
        await front.serve(
            hot=plane,
            is_hot=plane.is_hot,
            cold=make_app(gateway, plane, plane.is_hot, drain),
            config=gateway.settings.serve,
            drain=drain,
            task_status=task_status,
        )
        nursery.cancel_scope.cancel()
    stop.cancel()


async def _stop_on_signal(drain: Drain, drain_s: float, stop: trio.CancelScope) -> None:
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        async for number in signals:
            if drain.draining:
                _log.info("stopping_now", signal=signal.Signals(number).name)
                drain.halt()
                stop.cancel()
                return
            _log.info("draining", signal=signal.Signals(number).name, in_flight=drain.in_flight, drain_s=drain_s)
            stop.deadline = trio.current_time() + drain_s
            drain.begin(drain_s)
