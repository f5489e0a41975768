"""The older revision of live transcription: from a golden session of speaches."""

from __future__ import annotations

from base64 import b64decode
from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.convert import CannotConvert
from gw.wire.openai_realtime_beta import BetaListenClient, query
from tests.fakes.golden import golden

FRAMES = golden("whisper/realtime").decode().splitlines()


def options(fmt=PCM_24K, **fields):
    return ListenRequest(model="m", format=fmt, **fields)


def listener(fmt=PCM_24K, **fields):
    return BetaListenClient("p", options(fmt, **fields), ("a-secret",))


def frame(kind, **members):
    return msgspec.json.encode({"type": kind, "event_id": "e", **members}).decode()


def decoded(text):
    return msgspec.json.decode(text)


def error(kind, message="m"):
    return frame("error", error={"type": kind, "message": message, "code": None, "event_id": None, "param": None})


def session(**fields):
    """The golden session, with two seconds of audio before each end."""
    client, events = listener(language="en-US", **fields), []
    for text in FRAMES:
        kind = decoded(text)["type"]
        if kind == "input_audio_buffer.speech_started":
            client.audio(bytes(48_000 * 2))
        if kind == "error":
            silence, commit = client.finish()
            assert decoded(silence)["type"] == "input_audio_buffer.append"
            assert decoded(commit) == {"type": "input_audio_buffer.commit"}
        events += client.receive(text)
    return client, events


def test_the_golden_session():
    client, events = session()
    assert events == [
        SpeechStarted(at_s=0.32),
        Interim(text="Hello", start_s=0.32, end_s=2.0),
        Final(text="Hello there.", start_s=0.32, end_s=1.5, language="en"),
        UtteranceEnd(at_s=1.5),
        SpeechStarted(at_s=2.2),
        Final(text="Good bye.", start_s=2.2, end_s=2.9, language="en"),
        UtteranceEnd(at_s=2.9),
        ListenEnd(),
    ]
    assert client.ended


def test_interims_only_where_wanted():
    assert not any(isinstance(event, Interim) for event in session(interim_results=False)[1])


def test_model_and_language_stand_in_the_address():
    assert query(options(language="de-DE"), "Systran/x y") == "model=Systran%2Fx+y&intent=transcription&language=de"
    assert query(options(language="multi"), "m") == "model=m&intent=transcription"


def test_turn_detection_of_the_server_by_default():
    assert listener().opening() is None
    opened = decoded(listener(endpointing_ms=25).opening())
    assert opened == {"type": "session.update", "session": {"turn_detection": {"silence_duration_ms": 100}}}


@pytest.mark.parametrize(("fmt", "n_bytes"), [(PCM_24K, 4_800), (PCM_16K, 3_200), (MULAW_8K, 800)])
def test_audio_becomes_pcm_of_24_khz(fmt, n_bytes):
    client = listener(fmt)
    sent = client.audio(bytes(n_bytes)) or ""
    assert len(b64decode(decoded(sent)["audio"])) == pytest.approx(4_800, abs=200)
    assert client.audio(b"") is None
    with pytest.raises(CannotConvert):
        listener(AudioFormat(encoding="ogg"))


def test_a_flush_is_silence():
    silence = b64decode(decoded(listener(endpointing_ms=1_000).flush())["audio"])
    assert len(silence) == 48 * 1_500
    assert not any(silence)
    assert listener().forward("{}") is None


COMMITTED = frame("input_audio_buffer.committed", item_id="A", previous_item_id=None)
COMPLETED = frame("conversation.item.input_audio_transcription.completed", item_id="A", transcript="Yes.")
STARTED = frame("input_audio_buffer.speech_started", item_id="A", audio_start_ms=0)
STOPPED = frame("input_audio_buffer.speech_stopped", item_id="A", audio_end_ms=500)


@pytest.mark.parametrize(
    "frames",
    [
        [STOPPED, COMMITTED, error("invalid_request_error"), COMPLETED],
        [STOPPED, COMMITTED, COMPLETED, error("invalid_request_error")],
        [COMMITTED, STOPPED, COMMITTED, COMPLETED],
        [STOPPED, COMMITTED, COMMITTED, COMPLETED],
        [COMMITTED, COMPLETED],
    ],
    ids=["error first", "transcript first", "ours overtakes", "both", "ours alone"],
)
def test_the_end_whatever_the_order(frames):
    client = listener()
    client.audio(bytes(48_000))
    client.receive(STARTED)
    client.finish()
    events = [event for text in frames for event in client.receive(text)]
    assert [event.text for event in events if isinstance(event, Final)] == ["Yes."]
    assert isinstance(events[-1], ListenEnd)
    assert client.receive(COMPLETED) == []


def test_silence_has_no_final():
    client = listener()
    client.receive(COMMITTED)
    empty = frame("conversation.item.input_audio_transcription.completed", item_id="A", transcript="")
    assert client.receive(empty) == [UtteranceEnd(at_s=0.0)]


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        (error("server_error", "Transcription failed, a-secret"), ProviderFailed),
        (error("invalid_request_error", "a-secret"), ProviderRejected),
        (frame("conversation.item.input_audio_transcription.failed", item_id="A"), ProviderFailed),
        ("{", UpstreamProtocolError),
        ("[]", UpstreamProtocolError),
        ('{"type":3}', UpstreamProtocolError),
        (b"\xff", UpstreamProtocolError),
    ],
)
def test_failures(text, kind):
    with pytest.raises(kind) as caught:
        listener().receive(text)
    assert "a-secret" not in str(caught.value)
    assert caught.value.retryable


def test_what_is_unknown_is_left_out():
    client = listener()
    assert client.receive(frame("rate_limits.updated", rate_limits=[])) == []
    assert client.receive('{"type":"input_audio_buffer.speech_started","item_id":"A","new":{"a":[1]}}') == [SpeechStarted(at_s=0.0)]


@given(st.binary() | st.text())
def test_any_frame_is_read_or_refused(data):
    with suppress(ProviderError):
        assert isinstance(listener().receive(data), list)
