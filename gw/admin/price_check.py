"""Whether every configured model has a price, and how old the tables are."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from gw.config.settings import Settings
from gw.pricing.price_document import EPOCH_DAY, day_text
from gw.pricing.rate_tables import load_book, own_folder, tables_verified
from gw.pricing.units import price_text
from gw.registry.catalog import Catalog
from gw.telemetry.clock import SystemClock, utc_day

PRICE_FIELDS = ("model", "modality", "result", "price", "source")
OLD_DAYS = 90
"""Vendors change prices a few times a year: a table that was last verified before that may be out of date."""


def old_tables(settings: Settings, provider_types: Collection[str]) -> list[str]:
    """Return a sentence for each table of these provider types that was last verified over OLD_DAYS ago."""
    today = utc_day(SystemClock().now())
    verified = tables_verified(own_folder(settings.cost_tracking.db_path))
    ages = {kind: today + EPOCH_DAY - day.toordinal() for kind, day in verified.items() if kind in provider_types}
    return [
        f"the prices of {kind} were last verified {age} days ago: take a newer version of gw, or `gw prices update`"
        for kind, age in ages.items()
        if age > OLD_DAYS and kind != "sim"
    ]


def unpriced_of(prices: Iterable[Mapping[str, str]]) -> list[str]:
    """Return the models without a price, each with the name that was perhaps meant."""
    unpriced = [price for price in prices if price["result"] == "unpriced"]
    return [price["model"] + (f" (did you mean {price['similar']}?)" if price["similar"] else "") for price in unpriced]


def prices_of(catalog: Catalog, settings: Settings) -> list[dict[str, str]]:
    """Return the price of every listed model. `result`: ok, free or unpriced; `similar`: a name that has one."""
    book, today = load_book(own_folder(settings.cost_tracking.db_path)), utc_day(SystemClock().now())
    rows = []
    for model in catalog.models.values():
        if model.is_wildcard:
            continue   # priced by the name of each request
        provider = catalog.provider(model.provider)
        price = model.price(today) or book.any_price(provider.type, model.name, at_day=today)
        if price is not None:
            since = f", since {day_text(price.valid_from)}" if price.valid_from else ""
            facts = ("ok", price_text(price, model.modality), price.source + since)
        elif provider.location == "local":
            facts = ("free", "", "local")
        else:
            facts = ("unpriced", "", "no row in the tables, no `price` in gw.yaml")
        similar = book.similar(provider.type, model.name) if facts[0] == "unpriced" else ""
        similar = similar and f"{model.provider}/{similar}"
        rows.append(dict(zip((*PRICE_FIELDS, "similar"), (model.id, model.modality, *facts, similar), strict=True)))
    return rows
