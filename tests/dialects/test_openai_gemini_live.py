"""OpenAI's realtime protocol before one of Gemini's Live models, in memory: events, tokens, money, and what the vendor is sent."""

from __future__ import annotations

from base64 import b64decode
from contextlib import asynccontextmanager

import attrs
import msgspec
import pytest
import trio

from gw.net.ws import WsClosed, open_ws
from gw.providers.sim import fsk
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.usage import Dimensions
from gw.wire.convert import converter
from tests.contract.talkers import speech
from tests.dialects.test_bidi_generate_content import CONFIG, USD
from tests.fakes.conversing import Conversing
from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.gemini import FakeGemini

TEXT = "what is the weather in Paris"
NATIVE = "gemini/gemini-2.5-flash-native-audio-latest"


@attrs.define
class Talk:
    client: Conversing
    plane: object
    gemini: FakeGemini
    other: FakeGemini

    @property
    def records(self):
        return self.plane.kept.records

    def frames(self, session=0):
        """Return what the vendor was sent in one of its sessions."""
        return [msgspec.json.decode(frame) for frame in self.gemini.ledger[session].frames]

    @property
    def setup(self):
        return self.frames(-1)[0]["setup"]


@pytest.fixture
def talk(tmp_path):
    @asynccontextmanager
    async def opened(model="gemini/gemini-3.8-live", *, project="", **script):
        gemini, other = (FakeGemini(prefix="/v1beta", api_key=key) for key in ("key", "key2"))
        gemini.live = attrs.evolve(gemini.live, **script)
        text = CONFIG.replace("PROJECT", project or "tags: []").replace("first/echo]\n", f"first/echo, {NATIVE}]\n")
        async with open_plane(text, tmp_path) as plane:
            plane.net.hosts["gemini.test", 80], plane.net.hosts["other.test", 80] = hosted(gemini), hosted(other)
            target = f"/v1/realtime?model={model}".encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                talk = Talk(Conversing(ws), plane, gemini, other)
                await talk.client.until("session.created")
                yield talk
            for entry in (*gemini.ledger, *other.ledger):
                await entry.aborted.wait()  # the gateway waits for the vendor's last count
        assert plane.gateway.ledger.reserved("default") == 0

    return opened


async def update(client, **settings):
    await client.send("session.update", session={"type": "realtime", **settings})
    return (await client.until("session.updated"))["session"]


async def test_each_turn_has_the_vendors_usage_at_its_own_rates(talk, autojump_clock):
    async with talk() as on:
        await update(on.client, instructions="Be brief.")
        for _ in range(2):
            done = await on.client.spoken_turn(TEXT)
            assert done["response"]["status"] == "completed"
        assert on.client.spoken == f"{TEXT} {TEXT}"
        assert done["response"]["usage"] == {
            "input_tokens": 2_060, "output_tokens": 190, "total_tokens": 2_250,
            "input_token_details": {
                "text_tokens": 960, "audio_tokens": 840, "image_tokens": 260, "cached_tokens": 500,
                "cached_tokens_details": {"text_tokens": 300, "audio_tokens": 200, "image_tokens": 0},
            },
            "output_token_details": {"text_tokens": 70, "audio_tokens": 120},
        }  # fmt: skip
        assert done["response"]["output"][0]["content"][0]["transcript"] == TEXT
    first, second = on.records
    assert on.setup["systemInstruction"] == {"parts": [{"text": "Be brief."}]}
    for record in (first, second):
        assert (record.modality, record.model_id, record.status) == ("llm", "gemini/gemini-3.8-live", "success")
        assert record.cost_nusd == round(USD * 1_000)
        assert record.usage.reasoning_tokens == 40
        assert record.usage.dimensions == Dimensions(cached_audio_tokens=200, image_tokens=260)
        assert 0 < record.ttfb_ms < record.total_latency_ms < 5_000
    assert first.session_id == second.session_id
    assert on.plane.gateway.ledger.spent("default") == 2 * first.cost_nusd


