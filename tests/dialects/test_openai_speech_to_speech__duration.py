"""Conversations with xAI's voice models, whose vendor bills the session's duration and messages: records, money ahead, limits."""

from __future__ import annotations

from contextlib import asynccontextmanager
from types import SimpleNamespace

import attrs
import msgspec
import pytest
import trio

from gw.net.ws import WsClosed, open_ws
from gw.types.usage import Dimensions
from tests.fakes.conversing import Conversing
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.openai_variants import CONVENTIONS, FakeVariant

TEXT = "what is the weather in Paris"
CONFIG = """
providers: {xai: {api_key: key, base_url: "http://xai.test/v1"}}
models: {llm: {xai/grok-voice-3.0: PRICE, xai/grok-voice-9: }}
projects: {default: {PROJECT}}
"""
SECOND, MESSAGE = 80_000_000 / 60, 4_000_000   # nano-USD


@pytest.fixture
def talk(tmp_path):
    @asynccontextmanager
    async def opened(model="grok-voice-3.0", *, project="", price="", **script):
        xai = FakeVariant(conventions=CONVENTIONS["xai"])
        xai.conversation = attrs.evolve(xai.conversation, **script)
        text = CONFIG.replace("PROJECT", project or "tags: []").replace("PRICE", price)
        async with open_plane(text, tmp_path) as plane:
            plane.net.hosts["xai.test", 80] = hosted(xai)
            target = f"/v1/realtime?model=xai/{model}".encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                client = Conversing(ws)
                await client.until("conversation.created")
                ledger = plane.gateway.ledger
                yield SimpleNamespace(client=client, vendor=xai, records=plane.kept.records, ledger=ledger, plane=plane)
            for entry in xai.ledger:
                await entry.aborted.wait()
            assert ledger.reserved("default") == ledger.in_flight("default") == 0
            assert ledger.spent("default") == sum((record.cost_nusd or 0) + record.estimated_nusd for record in plane.kept.records)

    return opened


async def wait_for_close(client):
    with pytest.raises(WsClosed) as closed:
        await client.read_on()
    return closed.value.code


async def test_each_record_has_the_seconds_since_the_one_before(talk, autojump_clock):
    async with talk() as on:
        began = trio.current_time()
        for _ in range(2):
            done = await on.client.spoken_turn(TEXT)
            assert done["usage"]["billable_audio_seconds"] >= trio.current_time() - began
        assert on.client.spoken == f"{TEXT} {TEXT}"
        vendor_s = done["usage"]["billable_audio_seconds"]
        await trio.sleep(100)
        total_s = trio.current_time() - began
    first, second, rest = on.records
    for record in (first, second):
        assert (record.modality, record.model_id, record.status) == ("llm", "xai/grok-voice-3.0", "success")
        assert (record.usage.source, record.usage.input_tokens, record.usage.output_audio_tokens) == ("vendor", 10, 258)
        assert 0 < record.ttfb_ms < record.total_latency_ms < 5_000
    assert first.usage.audio_seconds + second.usage.audio_seconds == vendor_s
    assert (rest.status, rest.usage.source) == ("cancelled", "measured")
    assert total_s <= sum(record.usage.audio_seconds for record in on.records) < total_s + 2
    for record in on.records:
        assert record.cost_nusd == round(record.usage.audio_seconds * SECOND)
        assert record.pricing_source.startswith("table:xai@")
    assert len({record.session_id for record in on.records}) == 1
    assert len({record.turn_id for record in on.records}) == len({record.id for record in on.records}) == 3


async def test_messages_of_text_cost_what_the_vendor_asks_for_each(talk, autojump_clock):
    async with talk() as on:
        await on.client.say(TEXT)
        await on.client.say("and tomorrow")
        await on.client.send("response.create")
        await on.client.until("response.done")
        await on.client.say("thank you")
    first, rest = on.records
    assert (first.usage.dimensions, rest.usage.dimensions) == (Dimensions(text_messages=2), Dimensions(text_messages=1))
    assert first.cost_nusd == round(first.usage.audio_seconds * SECOND) + 2 * MESSAGE
    assert rest.cost_nusd == round(rest.usage.audio_seconds * SECOND) + MESSAGE


async def test_a_session_without_a_response_costs_its_duration(talk, autojump_clock):
    async with talk() as on:
        await trio.sleep(44.5)
    (record,) = on.records
    assert (record.status, record.usage.audio_seconds) == ("cancelled", 45.0)
    assert record.cost_nusd == round(45 * SECOND)


async def test_push_to_talk_costs_the_audio_of_both_sides(talk, autojump_clock):
    async with talk() as on:
        await on.client.send("session.update", session={"turn_detection": None})
        await on.client.until("session.updated")
        await trio.sleep(500)
        await on.client.speak(TEXT)
        await on.client.send("input_audio_buffer.commit")
        done = await on.client.until("response.done")
        await trio.sleep(500)
    (record,) = on.records
    assert record.usage.audio_seconds == done["usage"]["billable_audio_seconds"] < 20


