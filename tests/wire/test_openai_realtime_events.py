import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.usage import Dimensions, Usage
from gw.wire import openai_realtime_events as events
from tests.fakes.vendors.openai_conversation import USAGE


def read(**members):
    return events.read_server_event("openai", msgspec.json.encode(members))


def test_all_figures_of_a_usage_are_kept():
    response = read(type="response.done", response={"id": "r", "status": "completed", "usage": dict(USAGE)}).response
    assert events.usage_of(response.usage) == Usage(
        input_tokens=2_000, cached_input_tokens=1_000, output_tokens=150, input_audio_tokens=900, output_audio_tokens=100,
        source="vendor", dimensions=Dimensions(cached_audio_tokens=800, image_tokens=200, cached_image_tokens=100),
    )  # fmt: skip


@pytest.mark.parametrize("usage", [None, {}, {"total_tokens": 5}, {"input_tokens": 10**15, "output_tokens": 1}])
def test_a_usage_that_says_nothing_or_cannot_be_true_is_none(usage):
    assert events.usage_of(read(type="response.done", response={"usage": usage}).response.usage) is None


def test_a_transcription_is_counted_in_tokens_or_seconds():
    tokens = read(type=events.TRANSCRIBED, usage={"type": "tokens", "input_tokens": 40, "output_tokens": 8})
    assert events.usage_of(tokens.usage) == Usage(input_tokens=40, output_tokens=8, source="vendor")
    seconds = read(type=events.TRANSCRIBED, usage={"type": "duration", "seconds": 2.5})
    assert events.usage_of(seconds.usage) == Usage(audio_seconds=2.5, source="vendor")


@pytest.mark.parametrize(
    ("session", "model"),
    [
        ({"audio": {"input": {"transcription": {"model": "whisper-1"}}}}, "whisper-1"),
        ({"audio": {"input": {"transcription": None}}}, ""),
        ({"audio": {}}, None),
        ({"input_audio_transcription": {"model": "whisper-1"}}, "whisper-1"),
        ({}, None),
    ],
)
def test_the_model_that_transcribes_beside_the_conversation(session, model):
    assert events.transcription_model(read(type="session.updated", session=session).session) == model


def test_a_session_update_names_the_model_as_the_vendor_does():
    update = {"type": "session.update", "event_id": "e", "session": {"type": "realtime", "model": "openai/gpt-realtime", "tools": []}}
    sent = events.for_vendor(msgspec.json.encode(update).decode(), "gpt-realtime")
    assert msgspec.json.decode(sent) == {**update, "session": {**update["session"], "model": "gpt-realtime"}}


@pytest.mark.parametrize("frame", ["{", '{"session":5}', '{"session":{}}', '{"session":{"model":"gpt-realtime"}}', '{"session":  null}'])
def test_any_other_update_goes_as_it_came(frame):
    assert events.for_vendor(frame, "gpt-realtime") == frame


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "server_error", "code": None, "message": "m"}, ProviderFailed),
        ({"type": "invalid_request_error", "code": "rate_limit_exceeded"}, RateLimitError),
        ({"type": "invalid_request_error", "code": "session_expired"}, ProviderRejected),
        (None, ProviderFailed),
    ],
)
def test_error_events(error, kind):
    assert type(events.error_of_event("openai", read(type="error", error=error).error)) is kind


def test_malformed_frames():
    for frame in (b"\xff", "{", '{"type":5}', '{"type":"response.done","response":{"usage":{"input_tokens":"x"}}}'):
        with pytest.raises(UpstreamProtocolError):
            events.read_server_event("openai", frame)
    for frame in ("{", "{}", '{"type":5}'):
        with pytest.raises(ClientProtocolError):
            events.read_client_event(frame)


def test_a_content_filter_is_known():
    details = {"status": "incomplete", "status_details": {"reason": "content_filter"}}
    assert events.is_filtered(read(type="response.done", response=details).response)
    assert not events.is_filtered(read(type="response.done", response={"status": "incomplete"}).response)


VAD = {"type": "server_vad"}


@pytest.mark.parametrize(
    ("session", "sent"),
    [
        ({"audio": {"output": {"voice": "rex"}}}, {"voice": "rex"}),
        ({"audio": {"output": {"voice": "rex", "speed": 1.1}, "input": {"turn_detection": VAD}}},
         {"audio": {"output": {"speed": 1.1}}, "voice": "rex", "turn_detection": VAD}),
        ({"audio": {"input": {"turn_detection": None}}, "tools": []}, {"tools": [], "turn_detection": None}),
        ({"voice": "ara", "audio": {"output": {"voice": "rex"}}}, {"voice": "ara", "audio": {"output": {"voice": "rex"}}}),
        ({"voice": "ara"}, {"voice": "ara"}),
        ({"audio": None}, {"audio": None}),
        ({"audio": {"output": "loud"}}, {"audio": {"output": "loud"}}),
    ],
)  # fmt: skip
def test_settings_go_to_the_top_of_a_session(session, sent):
    frame = msgspec.json.encode({"type": "session.update", "event_id": "e", "session": session}).decode()
    moved = msgspec.json.decode(events.with_top_level(frame, ("voice", "turn_detection")))
    assert moved == {"type": "session.update", "event_id": "e", "session": sent}


@pytest.mark.parametrize("frame", ["{", '{"type":"session.update"', '{"type":"session.update","session":[]}', '{"type":"response.create"}'])
def test_other_frames_are_sent_as_they_are(frame):
    assert events.with_top_level(frame, ("voice",)) is frame


def test_a_status_that_is_only_a_text_is_no_error():
    response = read(type="response.done", response={"id": "r", "status": "completed", "status_details": "unimplemented"}).response
    assert not events.is_filtered(response)
    assert isinstance(events.error_of_response("xai", response), ProviderFailed)
