"""The cost of usage at a given time, with the rate it was computed from. Pure: `rate_tables` reads the tables.

All arithmetic is on integers. A rate is nano-USD per 1,000,000 units; audio is measured in whole microseconds. The
parts of a cost are summed in units of 10**-12 nano-USD, and rounded half up once, at the end.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from operator import attrgetter

import attrs

from gw.types.entities import Price
from gw.types.usage import BASE_RATE, NANO, NO_DIMENSIONS, Cost, Dimensions, Usage

_PER = 1_000_000
_SCALE = _PER * _PER
LONGEST_S = 1e9  # longest plausible duration: thirty years of audio
_CACHED_NAMES = 4_096  # results of searches by name; names come from the configuration, so this is never reached in practice

_VARIANT = re.compile(
    r"([-:@]("
    r"latest|general"
    r"|20\d\d-?(0[1-9]|1[0-2])-?(0[1-9]|[12]\d|3[01])"  # 2026-01-12, 20260112
    r"|(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])"  # 0613
    r"))*"
)
"""Suffixes that name a snapshot of the same model. Other words make another model with a price of its own (`-pro`, `-mini`,
`-preview`), or are a mistake."""
_VOICE = re.compile(r"-[a-z]+-[a-z]{2}")
"""Suffix of a model that is named with voice and language, such as `aura-2-thalia-en`."""


@attrs.frozen(kw_only=True)
class RateRow:
    """A row of a rate table: for `model` (vendor's name) and its dated variants."""

    provider_type: str
    model: str
    price: Price
    live: bool = False
    """For live sessions, where a vendor bills those separately."""
    voices: bool = False
    """For names with a voice and a language after `model` as well."""


_valid_from = attrgetter("valid_from")
_History = list[Price]
"""The prices of one model, oldest first."""
ReadTable = Callable[[str], Iterable[RateRow]]
"""Provider type → the rows of its shipped table."""


class _Table:
    """The rates of one provider type."""

    def __init__(self, rows: Iterable[RateRow]) -> None:
        """Index the rows; of two for one model and day the later one counts."""
        prices: dict[tuple[bool, str], dict[int, Price]] = {}
        self.voices: set[tuple[bool, str]] = set()
        for row in rows:
            key = (row.live, row.model)
            prices.setdefault(key, {})[row.price.valid_from] = row.price
            if row.voices:
                self.voices.add(key)
        self.rates = {key: sorted(history.values(), key=_valid_from) for key, history in prices.items()}

    def search(self, live: bool, model_name: str) -> _History:
        for cut in range(len(model_name), 0, -1):
            key, suffix = (live, model_name[:cut]), model_name[cut:]
            if (history := self.rates.get(key)) is not None:
                named = _VARIANT.fullmatch(suffix) or (key in self.voices and _VOICE.fullmatch(suffix))
                if named:
                    return history
        return []


def _no_table(provider_type: str) -> Iterable[RateRow]:
    return ()


class PriceBook:
    """Look-up of rates: the row of a model or of the model that it is a snapshot of, the newest that is valid on the day."""

    def __init__(self, rows: Iterable[RateRow], read_table: ReadTable = _no_table) -> None:
        """`rows` count beside those that `read_table` returns, which is called when rates of a provider type are first needed."""
        self._read_table = read_table
        self._tables: dict[str, _Table] = {}
        self.replace(rows)

    def replace(self, rows: Iterable[RateRow]) -> None:
        """Use these rows from now on, beside those of the shipped tables. Of two rows for one model and day the later one counts."""
        self.rows = tuple(rows)
        used, self._tables = list(self._tables), {}
        self.prepare(used)
        self._cache: dict[tuple[str, bool, str], _History] = {}

    def prepare(self, provider_types: Iterable[str]) -> None:
        """Read the tables of these types, each of which takes up to 10 ms, so that no request has to."""
        for provider_type in provider_types:
            self._table(provider_type)

    def price(self, provider_type: str, model_name: str, *, at_day: int, live: bool = False) -> Price | None:
        """Return the table's price on a UTC day; None = unpriced. A model's own `price` setting overrides it.

        `live`: prefer the price for live sessions, where the vendor has one.
        """
        if live and (price := self._at(provider_type, True, model_name, at_day)) is not None:
            return price
        return self._at(provider_type, False, model_name, at_day)

    def any_price(self, provider_type: str, model_name: str, *, at_day: int) -> Price | None:
        """Return the usual price, else that of live sessions; None where there is neither."""
        return self.price(provider_type, model_name, at_day=at_day) or self.price(
            provider_type, model_name, at_day=at_day, live=True
        )

    def has(self, provider_type: str, model_name: str) -> bool:
        """Return whether the table knows the model, whenever its price holds."""
        return any(self._history(provider_type, live, model_name) for live in (False, True))

    def names(self, provider_type: str) -> list[str]:
        """Return the names of a type's models that the table has, in alphabetical order."""
        return sorted({model for _, model in self._table(provider_type).rates})

    def similar(self, provider_type: str, model_name: str) -> str:
        """Return the name with a price that is most like this one, which has none; "" if none is."""
        return next(iter(get_close_matches(model_name, self.names(provider_type), n=1, cutoff=0.75)), "")

    def _table(self, provider_type: str) -> _Table:
        table = self._tables.get(provider_type)
        if table is None:
            own = [row for row in self.rows if row.provider_type == provider_type]
            table = self._tables[provider_type] = _Table([*self._read_table(provider_type), *own])
        return table

    def _at(self, provider_type: str, live: bool, model_name: str, at_day: int) -> Price | None:
        history = self._history(provider_type, live, model_name)
        index = bisect_right(history, at_day, key=_valid_from)
        return history[index - 1] if index else None

    def _history(self, provider_type: str, live: bool, model_name: str) -> _History:
        key = (provider_type, live, model_name)
        try:
            return self._cache[key]
        except KeyError:
            if len(self._cache) >= _CACHED_NAMES:
                self._cache.clear()
            history = self._cache[key] = self._table(provider_type).search(live, model_name)
            return history

    def cost(self, usage: Usage, price: Price | None, *, local: bool) -> Cost:
        """Return a cost that is priced, unpriced (`nusd` None, source "unpriced") or free (0, source "local").

        Without a price, what the vendor states in USD for the answer is the cost (source "vendor").
        A local provider with an explicit price is priced. Usage in a unit that the price has no rate for (tokens, but
        a price per character) is unpriced, never a silent 0, and so is an implausible duration (infinite, NaN, over
        LONGEST_S). Negative units count as 0, so no cost is negative.
        """
        if price is None:
            if usage.vendor_figure is not None and usage.vendor_figure.unit == "USD":
                return Cost(nusd=round(usage.vendor_figure.amount * NANO), source="vendor")
            return Cost(nusd=0, source="local") if local else Cost(nusd=None, source="unpriced")
        source, extra = price.source, 0
        dimensions = usage.dimensions
        if dimensions is not NO_DIMENSIONS or price.above:
            price, ignored = _applicable(price, usage)
            if ignored:
                source = f"{source} ({BASE_RATE}: {', '.join(ignored)})"
            extra = sum(price.addons.get(name, 0) for name in dimensions.addons)
        by_token = usage.input_tokens > 0 or usage.output_tokens > 0
        if by_token:
            amount = _tokens(usage, price)
            if amount is not None:
                return Cost(nusd=_round(amount), source=source)
        if usage.characters > 0 and price.characters is not None:
            return Cost(nusd=_round(usage.characters * price.characters * _PER), source=source)
        messages = dimensions.text_messages * (price.text_messages or 0) * _PER
        if 0 < usage.audio_seconds <= LONGEST_S and price.audio_seconds is not None:
            amount = _billed_microseconds(usage, price) * (price.audio_seconds + extra)
            return Cost(nusd=_round(amount + messages), source=source)
        if messages > 0 and usage.audio_seconds <= 0 and not by_token:
            return Cost(nusd=_round(messages), source=source)
        if by_token or usage.characters > 0 or not usage.audio_seconds <= 0:  # "not <=" also for NaN
            return Cost(nusd=None, source="unpriced")
        return Cost(nusd=0, source=price.source)


def _applicable(price: Price, usage: Usage) -> tuple[Price, list[str]]:
    """Return the price for the usage's tier and context, and what the usage has that the price does not tell apart."""
    dimensions, base, ignored = usage.dimensions, price, []
    if dimensions.tier:
        price = base.tiers.get(dimensions.tier, base)
        if price is base:
            ignored.append(f"{dimensions.tier} tier")
    step = _step(price, usage)
    if step is not None:
        price = step
    elif price is not base and _step(base, usage) is not None:
        ignored.append("long context")
    ignored += [name for name in price.inherited if _count(usage, name) > 0]
    if dimensions is not NO_DIMENSIONS:
        known = price.addons.keys() | price.min_seconds_with.keys()
        ignored += [name for name in dimensions.addons if name not in known]
        if dimensions.region and dimensions.region not in price.regions:
            ignored.append(f"region {dimensions.region}")
        if dimensions.searches > 0 and price.searches is None:
            ignored.append("searches")
        if dimensions.text_messages > 0 and price.text_messages is None:
            ignored.append("text_messages")
        if dimensions.cache_write_long_tokens > 0 and price.cache_write_long_tokens is None:
            ignored.append("cache_write_long_tokens")
        if dimensions.image_tokens > 0 and price.image_tokens is None:
            ignored.append("image_tokens")
    return price, ignored


def _step(price: Price, usage: Usage) -> Price | None:
    for tokens, step in price.above:
        if usage.input_tokens > tokens:
            return step
    return None


def _count(usage: Usage, name: str) -> float:
    count: float = getattr(usage.dimensions if name in Dimensions.__struct_fields__ else usage, name)
    return count


def _billed_microseconds(usage: Usage, price: Price) -> int:
    least_s = price.min_audio_seconds
    if price.min_seconds_with:
        least_s = max(least_s, *[price.min_seconds_with.get(name, 0.0) for name in usage.dimensions.addons], 0.0)
    microseconds = round(max(usage.audio_seconds, least_s) * _PER)
    if price.step_audio_seconds:
        step = round(price.step_audio_seconds * _PER)
        microseconds = -(-microseconds // step) * step
    return microseconds


def _tokens(usage: Usage, price: Price) -> int | None:
    """Return the cost of the tokens in 10**-12 nano-USD; None when the price has no rate for tokens.

    Cached, written, audio and image tokens are parts of the input tokens: each is billed at its own rate where there is one,
    the remaining input at the input rate. Cached audio is billed as cached, not as audio. A part never exceeds the remaining
    tokens, so an inconsistent count of a vendor cannot make a cost negative. Searches and requests are billed beside the
    tokens, wherever they are processed.
    """
    input_rate, output_rate = price.input_tokens, price.output_tokens
    if input_rate is None and output_rate is None:
        return None
    remaining, output = usage.input_tokens, usage.output_tokens
    if remaining < 0 or output < 0:
        remaining, output = max(0, remaining), max(0, output)
    total = 0
    dimensions = usage.dimensions
    if usage.cached_input_tokens or usage.cache_write_tokens or usage.input_audio_tokens or dimensions.image_tokens:
        for part, rate in _parts_of_input(usage, price):
            if part > 0 and rate is not None:
                part = min(part, remaining)
                remaining -= part
                total += part * rate
    total += remaining * (input_rate or 0)
    if usage.output_audio_tokens > 0 and price.output_audio_tokens is not None:
        audio = min(usage.output_audio_tokens, output)
        output -= audio
        total += audio * price.output_audio_tokens
    total += output * (output_rate or 0)
    if dimensions is NO_DIMENSIONS:
        return (total + price.requests) * _PER
    factor = price.regions.get(dimensions.region, _PER) if dimensions.region else _PER
    beside = price.requests
    if dimensions.searches > 0 and price.searches is not None:
        beside += dimensions.searches * price.searches
    return total * factor + beside * _PER


def _parts_of_input(usage: Usage, price: Price) -> tuple[tuple[int, int | None], ...]:
    """Return the parts of the input tokens, none of them in two, each with its rate; None = as the remaining input."""
    dimensions, cached, written = usage.dimensions, usage.cached_input_tokens, usage.cache_write_tokens
    long = audio = image = 0
    if price.cache_write_long_tokens is not None:
        long = max(0, min(dimensions.cache_write_long_tokens, written))
    if price.cached_input_tokens is not None:
        audio = max(0, min(dimensions.cached_audio_tokens, cached))
        image = max(0, min(dimensions.cached_image_tokens, cached - audio))
    cached_rate, audio_rate, image_rate = price.cached_input_tokens, price.cached_audio_tokens, price.cached_image_tokens
    return (
        (audio, cached_rate if audio_rate is None else audio_rate),
        (image, cached_rate if image_rate is None else image_rate),
        (cached - audio - image, cached_rate),
        (long, price.cache_write_long_tokens),
        (written - long, price.cache_write_tokens),
        (usage.input_audio_tokens - audio, price.input_audio_tokens),
        (dimensions.image_tokens - image, price.image_tokens),
    )


def _round(amount: int) -> int:
    """Convert 10**-12 nano-USD to nano-USD, rounding half up."""
    return (2 * amount + _SCALE) // (2 * _SCALE)
