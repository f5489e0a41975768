"""Pages of the dashboard, each as one object: opening a page is one request.

The parts are those of the API. Every entry of the configuration carries its origin.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from gw.admin import fallbacks, first_audio_reports, forecast, keys, listings, reports
from gw.admin.budget_use import BudgetUse, SpentIn, budget_share, budgets_in_use
from gw.admin.fallbacks import Chain
from gw.admin.first_audio_reports import FirstAudioReport
from gw.admin.fleet_status import FleetPage
from gw.admin.keys import KeyEntry
from gw.admin.listings import ProviderEntry
from gw.admin.models import own_prices
from gw.admin.periods import BOUNDED, read_period
from gw.admin.projects import ProjectEntry
from gw.admin.registrar import Registrar
from gw.admin.request_models import one_of, project_filter
from gw.admin.schemas import Ms, Schema, UnixSeconds, Usd, from_attributes, in_turns, usd
from gw.config.settings import Serve, Settings
from gw.policy import budget
from gw.pricing.book import PriceBook
from gw.registry.catalog import Catalog, Model
from gw.store.store import Reader
from gw.telemetry.clock import utc_day
from gw.types.entities import BudgetStatus, Price, Project
from gw.types.ids import MODALITIES, Location, Modality, Source
from gw.types.provider_types import PROVIDER_TYPES
from gw.types.secret import Secret
from gw.types.usage import COUNTERS

MAX_COMPARED = 2
SECTIONS = ("serve", "routing", "cost_tracking", "auth", "mcp", "latency", "rate_limiting", "stacks", "voices")
"""Sections that no other page shows."""
_FROM_ELSEWHERE: Mapping[tuple[str | int, ...], tuple[object, str]] = {
    ("serve", "host"): (Serve().host, "command line"),
    ("serve", "port"): (Serve().port, "command line or PORT"),
    ("cost_tracking", "db_path"): (None, "GW_DB_PATH or default"),
}
"""Path of a setting → its default, and the origin of another value that is not in the file."""

EntryOrigin = Annotated[str, Meta(description="`gw.yaml:12`, `API` or `built in`")]


class ProviderRow(ProviderEntry):
    """`models` is the number of configured models."""

    models: int
    requests_per_minute: int | None
    max_concurrent: int | None
    origin: EntryOrigin


class ProviderTypeEntry(Schema):
    type: str
    location: Location
    modalities: Sequence[Modality]


class ProvidersPage(Schema):
    """`types` are the provider types that a new provider can have."""

    providers: list[ProviderRow]
    types: list[ProviderTypeEntry]


class ModelRow(Schema):
    """`rates`: USD per million of each billed unit; empty without a known price. `free`: runs on this machine. `own_prices`:
    those set for this model, which override the tables, in words. `wildcard`: stands for any name of the provider."""

    model_id: str
    modality: Modality
    provider: str
    model: str
    display_name: str
    default_language: str | None
    default_voice: str | None
    aliases: Sequence[str]
    source: Source
    origin: EntryOrigin
    configured: bool
    wildcard: bool
    free: bool
    rates: dict[str, Usd]
    price_source: str
    own_prices: list[str]


class ModelsPage(Schema):
    """`providers`: the modalities that each provider offers."""

    models: list[ModelRow]
    providers: dict[str, Sequence[Modality]]
    fallbacks: dict[Modality, Chain]


class ProjectRow(ProjectEntry):
    """`share` is the spent part of the daily budget; null without one. `own_keys`: providers for which the project has its
    own key."""

    today_spend: Usd
    requests_today: int
    budget_status: BudgetStatus
    share: float | None
    budgets: list[BudgetUse]
    fallbacks: Mapping[Modality, Sequence[str]]
    own_keys: list[str]
    origin: EntryOrigin


class ProjectsPage(Schema):
    projects: list[ProjectRow]
    stacks: list[str]


class KeyRow(KeyEntry):
    origin: EntryOrigin


class KeysPage(Schema):
    """`projects` are the projects that a new key can be for."""

    keys: list[KeyRow]
    projects: list[str]
    auth_on: bool


class PlaygroundPage(Schema):
    """`auth_on`: apps need a key; the page itself has its session. `voices`: aliases that every provider knows."""

    auth_on: bool
    models: dict[Modality, list[str]]
    stacks: list[str]
    projects: list[str]
    voices: list[str]


class CostsPage(Schema):
    """`before`: the period before, as long as this one."""

    costs: reports.Costs
    before: reports.Costs | None
    series: reports.CountSeries
    forecast: forecast.Forecast


class LatencyPage(Schema):
    """`before`: every model in the period before. `lines` and `histograms`: of each requested model, in that order."""

    models: dict[str, reports.ModelLatency]
    before: dict[str, reports.ModelLatency]
    first_audio: FirstAudioReport
    lines: list[reports.TimeSeries]
    histograms: list[reports.ModelHistogram]
    ttfb_warning_ms: Ms


def providers(registrar: Registrar) -> ProvidersPage:
    """Return the providers with the number of their models, and the provider types."""
    catalog, origins = registrar.catalog, Origins(registrar.settings)
    counts = Counter(model.provider for model in catalog.models.values())
    return ProvidersPage(
        providers=[
            from_attributes(
                ProviderRow,
                listings.provider(entry),
                models=counts[entry.id],
                requests_per_minute=entry.requests_per_minute,
                max_concurrent=entry.max_concurrent,
                origin=origins.of(entry.source, "providers", entry.id),
            )
            for entry in catalog.providers.values()
        ],
        types=[
            ProviderTypeEntry(type=name, location=kind.location, modalities=kind.modalities)
            for name, kind in PROVIDER_TYPES.items()
        ],
    )


async def models(registrar: Registrar, book: PriceBook, now: float) -> ModelsPage:
    """Return the models with today's prices, the providers a new one may have, and the fallback chains."""
    catalog, origins = registrar.catalog, Origins(registrar.settings)
    return ModelsPage(
        models=await in_turns(_model(catalog, entry, origins, book, utc_day(now)) for entry in catalog.models.values()),
        providers={p.id: PROVIDER_TYPES[p.type].modalities for p in catalog.providers.values()},
        fallbacks=fallbacks.listing(registrar).fallbacks,
    )


