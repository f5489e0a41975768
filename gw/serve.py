"""The daemon: one root nursery. The gateway is opened first and so closes last, which flushes the records.

open_gateway
└ root nursery
  ├ stop on signal       first: /ready is 503 for predrain_s, then drain, then cancel; second: cancel now
  ├ reload on SIGHUP
  ├ signs of life        when systemd watches
  ├ MCP server           when `mcp.enabled`, on its own port
  ├ data plane keepalive
  ├ sample history       demo mode only: ends when it is loaded
  └ listener.serve       every connection
"""

from __future__ import annotations

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module

import attrs
import structlog
import trio

from gw.admin.demo_history import sample_records
from gw.config.settings import Serve, Settings
from gw.dialects.data_plane import DataPlane
from gw.errors import ConfigError, StoreError
from gw.gateway import Gateway, open_gateway
from gw.net.service_manager import ServiceManager
from gw.relay.in_flight import InFlight
from gw.store.configured import database_name
from gw.store.journal import SPARES
from gw.telemetry.clock import process_age_s
from gw.telemetry.log import Redactor, setup_logging
from gw.telemetry.log_lines import LogLines
from gw.types.bank_address import BankAddress
from gw.types.secret import Secret
from gw.web import listener
from gw.web.app import make_dispatch
from gw.web.connection import ServerLimits
from gw.web.drain import Drain

_SWITCH_S = 0.001
"""The record writer's thread must not keep the interpreter from the event loop for Python's usual 5 ms."""

PER_STREAM = 2  # the caller's connection and the vendor's
_FEWEST_STREAMS = 8
OTHERS = 200  # listeners, database, idle connections, uploads on disk, dashboards
_YOUNG_OBJECTS = 20_000
"""Allocations minus deallocations before the collector examines the young objects. Requests free theirs by reference count;
Python's usual 700 makes it walk through running requests again and again, for 5 % of the time."""

_FAREWELL_S = 1.0  # for running requests to tell their callers that the gateway stops

NO_MANAGER = ServiceManager()
_log = structlog.get_logger("gw.serve")


@attrs.frozen(kw_only=True)
class ServeInfo:
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
    redactor.learn(_secrets(settings))
    descriptors = _allow_streams(settings.serve.max_in_flight)
    trio.run(_main, settings, on_ready, sample_history, reread, redactor, hung_up, descriptors, lines, manager)
    return 0


def tune_interpreter() -> None:
    """Set how often threads take turns and when garbage is collected, for the whole process."""
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()  # modules and settings live as long as the process: no need to examine them again
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.enable()


def _allow_streams(max_in_flight: int) -> int:
    """Raise the limit of file descriptors to two a stream, as far as it goes, and return it."""
    wanted = descriptors_needed(max_in_flight)
    allowed = ensure_descriptors(wanted)
    if allowed < wanted:
        streams = streams_possible(allowed)
        _log.warning("few_file_descriptors", allowed=allowed, wanted=wanted, max_in_flight=max_in_flight, in_flight_now=streams)
    return allowed


def streams_possible(descriptors: int) -> int:
    """Return how many streams fit: more would be accepted and then have no descriptor for their vendor."""
    return max(_FEWEST_STREAMS, (descriptors - OTHERS) // PER_STREAM)


def connections_possible(descriptors: int) -> int:
    """Return how many connections of callers, idle ones included, leave a descriptor for the vendor of each stream."""
    return max(2 * _FEWEST_STREAMS, descriptors - OTHERS // 2 - streams_possible(descriptors))


def descriptors_needed(streams: int) -> int:
    return PER_STREAM * streams + OTHERS


def ensure_descriptors(count: int) -> int:
    """Raise the soft limit to `count`, as far as the hard limit allows; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft == resource.RLIM_INFINITY:
        return count
    if soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):  # a system whose real limit is lower than the reported one
            return soft
        return most
    return soft


def _secrets(settings: Settings) -> list[Secret]:
    """Return every secret of the configuration, so that none of them can get into the log."""
    provider_keys = [p.api_key for p in settings.providers.values()]
    project_keys = [key for p in settings.projects.values() for key in p.provider_keys.values()]
    fleet = [settings.fleet.valkey, settings.cost_tracking.database, *_password(settings)]
    return [settings.auth.admin_token, settings.mcp_token, *fleet, *(k.key for k in settings.auth.keys), *provider_keys, *project_keys]


def _password(settings: Settings) -> list[Secret]:
    url = settings.fleet.valkey.reveal()
    return [BankAddress.parse(url).password] if url else []


async def _main(
    settings: Settings, on_ready: Callable[[ServeInfo], None], sample_history: bool,
    reread: Callable[[], Settings] | None, redactor: Redactor, hung_up: Callable[[], bool], descriptors: int,
    lines: LogLines, manager: ServiceManager,
) -> None:  # fmt: skip
    async with open_gateway(settings, learn=redactor.learn, processes=True, spares=SPARES) as gateway:
        drain = Drain()
        gateway.log_lines = lines
        async with trio.open_nursery() as nursery:
            nursery.start_soon(
                _stop_on_signal, gateway.relay.in_flight, drain, settings.serve, nursery.cancel_scope, manager
            )
            await nursery.start(reload_on_signal, gateway, reread, redactor, hung_up, manager)
            urls = await nursery.start(serve, gateway, drain, nursery.cancel_scope, descriptors)
            gateway.store.set_address(urls[0])
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
    if descriptors is not None:
        config = attrs.evolve(config, max_in_flight=min(config.max_in_flight, streams_possible(descriptors)))
        limits = attrs.evolve(limits, max_connections=min(limits.max_connections, connections_possible(descriptors)))
    gateway.background.occupancy = drain
    async with trio.open_nursery() as nursery:
        nursery.start_soon(plane.run)
        await listener.serve(
            dispatch=make_dispatch(gateway, plane, plane.serves, drain),
            config=config,
            drain=drain,
            limits=limits,
            max_body_bytes=lambda: gateway.settings.serve.max_body_bytes(),  # a reload may change it
            task_status=task_status,
        )
        await drain.wait_idle()  # what goes on after its request was answered
        nursery.cancel_scope.cancel()
    stop.cancel()


async def load_sample_history(gateway: Gateway) -> None:
    """Add the sample history after the start, which it would delay by a tenth of a second. Log a fault of the disk."""
    try:
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
        redactor.learn(_secrets(settings))
        unchanged = await gateway.reload(settings)
    except (ConfigError, StoreError) as error:
        gateway.failed_reload = error.message
        _log.error("reload_failed", why=error.message)
        return
    gateway.failed_reload = ""
    _log.info("reloaded", file=str(settings.path), needs_restart=list(unchanged), warnings=list(settings.warnings))


async def _stop_on_signal(
    in_flight: InFlight, drain: Drain, serve: Serve, stop: trio.CancelScope, manager: ServiceManager
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
            _log.info("leaving", signal=name, in_flight=drain.in_flight, predrain_s=serve.predrain_s)
        with trio.move_on_after(serve.predrain_s) as announced:
            await anext(signals)
        within_s = serve.drain_s if announced.cancelled_caught else 0.0
        _log.info("draining", signal=name, in_flight=drain.in_flight, drain_s=within_s)
        drain.begin(within_s)
        with trio.move_on_after(within_s):
            await anext(signals)
        _log.info("stopping_now", in_flight=drain.in_flight)
        in_flight.stop()
        with trio.move_on_after(_FAREWELL_S):
            await drain.wait_idle()
        drain.halt()
        stop.cancel()
