"""Gemini Live in memory: frames pass through, each turn is recorded and paid for."""

from __future__ import annotations

from base64 import b64decode, b64encode
from contextlib import asynccontextmanager

import attrs
import msgspec
import pytest
import trio

from gw.errors import ProviderError
from gw.net.ws import WsClosed, open_ws
from gw.providers.sim import fsk
from gw.types.usage import Dimensions
from gw.wire import gemini_live
from tests.contract.talkers import speech
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.gemini import FakeGemini

TEXT = "what is the weather in Paris"
MODEL = "gemini-3.8-live"
NO_CONTENT_MODEL = "gemini-3.1-flash-live-preview"
"""It takes no `clientContent` in a conversation."""
BY_HAND = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
"""The client says when the user speaks."""
KEY = "gwk_live_8351026789"
CONFIG = """
providers:
  gemini: {api_key: key, base_url: "http://gemini.test/v1beta/openai"}
  other: {type: gemini, api_key: key2, base_url: "http://other.test/v1beta/openai"}
  first: {type: sim, latency_ms: 0, token_ms: 0}
models:
  llm: [gemini/gemini-3.8-live, other/gemini-3.8-live, gemini/gemini-3.6-flash, first/echo]
fallbacks: {llm: [gemini/gemini-3.8-live, first/echo, other/gemini-3.8-live]}
projects: {default: {PROJECT}}
"""
USD = (300 + 600 + 60) * 0.75 + (200 + 640) * 3 + 260 * 1 + (30 + 40) * 4.5 + 120 * 12
"""Microdollars of one turn: text and the tool's results, audio, video; text with thoughts and audio of the answer. The cached part costs
what other input costs."""


class Live:
    """A client of Gemini Live. `seen` keeps the vendor's frames."""

    def __init__(self, ws):
        self.ws = ws
        self.seen = []

    async def send(self, **message):
        await self.ws.send(msgspec.json.encode(message).decode())

    async def receive(self):
        frame = await self.ws.receive()
        assert isinstance(frame, bytes), "the vendor's frames are binary"
        self.seen.append(msgspec.json.decode(frame))
        return self.seen[-1]

    async def until(self, member):
        """Return the next message that has a member, of its own or of its content."""
        with trio.fail_after(120):
            while True:
                message = await self.receive()
                if member in message or member in message.get("serverContent", {}):
                    return message

    async def ask(self, text=TEXT):
        await self.send(clientContent={"turns": [{"role": "user", "parts": [{"text": text}]}], "turnComplete": True})

    async def speak(self, *texts):
        pcm = speech(texts, 16_000, pause_s=0.5)
        for at in range(0, len(pcm), 1_280):
            data = b64encode(pcm[at : at + 1_280]).decode()
            await self.send(realtime_input={"audio": {"data": data, "mime_type": "audio/pcm;rate=16000"}})
            await trio.sleep(0.04)

    @property
    def parts(self):
        turns = [message["serverContent"]["modelTurn"] for message in self.seen if "modelTurn" in message.get("serverContent", {})]
        return [part for turn in turns for part in turn["parts"]]

    @property
    def spoken(self):
        pcm = b"".join(b64decode(part["inlineData"]["data"]) for part in self.parts if "inlineData" in part)
        return " ".join(done.text for done in fsk.decode(pcm, 24_000))


@attrs.define
class Talk:
    client: Live
    plane: object
    gemini: FakeGemini
    other: FakeGemini

    @property
    def records(self):
        return self.plane.kept.records

    async def close_of(self):
        """Read until the gateway closes the socket; return code and reason."""
        with trio.fail_after(300):
            while True:
                try:
                    await self.client.receive()
                except WsClosed as closed:
                    return closed.code, closed.reason


