import math

import attrs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gw.pricing.book import PriceBook, RateRow
from gw.types.entities import Price
from gw.types.usage import Cost, Dimensions, Usage

BOOK = PriceBook([])


def row(model, *, day=0, rate=1, kind="acme"):
    return RateRow(provider_type=kind, model=model, price=Price(input_tokens=rate, source=f"{model}@{day}", valid_from=day))


def nusd(usage, price, *, local=False):
    return BOOK.cost(usage, price, local=local).nusd


def test_a_snapshot_has_the_price_of_its_model():
    book = PriceBook([row("nova"), row("nova-3"), row("sonic"), row("gpt-4o-mini")])

    def source(name):
        price = book.price("acme", name, at_day=9)
        return price and price.source

    assert source("nova-3") == "nova-3@0"
    assert source("nova-3-general") == "nova-3@0"
    assert source("nova-3:latest") == "nova-3@0"
    assert source("nova@20260112") == "nova@0"
    assert source("nova-0613") == "nova@0"
    assert source("sonic-2026-01-12") == "sonic@0"
    assert source("gpt-4o-mini-2024-07-18") == "gpt-4o-mini@0"
    assert source("gpt-4o-mini-latest-2024-07-18") == "gpt-4o-mini@0"
    for other in ("novae", "nova-", "nova@2", "nova-2-medical-2026-01-12", "sonic-9999", "sonic-2026-13-01", ""):
        assert source(other) is None, other
    assert source("nova-3-mini") is None, "a model of its own, not a variant"
    assert book.price("other", "nova-3", at_day=9) is None


def test_a_mistyped_name_has_no_price_but_a_suggestion():
    book = PriceBook([row("gpt-4o"), row("gpt-4o-mini"), attrs.evolve(row("nova-3"), live=True)])
    assert book.price("acme", "gpt-4o-mni", at_day=9) is None
    assert book.similar("acme", "gpt-4o-mni") == "gpt-4o-mini"
    assert book.similar("acme", "nova-33") == "nova-3"
    assert book.similar("acme", "whisper") == book.similar("other", "gpt-4o-mni") == ""


def test_names_with_a_voice():
    book = PriceBook([attrs.evolve(row("aura-2"), voices=True), row("nova-3")])
    assert book.price("acme", "aura-2-thalia-en", at_day=9) is not None
    for other in ("aura-2-thalia", "aura-2-thalia-en-x", "nova-3-thalia-en"):
        assert book.price("acme", other, at_day=9) is None, other


def test_a_shipped_table_is_read_when_its_rates_are_first_needed_and_own_rows_count_beside_it():
    tables, read = {"acme": [row("m", rate=1), row("n", rate=5)], "other": [row("m", kind="other")]}, []

    def read_table(provider_type):
        read.append(provider_type)
        return tables.get(provider_type, ())

    book = PriceBook([row("m", rate=2)], read_table)
    assert read == []
    assert (book.price("acme", "m", at_day=9), book.price("acme", "n", at_day=9)) == (row("m", rate=2).price, row("n", rate=5).price)
    assert book.names("acme") == ["m", "n"]
    assert read == ["acme"]
    book.replace([])
    assert book.price("acme", "m", at_day=9) == row("m", rate=1).price
    read.clear()
    book.prepare(["acme", "other", "unknown"])
    assert read == ["other", "unknown"]
    assert book.has("other", "m")
    assert not book.has("unknown", "m")
    assert read == ["other", "unknown"]


def test_of_two_rows_for_a_day_the_later_counts():
    book = PriceBook([row("m", rate=1), row("m", rate=2)])
    assert book.price("acme", "m", at_day=0).input_tokens == 2
    book.price("acme", "m-latest", at_day=0)
    book.replace([row("m", rate=3)])
    assert book.price("acme", "m-latest", at_day=0).input_tokens == 3, "nothing of the old rows is remembered"


def test_the_newest_row_that_is_valid():
    book = PriceBook([row("m", day=20, rate=3), row("m", day=10, rate=2)])
    prices = [book.price("acme", "m-latest", at_day=day) for day in (9, 10, 19, 20, 99)]
    assert [price and price.input_tokens for price in prices] == [None, 2, 2, 3, 3]


