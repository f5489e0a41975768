"""`gw prices`: the rate tables of this version of gw, and the prices of the configured models."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

import click
import msgspec
import trio

from gw.admin.price_check import PRICE_FIELDS, old_tables, prices_of, unpriced_of
from gw.cli.backend import origin
from gw.cli.config_file import load
from gw.cli.main import CHECK_FAILED, CommandFailed
from gw.cli.output import aside
from gw.cli.resource import Columns, json_option, print_entries
from gw.cli.text_files import read_text
from gw.config.settings import Settings
from gw.errors import ConfigError
from gw.pricing.book import RateRow
from gw.pricing.price_document import day_text
from gw.pricing.rate_tables import load_book, own_folder, parse_table, table_texts
from gw.pricing.units import AMOUNTS, price_text
from gw.registry.catalog import Catalog
from gw.registry.merge import build, merge
from gw.store.configured import may_have_records, open_configured_readonly
from gw.telemetry.clock import SystemClock, utc_day
from gw.types.entities import Price
from gw.types.ids import Modality
from gw.types.provider_types import PROVIDER_TYPES

_EPOCH = date(1970, 1, 1)
_FACTS = frozenset(("model", "also", "live", "voices", "unit", "valid_from", "seen", "source"))
"""Members of a rate beside its price."""


@click.group()
def prices() -> None:
    """Show or update the price tables, or check that every model has a price.

    A model's own price (`price` in gw.yaml, or `gw models set --price`) overrides these.
    """


def own_tables() -> Path | None:
    """Return the folder of this installation's own tables; None where nothing is configured."""
    try:
        return own_folder(load(None).cost_tracking.db_path)
    except ConfigError:
        return None


def rows(folder: Path | None = None) -> Iterator[dict[str, Any]]:
    """Yield every row of every table; amounts are decimal text in USD, `dimensions` what the price depends on besides."""
    for name, text in table_texts(folder):
        for rate in tomllib.loads(text)["rate"]:
            amounts = {name: rate[name] for name in AMOUNTS[rate["unit"]] if name in rate}
            yield {
                "provider_type": name.removesuffix(".toml"), "model": rate["model"], "also": rate.get("also", []),
                "live": rate.get("live", False), "unit": rate["unit"], "amounts": amounts,
                "dimensions": {name: value for name, value in rate.items() if name not in _FACTS | amounts.keys()},
                "valid_from": str(rate["valid_from"]), "seen": str(rate["seen"]), "source": rate["source"],
            }  # fmt: skip


@prices.command("list")
@click.option("--provider", help="Only this provider type, such as openai.")
@click.option("--model", help="Only models whose name contains this.")
@json_option("As a JSON array.")
def list_(provider: str | None, model: str | None, as_json: bool) -> None:
    """Show the rates, in USD per unit.

    `seen` is the day on which the price was last verified at its source. A snapshot without a row takes the price of its
    model: gpt-4o-2024-11-20 that of gpt-4o. JSON has the prices of service tiers, long contexts and options as well.
    """
    every = list(rows(own_tables()))
    types = sorted({row["provider_type"] for row in every})
    if provider is not None and provider not in types:
        raise click.UsageError(f"no table for {provider!r}; the tables are: {', '.join(types)}")
    shown = [row for row in every if provider in (None, row["provider_type"]) and (model or "") in row["model"]]
    print_entries(shown, shown, RATE_COLUMNS, as_json=as_json)
    if not as_json:
        newest, _, ago = _newest(every)
        aside(f"{len(shown)} of {len(every)} rates; tables last verified on {newest}, {ago}")


