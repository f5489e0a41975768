"""`gw serve`: the daemon, and the banner that it prints when it is ready."""

from __future__ import annotations

import errno
import gc
import os
import signal
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import click
import msgspec

import gw
from gw.cli.config_file import load
from gw.cli.main import CommandFailed
from gw.cli.output import aside
from gw.config.alert_rules import check_alerts
from gw.config.capture_rules import check_capture
from gw.config.mcp_rules import check_mcp
from gw.config.parse import demo_settings
from gw.config.settings import Settings
from gw.errors import ConfigError, Problem
from gw.types.address import is_loopback
from gw.types.ids import MODALITIES

if TYPE_CHECKING:
    from gw.serve import ServeInfo

CANNOT_LISTEN = (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES)
MOST_WORKERS = 256
MODELS_SHOWN = 6  # models of each modality in the banner


class Workers(click.ParamType):  # type: ignore[type-arg]
    """A number of processes, or `auto`."""

    name = "number|auto"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int | str:
        return "auto" if value == "auto" else int(click.IntRange(1, MOST_WORKERS).convert(value, param, ctx))


@click.command()
@click.option("--port", type=click.IntRange(0, 65_535), help="Port; 0 takes a free one.")
@click.option("--host", help="Address to bind.")
@click.option("--config", type=click.Path(exists=True, dir_okay=False, path_type=Path), help="Configuration file.")
@click.option("--workers", type=Workers(), help="Processes that serve apps, or auto: one for each core.")
@click.option("--demo", is_flag=True, help="Built-in models without keys or a file; data in a temporary folder.")
@click.option("--check", is_flag=True, help="Only validate the configuration.")
@click.pass_context
def serve(
    ctx: click.Context, port: int | None, host: str | None, config: Path | None, workers: int | str | None, demo: bool, check: bool
) -> None:
    """Run the gateway.

    SIGTERM and Ctrl-C let running streams finish (serve.drain_s); a second signal stops at once. SIGHUP reads the
    configuration again.

    Exit codes: 0 stopped by a signal; 1 failed, and another try may succeed (the port or the database is in use, the disk
    is full); 2 wrong options; 3 somebody must act first (the configuration is invalid, the database is damaged, of another
    program or of a newer gw).

    \b
    gw serve --demo
    gw serve --config /etc/gw.yaml --port 8080
    """
    if demo and config:
        raise click.UsageError("--demo takes no configuration file")
    with _hangups() as hung_up, _settings(config, demo) as configured:
        settings = bound_to(configured, host, port, workers)
        for warning in settings.warnings:
            aside(f"warning: {warning}")
        if check:
            aside(f"{settings.path or 'demo'} ok")
            return
        reread = None if demo else lambda: bound_to(load(config), host, port, workers)
        ctx.exit(_run(settings, demo, reread, hung_up))


def _run(settings: Settings, demo: bool, reread: Callable[[], Settings] | None, hung_up: Callable[[], bool]) -> int:
    gc.disable()  # until `run`: collections while a thousand modules load find nothing, and take 60 ms
    from gw.telemetry.lean_start import import_leanly

    import_leanly()
    from gw.net.service_manager import ServiceManager
    from gw.serve import run

    try:
        return run(
            settings, on_ready=lambda ready: aside(banner(settings, ready, demo=demo)), reread=reread, sample_history=demo,
            hung_up=hung_up, manager=ServiceManager.from_environment(os.environ),
        )  # fmt: skip
    except OSError as error:
        if error.errno not in CANNOT_LISTEN:
            raise
        where = f"{settings.serve.host}:{settings.serve.port}"
        raise CommandFailed(f"cannot listen on {where}: {error.strerror}; --port and --host choose another address") from error


@contextmanager
def _hangups() -> Iterator[Callable[[], bool]]:
    """Keep a SIGHUP that comes before the gateway can reload; yield whether there was one."""
    came: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = signal.signal(signal.SIGHUP, lambda number, _frame: came.append(number))
    try:
        yield lambda: bool(came)
    finally:
        signal.signal(signal.SIGHUP, before)


@contextmanager
def _settings(config: Path | None, demo: bool) -> Iterator[Settings]:
    """Yield the settings. The demo's data is deleted at the end of the block."""
    if not demo:
        yield load(config)
        return
    with tempfile.TemporaryDirectory(prefix="gw-demo-") as folder:
        yield demo_settings(Path(folder), os.environ.get("GW_ADMIN_TOKEN", ""))


def bound_to(settings: Settings, host: str | None, port: int | None, workers: int | str | None = None) -> Settings:
    """Return `settings` with the address and the number of workers of the command line.

    Raises ConfigError for an address where others could use the gateway, or its tools for MCP, without a key, and for
    projects of which nothing can be captured although they want it.
    """
    address = msgspec.structs.replace(
        settings.serve, host=host or settings.serve.host, port=settings.serve.port if port is None else port,
        workers=workers or settings.serve.workers,
    )  # fmt: skip
    if settings.auth.refuses(address.host):
        what = f"refusing to bind {address.host} without auth: anyone who can reach it could spend your money"
        hint = "set auth.admin_token, or auth.allow_open: true" if settings.path else "set GW_ADMIN_TOKEN (openssl rand -hex 32)"
        raise ConfigError(problems=(Problem(what=what, hint=hint),))
    check_capture(attrs.evolve(settings, serve=address))
    check_mcp(settings, address.host)
    check_alerts(settings)
    if is_loopback(address.host) or settings.auth.on:
        return attrs.evolve(settings, serve=address)
    open_bind = f"open to everyone who can reach {address.host}: no key is required (auth.allow_open)"
    return attrs.evolve(settings, serve=address, warnings=(*settings.warnings, open_bind))


def banner(settings: Settings, ready: ServeInfo, *, demo: bool) -> str:
    """Return what a newcomer needs next: the address, the models, the chains, the place of the data."""
    origin = "demo mode (no keys, data in a temporary folder)" if demo else f"{settings.path}"
    lines = [f"gw {gw.__version__}  {origin}", f"dashboard  {ready.url}/", f"API        {ready.url}/v1"]
    for modality in MODALITIES:
        ids = [model.id for model in settings.models.values() if model.modality == modality]
        if ids:
            more = f"  and {len(ids) - MODELS_SHOWN} more" if len(ids) > MODELS_SHOWN else ""
            lines.append(f"{modality:<10} " + "  ".join(ids[:MODELS_SHOWN]) + more)
    lines += [f"{'chain ' + m:<10} " + " -> ".join(chain) for m, chain in settings.fallbacks.items() if chain]
    if demo and settings.auth.admin_token:
        lines.append("sign in    with the value of GW_ADMIN_TOKEN, which callers send, too")
    if demo:
        from gw.admin.demo_history import DAYS, PROJECT  # which no other start needs

        lines.append(f"history    {DAYS} made-up days before today, in the project {PROJECT}")
    else:
        lines.append(f"database   {ready.database}")
    next_step = '        next: gw say "hello" -o hi.wav' if demo else ""
    lines.append(f"ready in {ready.started_s:.1f} s   Ctrl-C stops{next_step}")
    return "\n".join(f"  {line}" for line in lines)
