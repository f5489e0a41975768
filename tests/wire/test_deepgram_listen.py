"""Live transcription, the client's side: from a golden session."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.types.usage import Usage
from gw.wire.deepgram_listen import BY_TURNS, CLOSE_STREAM, FINALIZE, KEEP_ALIVE, DeepgramListenClient, path_of
from tests.fakes.golden import golden

FRAMES = golden("deepgram/listen_live").decode().splitlines()


def listener(**more) -> DeepgramListenClient:
    return DeepgramListenClient("p", secrets=("a-secret",), **more)


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()


def results(text: str, **members: object) -> str:
    return frame("Results", channel={"alternatives": [{"transcript": text}]}, **{"start": 0, "duration": 1, **members})


def requested(fmt: AudioFormat = PCM_16K, **request) -> list[tuple[str, str]]:
    path, _, query = path_of(ListenRequest(model="m", format=fmt, **request), "nova-3").partition("?")
    assert path == "/v1/listen"
    return parse_qsl(query, keep_blank_values=True)


def all_of(client: DeepgramListenClient) -> list:
    events = [event for text in FRAMES[:-1] for event in client.receive(text)]
    client.finish()
    return events + client.receive(FRAMES[-1])


def test_the_golden_session():
    client = listener()
    hello = Word(text="hello", start_s=0.32, end_s=0.8, confidence=0.93)
    there = (
        Word(text="Hello", start_s=0.32, end_s=0.8, confidence=0.99),
        Word(text="there,", start_s=0.8, end_s=1.3, confidence=0.99, speaker="1"),
    )
    how = Word(text="how", start_s=2.1, end_s=2.3, confidence=0.97)
    assert all_of(client) == [
        SpeechStarted(at_s=0.31),
        Interim(text="hello", start_s=0.32, end_s=0.8, words=(hello,), confidence=0.93),
        Final(text="Hello there,", start_s=0.32, end_s=2.0, words=there, language="en", confidence=0.99),
        Final(text="how are you?", start_s=2.1, end_s=3.5, words=(how,), confidence=0.97),
        UtteranceEnd(at_s=3.5),
        Final(text="Bye.", start_s=4.0, end_s=5.0, confidence=0.95),
        UtteranceEnd(at_s=4.9),
        ListenEnd(usage=Usage(audio_seconds=10.5, source="vendor")),
    ]
    assert client.ended


def test_a_caller_of_the_same_dialect_gets_every_frame():
    events = all_of(listener(keep_raw=True))
    assert [event.raw for event in events if event.raw is not None] == FRAMES
    assert sum(isinstance(event, VendorFrame) for event in events) == 2   # the second UtteranceEnd of one utterance; silence


def test_bytes_are_frames_as_well():
    assert listener(keep_raw=True).receive(FRAMES[0].encode()) == [SpeechStarted(at_s=0.31, raw=FRAMES[0])]


def test_orders():
    client = listener()
    assert client.audio(b"ab") == b"ab"
    assert client.flush() == [FINALIZE]
    assert client.forward('{"type":"Configure"}') == ['{"type":"Configure"}']
    assert client.keep_alive() == [KEEP_ALIVE]
    assert client.finish() == [CLOSE_STREAM]
    assert client.keep_alive() == []


def test_what_is_asked_for_another_dialects_caller():
    base = [("model", "nova-3"), ("encoding", "linear16"), ("sample_rate", "16000"), ("smart_format", "true")]
    same = [*base, ("punctuate", "true"), ("vad_events", "true"), ("interim_results", "true"), ("utterance_end_ms", "1000")]
    assert requested(interim_results=False) == requested() == same
    more = requested(language="de", endpointing_ms=300, diarize=True, keyterms=("Köln", "a&b"))
    assert more[6:] == [
        ("interim_results", "true"), ("utterance_end_ms", "1000"), ("language", "de"), ("endpointing", "300"),
        ("diarize", "true"), ("keyterm", "Köln"), ("keyterm", "a&b"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("fmt", "fields"),
    [
        (MULAW_8K, {"encoding": "mulaw", "sample_rate": "8000"}),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), {"encoding": "alaw", "sample_rate": "8000"}),
        (
            AudioFormat(encoding="pcm_f32le", sample_rate_hz=48_000, channels=2),
            {"encoding": "linear32", "sample_rate": "48000", "channels": "2"},
        ),
        (AudioFormat(encoding="unknown"), {}),
        (AudioFormat(encoding="ogg", sample_rate_hz=48_000), {}),
    ],
)
def test_the_audio_that_is_announced(fmt, fields):
    decoded = dict(requested(fmt))
    assert {name: decoded[name] for name in ("encoding", "sample_rate", "channels") if name in decoded} == fields


def test_own_settings_are_passed_on():
    own = (("model", "x"), ("encoding", "opus"), ("sample_rate", "1"), ("keyterm", "a"), ("keyterm", "b"), ("no_delay", "true"))
    base = [("model", "nova-3"), ("encoding", "linear16"), ("sample_rate", "16000"), *own[3:]]
    assert requested(dialect="deepgram", options=own) == base
    assert requested(dialect="deepgram", options=own, language="de") == [*base, ("language", "de")]
    named = (*own, ("language", "en"))
    assert requested(dialect="deepgram", options=named, language="en") == [*base, ("language", "en")]


def test_of_a_caller_of_the_other_protocol_only_what_both_have():
    options = (BY_TURNS, ("eot_threshold", "0.8"), ("keyterm", "Köln"), ("mip_opt_out", "true"))
    decoded = requested(dialect="deepgram", options=options, keyterms=("Köln",), language="de")
    assert [pair for pair in decoded if pair not in requested(language="de")] == [("mip_opt_out", "true"), ("keyterm", "Köln")]


def test_the_end_of_an_utterance_is_told_once():
    client = listener()
    client.receive(results("a", is_final=True, speech_final=True))
    assert client.receive(frame("UtteranceEnd", channel=[0, 1], last_word_end=0.9)) == []
    client.receive(results("b", is_final=True))
    assert client.receive(frame("UtteranceEnd", channel=[0, 1], last_word_end=1.9)) == [UtteranceEnd(at_s=1.9)]
    assert client.receive(results("", is_final=True, speech_final=True)) == []


def test_a_first_metadata_ends_nothing():
    client = listener()
    assert client.receive(FRAMES[-1]) == []
    assert not client.ended
    assert listener(keep_raw=True).receive(FRAMES[-1]) == [VendorFrame(raw=FRAMES[-1])]


@pytest.mark.parametrize("length", [None, -1.0])
def test_a_length_that_is_none(length):
    client = listener()
    client.finish()
    assert client.receive(frame("Metadata", duration=length, channels=1)) == [ListenEnd()]


def test_an_error():
    with pytest.raises(ProviderFailed) as caught:
        listener().receive(frame("Error", variant="NET-0001", description="bad key a-secret", message="no"))
    assert caught.value.upstream_code == "NET-0001"
    assert "a-secret" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", '{"type":7}', b"\xff", '{"type":"Results","channel":7}', "[" * 100_000])
def test_malformed(text):
    with pytest.raises(UpstreamProtocolError):
        listener().receive(text)


def test_every_beginning_of_a_frame_is_malformed():
    for text in FRAMES:
        for at in range(len(text)):
            with pytest.raises(UpstreamProtocolError):
                listener().receive(text[:at])


def test_unknown_types_and_members_are_skipped():
    assert listener().receive('{"type":"New","channel":[0,1],"more":{"x":1}}') == []
    assert listener().receive(results("", is_final=False, more=7)) == []


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(0, 300), st.binary(max_size=3)), max_size=8))
def test_spoilt_frames_are_a_provider_error_or_events(frames):
    client = listener(keep_raw=True)
    try:
        for text, at, rubbish in frames:
            data = text.encode()
            client.receive(data[:at] + rubbish + data[at + len(rubbish) :])
    except ProviderError:
        pass


def test_a_caller_without_interim_results_gets_none():
    quiet = listener(interims=False)
    assert quiet.receive(results("a", is_final=False)) == []
    assert [type(event) for event in quiet.receive(results("a", is_final=True))] == [Final]
    own = listener(interims=False, keep_raw=True)  # it has asked the vendor for them itself
    assert [type(event) for event in own.receive(results("a", is_final=False))] == [Interim]
