"""What a price depends on beside the units: tier, context, cache, region, options, searches, rounding."""

import pytest

from gw.pricing.book import PriceBook
from gw.pricing.price_document import price_from
from gw.types.usage import Cost, Dimensions, Usage

BOOK = PriceBook([])
CHAT = price_from(
    {
        "unit": "1M_tokens", "input": 10, "cached_input": 1, "cache_write": 12, "cache_write_long": 20, "output": 100,
        "per_search": 0.5,
        "above": [{"tokens": 1_000, "input": 20, "output": 200}, {"tokens": 5_000, "input": 30, "output": 300}],
        "tiers": {
            "flex": {"input": 5, "output": 50, "above": [{"tokens": 1_000, "input": 7, "output": 70}]},
            "fast": {"input": 60, "cached_input": 6, "cache_write": 72, "cache_write_long": 120, "output": 600},
        },
        "regions": {"us": 1.1},
    },
    source="test",
)  # fmt: skip
VOICE = price_from(
    {
        "unit": "1M_tokens", "input": 4, "cached_input": 0.4, "cached_input_image": 0.5, "input_audio": 32, "input_image": 5,
        "output": 16, "output_audio": 64,
    },
    source="test",
)  # fmt: skip
SMALL_VOICE = price_from(
    {"unit": "1M_tokens", "input": 0.6, "cached_input": 0.06, "cached_input_audio": 0.3, "input_audio": 10, "output": 2.4},
    source="test",
)
EAR = price_from(
    {"unit": "second", "usd": 0.001, "addons": {"keyterm": 0.0005, "diarize": 0.0001}}, source="test"
)
TALK = price_from({"unit": "minute", "usd": 0.06, "per_message": 0.004}, source="test")
MICRO = 1_000  # nano-USD


def cost(price, usage, **dimensions):
    return BOOK.cost(
        Usage(**usage, dimensions=Dimensions(**dimensions)) if dimensions else Usage(**usage), price, local=False
    )


@pytest.mark.parametrize(
    ("usage", "dimensions", "nusd", "source"),
    [
        ({"input_tokens": 100, "output_tokens": 10}, {}, 2_000 * MICRO, "test"),
        ({"input_tokens": 100, "output_tokens": 10}, {"tier": "flex"}, 1_000 * MICRO, "test"),
        ({"input_tokens": 100, "output_tokens": 10}, {"tier": "scale"}, 2_000 * MICRO, "test (base rate: scale tier)"),
        (
            {"input_tokens": 100, "cached_input_tokens": 100}, {"tier": "flex"},
            100 * MICRO, "test (base rate: cached_input_tokens)",
        ),
        ({"input_tokens": 100, "cached_input_tokens": 100}, {"tier": "fast"}, 600 * MICRO, "test"),
        ({"input_tokens": 1_000}, {}, 10_000 * MICRO, "test"),
        ({"input_tokens": 1_001}, {}, 20_020 * MICRO, "test"),
        ({"input_tokens": 5_001, "output_tokens": 1}, {}, 150_330 * MICRO, "test"),
        ({"input_tokens": 1_001}, {"tier": "flex"}, 7_007 * MICRO, "test"),
        ({"input_tokens": 1_001}, {"tier": "fast"}, 60_060 * MICRO, "test (base rate: long context)"),
        (
            {"input_tokens": 100, "cache_write_tokens": 80}, {"cache_write_long_tokens": 50},
            (20 * 10 + 30 * 12 + 50 * 20) * MICRO, "test",
        ),
        ({"input_tokens": 100}, {"region": "us"}, 1_100 * MICRO, "test"),
        ({"input_tokens": 100}, {"region": "mars"}, 1_000 * MICRO, "test (base rate: region mars)"),
        ({"input_tokens": 100}, {"searches": 2}, 1_001_000 * MICRO, "test"),
        ({"input_tokens": 100}, {"searches": 2, "region": "us"}, 1_001_100 * MICRO, "test"),
    ],
)  # fmt: skip
def test_chat(usage, dimensions, nusd, source):
    assert cost(CHAT, usage, **dimensions) == Cost(nusd=nusd, source=source)


