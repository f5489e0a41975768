"""The daemon: one root nursery. The gateway is opened first and so closes last, which flushes the records.

open_gateway
└ root nursery
  ├ stop on signal       first: /ready is 503 for predrain_s, then drain, then cancel; second: cancel now
  ├ reload on SIGHUP
  ├ signs of life        when systemd watches
  ├ MCP server           when `mcp.enabled`, on its own port
  ├ data plane keepalive
  ├ alerts               watches over the gateway while a receiver is configured
  ├ sample history       demo mode only: ends when it is loaded
  └ listener.serve       every connection
"""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec
import structlog
import trio

from gw.config.secret_values import secrets_of
from gw.config.settings import Serve, Settings
from gw.dialects.data_plane import DataPlane
from gw.errors import ConfigError, StoreError
from gw.gateway import Gateway, open_gateway
from gw.net.service_manager import ServiceManager
from gw.store.configured import database_name
from gw.store.journal import SPARES
from gw.telemetry.clock import process_age_s
from gw.telemetry.log import Redactor, setup_logging
from gw.telemetry.log_lines import LogLines
from gw.telemetry.process_limits import allow_streams, connections_possible, streams_possible, tune_interpreter
from gw.telemetry.run_clock import RunClock
from gw.web import listener
from gw.web.dispatcher import Dispatcher
from gw.web.drain import Drain
from gw.web.server_limits import ServerLimits

if TYPE_CHECKING:
    from gw.workers.keeper import Keeper

_FAREWELL_S = 1.0  # for running requests to tell their callers that the gateway stops

NO_MANAGER = ServiceManager()
_log = structlog.get_logger("gw.serve")


