"""`gw prices`: the rate tables of this version of gw, and the prices of the configured models."""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Iterator, Mapping
from datetime import date, timedelta
from typing import Any

import click
import trio

from gw.cli.backend import origin
from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED
from gw.cli.output import aside
from gw.cli.resource import Columns, json_option, print_entries
from gw.config.settings import Settings
from gw.pricing.rate_tables import load_book, table_texts
from gw.pricing.units import AMOUNTS, price_text
from gw.registry.catalog import Catalog
from gw.registry.merge import build, merge
from gw.store.store import open_readonly
from gw.telemetry.clock import SystemClock, utc_day

_EPOCH = date(1970, 1, 1)
_PRICE_FIELDS = ("model", "modality", "result", "price", "source")
OLD_DAYS = 120
"""Vendors change prices a few times a year: a table that was last verified before that may be out of date."""


@click.group()
def prices() -> None:
    """Show the price tables, or check that every model has a price.

    A price of your own in gw.yaml (`price`, see docs/configuration.md) overrides these.
    """


def rows() -> Iterator[dict[str, Any]]:
    """Yield every row of every table; amounts are decimal text in USD."""
    for name, text in table_texts():
        for rate in tomllib.loads(text)["rate"]:
            yield {
                "provider_type": name.removesuffix(".toml"), "model": rate["model"], "live": rate.get("live", False),
                "unit": rate["unit"], "amounts": {name: rate[name] for name in AMOUNTS[rate["unit"]] if name in rate},
                "valid_from": str(rate["valid_from"]), "seen": str(rate["seen"]), "source": rate["source"],
            }  # fmt: skip


@prices.command("list")
@click.option("--provider", help="Only this provider type, such as openai.")
@click.option("--model", help="Only models whose name contains this.")
@json_option("As a JSON array.")
def list_(provider: str | None, model: str | None, as_json: bool) -> None:
    """Show the rates, in USD per unit.

    `seen` is the day on which the price was last verified at its source. A model without a row takes the price of the row
    with the longest matching prefix: gpt-4o-2024-11-20 that of gpt-4o.
    """
    every = list(rows())
    types = sorted({row["provider_type"] for row in every})
    if provider is not None and provider not in types:
        raise click.UsageError(f"no table for {provider!r}; the tables are: {', '.join(types)}")
    shown = [row for row in every if provider in (None, row["provider_type"]) and (model or "") in row["model"]]
    print_entries(shown, shown, RATE_COLUMNS, as_json=as_json)
    if not as_json:
        newest, _, ago = _newest(every)
        aside(f"{len(shown)} of {len(every)} rates; tables last verified on {newest}, {ago}")


def _usd(row: Mapping[str, Any]) -> str:
    return ", ".join(value if name == "usd" else f"{name} {value}" for name, value in row["amounts"].items())


RATE_COLUMNS: Columns = {
    "provider": "provider_type", "model": "model", "for": lambda row: "live sessions" if row["live"] else "",
    "unit": "unit", "usd": _usd, "valid_from": "valid_from", "seen": "seen",
}  # fmt: skip


def _newest(rates: Iterable[Mapping[str, Any]]) -> tuple[str, int, str]:
    """Return the day on which a table was last verified, and how many days ago that was, also in words."""
    newest = max(row["seen"] for row in rates)
    days = utc_day(SystemClock().now()) - (date.fromisoformat(newest) - _EPOCH).days
    return newest, days, "today" if days <= 0 else f"{days} day{'' if days == 1 else 's'} ago"


@prices.command()
@json_option("As a JSON array.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Check that every configured model has a price.

    Requests to a model without a price are recorded with an unknown cost, which no budget counts. Exit code 5: a model has
    no price.
    """
    settings = load(None)
    prices = prices_of(trio.run(_catalog, settings))
    aside(f"read from {origin(settings)}")
    print_entries(prices, prices, {name: name for name in _PRICE_FIELDS}, as_json=as_json)
    _, days, ago = _newest(rows())
    if days > OLD_DAYS:
        aside(f"the tables were last verified {ago}; a newer version of gw may have newer ones")
    unpriced = [price["model"] for price in prices if price["result"] == "unpriced"]
    if unpriced:
        aside(f"without a price: {', '.join(unpriced)}")
    ctx.exit(CHECK_FAILED if unpriced else 0)


async def _catalog(settings: Settings) -> Catalog:
    """Return the configured models and those of the database, if there is one."""
    path = settings.cost_tracking.db_path
    if not path.exists():
        return build(settings)
    async with open_readonly(path) as reader:
        return merge(settings, await reader.entities()).catalog


def prices_of(catalog: Catalog) -> list[dict[str, str]]:
    """Return the price of every configured model. `result`: ok, free or unpriced."""
    book, today = load_book(), utc_day(SystemClock().now())
    rows = []
    for model in catalog.models.values():
        provider = catalog.provider(model.provider)
        price = model.price(today) or book.any_price(provider.type, model.name, at_day=today)
        if price is not None:
            since = f", since {_EPOCH + timedelta(days=price.valid_from)}" if price.valid_from else ""
            facts = ("ok", price_text(price, model.modality), price.source + since)
        elif provider.location == "local":
            facts = ("free", "", "local")
        else:
            facts = ("unpriced", "", "no row in the tables, no `price` in gw.yaml")
        rows.append(dict(zip(_PRICE_FIELDS, (model.id, model.modality, *facts), strict=True)))
    return rows
