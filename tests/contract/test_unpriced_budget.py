"""A blocking budget also holds for answers without a price, and for those whose length cannot be read."""

from __future__ import annotations

import pytest

from gw.pricing.rate_tables import parse_table, table_texts
from gw.pricing.stand_in import CONVERSATION_STAND_IN, STAND_IN
from gw.types.usage import Usage
from tests.contract.talkers import DEEPGRAM
from tests.contract.talkers import converse as talk
from tests.fakes.complete import open_complete
from tests.fakes.records import HandClock
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.openai import FakeOpenAI

YAML = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
models:
  llm: {openai/new-model: }
  tts: {openai/gpt-4o-mini-tts: {default_voice: alloy}, openai/new-voice: {default_voice: alloy}}
  stt: {deepgram/new-ears: }
projects: {shop: {daily_budget: 0.01, budget_action: block}, desk: {daily_budget: 0.01}}
cost_tracking: {on_unpriced: ON_UNPRICED}
"""
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC: the shipped tables have a price for the speech model."""
TEXT = "Twelve words of speech, spoken again and again until the money ends. " * 4
"""276 characters."""
UNREADABLE = b"\xfe" * 9_000
UNPRICED = Usage(input_tokens=200, output_tokens=100, source="vendor")


def opened(folder, on_unpriced="flag"):
    vendors = {
        "openai.test": FakeOpenAI(api_key="k", speech_pcm=UNREADABLE, usage=UNPRICED),
        "deepgram.test": FakeDeepgram(api_key="k"),
    }
    return open_complete(YAML.replace("ON_UNPRICED", on_unpriced), folder, vendors, HandClock(NOON))


async def speak(gateway, model, project="shop"):
    body = {"model": model, "input": TEXT, "voice": "alloy", "response_format": "aac"}
    status, _ = await gateway.request("POST", "/v1/audio/speech", body, x_gw_project=project)
    return status


async def chat(gateway, model="openai/new-model", project="shop"):
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}]}
    return (await gateway.request("POST", "/v1/chat/completions", body, x_gw_project=project))[0]


async def test_speech_whose_frames_cannot_be_read_has_an_estimated_length_and_price(tmp_path, autojump_clock):
    """At an ordinary voice's 15 characters a second, and $0.00025 a second, two such answers use up a cent."""
    async with opened(tmp_path) as gateway:
        assert [await speak(gateway, "openai/gpt-4o-mini-tts") for _ in range(5)] == [200, 200, 200, 402, 402]
        costs = await gateway.json("/v1/costs?project=shop")
        assert costs["total"] == pytest.approx(3 * len(TEXT) / 15 * 0.00025, abs=1e-8)
        assert costs["unpriced_requests"] == 0
        newest = (await gateway.json("/v1/logs"))[-1]
        assert newest["cost_usd"] == pytest.approx(len(TEXT) / 15 * 0.00025, abs=1e-8)
        detail = await gateway.json(f"/v1/requests/{newest['id']}")
        assert (detail["usage"]["source"], detail["usage"]["characters"]) == ("estimated", len(TEXT))
        assert detail["usage"]["audio_seconds"] == pytest.approx(len(TEXT) / 15)


async def test_answers_of_a_model_without_a_price_use_up_a_budget_by_an_estimate(tmp_path, autojump_clock):
    """An answer counts $0.004: 200 tokens at $5 and 100 at $30 per million."""
    async with opened(tmp_path) as gateway:
        assert [await chat(gateway) for _ in range(5)] == [200, 200, 200, 402, 402]
        costs = await gateway.json("/v1/costs?project=shop")
        assert (costs["total"], costs["unpriced_requests"]) == (0.0, 3)
        assert costs["unpriced_estimate"] == pytest.approx(0.012)
        [charge] = costs["charges"]
        assert (charge["cost"], charge["estimated"], charge["calls"]) == (0.0, pytest.approx(0.012), 3)
        shop = await gateway.json("/v1/projects/shop")
        assert (shop["today_spend"], shop["budget_status"]) == (pytest.approx(0.012), "exceeded")
        record = (await gateway.json("/v1/logs"))[-1]
        assert (record["cost_usd"], record["estimated_usd"], record["pricing_source"]) == (None, 0.004, "unpriced")
        metrics = await gateway.metrics()
        assert metrics["gw_cost_usd_total", (("period", "today"),)] == 0
    async with opened(tmp_path) as gateway:  # after a restart
        assert await chat(gateway) == 402
        assert (await gateway.metrics())["gw_cost_usd_total", (("period", "today"),)] == 0


async def test_speech_of_a_model_without_a_price(tmp_path, autojump_clock):
    async with opened(tmp_path) as gateway:
        assert [await speak(gateway, "openai/new-voice") for _ in range(5)] == [200, 402, 402, 402, 402]
        assert (await gateway.json("/v1/costs"))["unpriced_estimate"] == pytest.approx(len(TEXT) * 100 / 10**6)


async def test_a_live_session_of_a_model_without_a_price(tmp_path, autojump_clock):
    async with opened(tmp_path) as gateway:
        await talk(DEEPGRAM, gateway, "deepgram/new-ears", ["one two three"] * 12, query="gw_project=shop")
        costs = await gateway.json("/v1/costs?project=shop")
        [charge] = costs["charges"]
        assert charge["estimated"] == pytest.approx(charge["audio_seconds"] * 0.0003, abs=1e-8)
        assert charge["estimated"] > 0.001


async def test_a_warning_budget_counts_them_too_and_goes_on(tmp_path, autojump_clock):
    async with opened(tmp_path) as gateway:
        assert [await chat(gateway, project="desk") for _ in range(5)] == [200] * 5
        assert (await gateway.json("/v1/projects/desk"))["budget_status"] == "exceeded"


async def test_a_model_without_a_price_is_not_called_where_that_is_refused(tmp_path, autojump_clock):
    async with opened(tmp_path, "refuse") as gateway:
        assert await chat(gateway) == 502
        assert await chat(gateway, project="default") == 502
        assert await speak(gateway, "openai/gpt-4o-mini-tts") == 200
        [*_, refused] = await gateway.json("/v1/logs")
        assert (refused["attempts"][0]["outcome"], refused["cost_usd"], refused["estimated_usd"]) == ("unpriced", 0.0, 0.0)
        assert (await gateway.json("/v1/costs?project=default"))["charges"] == []


@pytest.mark.parametrize("unit", ["input_tokens", "output_tokens", "audio_seconds", "characters"])
def test_the_stand_in_is_dearer_than_nine_of_ten_models(unit):
    prices = [row.price for name, text in table_texts() for row in parse_table(name, text) if row.price.text_messages is None]
    rates = [rate for price in prices if (rate := getattr(price, unit)) is not None]
    assert sum(rate <= getattr(STAND_IN, unit) for rate in rates) >= 0.9 * len(rates) > 10


@pytest.mark.parametrize("unit", ["audio_seconds", "text_messages"])
def test_the_stand_in_of_conversations_by_duration_is_dearer_than_nine_of_ten(unit):
    prices = [row.price for name, text in table_texts() for row in parse_table(name, text) if row.price.text_messages is not None]
    assert sum(getattr(price, unit) <= getattr(CONVERSATION_STAND_IN, unit) for price in prices) >= 0.9 * len(prices) > 4
