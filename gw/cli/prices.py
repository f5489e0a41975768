"""`gw prices`: the rate tables that came with this gw, and what they say of the configured models."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from importlib.resources import files
from typing import Any

import attrs
import click

from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED
from gw.cli.offline import Database
from gw.cli.output import Cell, aside, print_json, print_table
from gw.pricing.book import Price, PriceBook
from gw.pricing.rate_tables import load_book
from gw.pricing.units import AMOUNTS
from gw.registry.catalog import Catalog, Model
from gw.telemetry.clock import SystemClock, utc_day
from gw.types.ids import Modality
from gw.types.usage import NANO

_EPOCH = date(1970, 1, 1)
OLD_DAYS = 120
"""Vendors change prices a few times a year: a table that was last looked at before that is worth a look."""


@click.group()
def prices() -> None:
    """Show the price tables, or check that every model has a price.

    A price of your own goes into gw.yaml (`price`, see docs/configuration.md), and before these.
    """


def rows() -> Iterator[dict[str, Any]]:
    """Every row of every table as it stands there; amounts are decimal text in USD."""
    folder = files("gw.pricing").joinpath("rates")
    for table in sorted((entry for entry in folder.iterdir() if entry.name.endswith(".toml")), key=lambda e: e.name):
        for rate in tomllib.loads(table.read_text(encoding="utf-8"))["rate"]:
            amounts = {name: rate[name] for name in AMOUNTS[rate["unit"]] if name in rate}
            yield {
                "provider_type": table.name.removesuffix(".toml"),
                "model": rate["model"],
                "live": bool(rate.get("live", False)),
                "unit": rate["unit"],
                "amounts": amounts,
                "valid_from": rate["valid_from"].isoformat(),
                "seen": rate["seen"].isoformat(),
                "source": rate["source"],
            }


@prices.command("list")
@click.option("--provider", help="Only this provider type, such as openai.")
@click.option("--model", help="Only models whose name has this in it.")
@click.option("--json", "as_json", is_flag=True, help="As a JSON array.")
def list_(provider: str | None, model: str | None, as_json: bool) -> None:
    """Show the rates, in USD per unit.

    `seen` is when the price was last found at its source. A model that is not listed counts as one that is, by its
    longest part: gpt-4o-2024-11-20 as gpt-4o.
    """
    every = list(rows())
    types = sorted({row["provider_type"] for row in every})
    if provider is not None and provider not in types:
        raise click.UsageError(f"no table for {provider!r}; there are: {', '.join(types)}")
    shown = [row for row in every if provider in (None, row["provider_type"]) and (model or "") in row["model"]]
    if as_json:
        print_json(shown)
        return
    columns = ("provider", "model", "for", "unit", "usd", "valid_from", "seen")
    print_table(columns, [_row(row) for row in shown])
    newest = max(date.fromisoformat(row["seen"]) for row in every)
    aside(f"{len(shown)} of {len(every)} rates; tables last looked at on {newest}, {_age(newest)}")


def _row(row: dict[str, Any]) -> list[Cell]:
    amounts = ", ".join(value if name == "usd" else f"{name} {value}" for name, value in row["amounts"].items())
    used = "live sessions" if row["live"] else ""
    return [row["provider_type"], row["model"], used, row["unit"], amounts, row["valid_from"], row["seen"]]


def _age(day: date) -> str:
    days = (_today() - day).days
    return "today" if days <= 0 else f"{days} day{'' if days == 1 else 's'} ago"


def _today() -> date:
    return datetime.fromtimestamp(SystemClock().now(), UTC).date()


@attrs.frozen(kw_only=True)
class Known:
    """What is known of a configured model's price. `result`: ok, free or unpriced."""

    model: str
    modality: str
    result: str
    price: str
    source: str


@prices.command()
@click.option("--json", "as_json", is_flag=True, help="As a JSON array.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Check that every configured model has a price.

    Requests to one without a price are recorded, but their cost is not known, and no budget counts it. Exit code 5: there
    is such a model.
    """
    settings = load(None)
    database = Database(path=settings.cost_tracking.db_path, settings=settings)
    found = database.listed(lambda catalog: _known(catalog, load_book()))
    aside(f"read from {database.origin}")
    if as_json:
        print_json([attrs.asdict(one) for one in found])
    else:
        print_table(("model", "modality", "result", "price", "source"), [attrs.astuple(one) for one in found])
    newest = max(date.fromisoformat(row["seen"]) for row in rows())
    if _today() - newest > timedelta(days=OLD_DAYS):
        aside(f"the tables were last looked at {_age(newest)}: a newer gw may have newer ones")
    unpriced = [one.model for one in found if one.result == "unpriced"]
    if unpriced:
        aside(f"without a price: {', '.join(unpriced)}")
    ctx.exit(CHECK_FAILED if unpriced else 0)


def _known(catalog: Catalog, book: PriceBook) -> list[Known]:
    today = utc_day(SystemClock().now())
    return [_one(catalog, book, model, today) for model in catalog.models.values()]


def _one(catalog: Catalog, book: PriceBook, model: Model, today: int) -> Known:
    provider = catalog.provider(model.provider)
    price = model.price or book.any_price(provider.type, model.name, at_day=today)
    if price is not None:
        since = f", since {_EPOCH + timedelta(days=price.valid_from)}" if price.valid_from else ""
        told = _told(price, model.modality)
        return Known(model=model.id, modality=model.modality, result="ok", price=told, source=price.source + since)
    free = provider.location == "local"
    source = "local" if free else "no row in the tables, no `price` in gw.yaml"
    return Known(
        model=model.id, modality=model.modality, result="free" if free else "unpriced", price="", source=source
    )


def _told(price: Price, modality: Modality) -> str:
    """`input 2.5, output 10 per 1M tokens`, `0.0043 per minute`, `15 per 1M characters`."""
    parts = [
        f"{name.removesuffix('_tokens')} {getattr(price, name) / NANO:g}"
        for name in ("input_tokens", "cached_input_tokens", "output_tokens", "input_audio_tokens", "output_audio_tokens")
        if getattr(price, name) is not None
    ]
    told = [", ".join(parts) + " per 1M tokens"] if parts else []
    if price.audio_seconds is not None and not (modality == "tts" and price.characters is not None):
        told.append(f"{price.audio_seconds * 60 / 1_000_000 / NANO:g} per minute")
    if price.characters is not None and modality != "stt":
        told.append(f"{price.characters / NANO:g} per 1M characters")
    return "; ".join(told)