@pytest.fixture
def talk(tmp_path):
    @asynccontextmanager
    async def opened(model="", *, live=MODEL, project="", greeted=True, setup=None, first=None, version="v1beta", **script):
        gemini, other = (FakeGemini(prefix="/v1beta", api_key=key) for key in ("key", "key2"))
        gemini.live = attrs.evolve(gemini.live, **script)
        async with open_plane(CONFIG.replace("PROJECT", project or "tags: []").replace(MODEL, live), tmp_path) as plane:
            plane.net.hosts["gemini.test", 80], plane.net.hosts["other.test", 80] = hosted(gemini), hosted(other)
            target = gemini_live.path(version).encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                talk = Talk(Live(ws), plane, gemini, other)
                await talk.client.send(**(first or {"setup": {"model": model or f"models/{live}", **(setup or {})}}))
                if greeted:
                    await talk.client.until("setupComplete")
                yield talk
            for entry in (*gemini.ledger, *other.ledger):
                await entry.aborted.wait()  # the gateway waits for the vendor's last count
        assert plane.gateway.ledger.reserved("default") == 0

    return opened


async def spoken_turn(client, text=TEXT):
    async with trio.open_nursery() as nursery:
        nursery.start_soon(client.speak, text)
        return await client.until("turnComplete")


async def test_each_turn_has_the_vendors_usage_at_its_own_rates(talk, autojump_clock):
    settings = {"systemInstruction": {"parts": [{"text": "Be brief."}]}, "generationConfig": {"responseModalities": ["AUDIO"]}}
    async with talk(setup=settings) as on:
        for _ in range(2):
            await spoken_turn(on.client)
        assert on.client.spoken == f"{TEXT} {TEXT}"
    first, second = on.records
    assert on.gemini.ledger[0].fields == {"model": f"models/{MODEL}", **settings}
    assert on.gemini.ledger[0].headers["x-goog-api-key"] == "key"
    for record in (first, second):
        assert (record.modality, record.model_id, record.status) == ("llm", f"gemini/{MODEL}", "success")
        assert record.cost_nusd == round(USD * 1_000)
        assert record.usage.dimensions == Dimensions(cached_audio_tokens=200, image_tokens=260)
        assert (record.usage.input_tokens, record.usage.output_tokens, record.usage.reasoning_tokens) == (2_060, 190, 40)
        assert 0 < record.ttfb_ms < record.total_latency_ms < 5_000
    assert first.session_id == second.session_id
    assert len({first.turn_id, second.turn_id, first.id, second.id}) == 4 - (first.turn_id == first.id)
    assert on.plane.gateway.ledger.spent("default") == 2 * first.cost_nusd


async def test_text_is_answered_in_text(talk, autojump_clock):
    async with talk(setup={"generation_config": {"response_modalities": ["TEXT"]}}) as on:
        await on.client.ask("one two")
        await on.client.until("turnComplete")
        assert [part["text"] for part in on.client.parts if not part.get("thought")] == ["one ", "two "]
    assert [record.status for record in on.records] == ["success"]


async def test_the_first_byte_counts_from_what_was_written_in_real_time(talk, autojump_clock):
    async with talk() as on:
        await on.client.send(realtimeInput={"text": TEXT})
        await on.client.until("turnComplete")
    (record,) = on.records
    assert 15 < record.ttfb_ms < record.total_latency_ms  # the vendor's first part comes after 20 ms


async def test_speech_interrupts_and_the_record_has_what_was_used(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            await on.client.until("modelTurn")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, "stop")
            await on.client.until("interrupted")
            await on.client.until("turnComplete")
    record = on.records[0]
    assert (record.status, record.usage.source, record.usage.output_audio_tokens) == ("cancelled", "vendor", 20)


