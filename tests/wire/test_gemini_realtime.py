"""The translation alone: events of the client, frames of the vendor. Sessions: `tests/dialects/test_openai_gemini_live.py`."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from gw.errors import ClientProtocolError
from gw.wire import gemini_realtime
from gw.wire.gemini_realtime import GeminiConversation
from gw.wire.gemini_realtime_items import text_of, turns_of

MANUAL = {"type": "session.update", "session": {"type": "realtime", "audio": {"input": {"turn_detection": None}}}}
ASK = {"type": "response.create"}


def conversation(name="gemini-3.8-live"):
    return GeminiConversation("session", f"gemini/{name}", name, lambda voice: "")


def message(text, role="user", **members):
    kind = "output_text" if role == "assistant" else "input_text"
    item = {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}
    return {"type": "conversation.item.create", "item": item, **members}


def sent(step):
    return [msgspec.json.decode(frame) for frame in step.frames]


def heard(talk, **frame):
    return [msgspec.json.decode(event) for event in talk.received("gemini", msgspec.json.encode(frame))]


def opened(name="gemini-3.8-live"):
    talk = conversation(name)
    talk.setup()
    talk.opened()
    return talk


@pytest.mark.parametrize("name", ["gemini-3.8-live", "gemini-2.5-flash-native-audio-latest"])
def test_what_a_response_was_to_answer_waits_where_it_is_not_admitted(name):
    talk = opened(name)
    talk.handle(message("one"))
    step = talk.handle(ASK)
    assert step.begins_turn
    talk.refused()
    assert talk.handle(ASK).frames == step.frames


def test_a_cancelled_response_that_the_vendor_has_not_begun_is_done_at_once():
    talk = opened()
    talk.handle(ASK)
    (done,) = [msgspec.json.decode(event) for event in talk.handle({"type": "response.cancel"}).replies]
    assert (done["type"], done["response"]["status"]) == ("response.done", "cancelled")
    assert heard(talk, serverContent={"modelTurn": {"parts": [{"text": "late"}]}}) == []
    assert heard(talk, serverContent={"turnComplete": True}) == []
    assert talk.answers.is_idle


@pytest.mark.parametrize(
    ("name", "frames"),
    [("gemini-3.1-flash-live-preview", []), ("gemini-3.8-live", [{"clientContent": {"turnComplete": False}}])],
)
def test_the_rest_of_a_cancelled_answer_is_left_out(name, frames):
    talk = opened(name)
    talk.handle(ASK)
    heard(talk, serverContent={"modelTurn": {"parts": [{"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": "AAAA"}}]}})
    assert sent(talk.handle({"type": "response.cancel"})) == frames
    assert heard(talk, serverContent={"outputTranscription": {"text": "more"}}) == []
    (done,) = heard(talk, serverContent={"turnComplete": True}, usageMetadata={"promptTokenCount": 3, "responseTokenCount": 4})
    assert (done["response"]["status"], done["response"]["usage"]["total_tokens"]) == ("cancelled", 7)


def test_a_response_can_be_requested_while_the_vendor_waits_for_the_playback_of_the_last_one():
    talk = opened()
    talk.handle(message("one"))
    talk.handle(ASK)
    heard(talk, serverContent={"outputTranscription": {"text": "yes"}})
    heard(talk, serverContent={"generationComplete": True})
    step = talk.handle(ASK)
    (done,), (created,) = ([msgspec.json.decode(event) for event in events] for events in (step.replies, step.announced))
    assert (done["response"]["status"], done["response"]["id"] != created["response"]["id"]) == ("completed", True)
    assert heard(talk, serverContent={"interrupted": True}) == heard(talk, serverContent={"turnComplete": True}) == []
    assert heard(talk, serverContent={"outputTranscription": {"text": "no"}})[0]["type"] == "response.output_item.added"
    assert heard(talk, serverContent={"turnComplete": True})[-1]["response"]["id"] == created["response"]["id"]


@pytest.mark.parametrize(
    ("reason", "status"),
    [("PROHIBITED_INPUT_CONTENT", "incomplete"), ("MALFORMED_FUNCTION_CALL", "failed"), ("NEED_MORE_INPUT", "completed")],
)
def test_the_reason_of_a_turns_end(reason, status):
    talk = opened()
    talk.handle(ASK)
    done = heard(talk, serverContent={"turnComplete": True, "turnCompleteReason": reason})[-1]
    assert done["response"]["status"] == status


def test_text_answers_and_thoughts():
    talk = conversation()
    talk.handle({"type": "session.update", "session": {"type": "realtime", "output_modalities": ["text"]}})
    talk.setup()
    talk.handle(ASK)
    heard(talk, serverContent={"modelTurn": {"parts": [{"text": "hm", "thought": True}, {"text": "yes"}]}})
    done = heard(talk, serverContent={"turnComplete": True})[-1]["response"]
    assert done["output"][0]["content"] == [{"type": "output_text", "text": "yes"}]


def test_audio_that_waits_is_bounded(monkeypatch):
    monkeypatch.setattr(gemini_realtime, "MAX_BUFFERED_S", 1.0)
    talk = conversation()
    talk.handle(MANUAL)
    append = {"type": "input_audio_buffer.append", "audio": b64encode(bytes(24_000)).decode()}
    talk.handle(append)
    talk.handle(append)
    with pytest.raises(ClientProtocolError, match="seconds of audio"):
        talk.handle(append)


def test_text_without_turn_detection_is_a_turn_of_its_own_for_a_newer_model():
    talk = opened()
    talk.handle(MANUAL)
    talk.handle(message("one"))
    frames = sent(talk.handle(ASK))
    assert frames == [{"realtimeInput": each} for each in ({"activityStart": {}}, {"text": "one"}, {"activityEnd": {}})]


def test_an_instruction_for_the_result_of_a_function_is_refused():
    talk = opened()
    talk.handle(ASK)
    heard(talk, toolCall={"functionCalls": [{"id": "c1", "name": "f", "args": {}}]})
    output = {"type": "function_call_output", "call_id": "c1", "output": "x"}
    talk.handle({"type": "conversation.item.create", "item": output})
    with pytest.raises(ClientProtocolError) as refused:
        talk.handle({**ASK, "response": {"instructions": "Be loud."}})
    assert refused.value.param == "response.instructions"
    step = talk.handle(ASK)
    assert not step.begins_turn
    (response,) = sent(step)[0]["toolResponse"]["functionResponses"]
    assert response == {"id": "c1", "name": "f", "response": {"output": "x"}}


def test_a_call_without_an_id_is_answered_without_one():
    talk = opened()
    talk.handle(ASK)
    done = heard(talk, toolCall={"functionCalls": [{"name": "f", "args": {}}]})[-1]
    call_id = done["response"]["output"][0]["call_id"]
    output = {"type": "function_call_output", "call_id": call_id, "output": "x"}
    talk.handle({"type": "conversation.item.create", "item": output})
    assert sent(talk.handle(ASK))[0]["toolResponse"]["functionResponses"] == [{"name": "f", "response": {"output": "x"}}]


def test_a_turn_that_the_client_ends_itself_is_answered_once():
    talk = opened()
    with pytest.raises(ClientProtocolError, match="buffer is empty"):
        talk.handle({"type": "input_audio_buffer.commit"})
    talk.handle({"type": "input_audio_buffer.append", "audio": b64encode(bytes(4_800)).decode()})
    step = talk.handle({"type": "input_audio_buffer.commit"})
    assert sent(step) == [{"realtimeInput": {"audioStreamEnd": True}}]
    assert [msgspec.json.decode(event)["type"] for event in step.replies][:3] == [
        "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
    ]  # fmt: skip
    assert heard(talk, voiceActivity={"type": "ACTIVITY_START"}) == heard(talk, voiceActivity={"type": "ACTIVITY_END"}) == []
    step = talk.handle(ASK)
    assert (step.begins_turn, step.frames) == (True, [])
    assert heard(talk, serverContent={"outputTranscription": {"text": "yes"}})[0]["type"] == "response.output_item.added"


IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AAAA"}


def test_images_and_roles():
    items = [
        {"role": "system", "content": [{"type": "input_text", "text": "Be kind."}]},
        {"role": "user", "content": [{"type": "input_text", "text": "See."}, IMAGE]},
        {"role": "assistant", "content": [{"type": "output_text", "text": "Yes."}]},
    ]
    inline = {"inlineData": {"mimeType": "image/png", "data": "AAAA"}}
    assert turns_of(items) == [
        {"role": "user", "parts": [{"text": "System: Be kind."}]},
        {"role": "user", "parts": [{"text": "See."}, inline]},
        {"role": "model", "parts": [{"text": "Yes."}]},
        {"role": "user", "parts": [{"text": "."}]},
    ]
    assert text_of(items) == "system: Be kind.\nuser: See.\nassistant: Yes."
    assert (text_of(items[1:2]), text_of([])) == ("See.", ".")