def _model(catalog: Catalog, entry: Model, origins: Origins, book: PriceBook, day: int) -> ModelRow:
    provider = catalog.providers.get(entry.provider)
    price = entry.price(day)
    if price is None and provider is not None and not entry.is_wildcard:
        price = book.any_price(provider.type, entry.name, at_day=day)
    return from_attributes(
        ModelRow,
        entry,
        model_id=entry.id,
        model=entry.name,
        origin=origins.of(entry.source, "models", entry.modality, entry.id),
        configured=provider is not None and provider.configured,
        wildcard=entry.is_wildcard,
        free=price is None and provider is not None and provider.location == "local",
        rates=_rates(price) if price else {},
        price_source=price.source if price else "",
        own_prices=own_prices(entry),
    )


def _rates(price: Price) -> dict[str, float]:
    """Return USD per million of each billed unit."""
    rates = {name: getattr(price, name) for name in COUNTERS}
    return {name: usd(rate) for name, rate in rates.items() if rate is not None}


async def projects(registrar: Registrar, catalog: Catalog, now: float, *, spent_in: SpentIn) -> ProjectsPage:
    """Return the projects with today's costs and budgets, and the stacks."""
    origins = Origins(registrar.settings)
    listed = await listings.projects(registrar.store, catalog, now)
    rows = await in_turns(
        _project(catalog.project(entry.id), entry, listed.stats[entry.id].requests_today, origins, spent_in) for entry in listed.projects
    )
    return ProjectsPage(projects=rows, stacks=list(catalog.stacks))


def _project(project: Project, entry: ProjectEntry, requests_today: int, origins: Origins, spent_in: SpentIn) -> ProjectRow:
    spent_nusd, limit = spent_in(project.id, "day"), project.daily_budget_nusd
    return from_attributes(
        ProjectRow,
        entry,
        today_spend=usd(spent_nusd),
        requests_today=requests_today,
        budget_status=budget.status(spent_nusd, limit),
        share=budget_share(spent_nusd, limit),
        budgets=budgets_in_use(project, project.id, spent_in),
        fallbacks=project.fallbacks,
        own_keys=list(project.provider_keys),
        origin=origins.of(project.source, "projects", project.id),
    )


async def access_keys(registrar: Registrar, catalog: Catalog, *, spent_in: SpentIn) -> KeysPage:
    """Return the keys of the projects of `catalog`, and the projects a new one may be for."""
    origins = Origins(registrar.settings)
    listed = (await keys.listing(registrar, spent_in)).keys
    rows = await in_turns(
        from_attributes(KeyRow, key, origin=origins.of(key.source, "auth", "keys", number))
        for number, key in enumerate(listed)
        if key.project in catalog.projects
    )
    return KeysPage(keys=rows, projects=list(catalog.projects), auth_on=registrar.settings.auth.on)


def playground(settings: Settings, catalog: Catalog) -> PlaygroundPage:
    return PlaygroundPage(
        auth_on=settings.auth.on,
        models={modality: list(catalog.by_modality[modality]) for modality in MODALITIES},
        stacks=list(catalog.stacks),
        projects=list(catalog.projects),
        voices=list(catalog.voices),
    )


