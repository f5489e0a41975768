"""Live transcription, the client's side: from a golden session, and against our own server's side."""

from __future__ import annotations

from base64 import b64decode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame
from gw.types.usage import Usage
from gw.wire.convert import CannotConvert
from gw.wire.openai_realtime_client import RealtimeListenClient
from tests.fakes.golden import golden

FRAMES = golden("openai/realtime_transcription").decode().splitlines()


def listener(model="gpt-4o-transcribe", fmt=PCM_24K, **request):
    return RealtimeListenClient("p", ListenRequest(model="m", format=fmt, **request), model, ("a-secret",))


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"type": kind, "event_id": "e", **members}).decode()


def decoded(text: str | None) -> dict:
    assert text is not None
    return msgspec.json.decode(text)


def opened(**options) -> dict:
    event = decoded(listener(**options).opening())
    assert (event["type"], event["session"]["type"]) == ("session.update", "transcription")
    return event["session"]["audio"]["input"]


def test_the_golden_session():
    client = listener(language="de")
    events = []
    for at, text in enumerate(FRAMES):
        if at == len(FRAMES) - 1:
            assert decoded(client.finish()) == {"type": "input_audio_buffer.commit", "event_id": "gw-finish"}
        events += client.receive(text)
    assert events == [
        SpeechStarted(at_s=0.32),
        Interim(text="Hello", start_s=0.32, end_s=0.0),
        SpeechStarted(at_s=2.6),
        Interim(text="Hello there.", start_s=0.32, end_s=1.9),
        Final(text="Good bye.", start_s=2.6, end_s=3.4, language="de"),
        UtteranceEnd(at_s=3.4),
        Final(text="Hello there.", start_s=0.32, end_s=1.9, language="en"),
        UtteranceEnd(at_s=1.9),
        ListenEnd(usage=Usage(input_tokens=30, output_tokens=18, input_audio_tokens=29, source="vendor")),
    ]
    assert client.ended


def test_a_caller_of_the_same_dialect_gets_every_frame():
    client = listener(dialect="openai")
    client.finish()
    events = [event for text in FRAMES for event in client.receive(text)]
    assert [e.raw for e in events if e.raw is not None] == FRAMES
    assert sum(isinstance(e, Final) for e in events) == 2
    assert isinstance(events[0], VendorFrame)


