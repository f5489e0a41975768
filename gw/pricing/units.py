"""Exact conversion of prices as people write them ("USD per minute", "USD per million tokens") to rates."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal

from gw.types.entities import Price
from gw.types.usage import NANO

_SECONDS = {"second": 1, "minute": 60, "hour": 3_600}
UNITS = ("1M_tokens", "1M_characters", *_SECONDS)
_TOKEN_RATES = {
    "input": "input_tokens",
    "cached_input": "cached_input_tokens",
    "cache_write": "cache_write_tokens",
    "output": "output_tokens",
    "input_audio": "input_audio_tokens",
    "output_audio": "output_audio_tokens",
}
AMOUNTS: Mapping[str, tuple[str, ...]] = {
    "1M_tokens": (*_TOKEN_RATES, "per_second"),
    "1M_characters": ("usd",),
    **dict.fromkeys(_SECONDS, ("usd", "min_seconds")),
}
"""Unit → its amounts. `per_second` is the rate used when the vendor reports no tokens."""


def price_in(unit: str, amounts: Mapping[str, Decimal], *, source: str, valid_from: int = 0) -> Price:
    """Convert `amounts` in USD per `unit` (`min_seconds` in seconds) to a price. Raises ValueError."""
    allowed = AMOUNTS.get(unit)
    if allowed is None:
        raise ValueError(f"unknown unit {unit!r}; one of {', '.join(UNITS)}")
    for name, amount in amounts.items():
        if name not in allowed:
            raise ValueError(f"unit {unit} takes {', '.join(allowed)}, not {name!r}")
        if not amount.is_finite() or amount < 0:
            raise ValueError(f"{name} must be 0 or more")
    rates = _rates(unit, amounts)
    if not rates:
        raise ValueError(f"unit {unit} needs {'input or output' if unit == '1M_tokens' else 'usd'}")
    return Price(**rates, min_audio_seconds=float(amounts.get("min_seconds", 0)), source=source, valid_from=valid_from)


def _rates(unit: str, amounts: Mapping[str, Decimal]) -> dict[str, int]:
    if unit == "1M_tokens":
        if "input" not in amounts and "output" not in amounts:
            return {}
        rates = {field: _nano(amounts[name]) for name, field in _TOKEN_RATES.items() if name in amounts}
        if "per_second" in amounts:
            rates["audio_seconds"] = _nano(amounts["per_second"] * 1_000_000)
        return rates
    if "usd" not in amounts:
        return {}
    if unit == "1M_characters":
        return {"characters": _nano(amounts["usd"])}
    return {"audio_seconds": _nano(amounts["usd"] * 1_000_000 / _SECONDS[unit])}


def _nano(usd: Decimal) -> int:
    return int((usd * NANO).to_integral_value(rounding=ROUND_HALF_UP))
