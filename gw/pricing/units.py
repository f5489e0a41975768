"""Prices as people write them ("USD per minute", "USD per million tokens"): exact conversion to rates, and their text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Any

from gw.types.entities import Price
from gw.types.ids import Modality
from gw.types.usage import NANO

_MILLION = 1_000_000
_HIGHEST = 1_000_000_000  # USD or seconds
_SECONDS = {"min_seconds": "min_audio_seconds", "step_seconds": "step_audio_seconds"}
"""Amounts of seconds, which rates of audio take: its shortest billed duration, and the steps in which it is billed."""
_PAID: Mapping[str, Mapping[str, tuple[str, int]]] = {
    "1M_tokens": {
        "input": ("input_tokens", _MILLION),
        "cached_input": ("cached_input_tokens", _MILLION),
        "cached_input_audio": ("cached_audio_tokens", _MILLION),
        "cached_input_image": ("cached_image_tokens", _MILLION),
        "cache_write": ("cache_write_tokens", _MILLION),
        "cache_write_long": ("cache_write_long_tokens", _MILLION),
        "output": ("output_tokens", _MILLION),
        "input_audio": ("input_audio_tokens", _MILLION),
        "input_image": ("image_tokens", _MILLION),
        "output_audio": ("output_audio_tokens", _MILLION),
        "per_second": ("audio_seconds", 1),
        "per_search": ("searches", 1),
        "per_request": ("requests", 1),
    },
    "1M_characters": {"usd": ("characters", _MILLION)},
    "second": {"usd": ("audio_seconds", 1), "per_message": ("text_messages", 1)},
    "minute": {"usd": ("audio_seconds", 60), "per_message": ("text_messages", 1)},
    "hour": {"usd": ("audio_seconds", 3_600), "per_message": ("text_messages", 1)},
}
"""Unit → its amounts → the counter of usage that an amount pays for, and how many of it. `per_second` is the rate used when
the vendor reports no tokens; `per_search` and `per_request` are billed beside the tokens, `per_message` beside the duration."""
UNITS = tuple(_PAID)
AMOUNTS: Mapping[str, tuple[str, ...]] = {
    unit: (*paid, *_SECONDS) if paid.get("usd", ("",))[0] == "audio_seconds" else tuple(paid)
    for unit, paid in _PAID.items()
}
"""Unit → its amounts."""


def price_in(unit: str, amounts: Mapping[str, Decimal], *, source: str, valid_from: int = 0) -> Price:
    """Convert `amounts` in USD per `unit` (some in seconds) to a price. Raises ValueError."""
    rates: dict[str, Any] = {**rates_in(unit, amounts)}
    allowed = AMOUNTS[unit]
    needed = ("usd",) if "usd" in allowed else ("input", "output")
    if amounts.keys().isdisjoint(needed):
        raise ValueError(f"unit {unit} needs {' or '.join(needed)}")
    rates |= {field: float(amounts[name]) for name, field in _SECONDS.items() if name in amounts}
    return Price(**rates, source=source, valid_from=valid_from)


def rates_in(unit: str, amounts: Mapping[str, Decimal]) -> dict[str, int]:
    """Return the rates of a `Price` that these amounts are. Raises ValueError."""
    allowed = AMOUNTS.get(unit)
    if allowed is None:
        raise ValueError(f"unknown unit {unit!r}; one of {', '.join(UNITS)}")
    for name, amount in amounts.items():
        if name not in allowed:
            raise ValueError(f"unit {unit} takes {', '.join(allowed)}, not {name!r}")
        if not amount.is_finite() or amount < 0:
            raise ValueError(f"{name} must be 0 or more")
        if amount > _HIGHEST:
            raise ValueError(f"{name} must be at most {_HIGHEST}")
    paid = _PAID[unit]
    return {paid[name][0]: rate_of(usd, paid[name][1]) for name, usd in amounts.items() if name in paid}


def addon_rate(unit: str, usd: Decimal) -> int:
    """Return the rate of an option that is billed on top, in USD per `unit` of audio. Raises ValueError."""
    if _PAID.get(unit, {}).get("usd", ("",))[0] != "audio_seconds":
        raise ValueError("addons are for prices per second, minute or hour")
    return rates_in(unit, {"usd": usd})["audio_seconds"]


def rate_of(usd: Decimal, units: int) -> int:
    """Return nano-USD per million of what costs `usd` per `units`."""
    return int((usd * _MILLION / units * NANO).to_integral_value(rounding=ROUND_HALF_UP))


def price_text(price: Price, modality: Modality) -> str:
    """Return a price for people: `input 2.5, output 10 per 1M tokens`, `0.0043 per minute` or `15 per 1M characters`.

    Rates that do not apply to `modality` are left out.
    """
    tokens = [
        f"{name.removesuffix('_tokens')} {getattr(price, name) / NANO:g}"
        for name in ("input_tokens", "cached_input_tokens", "output_tokens", "input_audio_tokens", "output_audio_tokens")
        if getattr(price, name) is not None
    ]
    rates = [", ".join(tokens) + " per 1M tokens"] if tokens else []
    if price.audio_seconds is not None and not (modality == "tts" and price.characters is not None):
        rates.append(f"{price.audio_seconds * 60 / _MILLION / NANO:g} per minute")
    if price.characters is not None and modality != "stt":
        rates.append(f"{price.characters / NANO:g} per 1M characters")
    if price.searches is not None:
        rates.append(f"{price.searches / _MILLION / NANO:g} per search")
    if price.text_messages is not None:
        rates.append(f"{price.text_messages / _MILLION / NANO:g} per text message")
    if price.requests:
        rates.append(f"{price.requests / _MILLION / NANO:g} per request")
    rates += [f"other prices for {', '.join(price.tiers)}"] if price.tiers else []
    rates += [f"above {tokens} tokens another" for tokens, _ in price.above]
    rates += [f"{region} x {factor / _MILLION:g}" for region, factor in price.regions.items()]
    rates += [f"{name} + {rate * 60 / _MILLION / NANO:g} per minute" for name, rate in price.addons.items()]
    rates += [f"at least {seconds:g} s with {name}" for name, seconds in price.min_seconds_with.items()]
    return "; ".join(rates)
