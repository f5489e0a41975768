"""Conversations with a model that hears and speaks itself, in memory: frames pass through, each response is recorded and paid for."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import msgspec
import pytest
import trio

from gw.net.ws import WsClosed, open_ws
from gw.types.usage import Dimensions
from tests.fakes.conversing import Conversing
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

TEXT = "what is the weather in Paris"
CONFIG = """
providers:
  openai: {type: openai, api_key: key, base_url: "http://openai.test/v1"}
  other: {type: openai, api_key: key, base_url: "http://other.test/v1"}
  first: {type: sim, latency_ms: 0, token_ms: 0}
models:
  llm: [openai/gpt-realtime, other/gpt-realtime, first/echo]
  stt: [first/tone, openai/whisper-1]
  tts: [first/tone]
fallbacks: {llm: [openai/gpt-realtime, CHAIN]}
stacks: {trio: {stt: first/tone, llm: first/echo, tts: first/tone}}
projects: {default: {default_stack: trio, PROJECT}}
"""
USD = (900 - 100) * 4 + 100 * 32 + 100 * 5 + 100 * 0.4 + 800 * 0.4 + 100 * 0.5 + 50 * 16 + 100 * 64
"""Microdollars of one response: text, audio, images, the cached parts of each, text and audio of the answer."""


@attrs.define
class Talk:
    client: Conversing
    plane: object
    openai: FakeOpenAI
    other: FakeOpenAI

    @property
    def records(self):
        return self.plane.kept.records


@pytest.fixture
def talk(tmp_path):
    @asynccontextmanager
    async def opened(model="gpt-realtime", *, chain="other/gpt-realtime", project="", greeted=True, **script):
        openai, other = FakeOpenAI(), FakeOpenAI()
        openai.conversation = attrs.evolve(openai.conversation, **script)
        text = CONFIG.replace("CHAIN", chain).replace("PROJECT", project or "tags: []")
        async with open_plane(text, tmp_path) as plane:
            plane.net.hosts["openai.test", 80], plane.net.hosts["other.test", 80] = hosted(openai), hosted(other)
            target = f"/v1/realtime?model={model}".encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                talk = Talk(Conversing(ws), plane, openai, other)
                if greeted:
                    await talk.client.until("session.created")
                yield talk
            for entry in (*openai.ledger, *other.ledger):
                await entry.aborted.wait()  # the gateway waits for the vendor's last count

    return opened


async def test_each_response_is_a_turn_with_the_vendors_usage_at_its_own_rates(talk, autojump_clock):
    async with talk() as on:
        await on.client.send("session.update", session={"type": "realtime", "model": "openai/gpt-realtime", "instructions": "Be brief."})
        updated = await on.client.until("session.updated")
        assert updated["session"]["instructions"] == "Be brief."
        for _ in range(2):
            done = await on.client.spoken_turn(TEXT)
            assert done["response"]["status"] == "completed"
        assert on.client.spoken == f"{TEXT} {TEXT}"
    first, second = on.records
    assert msgspec.json.decode(on.openai.ledger[0].frames[0])["session"]["model"] == "gpt-realtime"
    assert on.openai.ledger[0].headers["authorization"] == "Bearer key"
    for record in (first, second):
        assert (record.modality, record.model_id, record.status) == ("llm", "openai/gpt-realtime", "success")
        assert record.cost_nusd == round(USD * 1_000)
        assert record.usage.dimensions == Dimensions(cached_audio_tokens=800, image_tokens=200, cached_image_tokens=100)
        assert 0 < record.ttfb_ms < record.total_latency_ms < 5_000
    assert first.session_id == second.session_id
    assert len({first.turn_id, second.turn_id, first.id, second.id}) == 4 - (first.turn_id == first.id)
    assert on.plane.gateway.ledger.spent("default") == 2 * first.cost_nusd
    assert on.plane.gateway.ledger.reserved("default") == 0


@pytest.mark.parametrize(("model", "usage"), [("gpt-4o-transcribe", (40, 8, 0.0)), ("whisper-1", (0, 0, 2.5))])
async def test_the_transcription_beside_it_is_billed_as_its_own_model(talk, autojump_clock, model, usage):
    async with talk() as on:
        await on.client.send("session.update", session={"type": "realtime", "audio": {"input": {"transcription": {"model": model}}}})
        await on.client.until("session.updated")
        await on.client.spoken_turn(TEXT)
    heard, answer = on.records
    assert (heard.modality, heard.model_id, heard.turn_id) == ("stt", f"openai/{model}", answer.turn_id)
    assert (heard.usage.input_tokens, heard.usage.output_tokens, heard.usage.audio_seconds) == usage
    assert heard.cost_nusd > 0
    assert on.plane.gateway.ledger.spent("default") == heard.cost_nusd + answer.cost_nusd


async def test_speech_interrupts_and_the_record_has_what_was_used(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            await on.client.until("response.output_audio.delta")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, "stop")
            done = await on.client.until("response.done")
        assert done["response"]["status"] == "cancelled"
    assert on.records[0].status == "cancelled"
    assert on.records[0].usage.output_audio_tokens == 20


async def test_a_caller_who_leaves_in_a_response_pays_what_the_vendor_counts(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.output_audio.delta")
    (record,) = on.records
    assert (record.status, record.usage.source, record.usage.output_audio_tokens) == ("cancelled", "vendor", 20)
    assert on.openai.ledger[0].outcome in ("ended", "cancelled")


async def test_a_vendor_that_says_nothing_after_the_caller_left_is_billed_by_estimate(talk, autojump_clock):
    async with talk(chunk_s=2.0, ignores_cancel=True) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.output_audio.delta")
    (record,) = on.records
    assert (record.status, record.usage.source) == ("cancelled", "estimated")
    assert record.cost_nusd > 0


async def test_a_session_without_a_response_has_one_record_that_costs_nothing(talk, autojump_clock):
    async with talk() as on:
        pass
    (record,) = on.records
    assert (record.status, record.cost_nusd, record.model_id) == ("cancelled", 0, "openai/gpt-realtime")


@pytest.mark.parametrize("refusal", ["handshake", "first event"])
async def test_the_next_vendor_holds_the_conversation_when_the_first_refuses(talk, autojump_clock, refusal):
    async with talk(greeted=False, refuses="server_error" if refusal == "first event" else "") as on:
        if refusal == "handshake":
            on.openai.status = 503
        await on.client.until("session.created")
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.done")
    (record,) = on.records
    assert (record.status, record.model_id, record.fallback_from) == ("fallback", "other/gpt-realtime", "openai/gpt-realtime")
    assert [attempt.outcome == "ok" for attempt in record.attempts] == [False, True]


async def test_three_models_hold_the_conversation_when_no_such_vendor_can(talk, autojump_clock):
    async with talk(chain="first/echo", greeted=False, refuses="server_error") as on:
        await on.client.until("session.created")
        await on.client.say(TEXT)
        await on.client.send("response.create")
        done = await on.client.until("response.done")
        assert done["response"]["status"] == "completed"
    refused, *held = on.records
    assert (refused.modality, refused.model_id, refused.status, refused.cost_nusd) == ("llm", "openai/gpt-realtime", "error", 0)
    assert sorted((record.modality, record.status) for record in held) == [("llm", "success"), ("tts", "success")]


async def test_a_response_above_the_budget_is_refused_and_the_session_goes_on(talk, autojump_clock):
    async with talk(project=f"daily_budget: {USD * 0.5 / 1e6:.6f}, budget_action: block") as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.done")
        await on.client.send("response.create", event_id="second")
        error = (await on.client.until("error"))["error"]
        assert (error["code"], error["event_id"]) == ("insufficient_quota", "second")
        await on.client.say("still here")
    assert [record.status for record in on.records] == ["success"]
    assert sum("response.create" in str(frame) for frame in on.openai.ledger[0].frames) == 1


async def test_a_turn_above_the_budget_is_cancelled_and_ends_the_session(talk, autojump_clock):
    async with talk(project=f"daily_budget: {USD * 0.5 / 1e6:.6f}, budget_action: block", chunk_s=0.5) as on:
        await on.client.spoken_turn(TEXT)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            with pytest.raises(WsClosed):
                await on.client.read_on()
            nursery.cancel_scope.cancel()
        assert on.client.errors[-1]["code"] == "insufficient_quota"
    first, second = on.records
    assert (second.status, second.error_code, second.usage.output_audio_tokens) == ("error", "budget_exceeded", 20)
    assert on.plane.gateway.ledger.spent("default") == first.cost_nusd + second.cost_nusd


@pytest.mark.parametrize(("script", "code"), [({"cut_after": 8}, "upstream_cut"), ({"silent_after": 8}, "upstream_slow")])
async def test_a_vendor_that_fails_in_a_response_ends_the_session_with_the_reason(talk, autojump_clock, script, code):
    async with talk(**script) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        with pytest.raises(WsClosed) as closed:
            await on.client.read_on()
        assert closed.value.code == 1011
        assert on.client.errors
    (record,) = on.records
    assert record.status == "error"
    assert record.attempts[-1].outcome != "success"
    assert record.usage.source == "estimated"
    assert on.plane.gateway.ledger.reserved("default") == 0


async def test_a_vendor_that_says_nothing_after_a_response_was_requested_ends_the_session(talk, autojump_clock):
    async with talk(silent_after=3) as on:  # behind the greeting and the item
        await on.client.say(TEXT)
        await on.client.send("response.create")
        with pytest.raises(WsClosed):
            await on.client.read_on()
        assert on.client.errors[-1]["code"] == "upstream_too_slow"
    assert [(record.status, record.error_code, record.cost_nusd) for record in on.records] == [("error", "upstream_too_slow", 0)]
    assert on.plane.gateway.ledger.reserved("default") == 0


@pytest.mark.parametrize(
    ("ends", "code", "outcome"), [("failed", "upstream_failed", "failed"), ("filtered", "upstream_refused", "refused")]
)
async def test_a_response_that_fails_is_an_error_and_the_session_goes_on(talk, autojump_clock, ends, code, outcome):
    async with talk(ends=ends) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.done")
        on.openai.conversation.ends = "completed"
        await on.client.send("response.create")
        await on.client.until("response.done")
    assert [(record.status, record.error_code, record.attempts[-1].outcome) for record in on.records] == [
        ("error", code, outcome), ("success", None, "ok"),
    ]  # fmt: skip


async def test_a_session_is_one_request_at_once_and_frees_its_place(talk, autojump_clock):
    async with talk(project="max_concurrent: 1") as on:
        ledger = on.plane.gateway.ledger
        assert ledger.in_flight("default") == 1
        for _ in range(2):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(on.client.speak, TEXT)
                await on.client.until("response.output_audio.delta")
                assert ledger.in_flight("default") == 1
            await on.client.until("response.done")
            assert ledger.in_flight("default") == 1
    assert ledger.in_flight("default") == 0


async def test_a_malformed_frame_is_refused_and_the_session_goes_on(talk, autojump_clock):
    async with talk() as on:
        await on.client.ws.send("{")
        await on.client.until("error")
        await on.client.send("response.create")
        await on.client.until("response.done")
