"""Facts about the price in an answer, and options of a request that its vendor bills on top."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from urllib.parse import parse_qsl

from gw.types.usage import NO_DIMENSIONS, Dimensions

_STANDARD = frozenset({"", "auto", "default", "standard", "on_demand", "global", "not_available"})
"""The vendors' words for the tier and the region whose price is the list price."""
_LONGEST_NAME = 32
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


def billed_options(pairs: Iterable[tuple[str, object]], names: Mapping[str, str]) -> tuple[str, ...]:
    """Return the options that are switched on. `names`: parameter of the vendor → our name of the option."""
    return tuple(sorted({names[name] for name, value in pairs if name in names and value and str(value).lower() not in _OFF}))


def query_of(path: str) -> list[tuple[str, str]]:
    """Return the pairs of a path's query."""
    return parse_qsl(path.partition("?")[2], keep_blank_values=True)
