"""Check a configuration before anything is started with it: problems of the text, and what is valid but suspicious."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from gw.admin.price_check import old_tables, prices_of, unpriced_of
from gw.admin.schemas import Schema, from_attributes
from gw.config.gw_yaml import user_data_dir
from gw.config.load import without_values
from gw.config.mcp_rules import mcp_missing
from gw.config.otlp_rules import otlp_missing
from gw.config.parse import load_settings, parse
from gw.config.settings import Settings
from gw.errors import ConfigError, GwError
from gw.pricing.rate_tables import own_folder, successor
from gw.providers.spec import spec_of
from gw.registry.catalog import Catalog
from gw.registry.merge import build
from gw.registry.voice_choice import gaps
from gw.telemetry.clock import SystemClock
from gw.wire.openai_embeddings import EMBEDDINGS

NAMES_SHOWN = 5


class Finding(msgspec.Struct, frozen=True):
    """One check and its result."""

    subject: str
    result: Literal["ok", "warning", "failed"]
    detail: str


class ConfigProblem(Schema):
    """One thing wrong. `line` and `column` count from 1; 0 = no position known. `where` is the setting, such as `serve.port`."""

    what: str
    where: str
    line: int
    column: int
    hint: str


class ConfigCheck(Schema):
    """`problems` keep the gateway from starting with this configuration; `findings` are the checks of a valid one."""

    valid: bool
    problems: list[ConfigProblem]
    findings: list[Finding]


def check_config(text: str | None, file: Path | None) -> ConfigCheck:
    """Check a text, or without one the file as it is now. Values of the environment are not shown. Blocks on the disk."""
    try:
        if text is None:
            return ConfigCheck(valid=True, problems=[], findings=findings_of(load_settings(file or Path(), os.environ)))
        settings = parse(text, file="gw.yaml", env=os.environ, data_dir=user_data_dir())
    except ConfigError as error:
        return ConfigCheck(valid=False, problems=[from_attributes(ConfigProblem, problem) for problem in error.problems], findings=[])
    inserted = {name: value for name, value in os.environ.items() if f"${{{name}}}" in text}
    shown = ((without_values(each.subject, inserted), each.result, without_values(each.detail, inserted)) for each in findings_of(settings))
    return ConfigCheck(valid=True, problems=[], findings=[Finding(*each) for each in shown])


def findings_of(settings: Settings) -> list[Finding]:
    """Check what needs neither the network nor the database."""
    catalog = build(settings)
    checks = (_providers, _retired, _simulated, _embeddings, _voices)
    return [*_configuration(settings), *(finding for check in checks for finding in check(catalog)), *_prices(catalog, settings)]


def _configuration(settings: Settings) -> Iterator[Finding]:
    counts = f"{_count(len(settings.providers), 'provider')}, {_count(len(settings.models), 'model')}"
    yield Finding("configuration", "ok", f"{settings.path}: {counts}")
    for warning in settings.warnings:
        yield Finding("configuration", "warning", warning)
    if settings.mcp.enabled and (missing := mcp_missing()):
        yield Finding("mcp.enabled", "failed", f"needs a library that is not installed; {missing}")
    if settings.telemetry.otlp is not None and (missing := otlp_missing()):
        yield Finding("telemetry.otlp", "failed", f"needs OpenTelemetry's SDK, which is not installed; {missing}")


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


def _simulated(catalog: Catalog) -> Iterator[Finding]:
    """Find the built-in engine behind a real model: when vendors fail, callers would get invented words."""
    for name, chain in _chains(catalog):
        simulated = [model_id for model_id in chain[1:] if _is_simulated(catalog, model_id)]
        if simulated and not _is_simulated(catalog, chain[0]):
            yield Finding(f"chain {name}", "warning", f"{simulated[0]} invents its answers: callers of {chain[0]} would get them")


def _is_simulated(catalog: Catalog, model_id: str) -> bool:
    provider = catalog.providers.get(model_id.partition("/")[0])
    return provider is not None and provider.type == "sim"


def _chains(catalog: Catalog) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield every fallback chain with its name in gw.yaml."""
    for modality, chain in catalog.chains.items():
        yield f"fallbacks.{modality}", tuple(chain)
    for project in catalog.projects.values():
        for modality, own in project.fallbacks.items():
            yield f"projects.{project.id}.fallbacks.{modality}", tuple(own)


def _embeddings(catalog: Catalog) -> Iterator[Finding]:
    """Find models of embeddings whose provider offers none, and those that a chain has before a model for conversations."""
    models = {model.id: model for model in catalog.by_modality["llm"].values() if "embed" in model.name.lower()}
    for model in models.values():
        kind = catalog.provider(model.provider).type
        with suppress(GwError, ModuleNotFoundError):  # reported with the provider
            offered = EMBEDDINGS in spec_of(kind).more_chat_dialects
            detail = "makes embeddings" if offered else f"gw has no embeddings of the type {kind}"
            yield Finding(f"model {model.id}", "ok" if offered else "warning", detail)
    for name, chain in _chains(catalog):
        if not name.endswith("fallbacks.llm"):
            continue
        last = max((place for place, model_id in enumerate(chain) if model_id not in models), default=0)
        for model_id in models.keys() & {*chain[:last]}:
            yield Finding(f"chain {name}", "warning", f"{model_id} makes embeddings and holds no conversation: put it last")


def _prices(catalog: Catalog, settings: Settings) -> Iterator[Finding]:
    """Find models without a price (their requests are counted, but not their cost) and tables that are old."""
    try:
        prices = prices_of(catalog, settings)
        unpriced = unpriced_of(prices)
        old = old_tables(settings, {provider.type for provider in catalog.providers.values()})
    except ValueError as error:
        yield Finding("prices", "failed", f"{own_folder(settings.cost_tracking.db_path)}: {error}")
        return
    yield from (Finding("price tables", "warning", sentence) for sentence in old)
    known = f"known for {len(prices) - len(unpriced)} of {_count(len(prices), 'model')}"
    if any(catalog.wildcards.values()):
        known += "; models of wildcards are priced by their names"
    if not unpriced:
        yield Finding("prices", "ok", known)
        return
    more = ", …" if len(unpriced) > NAMES_SHOWN else ""
    yield Finding("prices", "warning", f"{known}; not for {', '.join(unpriced[:NAMES_SHOWN])}{more}")


def _count(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