async def test_the_events_of_a_spoken_turn_and_its_transcripts(talk, autojump_clock):
    async with talk() as on:
        await update(on.client, audio={"input": {"transcription": {"model": "gpt-4o-transcribe", "language": "en"}}})
        await on.client.spoken_turn(TEXT)
        assert on.client.kinds()[2:] == [
            "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
            "conversation.item.added", "conversation.item.done", "conversation.item.input_audio_transcription.delta",
            "conversation.item.input_audio_transcription.completed", "response.created", "response.output_item.added",
            "conversation.item.added", "response.content_part.added", "response.output_audio.delta",
            "response.output_audio_transcript.delta", "response.output_audio.done", "response.output_audio_transcript.done",
            "response.content_part.done", "response.output_item.done", "conversation.item.done", "response.done",
        ]  # fmt: skip
        (transcript,) = on.client.of("conversation.item.input_audio_transcription.completed")
        (committed,) = on.client.of("input_audio_buffer.committed")
        assert (transcript["transcript"], transcript["item_id"]) == (TEXT, committed["item_id"])
        (started,), (stopped,) = (on.client.of(f"input_audio_buffer.speech_{what}") for what in ("started", "stopped"))
        assert started["audio_start_ms"] < stopped["audio_end_ms"]
        await on.client.send("conversation.item.retrieve", item_id=committed["item_id"])
        item = (await on.client.until("conversation.item.retrieved"))["item"]
        assert item["content"][0]["transcript"] == TEXT
    assert on.setup["inputAudioTranscription"] == {"languageCodes": ["en"]}
    audio = [frame["realtimeInput"]["audio"] for frame in on.frames() if "realtimeInput" in frame]
    assert {each["mimeType"] for each in audio} == {"audio/pcm;rate=16000"}
    seconds = sum(len(b64decode(each["data"])) for each in audio) / 32_000
    assert seconds == pytest.approx(on.client.of("input_audio_buffer.speech_stopped")[0]["audio_end_ms"] / 1000, abs=1.0)


async def test_a_session_in_which_nothing_is_said_dials_no_vendor(talk, autojump_clock):
    async with talk() as on:
        await update(on.client, instructions="Be brief.")
        await on.client.say(TEXT)
    assert on.gemini.ledger == []
    assert on.records == []


@pytest.mark.parametrize("model", ["gemini/gemini-3.8-live", NATIVE])
async def test_a_written_turn(talk, autojump_clock, model):
    async with talk(model) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create", response={"metadata": {"client_event_id": "7"}})
        created = await on.client.until("response.created")
        assert created["response"]["metadata"] == {"client_event_id": "7"}
        done = await on.client.until("response.done")
        assert done["response"]["id"] == created["response"]["id"]
        assert on.client.spoken == TEXT
    assert [record.status for record in on.records] == ["success"]


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


async def test_the_next_account_holds_the_conversation_when_the_first_refuses(talk, autojump_clock):
    async with talk(refuses=(1011, "quota exhausted")) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.done")
    (record,) = on.records
    assert (record.status, record.model_id) == ("fallback", "other/gemini-3.8-live")


@pytest.mark.parametrize(
    ("script", "code"), [({"close_after": (5, 1011, "oops")}, "upstream_failed"), ({"silent_after": 5}, "upstream_too_slow")]
)
async def test_a_vendor_that_fails_in_a_response_ends_the_session_with_the_reason(talk, autojump_clock, script, code):
    async with talk(**script) as on:
        await on.client.say(TEXT)
        await on.client.send("response.create")
        with pytest.raises(WsClosed) as closed:
            await on.client.read_on()
        assert closed.value.code == 1011
        assert on.client.errors[-1]["code"] == code
    (record,) = on.records
    assert (record.status, record.error_code, record.usage.source) == ("error", code, "estimated")


# ---- functions


WEATHER = {
    "type": "function", "name": "weather", "description": "Says the weather.",
    "parameters": {
        "type": "object", "properties": {"city": {"type": ["string", "null"]}}, "required": ["city"], "additionalProperties": False,
    },
}  # fmt: skip