@pytest.mark.parametrize(
    ("addons", "nusd", "source"),
    [
        ((), 60_000 * MICRO, "test"),
        (("keyterm",), 90_000 * MICRO, "test"),
        (("diarize", "keyterm"), 96_000 * MICRO, "test"),
        (("keyterm", "redact"), 90_000 * MICRO, "test (base rate: redact)"),
    ],
)
def test_options_of_transcription(addons, nusd, source):
    assert cost(EAR, {"audio_seconds": 60.0}, addons=addons) == Cost(nusd=nusd, source=source)


def test_a_price_without_dimensions_says_so():
    plain = price_from({"unit": "1M_tokens", "input": 10, "output": 100}, source="config")
    usage = {"input_tokens": 100, "cache_write_tokens": 50}
    assert cost(plain, usage, tier="flex", searches=1, cache_write_long_tokens=50) == Cost(
        nusd=1_000 * MICRO, source="config (base rate: flex tier, searches, cache_write_long_tokens)"
    )


def test_audio_is_billed_in_steps():
    price = price_from({"unit": "second", "usd": 1, "min_seconds": 10, "step_seconds": 15}, source="s")
    found = [cost(price, {"audio_seconds": seconds}).nusd for seconds in (0.1, 15.0, 15.1, 44.9, 45.1)]
    assert found == [seconds * 10**9 for seconds in (15, 15, 30, 45, 60)]


def test_a_fee_per_request():
    price = price_from({"unit": "1M_tokens", "input": 10, "output": 100, "per_request": 0.025}, source="s")
    assert cost(price, {"input_tokens": 100}).nusd == 25_000_000 + 1_000 * MICRO
    assert cost(price, {}).nusd == 0


@pytest.mark.parametrize(
    ("price", "usage", "dimensions", "nusd"),
    [  # 1,100 tokens of text (200 cached), 900 of audio (800 cached)
        (VOICE, {"input_tokens": 2_000, "cached_input_tokens": 1_000, "input_audio_tokens": 900}, {"cached_audio_tokens": 800},
         900 * 4 + 100 * 32 + 1_000 * 0.4),
        (SMALL_VOICE, {"input_tokens": 2_000, "cached_input_tokens": 1_000, "input_audio_tokens": 900},
         {"cached_audio_tokens": 800}, 900 * 0.6 + 100 * 10 + 200 * 0.06 + 800 * 0.3),
        (VOICE, {"input_tokens": 1_000, "cached_input_tokens": 300}, {"image_tokens": 500, "cached_image_tokens": 200},
         400 * 4 + 300 * 5 + 200 * 0.5 + 100 * 0.4),
        (VOICE, {"input_tokens": 100, "input_audio_tokens": 60, "output_tokens": 50, "output_audio_tokens": 40}, {},
         40 * 4 + 60 * 32 + 10 * 16 + 40 * 64),
        (VOICE, {"input_tokens": 10, "cached_input_tokens": 5}, {"cached_audio_tokens": 900}, 5 * 4 + 5 * 0.4),
    ],
)  # fmt: skip
def test_cached_audio_and_images_are_billed_once_and_at_their_own_rate(price, usage, dimensions, nusd):
    assert cost(price, usage, **dimensions).nusd == round(nusd * MICRO)


def test_image_tokens_without_a_rate_are_named():
    assert cost(SMALL_VOICE, {"input_tokens": 10}, image_tokens=5).source == "test (base rate: image_tokens)"


@pytest.mark.parametrize(
    ("price", "usage", "messages", "nusd", "source"),
    [
        (TALK, {"audio_seconds": 30.0}, 0, 30_000 * MICRO, "test"),
        (TALK, {"audio_seconds": 30.0}, 2, 38_000 * MICRO, "test"),
        (TALK, {}, 3, 12_000 * MICRO, "test"),
        (TALK, {"audio_seconds": 30.0, "input_tokens": 10, "output_tokens": 277}, 1, 34_000 * MICRO, "test"),
        (TALK, {"input_tokens": 10}, 1, None, "unpriced"),
        (EAR, {"audio_seconds": 30.0}, 2, 30_000 * MICRO, "test (base rate: text_messages)"),
        (CHAT, {"input_tokens": 100}, 2, 1_000 * MICRO, "test (base rate: text_messages)"),
    ],
)
def test_a_conversation_by_duration_and_messages(price, usage, messages, nusd, source):
    assert cost(price, usage, text_messages=messages) == Cost(nusd=nusd, source=source)
