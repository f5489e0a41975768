"""What one page of the dashboard shows, as one object: opening a page is one request.

The parts are those of the API; here they are put together, and each entry of the configuration says where it stands.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Any

import msgspec

from gw.admin import fallbacks, forecast, keys, listings, reports, series
from gw.admin.registrar import Registrar
from gw.admin.reports import Json, usd
from gw.admin.setting_sources import Origin
from gw.policy import budget
from gw.pricing.book import Price, PriceBook
from gw.registry.catalog import Catalog, Model
from gw.store.store import Reader
from gw.telemetry.clock import utc_day
from gw.types.ids import MODALITIES
from gw.types.provider_types import PROVIDER_TYPES

MOST_COMPARED = 2
_RATES = (
    *("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
    *("input_audio_tokens", "output_audio_tokens", "audio_seconds", "characters"),
)


def providers(registrar: Registrar) -> Json:
    """Providers with the number of their models, and the types there are for a new one."""
    catalog, origin = registrar.catalog, Origin(registrar.settings)
    held: dict[str, int] = {}
    for model in catalog.models.values():
        held[model.provider] = held.get(model.provider, 0) + 1
    return {
        "providers": [
            {
                **listings.provider(entry),
                "models": held.get(entry.id, 0),
                "requests_per_minute": entry.requests_per_minute,
                "max_concurrent": entry.max_concurrent,
                "origin": origin.of(entry.source, "providers", entry.id),
            }
            for entry in catalog.providers.values()
        ],
        "types": [
            {"type": name, "location": kind.location, "modalities": list(kind.modalities)}
            for name, kind in PROVIDER_TYPES.items()
        ],
    }


def models(registrar: Registrar, book: PriceBook, now: float) -> Json:
    """Models with their price today, the providers a new one may have, and the chain of each modality."""
    catalog, origin = registrar.catalog, Origin(registrar.settings)
    return {
        "models": [_model(catalog, entry, origin, book, utc_day(now)) for entry in catalog.models.values()],
        "providers": {p.id: list(PROVIDER_TYPES[p.type].modalities) for p in catalog.providers.values()},
        "fallbacks": fallbacks.listing(registrar).fallbacks,
    }


def _model(catalog: Catalog, entry: Model, origin: Origin, book: PriceBook, day: int) -> Json:
    provider = catalog.providers.get(entry.provider)
    price = entry.price
    if price is None and provider is not None:
        price = book.any_price(provider.type, entry.name, at_day=day)
    return {
        "model_id": entry.id,
        "modality": entry.modality,
        "provider": entry.provider,
        "model": entry.name,
        "display_name": entry.display_name,
        "default_language": entry.default_language,
        "default_voice": entry.default_voice,
        "aliases": list(entry.aliases),
        "source": entry.source,
        "origin": origin.of(entry.source, "models", entry.modality, entry.id),
        "configured": provider is not None and provider.configured,
        "free": price is None and provider is not None and provider.location == "local",
        "rates": _rates(price),
        "price_source": price.source if price else "",
    }


def _rates(price: Price | None) -> Json:
    """USD per million of each unit that is billed."""
    if price is None:
        return {}
    found = {name: getattr(price, name) for name in _RATES}
    return {name: usd(rate) for name, rate in found.items() if rate is not None}


async def projects(registrar: Registrar, now: float, *, spent: listings.Spent) -> Json:
    """Projects with their day and budget, and the stacks one may have."""
    catalog, origin = registrar.catalog, Origin(registrar.settings)
    listed: dict[str, Any] = await listings.projects(registrar.store, catalog, now)
    shown: list[Json] = []
    for entry in listed["projects"]:
        project = catalog.project(entry["project_id"])
        spent_nusd, limit = spent(project.id), project.daily_budget_nusd
        shown.append(
            {
                **entry,
                "today_spend": usd(spent_nusd),
                "requests_today": listed["stats"][project.id]["requests_today"],
                "budget_status": budget.status(spent_nusd, limit),
                "share": round(spent_nusd / limit, 6) if limit else None,
                "fallbacks": {modality: list(models) for modality, models in project.fallbacks.items()},
                "own_keys": list(project.provider_keys),
                "origin": origin.of(project.source, "projects", project.id),
            }
        )
    return {"projects": shown, "stacks": list(catalog.stacks)}


def access_keys(registrar: Registrar) -> Json:
    """Keys, and the projects a new one may be for."""
    origin = Origin(registrar.settings)
    shown = [
        {**msgspec.structs.asdict(entry), "origin": origin.of(entry.source, "auth", "keys", number)}
        for number, entry in enumerate(keys.listing(registrar).keys)
    ]
    return {"keys": shown, "projects": list(registrar.catalog.projects), "auth_on": registrar.settings.auth.on}


def playground(registrar: Registrar) -> Json:
    """What can be tried, and whether a key is needed for it."""
    catalog = registrar.catalog
    return {
        "auth_on": registrar.settings.auth.on,
        "models": {modality: list(catalog.by_modality[modality]) for modality in MODALITIES},
        "stacks": list(catalog.stacks),
        "projects": list(catalog.projects),
        "voices": list(catalog.voices),
    }


async def costs(
    store: Reader, catalog: Catalog, now: float, *, period: str = "today", by: str = "model", project: str | None = None
) -> Json:
    """What was spent in a period: in groups, over time, and where the month is going."""
    return {
        "costs": await reports.costs(store, catalog, now, period=period, project=project),
        "series": await series.series(store, catalog, now, metric="cost", period=period, by=by, project=project),
        "forecast": await forecast.forecast(store, catalog, now, project=project),
    }


async def latency(
    store: Reader,
    catalog: Catalog,
    now: float,
    *,
    metric: str = "ttfb",
    period: str = "today",
    project: str | None = None,
    models: Iterable[str] = (),
) -> Json:
    """Every model's percentiles in a period; of one or two of them also the line over time and the histogram.

    Without `models` it is the one that was asked most.
    """
    reports.one_of("metric", metric, series.TIMES)
    found: dict[str, Any] = await reports.latency(store, catalog, now, period=period, project=project)
    chosen = list(dict.fromkeys(models))[:MOST_COMPARED] or sorted(
        found, key=lambda name: (-found[name]["request_count"], name)
    )[:1]
    draw = partial(series.series, store, catalog, now, metric=metric, period=period, project=project)
    return {
        "models": found,
        "all": await draw(),
        "lines": [await draw(model=name) for name in chosen],
        "histograms": [
            await series.histogram(store, catalog, now, model=name, period=period, project=project) for name in chosen
        ],
    }
