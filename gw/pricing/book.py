"""The cost of usage at a given time, with the rate it was computed from. Pure: `rate_tables` reads the tables.

All arithmetic is on integers. A rate is nano-USD per 1,000,000 units; audio is measured in whole microseconds. The
parts of a cost are summed in units of 10**-12 nano-USD, and rounded half up once, at the end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

import attrs

from gw.types.entities import Price
from gw.types.usage import Cost, Usage

_PER = 1_000_000
_SCALE = _PER * _PER
LONGEST_S = 1e9  # longest plausible duration: thirty years of audio
_CACHED_NAMES = 4_096  # results of searches by name; names come from the configuration, so this is never reached in practice

_OTHER_MODEL = frozenset(
    {"audio", "codex", "diarize", "embedding", "flash", "hd", "image", "large", "lite", "live", "mini", "nano", "pro"}
    | {"realtime", "search", "small", "transcribe", "tts", "turbo", "whisper"}
)
"""Words in a suffix that make another model (`gpt-5.4-pro`), whose price is not that of the shorter name."""


@attrs.frozen(kw_only=True)
class RateRow:
    """A row of a rate table: for `model` (vendor's name) and, by longest prefix, its dated or suffixed variants."""

    provider_type: str
    model: str
    price: Price
    live: bool = False
    """For live sessions, where a vendor bills those separately."""


_valid_from = attrgetter("valid_from")
_History = list[Price]
"""The prices of one model, oldest first."""


class PriceBook:
    """Look-up of rates in the tables: longest prefix, then the newest row that is valid on the day."""

    def __init__(self, rows: Sequence[RateRow]) -> None:
        prices: dict[tuple[str, str], list[Price]] = {}
        for row in rows:
            prices.setdefault((_key(row.provider_type, row.live), row.model), []).append(row.price)
        self._rates = {key: sorted(history, key=_valid_from) for key, history in prices.items()}
        self._cache: dict[tuple[str, str], _History] = {}

    def price(self, provider_type: str, model_name: str, *, at_day: int, live: bool = False) -> Price | None:
        """Return the table's price on a UTC day; None = unpriced. A model's own `price` setting overrides it.

        `live`: prefer the price for live sessions, where the vendor has one.
        """
        if live and (price := self._at(_key(provider_type, live=True), model_name, at_day)) is not None:
            return price
        return self._at(provider_type, model_name, at_day)

    def any_price(self, provider_type: str, model_name: str, *, at_day: int) -> Price | None:
        """Return the usual price, else that of live sessions; None where there is neither."""
        return self.price(provider_type, model_name, at_day=at_day) or self.price(
            provider_type, model_name, at_day=at_day, live=True
        )

    def _at(self, provider_type: str, model_name: str, at_day: int) -> Price | None:
        key = (provider_type, model_name)
        try:
            history = self._cache[key]
        except KeyError:
            if len(self._cache) >= _CACHED_NAMES:
                self._cache.clear()
            history = self._cache[key] = self._search(provider_type, model_name)
        index = bisect_right(history, at_day, key=_valid_from)
        return history[index - 1] if index else None

    def _search(self, provider_type: str, model_name: str) -> _History:
        for cut in range(len(model_name), 0, -1):
            suffix = model_name[cut:]
            if not suffix or suffix[0] in "-:@":
                history = self._rates.get((provider_type, model_name[:cut]))
                if history is not None:
                    return history if _OTHER_MODEL.isdisjoint(re.split("[-:@]", suffix)) else []
        return []

    def cost(self, usage: Usage, price: Price | None, *, local: bool) -> Cost:
        """Return a cost that is priced, unpriced (`nusd` None, source "unpriced") or free (0, source "local").

        A local provider with an explicit price is priced. Usage in a unit that the price has no rate for (tokens, but
        a price per character) is unpriced, never a silent 0, and so is an implausible duration (infinite, NaN, over
        LONGEST_S). Negative units count as 0, so no cost is negative.
        """
        if price is None:
            return Cost(nusd=0, source="local") if local else Cost(nusd=None, source="unpriced")
        by_token = usage.input_tokens > 0 or usage.output_tokens > 0
        if by_token:
            amount = _tokens(usage, price)
            if amount is not None:
                return Cost(nusd=_round(amount), source=price.source)
        if usage.characters > 0 and price.characters is not None:
            return Cost(nusd=_round(usage.characters * price.characters * _PER), source=price.source)
        if 0 < usage.audio_seconds <= LONGEST_S and price.audio_seconds is not None:
            seconds = max(usage.audio_seconds, price.min_audio_seconds)
            return Cost(nusd=_round(round(seconds * _PER) * price.audio_seconds), source=price.source)
        if by_token or usage.characters > 0 or not usage.audio_seconds <= 0:  # "not <=" also for NaN
            return Cost(nusd=None, source="unpriced")
        return Cost(nusd=0, source=price.source)


def _key(provider_type: str, live: bool) -> str:
    return f"{provider_type} live" if live else provider_type


def _tokens(usage: Usage, price: Price) -> int | None:
    """Return the cost of the tokens in 10**-12 nano-USD; None when the price has no rate for tokens.

    Cached, written and audio tokens are parts of the input tokens: each is billed at its own rate where there is one,
    the remaining input at the input rate. A part never exceeds the remaining tokens, so an inconsistent count of a
    vendor cannot make a cost negative.
    """
    if price.input_tokens is None and price.output_tokens is None:
        return None
    input_rate = price.input_tokens or 0
    remaining = max(0, usage.input_tokens)
    total = 0
    if usage.cached_input_tokens or usage.cache_write_tokens or usage.input_audio_tokens:
        for part, rate in (
            (usage.cached_input_tokens, price.cached_input_tokens),
            (usage.cache_write_tokens, price.cache_write_tokens),
            (usage.input_audio_tokens, price.input_audio_tokens),
        ):
            if part > 0 and rate is not None:
                part = min(part, remaining)
                remaining -= part
                total += part * rate
    total += remaining * input_rate
    output = max(0, usage.output_tokens)
    if usage.output_audio_tokens > 0 and price.output_audio_tokens is not None:
        audio = min(usage.output_audio_tokens, output)
        output -= audio
        total += audio * price.output_audio_tokens
    total += output * (price.output_tokens or 0)
    return total * _PER


def _round(amount: int) -> int:
    """Convert 10**-12 nano-USD to nano-USD, rounding half up."""
    return (2 * amount + _SCALE) // (2 * _SCALE)