def test_the_cache_of_names_is_bounded():
    book = PriceBook([row("x")])
    for number in range(5_000):
        assert book.price("acme", f"m-{number}", at_day=0) is None
    assert len(book._cache) <= 4_096


def test_three_states():
    used = Usage(input_tokens=10)
    assert BOOK.cost(used, None, local=True) == Cost(nusd=0, source="local")
    assert BOOK.cost(used, None, local=False) == Cost(nusd=None, source="unpriced")
    assert BOOK.cost(used, Price(input_tokens=1_000_000, source="config"), local=True) == Cost(nusd=10, source="config")


def test_a_price_for_another_unit_is_no_price():
    assert nusd(Usage(input_tokens=10), Price(characters=5)) is None
    assert nusd(Usage(characters=10), Price(input_tokens=5)) is None
    assert nusd(Usage(audio_seconds=1.0), Price(input_tokens=5, output_tokens=5)) is None
    assert nusd(Usage(), Price(characters=5)) == 0


def test_parts_of_the_input_are_billed_once():
    price = Price(
        input_tokens=100_000_000, cached_input_tokens=10_000_000, cache_write_tokens=125_000_000,
        input_audio_tokens=400_000_000, output_tokens=200_000_000, output_audio_tokens=800_000_000,
    )  # fmt: skip
    usage = Usage(
        input_tokens=100, cached_input_tokens=40, cache_write_tokens=10, input_audio_tokens=20,
        output_tokens=50, output_audio_tokens=30,
    )  # fmt: skip
    assert nusd(usage, price) == 30 * 100 + 40 * 10 + 10 * 125 + 20 * 400 + 20 * 200 + 30 * 800


def test_tokens_without_a_separate_rate_cost_the_input_rate():
    price = Price(input_tokens=100_000_000, output_tokens=200_000_000)
    usage = Usage(
        input_tokens=100, cached_input_tokens=40, cache_write_tokens=10, input_audio_tokens=20,
        output_tokens=50, output_audio_tokens=30,
    )  # fmt: skip
    assert nusd(usage, price) == 100 * 100 + 50 * 200


def test_tokens_or_seconds_never_both():
    price = Price(input_tokens=1_000_000, output_tokens=1_000_000, audio_seconds=5_000_000)
    assert nusd(Usage(input_tokens=7, audio_seconds=100.0), price) == 7
    assert nusd(Usage(audio_seconds=100.0), price) == 500
    whisper = Price(audio_seconds=5_000_000)
    assert nusd(Usage(input_tokens=7, audio_seconds=100.0), whisper) == 500


def test_the_shortest_audio_billed_for():
    price = Price(audio_seconds=1_000_000, min_audio_seconds=10.0)
    assert nusd(Usage(audio_seconds=0.3), price) == 10
    assert nusd(Usage(audio_seconds=10.5), price) == 11, "half up"
    assert nusd(Usage(), price) == 0


def test_rounding_is_half_up_and_once():
    assert nusd(Usage(input_tokens=1), Price(input_tokens=500_000)) == 1
    assert nusd(Usage(input_tokens=1), Price(input_tokens=499_999)) == 0
    price = Price(input_tokens=300_000, output_tokens=300_000)
    assert nusd(Usage(input_tokens=1, output_tokens=1), price) == 1, "0.3 + 0.3, not 0 + 0"


RATE = st.none() | st.integers(0, 10**14)
PRICES = st.builds(
    Price,
    **{name: RATE for name in Price.__struct_fields__ if Price.__annotations__[name] == "int | None"},
    requests=st.integers(0, 10**14),
    min_audio_seconds=st.sampled_from([0.0, 10.0]),
    step_audio_seconds=st.sampled_from([0.0, 1.0, 15.0]),
    regions=st.just({"us": 1_100_000}),
)
COUNT = st.integers(0, 10**9)
USAGES = st.builds(
    Usage,
    input_tokens=COUNT,
    cached_input_tokens=COUNT,
    cache_write_tokens=COUNT,
    output_tokens=COUNT,
    input_audio_tokens=COUNT,
    output_audio_tokens=COUNT,
    audio_seconds=st.floats(0, 1e6),
    characters=COUNT,
    dimensions=st.builds(
        Dimensions,
        tier=st.sampled_from(["", "flex"]),
        region=st.sampled_from(["", "us", "eu"]),
        searches=COUNT,
        text_messages=COUNT,
        cache_write_long_tokens=COUNT,
    ),
)


