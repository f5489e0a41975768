"""`gw mcp`: serve the gateway's tools to coding agents."""

from __future__ import annotations

import errno
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import attrs
import click
import msgspec

from gw.cli.backend import Backend, NoDaemon
from gw.cli.config_file import defaults, load
from gw.cli.main import CommandFailed
from gw.cli.output import aside, log_warnings
from gw.config.mcp_rules import check_mcp_bind, mcp_missing
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.types.secret import Secret


@click.command()
@click.option(
    "--transport", type=click.Choice(["stdio", "http"]), default="stdio", show_default=True,
    help="stdio for a client on this machine; http serves /mcp, /sse and /messages/.",
)  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65_535), help="Port of --transport http.  [default: mcp.port, else 8090]")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to bind.")
@click.option("--read-only", is_flag=True, help="Leave out every tool that changes something.")
@click.option(
    "--text", is_flag=True, envvar="GW_MCP_TEXT", show_envvar=True, help="Send results as text, for a client that reads nothing else."
)
@click.option("--config", type=click.Path(path_type=Path), help="Configuration file.")
@click.option("--url", envvar="GW_URL", show_envvar=True, help="Address of a running gateway to work through.")
@click.option("--key", envvar="GW_API_KEY", show_envvar=True, default="", help="Admin token of a running gateway.")
def mcp(
    transport: str, port: int | None, host: str, read_only: bool, text: bool, config: Path | None, url: str | None, key: str
) -> None:
    """Serve the gateway's tools to coding agents (Model Context Protocol).

    The tools work through the running gateway, or on the database itself when none runs. Without a configuration file
    that is the gateway at --url, or the one at the default address (`gw serve --demo`). With GW_MCP_TOKEN set, every
    HTTP request must carry it as a bearer token, and a --host that others can reach requires it; stdio never does.
    """
    redactor = log_warnings()
    if missing := mcp_missing():
        raise CommandFailed(f"gw mcp needs a library that is not installed; {missing}")
    import trio

    from gw.mcp.run import run

    settings, gateway_url = _settings(config, url, key)
    token = Secret(key) if key else settings.auth.admin_token
    redactor.learn([settings.mcp_token, token])
    if transport == "http":
        check_mcp_bind(attrs.evolve(settings, auth=msgspec.structs.replace(settings.auth, admin_token=token)), host)
    port = settings.mcp.port if port is None else port

    def ready(url: str, place: str) -> None:
        aside(f"MCP at {url}/mcp (and {url}/sse), through {place}" if url else f"MCP on stdio, through {place}")
        if url and not settings.mcp_token:
            aside("no token is required; set GW_MCP_TOKEN to require one")

    bind = (host, port) if transport == "http" else None
    try:
        serve = partial(run, settings, token, gateway_url=gateway_url, read_only=read_only, as_text=text, bind=bind, ready=ready)
        trio.run(_until_sigterm, serve)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL):
            raise
        raise CommandFailed(f"cannot listen on {host}:{port}: {error.strerror}; --port chooses another") from error


def _settings(config: Path | None, url: str | None, key: str) -> tuple[Settings, str]:
    """Return the configuration, and the address of the gateway to work through where the configuration does not give it.

    Raises ConfigError, and NoDaemon where a named gateway does not answer.
    """
    missing: ConfigError | None = None
    try:
        settings = load(config)
    except ConfigError as error:
        if error.problems:  # there is a file
            raise
        settings, missing = defaults(), error
    if url is None and missing is None:
        return settings, ""
    backend = Backend.at(url, key)
    try:
        backend.get("/health")
    except NoDaemon:
        if url is None and missing is not None:
            raise missing from None
        raise
    return settings, backend.url


async def _until_sigterm(serve: Callable[[], Awaitable[None]]) -> None:
    """Run `serve`; SIGTERM cancels it in an orderly way, so that everything recorded is written."""
    import trio

    from gw.errors import one_error

    with trio.open_signal_receiver(signal.SIGTERM) as signals, one_error():
        async with trio.open_nursery() as nursery:

            async def stop() -> None:
                await anext(signals)
                nursery.cancel_scope.cancel()

            nursery.start_soon(stop)
            await serve()
            nursery.cancel_scope.cancel()