async def test_settings_of_openais_clients_go_where_the_vendor_looks(talk, autojump_clock):
    async with talk() as on:
        detection = {"type": "server_vad", "silence_duration_ms": 700}
        audio = {"input": {"turn_detection": detection, "transcription": {"model": "grok-transcribe"}}, "output": {"voice": "rex"}}
        await on.client.send("session.update", session={"type": "realtime", "model": "xai/grok-voice-3.0", "audio": audio})
        updated = (await on.client.until("session.updated"))["session"]
        assert (updated["voice"], updated["turn_detection"]) == ("rex", detection)
        assert updated["audio"]["input"]["transcription"] == {"model": "grok-transcribe"}
        await on.client.spoken_turn(TEXT)
        kind = "conversation.item.input_audio_transcription"
        assert [event["transcript"] for event in on.client.of(f"{kind}.updated")] == ["what", TEXT]
        assert [event["transcript"] for event in on.client.of(f"{kind}.completed")] == [TEXT]
    assert msgspec.json.decode(on.vendor.ledger[0].frames[0])["session"]["model"] == "grok-voice-3.0"
    assert [record.modality for record in on.records] == ["llm"] * len(on.records)   # the transcription is part of the session's price


async def test_money_is_reserved_ahead_while_the_session_lasts(talk, autojump_clock):
    async with talk() as on:
        slice_nusd = 30 * SECOND
        await trio.sleep(1)
        for slices in (1, 2, 3):
            assert on.ledger.reserved("default") == pytest.approx(slices * slice_nusd, rel=0.04)
            assert on.ledger.in_flight("default") == 1
            await trio.sleep(30)
        await on.client.spoken_turn(TEXT)
        await trio.testing.wait_all_tasks_blocked()
        assert on.ledger.reserved("default") == pytest.approx(slice_nusd, rel=0.04)
        assert on.ledger.in_flight("default") == 1


async def test_a_budget_that_runs_out_ends_the_session(talk, autojump_clock):
    """A tenth of a dollar is 75 seconds: what is reserved for 60 is less, what is reserved for 90 is more."""
    async with talk(project="daily_budget: 0.1, budget_action: block") as on:
        began = trio.current_time()
        await wait_for_close(on.client)
        assert 75 <= trio.current_time() - began <= 91
        assert on.client.errors[-1]["code"] == "insufficient_quota"
    (record,) = on.records
    assert (record.status, record.error_code, record.refused) == ("error", "budget_exceeded", True)
    assert 0.1e9 <= record.cost_nusd <= 0.1e9 + 31 * SECOND


async def test_a_budget_that_runs_out_ends_a_response_too(talk, autojump_clock):
    async with talk(project="daily_budget: 0.01, budget_action: block", chunk_s=2.5) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await wait_for_close(on.client)
        assert on.client.errors[-1]["code"] == "insufficient_quota"
    (record,) = on.records
    assert (record.status, record.error_code) == ("error", "budget_exceeded")
    assert record.cost_nusd == round(record.usage.audio_seconds * SECOND) + MESSAGE


async def test_a_model_without_a_price_counts_by_an_estimate(talk, autojump_clock):
    async with talk("grok-voice-9", project="daily_budget: 0.01, budget_action: block") as on:
        await wait_for_close(on.client)
        assert on.client.errors[-1]["code"] == "insufficient_quota"
    (record,) = on.records
    assert (record.cost_nusd, record.pricing_source) == (None, "unpriced")
    assert record.estimated_nusd == round(record.usage.audio_seconds * SECOND) >= 0.01e9


async def test_an_answer_that_is_given_up_without_an_event_is_cancelled_by_the_next(talk, autojump_clock):
    async with talk(chunk_s=2.0, abandons=True) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            await on.client.until("response.output_audio.delta")
        await on.client.speak("stop")
        await on.client.until("response.created")
        assert on.ledger.in_flight("default") == 1
        done = await on.client.until("response.done")
        assert done["response"]["status"] == "completed"
    given_up, answered, *_ = on.records
    assert (given_up.status, answered.status) == ("cancelled", "success")
    assert given_up.usage.audio_seconds + answered.usage.audio_seconds == done["usage"]["billable_audio_seconds"]


async def test_signs_of_life_do_not_hide_a_silent_vendor(talk, autojump_clock):
    async with talk(silent_after=6, ping_s=1.0) as on:
        await on.client.send("session.update", session={})
        await on.client.until("session.updated")
        await on.client.say(TEXT)
        await on.client.send("response.create")
        assert await wait_for_close(on.client) == 1011
    (record,) = on.records
    assert (record.status, record.error_code) == ("error", "upstream_too_slow")
    assert 3 <= record.usage.audio_seconds <= 6
    assert record.cost_nusd == round(record.usage.audio_seconds * SECOND) + MESSAGE


async def test_a_price_of_ones_own(talk, autojump_clock):
    async with talk(price="{price: {unit: hour, usd: 3.6, per_message: 0.5}}") as on:
        await on.client.say(TEXT)
        await trio.sleep(10)
    (record,) = on.records
    assert (record.cost_nusd, record.pricing_source) == (round(record.usage.audio_seconds * 1e6) + 500_000_000, "config")