async def called(on):
    """Have the model call a function; return the item of the call."""
    await update(on.client, tools=[WEATHER])
    await on.client.say(TEXT)
    await on.client.send("response.create")
    done = await on.client.until("response.done")
    (call,) = done["response"]["output"]
    assert (call["type"], call["name"], msgspec.json.decode(call["arguments"])) == ("function_call", "weather", {"text": TEXT})
    assert done["response"]["usage"] is None
    return call


async def answer(client, call_id, output="it rains"):
    await client.send("conversation.item.create", item={"type": "function_call_output", "call_id": call_id, "output": output})


@pytest.mark.parametrize("model", ["gemini/gemini-3.8-live", NATIVE])
async def test_a_function_call_and_its_result_are_one_turn(talk, autojump_clock, model):
    async with talk(model) as on:
        call = await called(on)
        await answer(on.client, call["call_id"])
        await on.client.until("conversation.item.done")
        await on.client.send("response.create")
        done = await on.client.until("response.done")
        assert (done["response"]["status"], done["response"]["usage"]["total_tokens"]) == ("completed", 2_250)
        assert on.client.spoken == "it rains"
    (record,) = on.records
    assert (record.status, record.usage.output_tokens) == ("success", 190)
    (declared,) = on.setup["tools"][0]["functionDeclarations"]
    if model == NATIVE:
        assert declared["parameters"]["properties"] == {"city": {"type": "STRING", "nullable": True}}
        assert record.attempts[-1].ignored_settings == ("tools.parameters.additionalProperties",)
    else:
        assert (declared["parametersJsonSchema"], declared["behavior"]) == (WEATHER["parameters"], "BLOCKING")
        assert record.attempts[-1].ignored_settings == ()


async def test_an_interruption_cancels_a_call_whose_result_is_refused_then(talk, autojump_clock):
    async with talk() as on:
        call = await called(on)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, "stop")
            await on.client.until("input_audio_buffer.speech_stopped")
        await answer(on.client, call["call_id"])
        error = (await on.client.until("error"))["error"]
        assert (error["param"], call["call_id"] in error["message"]) == ("item.call_id", True)


# ---- interruptions


async def test_speech_interrupts_and_the_record_has_what_was_used(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            await on.client.until("response.output_audio.delta")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, "stop")
            done = (await on.client.until("response.done"))["response"]
            item = done["output"][0]
            await on.client.send("conversation.item.truncate", item_id=item["id"], content_index=0, audio_end_ms=100)
            assert (await on.client.until("conversation.item.truncated"))["audio_end_ms"] == 100
        assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "turn_detected")
        assert done["usage"]["output_token_details"]["audio_tokens"] == 20
        assert len(on.client.of("input_audio_buffer.speech_started")) == 2
        await on.client.until("response.done")
    first, second = on.records
    assert (first.status, first.usage.output_audio_tokens) == ("cancelled", 20)
    assert second.attempts[-1].ignored_settings == ("conversation.item.truncate",)


async def test_the_client_cancels_a_response(talk, autojump_clock):
    async with talk(chunk_s=2.0) as on:
        assert (await on.client.refused("response.cancel"))["code"] == "response_cancel_not_active"
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.output_audio.delta")
        busy = await on.client.refused("response.create")
        assert busy["code"] == "conversation_already_has_active_response"
        await on.client.send("response.cancel")
        done = (await on.client.until("response.done"))["response"]
        assert (done["status"], done["status_details"]["reason"]) == ("cancelled", "client_cancelled")
    assert [(record.status, record.usage.output_audio_tokens) for record in on.records] == [("cancelled", 20)]


# ---- turns without detection, settings, resumption


