"""The lists shipped beside this file: rate tables, `rates/<provider type>.toml`, and retired models, `retired.toml`.

A table is a list of `[[rate]]`: `model`, a price as `gw.pricing.price_document` has it, with decimal strings in USD,
`valid_from` and `seen` (dates), `source`; `also` lists further names of the same price. A user's own tables, in the folder
`prices` beside the database, have the same form; their rows override the shipped ones of the same model and day.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import attrs
import msgspec

from gw.pricing.book import PriceBook, RateRow
from gw.pricing.price_document import DIMENSIONS, EPOCH_DAY, price_from, quoted_decimal
from gw.pricing.units import AMOUNTS
from gw.types.entities import Price

_SHIPPED = Path(__file__).parent / "rates"
_PRICE = frozenset({name for names in AMOUNTS.values() for name in names} | {*DIMENSIONS})
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Facts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    model: _Text
    unit: _Text
    valid_from: date
    seen: date
    source: _Text
    live: bool = False
    voices: bool = False
    also: tuple[_Text, ...] = ()


def load_book(folder: Path | None = None) -> PriceBook:
    """Return a book of the shipped tables and those of the user's folder. Raises ValueError naming file and row."""
    return PriceBook(own_rows(folder), shipped_rows)


def own_rows(folder: Path | None) -> list[RateRow]:
    """Return the rows of the tables in the user's folder. Raises ValueError naming file and row."""
    return [row for name, text in own_table_texts(folder) for row in parse_table(name, text)]


@cache
def shipped_rows(provider_type: str) -> tuple[RateRow, ...]:
    """Read the shipped table of a provider type once: all of them take some 50 ms, and they do not change while the process runs."""
    path = _SHIPPED / f"{provider_type}.toml"
    return tuple(parse_table(path.name, path.read_text(encoding="utf-8"))) if path.is_file() else ()


def table_texts(folder: Path | None = None) -> list[tuple[str, str]]:
    """Return the file name and the text of each shipped table, then of each table in `folder`."""
    shipped = [(path.name, path.read_text(encoding="utf-8")) for path in sorted(_SHIPPED.glob("*.toml"))]
    return shipped + own_table_texts(folder)


def own_table_texts(folder: Path | None) -> list[tuple[str, str]]:
    """Return the file name and the text of each table in the user's folder. Raises ValueError for one that is no text."""
    texts = []
    for path in sorted(folder.glob("*.toml")) if folder is not None else ():
        try:
            texts.append((path.name, path.read_text(encoding="utf-8")))
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"{path.name}: cannot be read: {error}") from None
    return texts


def own_folder(db_path: Path) -> Path:
    """Return the folder of a gateway's own tables: beside its database."""
    return db_path.with_name("prices")


def tables_verified(folder: Path | None = None) -> dict[str, date]:
    """Return for each provider type the day on which its newest row was seen at its source."""
    seen: dict[str, date] = {}
    for name, text in table_texts(folder):
        for rate in tomllib.loads(text).get("rate", []):
            kind = name.removesuffix(".toml")
            seen[kind] = max(seen.get(kind, rate["seen"]), rate["seen"])
    return seen


def parse_table(name: str, text: str) -> list[RateRow]:
    """Return the rows of one table; `name` is `<provider type>.toml`. Raises ValueError naming file and row."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"{name}: {error}") from None
    rates = document.pop("rate", [])
    if document or not isinstance(rates, list):
        raise ValueError(f"{name}: only [[rate]] tables are expected, found {', '.join(document) or 'a single rate'}")
    provider_type = name.removesuffix(".toml")
    rows: dict[tuple[str, int, bool], RateRow] = {}
    for number, rate in enumerate(rates, 1):
        try:
            for row in _rows(provider_type, rate):
                key = (row.model, row.price.valid_from, row.live)
                rows[key] = _joined(rows[key], row) if key in rows else row
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"{name}: rate {number} ({rate.get('model', 'no model')}): {error}") from None
    return list(rows.values())


def _joined(first: RateRow, second: RateRow) -> RateRow:
    """Join two rows of one model and day, which must bill different units, into one price."""
    rates, others = _set_members(first.price), _set_members(second.price)
    if rates.keys() & others.keys():
        raise ValueError("a second row for this model, unit and valid_from")
    return attrs.evolve(first, price=msgspec.structs.replace(first.price, **others))


def _set_members(price: Price) -> dict[str, Any]:
    members = {name: getattr(price, name) for name in Price.__struct_fields__}
    return {name: value for name, value in members.items() if value and name not in {"source", "valid_from"}}


def _rows(provider_type: str, rate: Mapping[str, object]) -> list[RateRow]:
    """Return one row for each name of a rate."""
    facts = msgspec.convert({name: value for name, value in rate.items() if name not in _PRICE}, _Facts)
    document = {"unit": facts.unit} | {name: value for name, value in rate.items() if name in _PRICE}
    source = f"table:{provider_type}@{facts.valid_from.isoformat()}"
    valid_from = facts.valid_from.toordinal() - EPOCH_DAY
    price = price_from(document, source=source, valid_from=valid_from, number=quoted_decimal)
    return [
        RateRow(provider_type=provider_type, model=model, price=price, live=facts.live, voices=facts.voices)
        for model in (facts.model, *facts.also)
    ]


class Retired(msgspec.Struct, frozen=True, kw_only=True):
    """Models that a vendor has shut down or will shut down: calls fail from the day `ends`.

    `successor` replaces them; "" where the vendor has named none.
    """

    provider: str
    models: tuple[str, ...]
    ends: date
    successor: str = ""
    source: _Text

    def sentence(self, today: date) -> str:
        """Return the end of a sentence that begins with a model's name."""
        when = "was shut down" if self.ends <= today else "will be shut down"
        hint = f"; its successor is {self.successor}" if self.successor else ""
        return f"{when} on {self.ends.isoformat()}{hint}"


def successor(provider_type: str, model: str) -> Retired | None:
    """Return the entry of a model in the list, else None."""
    return _retired().get((provider_type, model))


@cache
def _retired() -> dict[tuple[str, str], Retired]:
    """Read the list once."""
    text = Path(__file__).with_name("retired.toml").read_text(encoding="utf-8")
    rows = msgspec.convert(tomllib.loads(text)["retired"], list[Retired])
    return {(row.provider, model): row for row in rows for model in row.models}