def _usd(row: Mapping[str, Any]) -> str:
    amounts = ", ".join(value if name == "usd" else f"{name} {value}" for name, value in row["amounts"].items())
    parts = [f"{name}: {' '.join(value) if isinstance(value, dict) else len(value)}" for name, value in row["dimensions"].items()]
    return "; ".join((amounts, *parts))


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
@click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Store it without asking.")
@json_option("The changes as a JSON array.")
def update(file: Path, yes: bool, as_json: bool) -> None:
    """Check a newer table, show what it changes, and store it beside the database.

    FILE is named after its provider type, such as openai.toml, and has the form of the tables that come with gw
    (docs/configuration.md). Its rows override those of the same model and day. A running gateway takes it over when it
    reloads (`kill -HUP`). To return to the shipped table, delete the file from the folder `prices` beside the database.
    """
    provider_type = file.name.removesuffix(".toml")
    if provider_type not in PROVIDER_TYPES or file.suffix != ".toml":
        raise click.UsageError(f"{file.name} must be named after a provider type: {', '.join(PROVIDER_TYPES)}, with .toml")
    text = read_text(file)
    try:
        changes = price_changes(provider_type, parse_table(file.name, text))
    except ValueError as error:
        raise CommandFailed(f"nothing was stored: {error}") from None
    print_entries(changes, changes, {name: name for name in CHANGE_FIELDS}, as_json=as_json)
    aside(f"{len(changes)} of the rows change a price")
    folder = own_folder(load(None).cost_tracking.db_path)
    if not yes:
        if not sys.stdin.isatty():
            raise CommandFailed("nothing was stored: there is no terminal to ask on; give --yes")
        click.confirm("Store it?", abort=True, err=True)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / (file.name + ".partial")
    partial.write_text(text, "utf-8")
    partial.replace(folder / file.name)  # at once: a gateway that starts now reads the old file or the new one
    aside(f"stored as {folder / file.name}; a running gateway takes it over when it reloads (kill -HUP)")


CHANGE_FIELDS = ("model", "for", "valid_from", "change", "before", "after")


def price_changes(provider_type: str, table: Sequence[RateRow]) -> list[dict[str, str]]:
    """Return the rows of a table that make another price than holds on their first day, or on today's if that is later."""
    book, today = load_book(own_tables()), utc_day(SystemClock().now())
    changes = []
    for row in table:
        before = book.price(provider_type, row.model, at_day=max(today, row.price.valid_from), live=row.live)
        after = msgspec.structs.replace(row.price, source="", valid_from=0)
        if before is not None and msgspec.structs.replace(_unsourced(before)) == _unsourced(after):
            continue
        texts = ["" if price is None else price_text(price, modality_of(price)) for price in (before, row.price)]
        kind = "new" if before is None else "changed" if texts[0] != texts[1] else "changed in its dimensions"
        since = day_text(row.price.valid_from)
        facts = (row.model, "live sessions" if row.live else "", since, kind, *texts)
        changes.append(dict(zip(CHANGE_FIELDS, facts, strict=True)))
    return changes


def _unsourced(price: Price) -> Price:
    """Return a price without its origin, for comparison."""
    tiers = {tier: _unsourced(variant) for tier, variant in price.tiers.items()}
    above = tuple((tokens, _unsourced(variant)) for tokens, variant in price.above)
    return msgspec.structs.replace(price, source="", valid_from=0, tiers=tiers, above=above)


def modality_of(price: Price) -> Modality:
    """Return the modality in whose units a price is."""
    return "llm" if price.input_tokens is not None else "stt" if price.audio_seconds is not None else "tts"


@prices.command()
@json_option("As a JSON array.")
@click.pass_context
def check(ctx: click.Context, as_json: bool) -> None:
    """Check that every configured model has a price.

    Requests to a model without a price are recorded with an unknown cost, which no budget counts. Exit code 5: a model has
    no price.
    """
    settings = load(None)
    catalog = trio.run(configured_catalog, settings)
    prices = prices_of(catalog, settings)
    aside(f"read from {origin(settings)}")
    print_entries(prices, prices, {name: name for name in PRICE_FIELDS}, as_json=as_json)
    for old in old_tables(settings, {provider.type for provider in catalog.providers.values()}):
        aside(old)
    unpriced = unpriced_of(prices)
    if unpriced:
        aside(f"without a price: {', '.join(unpriced)}")
    ctx.exit(CHECK_FAILED if unpriced else 0)


async def configured_catalog(settings: Settings) -> Catalog:
    """Return the configured models and those of the database, if there is one."""
    if not may_have_records(settings):
        return build(settings)
    async with open_configured_readonly(settings) as reader:
        return merge(settings, await reader.entities()).catalog