@pytest.mark.parametrize(
    ("fmt", "wire"),
    [
        (PCM_24K, {"type": "audio/pcm", "rate": 24_000}),
        (PCM_16K, {"type": "audio/pcm", "rate": 24_000}),
        (MULAW_8K, {"type": "audio/pcmu"}),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), {"type": "audio/pcma"}),
        (AudioFormat(encoding="mulaw", sample_rate_hz=16_000), {"type": "audio/pcm", "rate": 24_000}),
    ],
)
def test_audio_goes_as_the_vendor_takes_it(fmt, wire):
    client = listener(fmt=fmt)
    assert decoded(client.opening())["session"]["audio"]["input"]["format"] == wire
    sent = b"".join(b64decode(decoded(text)["audio"]) for _ in range(50) if (text := client.audio(bytes(fmt.bytes_per_second // 50))))
    expected = 8_000 if wire["type"] != "audio/pcm" else 48_000
    assert len(sent) == pytest.approx(expected, abs=40)


def test_audio_that_is_not_raw():
    with pytest.raises(CannotConvert):
        listener(fmt=AudioFormat(encoding="opus"))


def test_the_session_that_is_asked_for():
    assert opened() == {
        "format": {"type": "audio/pcm", "rate": 24_000},
        "transcription": {"model": "gpt-4o-transcribe"},
        "turn_detection": {"type": "server_vad"},
    }
    assert opened(endpointing_ms=300)["turn_detection"] == {"type": "server_vad", "silence_duration_ms": 300}
    assert opened(model="gpt-realtime-whisper", keyterms=("a",))["turn_detection"] is None
    transcription = opened(language="en-US", keyterms=("Köln", "gw"))["transcription"]
    assert transcription == {"model": "gpt-4o-transcribe", "language": "en", "prompt": "Köln, gw"}
    assert opened(model="gpt-transcribe", keyterms=("Köln",))["transcription"]["keywords"] == ["Köln"]
    assert "language" not in opened(language="multi")["transcription"]


def test_a_callers_own_session_goes_on_but_for_the_model():
    own = {"type": "transcription", "audio": {"input": {"transcription": {"model": "mine", "delay": "low"}, "turn_detection": None}}}
    options = (("session", msgspec.json.encode(own).decode()),)
    received_events = opened(dialect="openai", options=options)
    assert received_events == {"transcription": {"model": "gpt-4o-transcribe", "delay": "low"}, "turn_detection": None}
    assert "delay" not in opened(dialect="deepgram", options=options)["transcription"]
    client = listener(dialect="openai")
    passed = decoded(client.forward(frame("session.update", session=own)))
    assert passed["session"]["audio"]["input"]["transcription"]["model"] == "gpt-4o-transcribe"
    for other in (frame("input_audio_buffer.clear"), "no json", frame("session.update", session={"include": []})):
        assert client.forward(other).replace(" ", "") == other.replace(" ", "")


def test_flush_only_where_something_came():
    client = listener()
    assert client.flush() is None
    assert client.audio(b"") is None
    client.audio(bytes(480))
    assert decoded(client.flush()) == {"type": "input_audio_buffer.commit"}
    assert client.flush() is None


def test_without_turn_detection_an_item_lasts_from_commit_to_commit():
    client = listener(model="gpt-realtime-whisper")
    finals = []
    for number in (1, 2):
        client.audio(bytes(48_000))
        client.flush()
        client.receive(frame("input_audio_buffer.committed", item_id=f"i{number}"))
        finals += client.receive(
            frame("conversation.item.input_audio_transcription.completed", item_id=f"i{number}", content_index=0, transcript="a")
        )
    assert [(e.start_s, e.end_s) for e in finals if isinstance(e, Final)] == [(0, 1), (1, 2)]


def test_the_end_waits_for_what_is_due():
    client = listener()
    done = "conversation.item.input_audio_transcription.completed"
    client.receive(frame("input_audio_buffer.speech_stopped", item_id="a", audio_end_ms=900))
    client.finish()
    assert client.receive(frame("input_audio_buffer.committed", item_id="a")) == []   # the server's own
    assert client.receive(frame("input_audio_buffer.committed", item_id="b")) == []   # ours
    usage = {"type": "duration", "seconds": 1.5}
    assert not any(isinstance(e, ListenEnd) for e in client.receive(frame(done, item_id="b", transcript="", usage=usage)))
    events = client.receive(frame(done, item_id="a", transcript="x", usage=usage))
    assert events[-1] == ListenEnd(usage=Usage(audio_seconds=3.0, source="vendor"))


def test_no_interim_results():
    client = listener(interim_results=False)
    assert client.receive(frame("conversation.item.input_audio_transcription.delta", item_id="a", delta="x")) == []


def fault(**error):
    return frame("error", error={"message": "bad a-secret", **error})


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ({"type": "invalid_request_error", "code": "model_not_found"}, ProviderRejected),
        ({"type": "server_error"}, ProviderFailed),
        ({"type": "rate_limit_exceeded"}, RateLimitError),
        ({"type": "insufficient_quota", "code": "insufficient_quota"}, ProviderFailed),
    ],
)
def test_errors(error, kind):
    with pytest.raises(kind) as caught:
        listener().receive(fault(**error))
    assert caught.value.retryable
    assert "a-secret" not in str(caught.value)


def test_errors_that_are_none():
    empty = fault(type="invalid_request_error", code="input_audio_buffer_commit_empty")
    assert listener().receive(empty) == []
    own = fault(type="invalid_request_error", code="invalid_value", event_id="theirs")
    assert listener(dialect="openai").receive(own) == [VendorFrame(raw=own)]
    with pytest.raises(ProviderRejected):
        listener().receive(own)


def test_a_failed_item():
    with pytest.raises(ProviderFailed) as caught:
        listener().receive(
            frame("conversation.item.input_audio_transcription.failed", item_id="a", error={"code": "audio_unintelligible"})
        )
    assert caught.value.upstream_code == "audio_unintelligible"


@pytest.mark.parametrize("text", ["", "[]", '{"type":7}', b"\xff", '{"type":"error","error":7}'])
def test_malformed(text):
    with pytest.raises(UpstreamProtocolError):
        listener().receive(text)


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(0, 200), st.binary(max_size=3)), max_size=8))
def test_spoilt_frames_are_a_provider_error_or_events(frames):
    client = listener(dialect="openai")
    try:
        for text, at, rubbish in frames:
            data = text.encode()
            client.receive(data[:at] + rubbish + data[at + len(rubbish) :])
    except ProviderError:
        pass
