"""The lists shipped beside this file: rate tables, `rates/<provider type>.toml`, and retired models, `retired.toml`.

A table is a list of `[[rate]]`: `model`, `unit` and its amounts (`gw.pricing.units.AMOUNTS`, decimal strings in USD),
`valid_from` and `seen` (dates), `source`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from functools import cache
from importlib.resources import files
from typing import Annotated

import attrs
import msgspec

from gw.pricing.book import PriceBook, RateRow
from gw.pricing.units import AMOUNTS, price_in

_EPOCH = date(1970, 1, 1).toordinal()
_AMOUNTS = frozenset(name for names in AMOUNTS.values() for name in names)
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Facts(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    model: _Text
    unit: _Text
    valid_from: date
    seen: date
    source: _Text
    live: bool = False


def load_book() -> PriceBook:
    """Read all shipped tables, a few small files. Raises ValueError naming file and row."""
    return PriceBook([row for name, text in table_texts() for row in parse_table(name, text)])


def table_texts() -> list[tuple[str, str]]:
    """Return the file name and the text of each shipped table."""
    entries = files("gw.pricing").joinpath("rates").iterdir()
    return sorted((entry.name, entry.read_text(encoding="utf-8")) for entry in entries if entry.name.endswith(".toml"))


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
            row = _row(provider_type, rate)
            key = (row.model, row.price.valid_from, row.live)
            rows[key] = _joined(rows[key], row) if key in rows else row
        except (ValueError, msgspec.ValidationError) as error:
            raise ValueError(f"{name}: rate {number} ({rate.get('model', 'no model')}): {error}") from None
    return list(rows.values())


def _joined(first: RateRow, second: RateRow) -> RateRow:
    """Join two rows of one model and day, which must bill different units, into one price."""
    rates = attrs.asdict(first.price, filter=_is_rate)
    others = attrs.asdict(second.price, filter=_is_rate)
    if rates.keys() & others.keys():
        raise ValueError("a second row for this model, unit and valid_from")
    return attrs.evolve(first, price=attrs.evolve(first.price, **others))


def _is_rate(field: attrs.Attribute[object], value: object) -> bool:
    return bool(value) and field.name not in {"source", "valid_from"}


def _row(provider_type: str, rate: Mapping[str, object]) -> RateRow:
    facts = msgspec.convert({name: value for name, value in rate.items() if name not in _AMOUNTS}, _Facts)
    amounts = {name: _decimal(rate, name) for name in rate.keys() & _AMOUNTS}
    source = f"table:{provider_type}@{facts.valid_from.isoformat()}"
    price = price_in(facts.unit, amounts, source=source, valid_from=facts.valid_from.toordinal() - _EPOCH)
    return RateRow(provider_type=provider_type, model=facts.model, price=price, live=facts.live)


def _decimal(rate: Mapping[str, object], name: str) -> Decimal:
    value = rate[name]
    if not isinstance(value, str):
        raise ValueError(f'{name} must be a decimal in quotes, such as "0.15"')
    try:
        return Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{name} is not a decimal: {value!r}") from None


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
    text = files("gw.pricing").joinpath("retired.toml").read_text(encoding="utf-8")
    rows = msgspec.convert(tomllib.loads(text)["retired"], list[Retired])
    return {(row.provider, model): row for row in rows for model in row.models}