async def test_without_turn_detection_the_audio_waits_for_a_request(talk, autojump_clock):
    async with talk() as on:
        await update(on.client, audio={"input": {"turn_detection": None}})
        assert (await on.client.refused("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
        await on.client.append(speech(("forget this",), 24_000, pause_s=0.5))
        await on.client.send("input_audio_buffer.clear")
        await on.client.until("input_audio_buffer.cleared")
        await on.client.append(speech((TEXT,), 24_000, pause_s=0.5))
        await on.client.send("input_audio_buffer.commit")
        await on.client.until("input_audio_buffer.committed", "conversation.item.done")
        assert on.gemini.ledger == []
        await on.client.send("response.create")
        done = await on.client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == TEXT
    assert on.setup["realtimeInputConfig"] == {"automaticActivityDetection": {"disabled": True}}
    inputs = [next(iter(frame["realtimeInput"])) for frame in on.frames()[1:]]
    assert (inputs[0], inputs[-1], set(inputs[1:-1])) == ("activityStart", "activityEnd", {"audio"})


async def test_settings_that_change_later_resume_the_session(talk, autojump_clock):
    async with talk() as on:
        await update(on.client, instructions="Be brief.")
        await on.client.spoken_turn(TEXT)
        await update(on.client, instructions="Be long.", tools=[WEATHER])
        await on.client.say("and now?")
        await on.client.send("response.create")
        assert (await on.client.until("response.done"))["response"]["output"][0]["type"] == "function_call"
    assert len(on.gemini.ledger) == 2
    assert on.frames(0)[0]["setup"]["sessionResumption"] == {}
    assert on.setup["sessionResumption"] == {"handle": "handle-1"}
    assert on.setup["systemInstruction"] == {"parts": [{"text": "Be long."}]}
    assert [record.status for record in on.records] == ["success", "cancelled"]


@pytest.mark.parametrize(
    ("script", "code"), [({"refuses": (1007, "no such setting")}, "1007"), ({"silent_after": 0}, "upstream_too_slow")]
)
async def test_a_vendor_that_does_not_resume_the_session_ends_it_with_the_reason(talk, autojump_clock, script, code):
    async with talk() as on:
        await on.client.spoken_turn(TEXT)
        on.gemini.live = attrs.evolve(on.gemini.live, **script)
        await update(on.client, instructions="Be long.")
        with pytest.raises(WsClosed):
            await on.client.read_on()
        assert on.client.errors[-1]["code"] == code
    assert [record.status for record in on.records] == ["success", "error"]


async def test_audio_that_comes_while_the_session_is_resumed_waits_for_it(talk, autojump_clock):
    async with talk() as on:
        await on.client.spoken_turn(TEXT)
        await update(on.client, instructions="Be long.")
        await on.client.spoken_turn("and now")
        assert on.client.spoken == f"{TEXT} and now"
    assert len(on.gemini.ledger) == 2


async def test_a_client_that_leaves_while_the_session_is_resumed(talk, autojump_clock):
    async with talk() as on:
        await on.client.spoken_turn(TEXT)
        on.gemini.live.silent_after = 0
        await update(on.client, instructions="Be long.")
    assert [record.status for record in on.records] == ["success"]


async def test_a_session_that_goes_away_is_resumed(talk, autojump_clock):
    async with talk(goes_away_after=1) as on:
        for _ in range(2):
            await on.client.say(TEXT)
            await on.client.send("response.create")
            await on.client.until("response.done")
    assert [record.status for record in on.records] == ["success", "success"]
    assert on.frames(1)[0]["setup"]["sessionResumption"] == {"handle": "handle-1"}


async def test_g711_in_both_directions(talk, autojump_clock):
    telephone = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)
    to_telephone = converter(PCM_24K, telephone)
    from_telephone = converter(telephone, PCM_24K)
    async with talk() as on:
        fmt = {"type": "audio/pcmu"}
        await update(on.client, audio={"input": {"format": fmt, "turn_detection": None}, "output": {"format": fmt}})
        await on.client.append(to_telephone.feed(speech((TEXT,), 24_000, pause_s=0.5)))
        await on.client.send("input_audio_buffer.commit")
        await on.client.send("response.create")
        await on.client.until("response.done")
        samples = from_telephone.feed(b"".join(b64decode(each["delta"]) for each in on.client.of("response.output_audio.delta")))
        assert [done.text for done in fsk.decode(samples, 24_000)] == [TEXT]


# ---- vendors that report less, and messages


@pytest.mark.parametrize("transcribed", [True, False])
async def test_a_model_that_reports_no_activity_has_the_users_item_before_its_answer(talk, autojump_clock, transcribed):
    async with talk(reports_activity=False) as on:
        if transcribed:
            await update(on.client, audio={"input": {"transcription": {}}})
        await on.client.spoken_turn(TEXT)
        kinds = [kind for kind in on.client.kinds() if kind.startswith(("input_audio_buffer", "response.created", "response.done"))]
        assert kinds == [
            "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
            "response.created", "response.done",
        ]  # fmt: skip
        transcripts = on.client.of("conversation.item.input_audio_transcription.completed")
        assert [event["transcript"] for event in transcripts] == ([TEXT] if transcribed else [])


async def test_an_interruption_that_nothing_announces_is_speech(talk, autojump_clock):
    async with talk(reports_activity=False, chunk_s=2.0) as on:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, TEXT)
            await on.client.until("response.output_audio.delta")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(on.client.speak, "stop")
            done = (await on.client.until("response.done"))["response"]
        assert done["status_details"]["reason"] == "turn_detected"
        assert len(on.client.of("input_audio_buffer.speech_started")) == 2


