"""Facts about the price in an answer, and options of a request that its vendor bills on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import isfinite
from urllib.parse import parse_qsl

import msgspec

from gw.types.usage import NO_DIMENSIONS, Dimensions, VendorFigure
from gw.wire.json_codec import convert_or_none

_STANDARD = frozenset({"", "auto", "default", "standard", "on_demand", "global", "not_available"})
"""The vendors' words for the tier and the region whose price is the list price."""
_LONGEST_NAME = 32
_MOST_USD = 10_000
"""More than any answer costs: twenty million tokens at the highest list price."""
_OFF = frozenset({"false", "0", "null", "[]", "none", "off", "[\"\"]"})


def dimensions(
    tier: object = None, region: object = None, *, searches: int = 0, cache_write_long_tokens: int = 0,
    addons: tuple[str, ...] = (),
) -> Dimensions:  # fmt: skip
    """Return the dimensions that an answer reports; NO_DIMENSIONS where all is standard."""
    tier, region = special(tier), special(region)
    if not (tier or region or searches or cache_write_long_tokens or addons):
        return NO_DIMENSIONS
    return Dimensions(
        tier=tier, region=region, addons=addons, searches=searches, cache_write_long_tokens=cache_write_long_tokens
    )


def special(name: object) -> str:
    """Return the name of a tier or region; "" for the standard one and for what is no name."""
    if type(name) is not str or name in _STANDARD or len(name) > _LONGEST_NAME or not name.isprintable():
        return ""
    return name


class _Cost(msgspec.Struct, gc=False):
    """Cost of an answer with all that is billed for it (perplexityai 0.46.1, `types/responses_usage`)."""

    total_cost: float
    currency: str = "USD"


def stated_cost(cost: object) -> VendorFigure | None:
    """Return what a vendor says it bills for an answer, in USD; None if it says nothing, or nothing that can be true."""
    stated = convert_or_none(cost, _Cost)
    return None if stated is None or stated.currency != "USD" else _in_usd(stated.total_cost)


class _CostDetails(msgspec.Struct, gc=False):
    upstream_inference_cost: float | None = None


def openrouter_cost(cost: object, details: object, is_byok: object) -> VendorFigure | None:
    """Return what OpenRouter says an answer costs (openrouter 1.3.84, `components/chatusage.py`); a credit of its is a dollar.

    With a key of the caller's own at the model's vendor, `cost` is only OpenRouter's fee, and that vendor bills the model itself.
    """
    fee, parts = convert_or_none(cost, float), convert_or_none(details, _CostDetails)
    if fee is None or parts is None:
        return None
    return _in_usd(fee + (parts.upstream_inference_cost or 0.0) if is_byok is True else fee)


def _in_usd(amount: float) -> VendorFigure | None:
    return VendorFigure(amount=amount, unit="USD") if isfinite(amount) and 0 <= amount <= _MOST_USD else None


def billed_options(pairs: Iterable[tuple[str, object]], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that are switched on. `names`: parameter of the vendor → our name of the option."""
    return tuple(sorted({names[name] for name, value in pairs if name in names and value and str(value).lower() not in _OFF}))


def query_of(path: str) -> list[tuple[str, str]]:
    """Return the pairs of a path's query."""
    return parse_qsl(path.partition("?")[2], keep_blank_values=True)
