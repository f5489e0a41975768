from __future__ import annotations

import math

import msgspec
import pytest

from gw.errors import (
    ClientProtocolError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.types.usage import COUNTERS
from gw.wire import gemini_live
from gw.wire.gemini_live import GeminiReader
from tests.fakes.vendors.gemini_live import USAGE

MODELS = ["gemini-3.8-live", "gemini-3.8-live-extended-thinking", "gemini-3.1-flash-live-preview", "gemini-2.5-flash-native-audio-latest",
          "gemini-live-2.5-flash-preview-native-audio-09-2025", "gemini-3.5-live-translate-preview"]  # fmt: skip


def frame(**members):
    return msgspec.json.encode(members)


def content(**members):
    return frame(serverContent=members)


def says(*parts):
    return content(modelTurn={"role": "model", "parts": list(parts)})


SETUP = '{"setup":{"model":"models/gemini-3.8-live"}}'
AUDIO = says({"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "A" * 64_000}})  # one second
DONE = content(turnComplete=True)


def kinds(reader, *frames):
    return [event.kind for each in frames for event in reader.received(each)]


@pytest.mark.parametrize("model", MODELS)
def test_models_that_hear_and_speak_themselves(model):
    assert gemini_live.hears_and_speaks(model)


@pytest.mark.parametrize("model", ["gemini-3.6-flash", "gemini-3.8-flash-tts", "gemini-3.5-transcribe-live", "gemini-deliver", "olive-1"])
def test_other_models(model):
    assert not gemini_live.hears_and_speaks(model)


def test_the_setup_keeps_all_but_the_name_of_the_model():
    setup = '{"setup":{"model":"models/gemini/gemini-3.8-live","generationConfig":{"temperature":0.30,"x":[1e3]}},"y":1}'
    assert gemini_live.model_of(setup) == "gemini/gemini-3.8-live"
    sent = '{"setup":{"model":"models/gemini-3.8-live","generationConfig":{"temperature":0.30,"x":[1e3]}},"y":1}'
    assert gemini_live.setup_for_vendor(setup, "gemini-3.8-live") == sent
    assert '"tunedModels/mine"' in gemini_live.setup_for_vendor(setup, "tunedModels/mine")


@pytest.mark.parametrize("setup", ["", "{", "[]", "{}", '{"setup":1}', '{"setup":{}}', '{"setup":{"model":1}}', b"\xff"])
def test_a_first_frame_that_is_no_setup(setup):
    with pytest.raises(ClientProtocolError):
        gemini_live.model_of(setup)


def test_a_response_begins_with_its_first_content_and_ends_with_the_turn():
    reader = GeminiReader("g", "m", SETUP)
    assert kinds(reader, frame(setupComplete={})) == ["other"]
    assert kinds(reader, says({"text": "hm", "thought": True}), AUDIO, AUDIO) == ["began", "content", "content"]
    assert kinds(reader, content(outputTranscription={"text": "one"}), content(generationComplete=True)) == ["other", "other"]
    (ended,) = reader.received(frame(serverContent={"turnComplete": True}, usageMetadata=USAGE))
    assert (ended.kind, ended.response_id, ended.is_cancelled, ended.error) == ("ended", "1", False, None)
    (began, _) = reader.received(AUDIO)
    assert (began.kind, began.response_id) == ("began", "2")


def test_counts_of_one_turn_are_added():
    reader = GeminiReader("g", "m", SETUP)
    reader.received(AUDIO)
    reader.received(frame(usageMetadata=USAGE))
    assert reader.counted("1").input_tokens == 2_060
    assert reader.counted("2") is None
    (ended,) = reader.received(frame(serverContent={"turnComplete": True}, usageMetadata=USAGE))
    assert ended.usage.reasoning_tokens == 80
    assert all(getattr(ended.usage, name) % 2 == 0 for name in COUNTERS)
    assert reader.counted("1") is None


def test_a_count_outside_of_a_response_is_one_of_its_own():
    reader = GeminiReader("g", "m", SETUP)
    (began, ended) = reader.received(frame(usageMetadata=USAGE))
    assert (began.kind, ended.kind, ended.usage.output_tokens) == ("began", "ended", 190)
    assert kinds(reader, DONE) == ["other"]
    assert kinds(reader, frame(serverContent={"turnComplete": True}, usageMetadata=USAGE)) == ["began", "ended"]


def test_an_impossible_count_is_none():
    reader = GeminiReader("g", "m", SETUP)
    reader.received(AUDIO)
    (ended,) = reader.received(frame(serverContent={"turnComplete": True}, usageMetadata={"promptTokenCount": 10**15}))
    assert ended.usage is None


def test_interruptions():
    reader = GeminiReader("g", "m", SETUP)
    assert kinds(reader, content(interrupted=True), DONE) == ["other", "other"]
    reader.received(AUDIO)
    reader.received(content(interrupted=True))
    assert reader.received(DONE)[0].is_cancelled
    reader.received(AUDIO)
    reader.received(content(generationComplete=True))
    reader.received(content(interrupted=True))  # of the playback
    assert not reader.received(DONE)[0].is_cancelled


def test_the_end_of_the_callers_turn():
    reader = GeminiReader("g", "m", SETUP)
    assert kinds(reader, frame(voiceActivity={"type": "ACTIVITY_START"})) == ["other"]
    assert kinds(reader, frame(voiceActivity={"type": "ACTIVITY_END"})) == ["speech_ended"]
    assert kinds(reader, content(inputTranscription={"text": "one", "finished": True})) == ["speech_ended"]


def test_patience_with_functions_and_playback():
    reader = GeminiReader("g", "m", SETUP)
    assert kinds(reader, frame(toolCall={"functionCalls": [{"id": "a"}, {"id": "b"}, {"id": "c"}]})) == ["began", "content"]
    assert reader.patience_s == math.inf
    assert reader.sent('{"tool_response":{"function_responses":[{"id":"a"}]}}') == "other"
    assert reader.sent('{"toolResponse":{"functionResponses":[{"id":"b"}]}}') == "other"
    assert reader.patience_s == math.inf
    reader.received(frame(toolCallCancellation={"ids": ["c"]}))
    assert reader.patience_s == 0
    reader.received(AUDIO)
    assert reader.patience_s == 0
    reader.received(content(generationComplete=True))
    assert reader.patience_s == 1
    reader.received(DONE)
    assert reader.patience_s == 0


def test_a_call_without_an_answer_does_not_outlive_its_turn():
    reader = GeminiReader("g", "m", SETUP)
    kinds(reader, frame(toolCall={"functionCalls": [{"id": "a"}]}), content(interrupted=True), DONE, AUDIO)
    assert reader.patience_s == 0


@pytest.mark.parametrize(
    ("sent", "step"),
    [
        ({"clientContent": {"turns": [], "turnComplete": True}}, "asks"), ({"client_content": {"turn_complete": True}}, "asks"),
        ({"clientContent": {"turns": []}}, "other"), ({"realtimeInput": {"audio": {}}}, "other"),
        ({"realtimeInput": {"text": "one"}}, "ends_turn"), ({"realtime_input": {"activity_end": {}}}, "ends_turn"),
        ({"realtimeInput": {"activityEnd": {}}}, "ends_turn"), ({"contextUpdate": {}}, "other"), ({}, "other"),
    ],
)  # fmt: skip
def test_what_a_callers_frame_does(sent, step):
    assert GeminiReader("g", "m", SETUP).sent(msgspec.json.encode(sent)) == step


BY_HAND = {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}}}
BEGIN, END = {"realtimeInput": {"activityStart": {}}}, {"realtime_input": {"activity_end": {}}}


@pytest.mark.parametrize(
    ("model", "setup", "sent", "cancelled"),
    [
        ("gemini-3.8-live", {}, [], {"clientContent": {"turnComplete": False}}),
        ("gemini-3.8-live", BY_HAND, [BEGIN], {"clientContent": {"turnComplete": False}}),
        ("gemini-3.1-flash-live-preview", {}, [], None),
        ("gemini-3.1-flash-live-preview", {"realtimeInputConfig": {"automaticActivityDetection": {}}}, [], None),
        ("gemini-3.1-flash-live-preview", BY_HAND, [], BEGIN),
        ("gemini-3.1-flash-live-preview", {"realtime_input_config": {"automatic_activity_detection": {"disabled": True}}}, [], BEGIN),
        ("gemini-3.1-flash-live-preview", BY_HAND, [BEGIN], None),
        ("gemini-3.1-flash-live-preview", BY_HAND, [{"realtime_input": {"activity_start": {}}}, {"realtimeInput": {"audio": {}}}], None),
        ("gemini-3.1-flash-live-preview", BY_HAND, [BEGIN, END], BEGIN),
        ("gemini-3.1-flash-live-preview",
         {"realtimeInputConfig": {"automaticActivityDetection": {"disabled": True}, "activityHandling": "NO_INTERRUPTION"}}, [], None),
    ],
)  # fmt: skip
def test_the_message_that_interrupts_is_one_that_the_model_takes(model, setup, sent, cancelled):
    reader = GeminiReader("g", model, msgspec.json.encode({"setup": {"model": "m", **setup}}))
    for message in sent:
        reader.sent(msgspec.json.encode(message))
    frame = reader.cancel("1")
    assert (frame if frame is None else msgspec.json.decode(frame)) == cancelled


@pytest.mark.parametrize("setup", [{"historyConfig": {"initialHistoryInClientContent": True}},
                                   {"history_config": {"initial_history_in_client_content": True}}])  # fmt: skip
def test_the_end_of_the_history_asks_for_nothing(setup):
    reader = GeminiReader("g", "m", msgspec.json.encode({"setup": {"model": "m", **setup}}))
    said = [reader.sent(msgspec.json.encode({"clientContent": {"turnComplete": done}})) for done in (False, True, True)]
    assert said == ["other", "other", "asks"]


def test_a_model_that_may_say_nothing_owes_nothing():
    reader = GeminiReader("g", "m", '{"setup":{"model":"m","proactivity":{"proactiveAudio":true}}}')
    assert reader.sent('{"clientContent":{"turnComplete":true}}') == "ends_turn"


@pytest.mark.parametrize("sent", ["", "[]", "{", '{"clientContent":1}', '{"setup":{"model":"models/x"}}', b"\xff"])
def test_a_frame_of_the_client_that_cannot_be(sent):
    with pytest.raises(ClientProtocolError):
        GeminiReader("g", "m", SETUP).sent(sent)


@pytest.mark.parametrize("received", ["", "[]", '{"serverContent":1}', '{"usageMetadata":{"promptTokenCount":"many"}}', b"\xff"])
def test_a_frame_of_the_vendor_that_cannot_be(received):
    with pytest.raises(UpstreamProtocolError):
        GeminiReader("g", "m", SETUP).received(received)


@pytest.mark.parametrize(
    ("code", "reason", "error", "fault"),
    [
        (1007, "Request contains an invalid argument.", ProviderRejected, "caller"),
        (1007, "API key not valid. Please pass a valid API key.", ProviderRejected, "candidate"),
        (1008, "models/x is not found for API version v1beta", ProviderRejected, "candidate"),
        (1008, "", ProviderRejected, "candidate"),
        (1011, "You exceeded your current quota", RateLimitError, None), (1011, "Internal error occurred.", ProviderFailed, None),
        (1011, "RESOURCE_EXHAUSTED", RateLimitError, None), (1006, "", UpstreamCut, None),
    ],
)  # fmt: skip
def test_closes_of_the_vendor(code, reason, error, fault):
    closed = gemini_live.error_of_close("g", code, reason, ("hidden key",))
    assert type(closed) is error
    assert getattr(closed, "fault", None) == fault


def test_a_reason_loses_the_key():
    closed = gemini_live.error_of_close("g", 1007, "Unknown name hidden-key at 'setup'", ("hidden-key",))
    assert "hidden-key" not in closed.message
    assert closed.detail == "closed the session with code 1007: Unknown name [removed] at 'setup'"
