"""`gw check`: what can be checked before `gw serve`, and with `--online` whether the providers answer."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import attrs
import click
import trio

from gw.admin.providers import check_provider
from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED
from gw.cli.output import bar, print_answer
from gw.cli.prices import old_tables, prices_of, unpriced_of
from gw.cli.resource import json_option
from gw.config.settings import Settings
from gw.errors import GwError, StoreUnavailable
from gw.net.http1 import Pool
from gw.pricing.rate_tables import own_folder, successor
from gw.providers.spec import spec_of
from gw.registry.catalog import Catalog, Provider
from gw.registry.merge import build
from gw.registry.voice_choice import gaps
from gw.store.lock import holder
from gw.store.sqlite import open_reader
from gw.telemetry.clock import SystemClock
from gw.wire.openai_embeddings import EMBEDDINGS

NAMES_SHOWN = 5


@attrs.frozen
class Finding:
    subject: str
    result: Literal["ok", "warning", "failed"]
    detail: str


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
    catalog = build(settings)
    findings = [*_configuration(settings), *_providers(catalog), *_retired(catalog), *_embeddings(catalog), *_voices(catalog)]
    findings += _prices(catalog, settings)
    findings += [_database(settings), _address(settings)]
    if online:
        findings += trio.run(_test_providers, catalog)
    answer = [attrs.asdict(finding) for finding in findings]
    print_answer(answer, ("check", "result", "detail"), map(attrs.astuple, findings), as_json=as_json)
    ctx.exit(CHECK_FAILED if any(finding.result == "failed" for finding in findings) else 0)


def _configuration(settings: Settings) -> Iterator[Finding]:
    counts = f"{_count(len(settings.providers), 'provider')}, {_count(len(settings.models), 'model')}"
    yield Finding("configuration", "ok", f"{settings.path}: {counts}")
    for warning in settings.warnings:
        yield Finding("configuration", "warning", warning)


def _providers(catalog: Catalog) -> Iterator[Finding]:
    """Check that this installation supports each provider, and that the provider has its key."""
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


def _voices(catalog: Catalog) -> Iterator[Finding]:
    """Find candidates of chains that have no voice for some requests."""
    for gap in gaps(catalog):
        yield Finding(f"chain {gap.chain}", "warning", gap.sentence())


def _retired(catalog: Catalog) -> Iterator[Finding]:
    """Find models that their vendor has retired or will retire."""
    today = datetime.fromtimestamp(SystemClock().now(), UTC).date()
    for model in catalog.models.values():
        ending = successor(catalog.provider(model.provider).type, model.name)
        if ending is not None:
            yield Finding(f"model {model.id}", "warning", ending.sentence(today))


def _embeddings(catalog: Catalog) -> Iterator[Finding]:
    """Find models of embeddings whose provider offers none, and those that a chain has before a model for conversations."""
    models = {model.id: model for model in catalog.by_modality["llm"].values() if "embed" in model.name.lower()}
    for model in models.values():
        kind = catalog.provider(model.provider).type
        with suppress(GwError, ModuleNotFoundError):  # reported with the provider
            offered = EMBEDDINGS in spec_of(kind).more_chat_dialects
            detail = "makes embeddings" if offered else f"gw has no embeddings of the type {kind}"
            yield Finding(f"model {model.id}", "ok" if offered else "warning", detail)
    chains = {"fallbacks.llm": catalog.chains.get("llm", ())}
    chains |= {f"projects.{project.id}.fallbacks.llm": project.fallbacks.get("llm", ()) for project in catalog.projects.values()}
    for name, chain in chains.items():
        last = max((place for place, model_id in enumerate(chain) if model_id not in models), default=0)
        for model_id in models.keys() & {*chain[:last]}:
            yield Finding(f"chain {name}", "warning", f"{model_id} makes embeddings and holds no conversation: put it last")


def _prices(catalog: Catalog, settings: Settings) -> Iterator[Finding]:
    """Find models without a price (their requests are counted, but not their cost) and tables that are old."""
    try:
        unpriced = unpriced_of(prices_of(catalog, settings))
        old = old_tables(settings, {provider.type for provider in catalog.providers.values()})
    except ValueError as error:
        yield Finding("prices", "failed", f"{own_folder(settings.cost_tracking.db_path)}: {error}")
        return
    yield from (Finding("price tables", "warning", sentence) for sentence in old)
    known = f"known for {len(catalog.models) - len(unpriced)} of {_count(len(catalog.models), 'model')}"
    if not unpriced:
        yield Finding("prices", "ok", known)
        return
    more = ", …" if len(unpriced) > NAMES_SHOWN else ""
    yield Finding("prices", "warning", f"{known}; not for {', '.join(unpriced[:NAMES_SHOWN])}{more}")


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
    existing = next(place for place in (path, *path.parents) if place.exists())
    if not os.access(existing, os.W_OK):
        return Finding("database", "failed", f"{path} cannot be written: no permission to write {existing}")
    return Finding("database", "ok", str(path) if path.exists() else f"{path} (will be created)")


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


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
