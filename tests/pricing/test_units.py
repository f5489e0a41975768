from decimal import Decimal

import pytest

from gw.pricing.units import UNITS, price_in
from gw.types.entities import Price


def amounts(**values):
    return {name: Decimal(value) for name, value in values.items()}


@pytest.mark.parametrize(
    ("unit", "given", "price"),
    [
        ("1M_tokens", {"input": "2.5", "output": "10"}, Price(input_tokens=2_500_000_000, output_tokens=10_000_000_000)),
        ("1M_tokens", {"input": "0.6", "per_second": "0.00025"}, Price(input_tokens=600_000_000, audio_seconds=250 * 10**9)),
        ("1M_characters", {"usd": "15"}, Price(characters=15_000_000_000)),
        ("second", {"usd": "0.0001"}, Price(audio_seconds=100_000_000_000)),
        ("minute", {"usd": "0.0045"}, Price(audio_seconds=75_000_000_000)),
        (
            "minute", {"usd": "0.08", "per_message": "0.004"},
            Price(audio_seconds=1_333_333_333_333, text_messages=4_000_000_000_000),
        ),
        ("hour", {"usd": "0.111", "min_seconds": "10"}, Price(audio_seconds=30_833_333_333, min_audio_seconds=10.0)),
    ],
)
def test_units_as_people_write_them(unit, given, price):
    assert price_in(unit, amounts(**given), source="") == price


@pytest.mark.parametrize(
    ("unit", "given", "what"),
    [
        ("day", {"usd": "1"}, "unknown unit 'day'"),
        ("minute", {"input": "1"}, "takes usd, per_message, min_seconds, step_seconds, not 'input'"),
        ("minute", {"usd": "-1"}, "0 or more"),
        ("minute", {"usd": "NaN"}, "0 or more"),
        ("minute", {"min_seconds": "1"}, "needs usd"),
        ("1M_tokens", {"cached_input": "1"}, "needs input or output"),
        ("1M_characters", {}, "needs usd"),
    ],
)
def test_invalid_prices_are_refused(unit, given, what):
    with pytest.raises(ValueError, match=what):
        price_in(unit, amounts(**given), source="")


def test_a_price_has_its_source_and_day():
    for unit in UNITS:
        name = "input" if unit == "1M_tokens" else "usd"
        price = price_in(unit, amounts(**{name: "1"}), source="config", valid_from=7)
        assert (price.source, price.valid_from) == ("config", 7)
