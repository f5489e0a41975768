"""`gw check`: everything that can be known to be wrong before `gw serve`, and with `--online` whether providers answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import attrs
import click
import trio

from gw.admin.provider_check import ProviderHealth, check_provider
from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED
from gw.cli.output import bar, print_json, print_table
from gw.config.settings import Settings
from gw.errors import GwError, StoreUnavailable
from gw.net.http1 import Pool
from gw.pricing.rate_tables import load_book
from gw.pricing.retired import successor
from gw.providers.spec import spec_of
from gw.registry.catalog import Catalog, Provider
from gw.registry.merge import build
from gw.store.lock import holder
from gw.store.sqlite import open_reader
from gw.telemetry.clock import SystemClock, utc_day

NAMES_SHOWN = 5


@attrs.frozen
class Finding:
    subject: str
    result: Literal["ok", "warning", "failed"]
    detail: str


@click.command()
@click.argument("file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--online", is_flag=True, help="Also ask every provider, with its key.")
@click.option("--json", "as_json", is_flag=True, help="The findings as a JSON array.")
@click.pass_context
def check(ctx: click.Context, file: Path | None, online: bool, as_json: bool) -> None:
    """Check the configuration without starting.

    FILE is the one `gw serve` would take, unless given. Exit code 3: the configuration is invalid; 5: a check failed.

    \b
    gw check
    gw check --online
    """
    settings = load(file)
    catalog = build(settings)
    findings = [*_configuration(settings), *_engines(catalog), *_sound(catalog), *_retired(catalog), _prices(catalog)]
    findings += [_database(settings), _address(settings)]
    if online:
        findings += [_answered(provider, health) for provider, health in trio.run(_ask_all, catalog)]
    if as_json:
        print_json([attrs.asdict(finding) for finding in findings])
    else:
        print_table(("check", "result", "detail"), [attrs.astuple(finding) for finding in findings])
    ctx.exit(CHECK_FAILED if any(finding.result == "failed" for finding in findings) else 0)


def _configuration(settings: Settings) -> Iterator[Finding]:
    counts = f"{_many(len(settings.providers), 'provider')}, {_many(len(settings.models), 'model')}"
    yield Finding("configuration", "ok", f"{settings.path}: {counts}")
    for warning in settings.warnings:
        yield Finding("configuration", "warning", warning)


def _engines(catalog: Catalog) -> Iterator[Finding]:
    """Whether this installation can speak to each provider, and has what it needs for that."""
    for provider in catalog.providers.values():
        subject = f"provider {provider.id}"
        try:
            spec_of(provider.type).check_installed(provider.id, provider.base_url, provider.options)
        except GwError as error:
            yield Finding(subject, "failed", str(error))
            continue
        except ModuleNotFoundError as error:
            yield Finding(subject, "failed", f"the module {error.name} is not installed")
            continue
        if not provider.enabled:
            yield Finding(subject, "warning", "switched off")
        elif not provider.configured:
            yield Finding(subject, "warning", provider.key_error or "no API key: its models are passed over")
        else:
            yield Finding(subject, "ok", provider.base_url or provider.type)


def _sound(catalog: Catalog) -> Iterator[Finding]:
    """Apps ask for speech in MP3 unless they are told otherwise."""
    if find_spec("av") is not None:
        return
    speaking = dict.fromkeys(model.provider for model in catalog.models.values() if model.modality == "tts")
    for provider in map(catalog.provider, speaking):
        formats = spec_of(provider.type).speak_formats
        if provider.enabled and formats and "mp3" not in formats:
            what = "no MP3, which most apps ask for, without the module av; install it with: pip install 'gw[audio]'"
            yield Finding(f"speech of {provider.id}", "warning", what)


def _retired(catalog: Catalog) -> Iterator[Finding]:
    """Models that their vendor has ended, or will."""
    today = datetime.fromtimestamp(SystemClock().now(), UTC).date()
    for model in catalog.models.values():
        ending = successor(catalog.provider(model.provider).type, model.name)
        if ending is not None:
            yield Finding(f"model {model.id}", "warning", ending.sentence(today))


def _prices(catalog: Catalog) -> Finding:
    """Requests to a model without a price are counted, but their cost is not."""
    book, today = load_book(), utc_day(SystemClock().now())
    unpriced = []
    for model in catalog.models.values():
        provider = catalog.provider(model.provider)
        free = provider.location == "local" or model.price is not None
        if not free and book.any_price(provider.type, model.name, at_day=today) is None:
            unpriced.append(model.id)
    known = f"known for {len(catalog.models) - len(unpriced)} of {_many(len(catalog.models), 'model')}"
    if not unpriced:
        return Finding("prices", "ok", known)
    more = ", …" if len(unpriced) > NAMES_SHOWN else ""
    return Finding("prices", "warning", f"{known}; not for {', '.join(unpriced[:NAMES_SHOWN])}{more}")


def _database(settings: Settings) -> Finding:
    path = settings.cost_tracking.db_path
    facts = holder(path)
    if facts is not None:
        return Finding("database", "ok", f"{path} is in use by the gateway at {facts.get('url') or 'an unknown address'}")
    if path.exists():
        try:
            open_reader(path, any_schema=True).close()
        except StoreUnavailable as error:
            return Finding("database", "failed", str(error))
    nearest = next(place for place in (path, *path.parents) if place.exists())
    if not os.access(nearest, os.W_OK):
        return Finding("database", "failed", f"{path} cannot be written: no right to write {nearest}")
    return Finding("database", "ok", str(path) if path.exists() else f"{path} (will be made)")


def _address(settings: Settings) -> Finding:
    """Whether the port can be bound. A gateway that runs on this configuration may hold it."""
    host, port = settings.serve.host, settings.serve.port
    if holder(settings.cost_tracking.db_path) is not None:
        return Finding("address", "ok", f"{host}:{port}; a gateway of this configuration runs")
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return Finding("address", "failed", f"{host}:{port} cannot be bound: {error.strerror}")
    return Finding("address", "ok", f"{host}:{port} is free")


async def _ask_all(catalog: Catalog) -> list[tuple[Provider, ProviderHealth]]:
    """All providers at the same time; each has its own cap."""
    asked: list[tuple[Provider, ProviderHealth]] = []

    async def ask(provider: Provider) -> None:
        asked.append((provider, await check_provider(provider, pool)))
        step(len(asked))

    pool = Pool()
    configured = [provider for provider in catalog.providers.values() if provider.configured]
    with bar("asking providers", len(configured)) as step:
        async with trio.open_nursery() as nursery:
            for provider in configured:
                nursery.start_soon(ask, provider)
    await pool.aclose()
    return sorted(asked, key=lambda pair: pair[0].id)


def _answered(provider: Provider, health: ProviderHealth) -> Finding:
    detail = f"{health.message}, {health.latency_ms} ms"
    return Finding(f"online {provider.id}", "ok" if health.ok else "failed", detail)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