class ServeInfo(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a daemon that listens."""

    url: str
    started_s: float
    """Age of the process when it began to listen."""
    database: str
    """Path of the file, or the server in words."""


def run(
    settings: Settings, *, on_ready: Callable[[ServeInfo], None], reread: Callable[[], Settings] | None = None,
    sample_history: bool = False, hung_up: Callable[[], bool] = lambda: False, manager: ServiceManager = NO_MANAGER,
) -> int:  # fmt: skip
    """Serve until SIGTERM or SIGINT; 0 = orderly end. `on_ready` is called in a thread once it listens.

    At SIGHUP `reread` (blocks; raises ConfigError) returns the settings to apply, also when `hung_up` says that one came
    before. With `sample_history` made-up records (`gw.admin.demo_history`) are added to the database soon after it listens.
    `manager` is notified when the gateway is ready, reloads and stops, and that it is alive.

    Raises ConfigError, DatabaseLocked, StoreUnavailable, OSError (address in use).
    """
    tune_interpreter()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))  # a core file would hold every key that is in use; engines inherit it
    lines = LogLines(sys.stderr or open(os.devnull, "w"))  # noqa: SIM115  # for as long as the process runs
    redactor = setup_logging(stream=lines)
    redactor.learn(secrets_of(settings))
    descriptors = allow_streams(settings.serve.max_in_flight)
    parts = (settings, on_ready, sample_history, reread, redactor, hung_up, descriptors, lines, manager)
    trio.run(_main, *parts, clock=RunClock())
    return 0


async def _main(
    settings: Settings, on_ready: Callable[[ServeInfo], None], sample_history: bool,
    reread: Callable[[], Settings] | None, redactor: Redactor, hung_up: Callable[[], bool], descriptors: int,
    lines: LogLines, manager: ServiceManager,
) -> None:  # fmt: skip
    async with AsyncExitStack() as opened:
        gateway, keeper = await _open(opened, settings, redactor, descriptors)
        drain = Drain()
        gateway.log_lines = lines
        stop_requests = gateway.relay.in_flight.stop if keeper is None else keeper.stop_requests
        async with trio.open_nursery() as nursery:
            running = partial(_in_flight, drain, gateway)
            nursery.start_soon(_stop_on_signal, stop_requests, running, drain, settings.serve, nursery.cancel_scope, manager)
            await nursery.start(reload_on_signal, gateway, reread, redactor, hung_up, manager)
            if keeper is None:
                urls = await nursery.start(serve, gateway, drain, nursery.cancel_scope, descriptors)
            else:
                urls = await nursery.start(keeper.serve, drain, nursery.cancel_scope)
            gateway.store.set_address(urls[0])
            nursery.start_soon(_watch_for_alerts, gateway)
            if settings.mcp.enabled:
                # A tenth of a second and 26 MB, in a thread: the gateway serves already.
                mcp = await trio.to_thread.run_sync(import_module, "gw.mcp.run")
                await nursery.start(mcp.serve_beside, gateway, settings.mcp_token)
            ready = ServeInfo(url=urls[0], started_s=process_age_s(), database=_database(settings))
            nursery.start_soon(_say_ready, on_ready, ready)
            manager.ready(f"serving at {urls[0]}")
            nursery.start_soon(manager.keep_alive)
            if sample_history:
                nursery.start_soon(load_sample_history, gateway)


def _database(settings: Settings) -> str:
    return database_name(settings) if settings.cost_tracking.database else str(settings.cost_tracking.db_path)


async def _open(
    opened: AsyncExitStack, settings: Settings, redactor: Redactor, descriptors: int
) -> tuple[Gateway, Keeper | None]:
    """Open the gateway, and the keeper of its workers where it has some."""
    if settings.serve.workers == 1:
        gateway = await opened.enter_async_context(
            open_gateway(settings, learn=redactor.learn, processes=True, spares=SPARES)
        )
        return gateway, None
    from gw.workers.keeper import open_keeper, worker_count  # one process alone imports nothing of it
    from gw.workers.keeper_bank import KeeperBank

    count = worker_count(settings.serve.workers)
    bank = None if count == 1 else KeeperBank()
    gateway = await opened.enter_async_context(
        open_gateway(settings, learn=redactor.learn, processes=True, spares=SPARES, front_bank=bank)
    )
    if bank is None:
        return gateway, None
    return gateway, await opened.enter_async_context(open_keeper(gateway, bank, count, descriptors))


async def _say_ready(on_ready: Callable[[ServeInfo], None], ready: ServeInfo) -> None:
    """Call `on_ready` in a thread: it prints, and whoever should read that may be stuck or gone."""
    with suppress(OSError):
        await trio.to_thread.run_sync(on_ready, ready, abandon_on_cancel=True)


async def serve(
    gateway: Gateway, drain: Drain, stop: trio.CancelScope, descriptors: int | None = None, *,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:  # fmt: skip
    """Serve both planes on one port; return (and cancel `stop`) when a drain has ended the last connection.

    `descriptors`: limit of this process, which bounds connections and streams; None = not known.
    """
    plane, config, limits = DataPlane(gateway), gateway.settings.serve, ServerLimits()
    dispatcher = Dispatcher(gateway, plane, plane.serves, drain)
    if descriptors is not None:
        config = msgspec.structs.replace(config, max_in_flight=min(config.max_in_flight, streams_possible(descriptors)))
        limits = msgspec.structs.replace(limits, max_connections=min(limits.max_connections, connections_possible(descriptors)))
    gateway.background.occupancy = drain
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plane.run)
        nursery.start_soon(dispatcher.load_soon)
        await listener.serve(
            dispatch=dispatcher,
            config=config,
            drain=drain,
            limits=limits,
            max_body_bytes=lambda: gateway.settings.serve.max_body_bytes(),  # a reload may change it
            task_status=task_status,
        )
        await drain.wait_idle()  # what goes on after its request was answered
        nursery.cancel_scope.cancel()
    stop.cancel()


async def _watch_for_alerts(gateway: Gateway) -> None:
    """Send alerts while a receiver is configured. What that needs is loaded, in a thread, once there is the first one."""
    while True:
        if gateway.settings.alerts.receivers:
            monitor = await trio.to_thread.run_sync(import_module, "gw.alerts.monitor")
            await monitor.run(gateway)
        await trio.sleep(gateway.settings.alerts.check_s)


async def load_sample_history(gateway: Gateway) -> None:
    """Add the sample history after the start, which it would delay by a tenth of a second. Log a fault of the disk."""
    try:
        from gw.admin.demo_history import sample_records  # which no other start needs

        await gateway.store.load(sample_records(gateway.clock.now(), book=gateway.book))
    except StoreError as error:
        _log.warning("sample_history_left_out", why=error.message)


async def reload_on_signal(
    gateway: Gateway, reread: Callable[[], Settings] | None, redactor: Redactor,
    hung_up: Callable[[], bool] = lambda: False, manager: ServiceManager = NO_MANAGER,
    task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED,
) -> None:  # fmt: skip
    """Read the configuration again at SIGHUP, and now when `hung_up` says that one came before."""
    with trio.open_signal_receiver(signal.SIGHUP) as signals:
        task_status.started()
        if hung_up():
            await _reload(gateway, reread, redactor)
        async for _ in signals:
            manager.reloading()
            await _reload(gateway, reread, redactor)
            manager.ready("the configuration is invalid; the one before it is in force" if gateway.failed_reload else "serving")


async def _reload(gateway: Gateway, reread: Callable[[], Settings] | None, redactor: Redactor) -> None:
    """Put the configuration as it is now in force. A faulty one changes nothing and is logged; a bug ends the daemon."""
    if reread is None:
        _log.warning("reload_ignored", why="there is no configuration file to read again")
        return
    try:
        settings = await trio.to_thread.run_sync(reread)
        redactor.learn(secrets_of(settings))
        unchanged = await gateway.reload(settings)
    except (ConfigError, StoreError) as error:
        gateway.failed_reload = error.message
        _log.error("reload_failed", why=error.message)
        return
    gateway.failed_reload = ""
    _log.info("reloaded", file=str(settings.path), needs_restart=list(unchanged), warnings=list(settings.warnings))


def _in_flight(drain: Drain, gateway: Gateway) -> int:
    """Return how many requests of apps run or wait for a place, in all processes."""
    return drain.in_flight + sum(worker.figures.in_flight for worker in gateway.workers())


async def _stop_on_signal(
    stop_requests: Callable[[], None], running: Callable[[], int], drain: Drain, serve: Serve, stop: trio.CancelScope,
    manager: ServiceManager,
) -> None:
    """Say at the first signal that the gateway leaves, and drain `predrain_s` later.

    At the drain's end, or at a second signal: stop the requests in flight, then everything.

    Each request gets an error event, or a 503 where nothing has been sent, and writes its record as it ends.
    """
    with trio.open_signal_receiver(signal.SIGTERM, signal.SIGINT) as signals:
        number = await anext(signals)
        name = signal.Signals(number).name
        drain.announce()
        manager.stopping()
        if serve.predrain_s:
            _log.info("leaving", signal=name, in_flight=running(), predrain_s=serve.predrain_s)
        with trio.move_on_after(serve.predrain_s) as announced:
            await anext(signals)
        within_s = serve.drain_s if announced.cancelled_caught else 0.0
        _log.info("draining", signal=name, in_flight=running(), drain_s=within_s)
        drain.begin(within_s)
        with trio.move_on_after(within_s):
            await anext(signals)
        _log.info("stopping_now", in_flight=running())
        stop_requests()
        with trio.move_on_after(_FAREWELL_S):
            await drain.wait_idle()
        drain.halt()
        stop.cancel()