async def costs(
    store: Reader, catalog: Catalog, now: float, *, by: str = "model", project: str | None = None,
    step: str | None = None, **query: Any,
) -> CostsPage:  # fmt: skip
    """Return the costs of a period in groups and over time, those of the period before, and the forecast of the month."""
    period, only = read_period(now, **query, allowed=BOUNDED), project_filter(catalog, project)
    over_time = await reports.series(store, catalog, now, metric="cost", by=by, project=project, step=step, **query)
    return CostsPage(
        costs=await reports.costs_of(store, period, only),
        before=await reports.costs_of(store, period.before, only) if period.before else None,
        series=cast("reports.CountSeries", over_time),
        forecast=await forecast.forecast(store, catalog, now, project=project),
    )


async def latency(
    store: Reader, catalog: Catalog, now: float, *, ttfb_warning_ms: float, metric: str = "ttfb",
    project: str | None = None, models: Iterable[str] = (), step: str | None = None, **query: Any,
) -> LatencyPage:  # fmt: skip
    """Return every model's percentiles in a period and in that before, and lines and histograms of up to two models.

    Without `models` it is the one with the most requests. Modalities of one id are apart.
    """
    one_of("metric", metric, reports.TIMES)
    period, only = read_period(now, **query, allowed=BOUNDED), project_filter(catalog, project)
    wanted = list(dict.fromkeys(models))[:MAX_COMPARED]
    by_model, histograms = await reports.latency_and_histograms(store, catalog, now, wanted, project=project, **query)
    lines = [
        await reports.series(store, catalog, now, metric=metric, project=project, model=each.model, step=step, **query)
        for each in histograms
    ]
    return LatencyPage(
        models=by_model,
        first_audio=await first_audio_reports.report(store, catalog, now, project=project, step=step, **query),
        before=await reports.latency_of(store, period.before, only, apart=True) if period.before else {},
        lines=cast("list[reports.TimeSeries]", lines),
        histograms=histograms,
        ttfb_warning_ms=ttfb_warning_ms,
    )


# ---- the settings, each with its origin: a line of gw.yaml, the environment, the API, or the built-in default


class SettingValue(Schema):
    """`origin`: `gw.yaml:12`, the name of a variable, or `default`."""

    name: str
    value: str | float | bool | list[str] | None
    origin: str


class SettingSection(Schema):
    name: str
    values: list[SettingValue]


class SettingsPage(Schema):
    version: str
    started_at: UnixSeconds
    file: str | None
    warnings: list[str]
    sections: list[SettingSection]
    fleet: FleetPage | None
    """Gateways that share limits with this one; null: it runs alone."""


class Origins:
    """Origins of the settings and of the catalog's entries."""

    def __init__(self, settings: Settings) -> None:
        self._lines = settings.lines
        self._file = settings.path.name if settings.path else ""

    def line(self, *path: str | int) -> str:
        """Return `gw.yaml:12`, or "" for a path that is not in the file."""
        number = self._lines.get(path)
        return f"{self._file}:{number}" if self._file and number else ""

    def of(self, source: str, *path: str | int) -> str:
        """Return the origin of a catalog entry; entries of a list have their own lines."""
        if source == "db":
            return "API"
        return self.line(*path) or ("built in" if not self._file else self._file)


async def settings_page(
    settings: Settings, *, version: str, started_at: float, warnings: tuple[str, ...], fleet: FleetPage | None = None
) -> SettingsPage:
    """Return the configuration in force with the origin of each value; secrets are masked. `warnings`: of the database."""
    origins = Origins(settings)
    return SettingsPage(
        version=version,
        started_at=started_at,
        file=str(settings.path) if settings.path else None,
        warnings=[*settings.warnings, *warnings],
        sections=[SettingSection(name=n, values=await in_turns(_setting_values(getattr(settings, n), (n,), origins))) for n in SECTIONS],
        fleet=fleet,
    )


def _setting_values(value: object, path: tuple[str | int, ...], origins: Origins) -> Iterator[SettingValue]:
    """Yield the leaves below `value`, in the order of their declaration."""
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _setting_values(getattr(value, name), (*path, name), origins)
    elif isinstance(value, Mapping):
        for name, child in value.items():
            yield from _setting_values(child, (*path, str(name)), origins)
    elif isinstance(value, tuple) and value and isinstance(value[0], msgspec.Struct):
        for number, child in enumerate(value):
            yield from _setting_values(child, (*path, number), origins)
    else:
        name = ".".join(map(str, path[1:]))
        default, elsewhere = _FROM_ELSEWHERE.get(path, (value, ""))
        origin = origins.line(*path) or (elsewhere if value != default else "default")
        yield SettingValue(name=name, value=_shown(value), origin=origin)


def _shown(value: object) -> str | int | float | bool | list[str] | None:
    if isinstance(value, Secret):
        return value.masked or None
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return value if isinstance(value, (str, int, float, bool)) else None