HISTORY = [("system", "Be kind."), ("user", "I am Ada."), ("assistant", "Hello Ada.")]


async def remember(client):
    for role, text in HISTORY:
        kind = "output_text" if role == "assistant" else "input_text"
        await client.send("conversation.item.create", item={"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
        await client.until("conversation.item.done")


async def test_messages_before_the_first_turn_are_the_history_of_a_newer_model(talk, autojump_clock):
    async with talk() as on:
        await remember(on.client)
        await on.client.say(TEXT)
        await on.client.send("response.create")
        await on.client.until("response.done")
        assert on.client.spoken == TEXT
    setup, history, question = on.frames()
    assert setup["setup"]["historyConfig"] == {"initialHistoryInClientContent": True}
    turns = [(turn["role"], turn["parts"][0]["text"]) for turn in history["clientContent"]["turns"]]
    assert turns == [("user", "System: Be kind."), ("user", "I am Ada."), ("model", "Hello Ada.")]
    assert question == {"realtimeInput": {"text": TEXT}}


async def test_messages_go_to_an_older_model_while_it_is_idle(talk, autojump_clock):
    async with talk(NATIVE) as on:
        await on.client.spoken_turn(TEXT)
        await remember(on.client)
        await on.client.send("response.create", response={"instructions": "Say hello."})
        await on.client.until("response.done")
    contents = [frame["clientContent"] for frame in on.frames() if "clientContent" in frame]
    assert [content["turnComplete"] for content in contents] == [False, False, False, True]
    assert "Say hello." in contents[-1]["turns"][-1]["parts"][0]["text"]


async def test_a_message_can_only_be_added_at_the_end_and_none_is_deleted(talk, autojump_clock):
    async with talk() as on:
        first = await on.client.say("one")
        await on.client.say("two", previous_item_id=first["id"])
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "three"}]}
        error = await on.client.refused("conversation.item.create", item=item, previous_item_id="root")
        assert (error["code"], error["param"]) == ("unsupported_parameter", "previous_item_id")
        assert (await on.client.refused("conversation.item.delete", item_id=first["id"]))["code"] == "unsupported_parameter"
        call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
        assert (await on.client.refused("conversation.item.create", item=call))["param"] == "item.type"


async def test_a_turn_that_has_ended_is_answered_once(talk, autojump_clock):
    async with talk() as on:
        await on.client.append(b"".join(fsk.encode(TEXT, 24_000)))
        await on.client.until("input_audio_buffer.committed")
        await on.client.send("response.create")
        done = await on.client.until("response.done")
        assert done["response"]["output"][0]["content"][0]["transcript"] == TEXT
        assert len(on.client.of("input_audio_buffer.committed")) == 1
    assert len(on.records) == 1