async def test_a_caller_who_leaves_in_a_turn_pays_what_the_vendor_counts(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        await on.client.ask()
        await on.client.until("modelTurn")
    (record,) = on.records
    assert (record.status, record.usage.source, record.usage.output_audio_tokens) == ("cancelled", "vendor", 20)


async def test_a_model_that_no_message_interrupts_ends_the_turn_by_itself_when_the_caller_leaves(talk, autojump_clock):
    async with talk(live=NO_CONTENT_MODEL) as on:
        await on.client.send(realtimeInput={"text": TEXT})
        await on.client.until("modelTurn")
    (record,) = on.records
    assert (record.status, record.usage.source, record.cost_nusd) == ("success", "vendor", round(USD * 1_000))
    assert on.gemini.ledger[0].outcome == "ended"


@pytest.mark.parametrize("live", [NO_CONTENT_MODEL, MODEL])
async def test_a_caller_who_says_when_the_user_speaks_leaves_in_a_turn(talk, autojump_clock, live):
    async with talk(live=live, setup=BY_HAND, chunk_s=2.0) as on:
        await on.client.send(realtimeInput={"activityStart": {}})
        await on.client.send(realtimeInput={"text": TEXT})
        await on.client.send(realtimeInput={"activityEnd": {}})
        await on.client.until("modelTurn")
    (record,) = on.records
    assert (record.status, record.usage.source, record.usage.output_audio_tokens) == ("cancelled", "vendor", 20)


async def test_a_count_that_came_before_the_caller_left_is_billed(talk, autojump_clock):
    async with talk(usage_alone=True, close_after=(60, 1011, "")) as on:
        await on.client.ask()
        await on.client.until("usageMetadata")
    assert [(record.status, record.cost_nusd) for record in on.records] == [("success", round(USD * 1_000))]


async def test_a_vendor_that_says_nothing_after_the_caller_left_is_billed_by_estimate(talk, autojump_clock):
    async with talk(chunk_s=2.0, ignores_interruption=True) as on:
        await on.client.ask()
        await on.client.until("modelTurn")
    (record,) = on.records
    assert (record.status, record.usage.source) == ("cancelled", "estimated")
    assert record.cost_nusd > 0


async def test_searches_are_billed_once_for_each_query(talk, autojump_clock):
    async with talk(searches=("weather Paris", "Paris forecast")) as on:
        await on.client.ask()
        await on.client.until("turnComplete")
    (record,) = on.records
    assert record.usage.dimensions.searches == 2
    assert record.cost_nusd == round(USD * 1_000) + 2 * 14_000_000


async def test_a_session_without_a_turn_has_one_record_that_costs_nothing(talk, autojump_clock):
    async with talk() as on:
        pass
    (record,) = on.records
    assert (record.status, record.cost_nusd, record.model_id) == ("cancelled", 0, f"gemini/{MODEL}")


async def test_a_function_may_take_longer_than_the_vendor_may_be_silent(talk, autojump_clock):
    tools = [{"functionDeclarations": [{"name": "weather"}]}]
    async with talk(setup={"tools": tools}) as on:
        await on.client.ask()
        (call,) = (await on.client.until("toolCall"))["toolCall"]["functionCalls"]
        await trio.sleep(10 * on.plane.gateway.settings.routing.idle_s)
        answer = {"id": call["id"], "name": call["name"], "response": {"result": "it rains"}}
        await on.client.send(toolResponse={"functionResponses": [answer]})
        await on.client.until("turnComplete")
        assert on.client.spoken == "it rains"
    assert [record.status for record in on.records] == ["success"]


async def test_playback_may_take_longer_than_the_vendor_may_be_silent(talk, autojump_clock):
    async with talk(plays_s=1.5) as on:
        on.plane.gateway.relay.planner.routing = msgspec.structs.replace(on.plane.gateway.settings.routing, idle_s=1.0)
        await on.client.ask()
        await on.client.until("turnComplete")
    assert [record.status for record in on.records] == ["success"]


async def test_going_away_ends_the_session_normally(talk, autojump_clock):
    async with talk(goes_away_after=1, setup={"sessionResumption": {}}) as on:
        await on.client.ask()
        await on.client.until("sessionResumptionUpdate")
        assert (await on.client.until("goAway"))["goAway"] == {"timeLeft": "0.500s"}
        assert await on.close_of() == (1000, "")
    assert [record.status for record in on.records] == ["success"]


# ---- refusals


@pytest.mark.parametrize(
    ("refusal", "outcome"),
    [(503, "failed"), (401, "rejected"), (429, "rate_limited"), ((1011, ""), "failed"),
     ((1011, "You exceeded your current quota"), "rate_limited"), ((1008, "Operation is not enabled"), "rejected")],
)  # fmt: skip
async def test_the_next_vendor_that_speaks_it_holds_the_conversation(talk, autojump_clock, refusal, outcome):
    async with talk(greeted=False, refuses=refusal if isinstance(refusal, tuple) else None) as on:
        on.gemini.status = refusal if isinstance(refusal, int) else 200
        await on.client.until("setupComplete")
        await on.client.ask()
        await on.client.until("turnComplete")
    (record,) = on.records
    assert (record.status, record.model_id, record.fallback_from) == ("fallback", f"other/{MODEL}", f"gemini/{MODEL}")
    assert [attempt.outcome for attempt in record.attempts] == [outcome, "ok"]
    assert on.other.ledger[0].fields["model"] == f"models/{MODEL}"


@pytest.mark.parametrize(
    ("asked", "code", "reason"),
    [
        ({"model": "models/no-such-model"}, 1008, "gemini/no-such-model is no model of Gemini Live"),
        ({"model": "models/gemini/gemini-3.6-flash"}, 1008, f"name one in setup.model (gemini/{MODEL}, other/{MODEL})"),
        ({"model": "first/echo"}, 1008, "is no model of Gemini Live"),
        ({"model": "models/elsewhere/gemini-3.8-live"}, 1008, "elsewhere"),
        ({"setup": {"colour": 1}}, 1007, 'Unknown name "colour"'),
        ({"setup": {"proactivity": {"proactiveAudio": True}}}, 1007, 'Unknown name "proactivity"'),
        ({"first": {"setup": {}}}, 1007, "setup names no model"),
        ({"first": {"clientContent": {}}}, 1007, "the first frame must be"),
    ],
)
async def test_what_is_wrong_with_the_setup_is_said_by_the_close(talk, autojump_clock, asked, code, reason):
    async with talk(greeted=False, **asked) as on:
        closed, said = await on.close_of()
        assert closed == code
        assert reason in said


async def test_settings_of_the_alpha_version_reach_the_vendor(talk, autojump_clock):
    async with talk(setup={"proactivity": {"proactiveAudio": True}}, version="v1alpha") as on:
        assert on.gemini.ledger[0].fields["proactivity"] == {"proactiveAudio": True}


@pytest.mark.parametrize("frame", ["{", '{"setup": {"model": "models/gemini-3.8-live"}}', '{"clientContent": 1}'])
async def test_a_frame_that_cannot_be_read_ends_the_session_as_at_the_vendor(talk, autojump_clock, frame):
    async with talk() as on:
        await on.client.ws.send(frame)
        code, _ = await on.close_of()
        assert code == 1007
    assert [str(sent) for sent in on.gemini.ledger[0].frames[1:]] == []


@pytest.mark.parametrize(("code", "said"), [(1007, "Request contains an invalid argument."), (1008, ""), (1011, "")])
async def test_a_vendor_that_closes_in_a_turn_ends_the_session_with_its_code(talk, autojump_clock, code, said):
    async with talk(close_after=(8, code, said)) as on:
        await on.client.ask()
        closed, reason = await on.close_of()
        assert closed == code
        assert said in reason
    (record,) = on.records
    assert (record.status, record.usage.source) == ("error", "estimated")


@pytest.mark.parametrize("silent_after", [1, 8])
async def test_a_vendor_that_falls_silent_ends_the_session(talk, autojump_clock, silent_after):
    """Also one that says nothing at all after it was asked."""
    async with talk(silent_after=silent_after) as on:
        await on.client.ask()
        code, reason = await on.close_of()
        assert code == 1011
        assert "silent" in reason
    (record,) = on.records
    assert (record.status, record.error_code) == ("error", "upstream_too_slow")


@pytest.mark.parametrize(
    ("ends", "code", "outcome"),
    [("MALFORMED_FUNCTION_CALL", "upstream_failed", "failed"), ("GENERATED_AUDIO_SAFETY", "upstream_refused", "refused")],
)
async def test_a_turn_that_fails_is_an_error_and_the_session_goes_on(talk, autojump_clock, ends, code, outcome):
    async with talk(ends=ends) as on:
        await on.client.ask()
        await on.client.until("turnComplete")
        on.gemini.live.ends = "NEED_MORE_INPUT"
        await on.client.ask()
        await on.client.until("turnComplete")
    assert [(record.status, record.error_code, record.attempts[-1].outcome) for record in on.records] == [
        ("error", code, outcome), ("success", None, "ok"),
    ]  # fmt: skip
    assert on.records[0].cost_nusd == on.records[1].cost_nusd


# ---- limits


async def test_a_turn_above_the_budget_is_not_passed_on_and_ends_the_session(talk, autojump_clock):
    async with talk(project=f"daily_budget: {USD * 0.5 / 1e6:.6f}, budget_action: block") as on:
        await on.client.ask()
        await on.client.until("turnComplete")
        await on.client.ask("again")
        code, reason = await on.close_of()
        assert code == 1011
        assert "budget" in reason
    assert [record.status for record in on.records] == ["success"]
    assert not any("again" in str(frame) for frame in on.gemini.ledger[0].frames)


async def test_a_spoken_turn_above_the_budget_is_interrupted_and_ends_the_session(talk, autojump_clock):
    async with talk(project=f"daily_budget: {USD * 0.5 / 1e6:.6f}, budget_action: block", chunk_s=0.5) as on:
        await spoken_turn(on.client)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            code, reason = await on.close_of()
            nursery.cancel_scope.cancel()
        assert (code, "budget" in reason) == (1011, True)
    first, second = on.records
    assert (second.status, second.error_code, second.usage.output_audio_tokens) == ("error", "budget_exceeded", 20)
    assert on.plane.gateway.ledger.spent("default") == first.cost_nusd + second.cost_nusd


async def test_a_spoken_turn_above_the_budget_ends_the_session_of_a_model_that_no_message_interrupts(talk, autojump_clock):
    project = f"daily_budget: {USD * 0.5 / 1e6:.6f}, budget_action: block"
    async with talk(live=NO_CONTENT_MODEL, project=project, chunk_s=0.5) as on:
        await spoken_turn(on.client)
        turns = len(on.client.parts)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            code, reason = await on.close_of()
            nursery.cancel_scope.cancel()
        assert (code, "budget" in reason) == (1011, True)
        assert len(on.client.parts) == turns
    first, second = on.records
    assert (second.status, second.error_code, second.usage.source) == ("error", "budget_exceeded", "estimated")
    assert on.plane.gateway.ledger.spent("default") == first.cost_nusd + second.cost_nusd
    assert on.gemini.ledger[0].outcome == "ended"


async def test_a_session_is_one_request_at_once_and_frees_its_place(talk, autojump_clock):
    async with talk(project="max_concurrent: 1") as on:
        ledger = on.plane.gateway.ledger
        for _ in range(2):
            await on.client.ask()
            await on.client.until("modelTurn")
            assert ledger.in_flight("default") == 1
            await on.client.until("turnComplete")
        assert ledger.in_flight("default") == 1
    assert ledger.in_flight("default") == 0


@pytest.mark.parametrize(("query", "headers"), [(f"?key={KEY}".encode(), []), (b"", [(b"x-goog-api-key", KEY.encode())])])
async def test_the_key_of_a_client(tmp_path, autojump_clock, query, headers):
    text = CONFIG.replace("PROJECT", "tags: []") + f"auth: {{keys: [{{key: {KEY}, project: default}}]}}\n"
    gemini = FakeGemini(prefix="/v1beta")
    async with open_plane(text, tmp_path) as plane:
        plane.net.hosts["gemini.test", 80] = hosted(gemini)
        target = gemini_live.path("v1beta").encode() + query
        async with open_ws("client", GATEWAY, target, headers=headers, connect=plane.client.connect) as ws:
            client = Live(ws)
            await client.send(setup={"model": f"models/{MODEL}"})
            await client.until("setupComplete")
        with pytest.raises(ProviderError):
            await open_ws("client", GATEWAY, gemini_live.path("v1beta").encode(), headers=[], connect=plane.client.connect).__aenter__()
    assert KEY not in str(gemini.ledger[0])
