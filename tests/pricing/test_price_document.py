from datetime import date

import pytest

from gw.pricing.price_document import price_from
from gw.types.entities import Price

TOKENS = {"unit": "1M_tokens", "input": 2.5, "output": 10}


def test_plain_rates():
    assert price_from(TOKENS, source="s") == Price(input_tokens=2_500_000_000, output_tokens=10_000_000_000, source="s")
    minute = price_from({"unit": "minute", "usd": "0.0048", "min_seconds": 10, "input": None}, source="s")
    assert (minute.audio_seconds, minute.min_audio_seconds) == (80_000_000_000, 10.0)


@pytest.mark.parametrize("day", ["2026-12-01", date(2026, 12, 1)])
def test_the_first_day(day):
    assert price_from(TOKENS | {"valid_from": day}, source="s").valid_from == 20_788


def test_a_tier_takes_what_it_does_not_name_from_the_price():
    price = price_from(TOKENS | {"cached_input": 1, "tiers": {"flex": {"input": 1.25}}}, source="s")
    flex = price.tiers["flex"]
    assert (flex.input_tokens, flex.cached_input_tokens, flex.output_tokens) == (1_250_000_000, 10**9, 10**10)
    assert flex.inherited == {"cached_input_tokens", "output_tokens"}
    assert price.inherited == frozenset()


def test_steps_are_found_from_the_highest():
    price = price_from(TOKENS | {"above": [{"tokens": 128_000, "input": 3}, {"tokens": 272_000, "input": 5}]}, source="s")
    assert [(tokens, step.input_tokens) for tokens, step in price.above] == [(272_000, 5 * 10**9), (128_000, 3 * 10**9)]


def test_regions_and_options():
    assert price_from(TOKENS | {"regions": {"us": 1.1}}, source="s").regions == {"us": 1_100_000}
    assert price_from({"unit": "hour", "usd": 0.15, "addons": {"diarize": 0.36}}, source="s").addons == {
        "diarize": 100_000_000_000
    }


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"unit": None}, "a unit is needed, one of 1M_tokens"),
        ({"unit": "day"}, "unknown unit 'day'"),
        ({"input": True}, "input must be a number"),
        ({"input": "cheap"}, "input must be a number"),
        ({"input": -1}, "input must be 0 or more"),
        ({"input": 1e12}, "input must be at most"),
        ({"inptu": 1}, "takes input, .*, not 'inptu'"),
        ({"valid_from": "soon"}, "valid_from must be a date, such as 2026-12-01"),
        ({"valid_from": 20260101}, "valid_from must be a date"),
        ({"tiers": "flex"}, "tiers must be a mapping"),
        ({"tiers": {"flex": {}}}, "at least one rate"),
        ({"tiers": {"flex": {"usd": 1}}}, "not 'usd'"),
        ({"tiers": {"": {"input": 1}}}, "tiers may have up to 32 short names"),
        ({"above": {"tokens": 5}}, "above must be a list"),
        ({"above": [{"input": 5}]}, "needs its own number of tokens"),
        ({"above": [{"tokens": 5, "input": 5}] * 2}, "needs its own number of tokens"),
        ({"regions": {"us": 0}}, "regions.us must be a factor from 0.01 to 100"),
        ({"regions": {"us": "NaN"}}, "regions.us must be a factor"),
        ({"addons": {"keyterm": 1}}, "addons are for prices per second, minute or hour"),
    ],
)
def test_a_mistake_is_named(change, what):
    with pytest.raises(ValueError, match=what):
        price_from(TOKENS | change, source="s")