@settings(deadline=None)
@given(PRICES, USAGES, st.booleans())
def test_never_negative_and_never_a_float(price, usage, local):
    cost = nusd(usage, price, local=local)
    assert cost is None or (type(cost) is int and cost >= 0)


@st.composite
def consistent(draw):
    whole = draw(st.integers(1, 10**7))
    cached = draw(st.integers(0, whole))
    audio = draw(st.integers(0, whole - cached))
    output = draw(st.integers(0, 10**7))
    spoken = draw(st.integers(0, output))
    return Usage(
        input_tokens=whole, cached_input_tokens=cached, input_audio_tokens=audio,
        output_tokens=output, output_audio_tokens=spoken,
    )  # fmt: skip


@settings(deadline=None)
@given(
    PRICES.map(lambda price: msgspec.structs.replace(price, input_tokens=price.input_tokens or 7, requests=0)), consistent(), consistent()
)
def test_the_cost_of_two_is_the_sum_within_a_nano_dollar(price, one, other):
    both = Usage(
        input_tokens=one.input_tokens + other.input_tokens,
        cached_input_tokens=one.cached_input_tokens + other.cached_input_tokens,
        input_audio_tokens=one.input_audio_tokens + other.input_audio_tokens,
        output_tokens=one.output_tokens + other.output_tokens,
        output_audio_tokens=one.output_audio_tokens + other.output_audio_tokens,
    )
    assert abs(nusd(both, price) - nusd(one, price) - nusd(other, price)) <= 1


@settings(deadline=None)
@given(st.integers(0, 10**14), st.integers(1, 10**9), st.integers(1, 10**9))
def test_characters_and_microseconds_add_up_too(rate, one, other):
    spoken = Price(characters=rate)
    total = nusd(Usage(characters=one + other), spoken)
    assert abs(total - nusd(Usage(characters=one), spoken) - nusd(Usage(characters=other), spoken)) <= 1
    heard = Price(audio_seconds=rate)
    parts = [nusd(Usage(audio_seconds=micros / 1e6), heard) for micros in (one + other, one, other)]
    assert abs(parts[0] - parts[1] - parts[2]) <= 1


ODD_FLOATS = st.sampled_from([math.inf, -math.inf, math.nan, 1e308, -1.0, 0.0, 30.0])
ODD_COUNTS = st.sampled_from([-(10**400), -5_000_000, -1, 0, 1, 10**20, 10**400])


@settings(max_examples=200)
@given(st.lists(ODD_COUNTS, min_size=7, max_size=7), ODD_FLOATS, st.booleans())
def test_no_usage_makes_it_fail_or_pay_back(counts, seconds, by_audio):
    names = (
        *("input_tokens", "cached_input_tokens", "cache_write_tokens", "output_tokens"),
        *("input_audio_tokens", "output_audio_tokens", "characters"),
    )
    usage = Usage(audio_seconds=seconds, **dict(zip(names, counts, strict=True)))
    rates = {"audio_seconds": 7} if by_audio else dict.fromkeys(names, 7)
    cost = nusd(usage, Price(**rates, source="config"))
    assert cost is None or cost >= 0


@pytest.mark.parametrize("seconds", [math.inf, math.nan, 1e308])
def test_an_implausible_duration_is_unpriced(seconds):
    assert nusd(Usage(audio_seconds=seconds), Price(audio_seconds=5)) is None


def test_a_negative_count_is_none():
    price = Price(input_tokens=2_000_000, output_tokens=3_000_000)
    assert nusd(Usage(input_tokens=-5_000_000, output_tokens=10), price) == 30
    assert nusd(Usage(input_tokens=-1), price) == 0
