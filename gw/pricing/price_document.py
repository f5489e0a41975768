"""A price as people write it, with all its dimensions, in gw.yaml, in a rate table and in the body of an API request.

    unit: 1M_tokens                                   # see gw.pricing.units
    input: 2.5
    output: 15
    tiers: {flex: {input: 1.25, output: 7.5}}         # service tiers; each may have its own `above`
    above: [{tokens: 272000, input: 5, output: 22.5}] # with more input than that, for all tokens of the request
    regions: {us: 1.1}                                # factors for all tokens
    addons: {keyterm: 0.0013}                         # USD per unit of audio on top, where the request has the option
    min_seconds_with: {many_keyterms: 20}             # shortest duration billed with an option; in rate tables only
    valid_from: 2026-12-01                            # UTC day; default: always
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec

from gw.pricing.units import AMOUNTS, UNITS, addon_rate, price_in, rates_in
from gw.types.entities import Price

DIMENSIONS = ("tiers", "above", "regions", "addons", "min_seconds_with")
EPOCH_DAY = date(1970, 1, 1).toordinal()
_MILLION = 1_000_000
_MOST = 32  # tiers, steps, regions or options of one price
_NAME_CHARACTERS = 64
_FACTORS = (Decimal("0.01"), Decimal(100))
_HIGHEST_STEP = 1_000_000_000
_LONGEST_LEAST_S = 86_400

ToDecimal = Callable[[object, str], Decimal]
"""Converts an amount of this name. Raises ValueError."""


def decimal(value: object, name: str) -> Decimal:
    """Return the number that was written: the shortest text of a float is what the file says, so it is exact."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{name} must be a number")
    try:
        return Decimal(repr(value) if isinstance(value, float) else value)
    except InvalidOperation:
        raise ValueError(f"{name} must be a number") from None


def quoted_decimal(value: object, name: str) -> Decimal:
    """Return a decimal that a rate table has as text."""
    if not isinstance(value, str):
        raise ValueError(f'{name} must be a decimal in quotes, such as "0.15"')
    try:
        return Decimal(value)
    except InvalidOperation:
        raise ValueError(f"{name} is not a decimal: {value!r}") from None


def day_number(value: object) -> int:
    """Return days since 1970-01-01 of a date or its text. Raises ValueError."""
    if isinstance(value, str):
        try:
            value = date.fromisoformat(value)
        except ValueError:
            raise ValueError("valid_from must be a date, such as 2026-12-01") from None
    if type(value) is not date:  # a datetime is a date too
        raise ValueError("valid_from must be a date, such as 2026-12-01")
    return value.toordinal() - EPOCH_DAY


def day_text(day: int) -> str:
    """Return a day number as a date, such as 2026-12-01."""
    return date.fromordinal(day + EPOCH_DAY).isoformat()


def price_from(
    document: Mapping[str, object], *, source: str, valid_from: int = 0, number: ToDecimal = decimal
) -> Price:
    """Return the price that a document describes. Raises ValueError naming the member at fault."""
    members = {name: value for name, value in document.items() if value is not None}
    unit = members.pop("unit", None)
    if not isinstance(unit, str):
        raise ValueError(f"a unit is needed, one of {', '.join(UNITS)}")
    if "valid_from" in members:
        valid_from = day_number(members.pop("valid_from"))
    dimensions = {name: members.pop(name) for name in DIMENSIONS if name in members}
    amounts = {name: number(value, name) for name, value in members.items() if name in AMOUNTS.get(unit, members)}
    if unknown := members.keys() - amounts.keys():
        raise ValueError(f"unit {unit} takes {', '.join(AMOUNTS[unit])}, not {min(unknown)!r}")
    price = price_in(unit, amounts, source=source, valid_from=valid_from)
    return _with_dimensions(price, unit, dimensions, number) if dimensions else price


def _with_dimensions(price: Price, unit: str, dimensions: Mapping[str, object], number: ToDecimal) -> Price:
    low, high = _FACTORS
    regions: dict[str, int] = {}
    for region, factor in _mapping(dimensions, "regions").items():
        value = number(factor, f"regions.{region}")
        if not (value.is_finite() and low <= value <= high):
            raise ValueError(f"regions.{region} must be a factor from {low} to {high}")
        regions[region] = int(value * _MILLION)
    addons = {
        name: addon_rate(unit, number(usd, f"addons.{name}")) for name, usd in _mapping(dimensions, "addons").items()
    }
    least = {
        name: _seconds(number(value, f"min_seconds_with.{name}"), name)
        for name, value in _mapping(dimensions, "min_seconds_with").items()
    }
    price = msgspec.structs.replace(price, regions=regions, addons=addons, min_seconds_with=least)
    tiers = {
        tier: _variant(price, unit, _object(members, f"tiers.{tier}"), number)
        for tier, members in _mapping(dimensions, "tiers").items()
    }
    return msgspec.structs.replace(price, tiers=tiers, above=_steps(price, unit, dimensions.get("above", ()), number))


def _seconds(value: Decimal, name: str) -> float:
    if not (value.is_finite() and 0 <= value <= _LONGEST_LEAST_S):
        raise ValueError(f"min_seconds_with.{name} must be a number of seconds up to {_LONGEST_LEAST_S}")
    return float(value)


def _variant(base: Price, unit: str, members: Mapping[str, object], number: ToDecimal) -> Price:
    """Return the price of a tier or of a long context: what it does not name is as in `base`, and noted as such."""
    own = {name: value for name, value in members.items() if name not in ("above", "tokens")}
    rates: dict[str, Any] = {**rates_in(unit, {name: number(value, name) for name, value in own.items()})}
    if not rates:
        raise ValueError("a tier or step of a price needs at least one rate")
    inherited = frozenset(name for name in _TOKEN_RATES if getattr(base, name) is not None and name not in rates)
    price = msgspec.structs.replace(base, **rates, tiers={}, above=(), inherited=inherited)
    return msgspec.structs.replace(price, above=_steps(price, unit, members.get("above", ()), number))


_TOKEN_RATES = (
    "input_tokens", "cached_input_tokens", "cached_audio_tokens", "cached_image_tokens", "cache_write_tokens",
    "cache_write_long_tokens", "output_tokens", "input_audio_tokens", "image_tokens", "output_audio_tokens", "audio_seconds",
    "characters",
)  # fmt: skip


def _steps(base: Price, unit: str, value: object, number: ToDecimal) -> tuple[tuple[int, Price], ...]:
    if not isinstance(value, list | tuple) or len(value) > _MOST:
        raise ValueError("above must be a list of steps")
    steps: dict[int, Price] = {}
    for step in value:
        members = _object(step, "above")
        tokens = members.get("tokens")
        if type(tokens) is not int or not 0 < tokens <= _HIGHEST_STEP or tokens in steps:
            raise ValueError("each step of above needs its own number of tokens, such as tokens: 272000")
        steps[tokens] = _variant(base, unit, members, number)
    return tuple(sorted(steps.items(), key=lambda item: -item[0]))


def _mapping(dimensions: Mapping[str, object], name: str) -> Mapping[str, object]:
    mapping = _object(dimensions.get(name, {}), name)
    if len(mapping) > _MOST or any(not 0 < len(key) <= _NAME_CHARACTERS or not key.isprintable() for key in mapping):
        raise ValueError(f"{name} may have up to {_MOST} short names")
    return mapping


def _object(value: Any, name: str) -> Mapping[str, object]:
    if not isinstance(value, Mapping) or not all(isinstance(key, str) for key in value):
        raise ValueError(f"{name} must be a mapping")
    return value
