"""`gw check`: what can be checked before `gw serve`, and with `--online` whether the providers answer."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import click
import msgspec
import trio

from gw.admin.config_check import Finding, findings_of
from gw.admin.providers import check_provider
from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED
from gw.cli.output import bar, print_answer
from gw.cli.resource import json_option
from gw.config.capture_rules import missing_for
from gw.config.database_rules import check_database
from gw.config.settings import Settings
from gw.errors import ConfigError, StoreUnavailable
from gw.net.http1 import Pool
from gw.registry.catalog import Catalog, Provider
from gw.registry.merge import build
from gw.store.lock_file import holder
from gw.store.sqlite import open_reader


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--online", is_flag=True, help="Also send every provider a cheap request, with its key.")
@json_option("The findings as a JSON array.")
@click.pass_context
def check(ctx: click.Context, file: Path | None, online: bool, as_json: bool) -> None:
    """Check the configuration without starting.

    FILE defaults to the one that `gw serve` would take. Exit code 3: the configuration is invalid; 5: a check failed.

    \b
    gw check
    gw check --online
    """
    settings = load(file)
    findings = [*findings_of(settings), _database(settings), *_capture(settings), _address(settings)]
    if online:
        findings += trio.run(_test_providers, build(settings))
    answer = [msgspec.structs.asdict(finding) for finding in findings]
    print_answer(answer, ("check", "result", "detail"), map(msgspec.structs.astuple, findings), as_json=as_json)
    ctx.exit(CHECK_FAILED if any(finding.result == "failed" for finding in findings) else 0)


def _database(settings: Settings) -> Finding:
    path = settings.cost_tracking.db_path
    if settings.cost_tracking.database:
        return _postgres(settings)
    facts = holder(path)
    if facts is not None:
        return Finding("database", "ok", f"{path} is in use by the gateway at {facts.get('url') or 'an unknown address'}")
    if path.exists():
        try:
            open_reader(path, any_schema=True).close()
        except StoreUnavailable as error:
            return Finding("database", "failed", str(error))
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        return Finding("database", "failed", f"{path} cannot be written: no permission to write {existing}")
    return Finding("database", "ok", str(path) if path.exists() else f"{path} (will be created)")


def _postgres(settings: Settings) -> Finding:
    try:
        check_database(settings)
        from gw.store.postgres.pg_schema import look_at

        return Finding("database", "ok", look_at(settings.cost_tracking.database))
    except (StoreUnavailable, ConfigError) as error:
        return Finding("database", "failed", str(error))


def _capture(settings: Settings) -> list[Finding]:
    """Return what keeps projects from being captured that want it."""
    projects = settings.projects.values()
    missing = {project.id: missing_for(project.capture, settings.secret) for project in projects if project.capture is not None}
    return [
        Finding(f"capture {name}", "ok", "") if what is None else Finding(f"capture {name}", "failed", ": ".join(what))
        for name, what in missing.items()
    ]


def _address(settings: Settings) -> Finding:
    """Check that the port can be bound, unless a gateway of this configuration holds it."""
    host, port = settings.serve.host, settings.serve.port
    if holder(settings.cost_tracking.db_path) is not None:
        return Finding("address", "ok", f"{host}:{port} is in use by the gateway of this configuration")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return Finding("address", "failed", f"{host}:{port} cannot be bound: {error.strerror}")
    return Finding("address", "ok", f"{host}:{port} is free")


async def _test_providers(catalog: Catalog) -> list[Finding]:
    """Test all providers that have a key at the same time; each test has its own time limit."""
    findings: list[Finding] = []

    async def test(provider: Provider) -> None:
        health = await check_provider(provider, pool)
        detail = f"{health.message}, {health.latency_ms} ms"
        findings.append(Finding(f"online {provider.id}", "ok" if health.ok else "failed", detail))
        step(len(findings))

    pool = Pool()
    configured = [provider for provider in catalog.providers.values() if provider.configured]
    with bar("testing providers", len(configured)) as step:
        async with trio.open_nursery() as nursery:
            for provider in configured:
                nursery.start_soon(test, provider)
    await pool.aclose()
    return sorted(findings, key=lambda finding: finding.subject)
