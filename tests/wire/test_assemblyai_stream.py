"""AssemblyAI's live transcription: golden sessions, what is asked, and both sides against each other."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qs, parse_qsl, urlsplit

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import (
    ClientProtocolError,
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.types.usage import Usage
from gw.wire import assemblyai_stream as stream
from gw.wire.assemblyai_stream import AssemblyListenClient, AssemblyListenServer
from gw.wire.convert import CannotConvert
from gw.wire.live_messages import Audio, Control, Forward
from tests.fakes.golden import golden

FORMATTED = golden("assemblyai/listen_formatted").decode().splitlines()
PRO = golden("assemblyai/listen_pro").decode().splitlines()


def listener(fmt=PCM_16K, *, keep_raw=False, **request):
    return AssemblyListenClient(
        "p", ListenRequest(model="m", format=fmt, **request), keep_raw=keep_raw, secrets=("a-secret",)
    )


def server(query=b"format_turns=true", **more):
    return AssemblyListenServer(stream.parse_query(query), session_id="s-1", expires_at=1_795_230_000, elapsed_s=lambda: 3.4, **more)


def received_events(client, frames):
    return [event for frame in frames for event in client.receive(frame)]


def turn(order: int, text: str, *, end: bool, formatted: bool, **more: object) -> str:
    words = [{"text": w, "start": 0, "end": 10, "confidence": 0.9, "word_is_final": True} for w in text.split()]
    decoded = {"turn_order": order, "transcript": text, "end_of_turn": end, "turn_is_formatted": formatted, "words": words}
    return msgspec.json.encode({"type": "Turn", "end_of_turn_confidence": 0.5, **decoded, **more}).decode()


def decoded(frames: list[str]) -> list[dict]:
    return [msgspec.json.decode(frame) for frame in frames]


# ---- what the vendor says


def test_the_golden_session_whose_turns_end_twice():
    client = listener()
    events = received_events(client, FORMATTED)
    texts = [(type(e), e.text) for e in events if isinstance(e, Interim | Final)]
    assert texts == [
        (Interim, "good"), (Interim, "good mor"), (Interim, "good morning"), (Interim, "good morning"),
        (Final, "Good morning."), (Interim, "bye"), (Final, "bye"),
    ]  # fmt: skip
    final, ended = events[4:6]
    assert (final.start_s, final.end_s, ended) == (0.64, 1.36, UtteranceEnd(at_s=1.36))
    assert final.words[1] == Word(text="morning.", start_s=0.96, end_s=1.36, confidence=0.99)
    assert events[-1] == ListenEnd(usage=Usage(audio_seconds=9.0, source="vendor"))
    assert client.ended


def test_the_golden_session_of_a_newer_model():
    client = listener()
    events = received_events(client, PRO)
    assert [type(e) for e in events] == [SpeechStarted, Interim, Final, UtteranceEnd, ListenEnd]
    assert events[0] == SpeechStarted(at_s=1.12)
    assert (events[2].text, events[2].language) == ("Grüß Gott, 世界!", "de")
    assert [word.speaker for word in events[2].words] == ["A", "A", "B"]


@pytest.mark.parametrize("frames", [FORMATTED, PRO], ids=["formatted", "pro"])
def test_a_caller_of_the_same_dialect_gets_every_frame_but_the_greeting(frames):
    client = listener(keep_raw=True, dialect="assemblyai", options=(("format_turns", "True"),))
    events = received_events(client, frames)
    assert [e.raw for e in events if e.raw is not None] == frames[1:]
    assert [e.text for e in events if isinstance(e, Final)] == [
        e.text for e in received_events(listener(), frames) if isinstance(e, Final)
    ]


def test_without_formatting_a_turn_ends_at_once():
    client = listener(dialect="assemblyai", options=(("sample_rate", "16000"),))
    events = received_events(client, FORMATTED)
    assert [e.text for e in events if isinstance(e, Final)] == ["good morning", "bye"]


def test_an_end_that_is_told_again_is_no_second_final():
    client = listener(keep_raw=True)
    end = turn(0, "Bye.", end=True, formatted=True)
    assert [type(e) for e in client.receive(end)] == [Final, UtteranceEnd]
    assert client.receive(end) == [VendorFrame(raw=end)]
    assert client.receive(turn(1, "hi", end=False, formatted=False))[0].text == "hi"


def test_a_turn_whose_formatted_form_never_comes():
    client = listener()
    client.receive(turn(0, "bye", end=True, formatted=False))
    events = client.receive(turn(1, "and", end=False, formatted=False))
    assert [(type(e), getattr(e, "text", "")) for e in events] == [(Final, "bye"), (UtteranceEnd, ""), (Interim, "and")]


def test_empty_turns_say_nothing():
    client = listener()
    assert client.receive(turn(0, "", end=False, formatted=False)) == []
    assert client.receive(turn(0, "", end=True, formatted=False)) == []
    assert client.receive(turn(0, "", end=True, formatted=True)) == []


def test_no_interims_for_who_wants_none():
    client = listener(interim_results=False)
    assert not any(isinstance(e, Interim) for e in received_events(client, FORMATTED))
    same = listener(interim_results=False, keep_raw=True)
    assert [e.raw for e in received_events(same, FORMATTED) if e.raw is not None] == FORMATTED[1:]


def test_an_unknown_speaker_is_none():
    (interim,) = listener().receive(turn(0, "hi", end=False, formatted=False, speaker_label="UNKNOWN"))
    assert interim.words[0].speaker is None


def test_what_is_unknown_is_skipped():
    client = listener()
    assert client.receive('{"type":"New","words":7,"error":{"a":1}}') == []
    assert client.receive('{"type":"SpeechStarted","timestamp":10,"new":[{}]}') == [SpeechStarted(at_s=0.01)]
    raw = '{"type":"New","words":7}'
    assert listener(keep_raw=True).receive(raw) == [VendorFrame(raw=raw)]


@pytest.mark.parametrize(
    "frame",
    ["", "{", "[]", "null", "7", '{"type":1}', '{"type":"Turn","words":7}', '{"type":"Turn","turn_order":"x"}', b"\xff"],
)
def test_what_is_malformed(frame):
    with pytest.raises(UpstreamProtocolError):
        listener().receive(frame)


@pytest.mark.parametrize("frame", [FORMATTED[4], PRO[5]], ids=["formatted", "pro"])
def test_a_frame_cut_anywhere(frame):
    for at in range(len(frame)):
        with pytest.raises(UpstreamProtocolError):
            listener(keep_raw=True).receive(frame[:at].encode())


@pytest.mark.parametrize(
    ("code", "error"),
    [
        (1008, ProviderFailed), (1013, ProviderFailed), (3005, ProviderFailed), (4001, ProviderFailed),
        (4002, ProviderFailed), (4003, ProviderFailed), (3009, RateLimitError), (4102, RateLimitError),
        (3006, ProviderRejected), (3007, ProviderRejected), (3008, ProviderRejected), (None, ProviderFailed),
    ],
)  # fmt: skip
def test_errors(code, error):
    with pytest.raises(ProviderError) as caught:
        listener().receive(stream.error_frame(code, "no good: a-secret"))
    assert type(caught.value) is error
    assert caught.value.retryable
    assert "a-secret" not in caught.value.message
    assert "no good" in caught.value.message


# ---- what the client says


def query(request: ListenRequest, model: str = "universal-3-6-pro") -> dict[str, list[str]]:
    path, _, fields = stream.path_of(request, model).partition("?")
    assert path == "/v3/ws"
    return parse_qs(fields)


def test_the_address():
    request = ListenRequest(
        model="m", format=MULAW_8K, language="en-GB", endpointing_ms=700, keyterms=("a b", "ü&"), diarize=True
    )
    assert query(request) == {
        "sample_rate": ["8000"], "encoding": ["pcm_mulaw"], "speech_model": ["universal-3-6-pro"],
        "format_turns": ["true"], "language_codes": ['["en"]'], "max_turn_silence": ["700"],
        "keyterms_prompt": ['["a b","ü&"]'], "speaker_labels": ["true"],
    }  # fmt: skip
    assert "language_codes" not in query(ListenRequest(model="m", format=PCM_16K, language="multi"))


def test_the_address_for_a_caller_of_the_same_dialect():
    requested = stream.parse_query(
        b"sample_rate=16000&speech_model=theirs&format_turns=True&prompt=a%20b&token=t-1&gw_session=s&encoding=pcm_s16le"
    )
    assert query(requested.request, "ours") == {
        "sample_rate": ["16000"], "encoding": ["pcm_s16le"], "speech_model": ["ours"], "format_turns": ["True"],
        "prompt": ["a b"],
    }  # fmt: skip


def test_audio_and_orders():
    client = listener()
    assert client.audio(bytes(640)) == []
    assert client.flush() == [bytes(1_600), stream.FORCE_ENDPOINT]
    assert client.flush() == [stream.FORCE_ENDPOINT]
    assert client.audio(bytes(3_200)) == [bytes(3_200)]
    assert client.forward('{"type":"KeepAlive"}') == '{"type":"KeepAlive"}'
    assert client.finish() == [stream.TERMINATE]


def test_a_format_that_is_not_taken():
    with pytest.raises(CannotConvert):
        listener(AudioFormat(encoding="opus"))


# ---- the server's side


def test_what_the_sdk_asks():
    requested = stream.parse_query(
        b"format_turns=True&keyterms_prompt=%5B%22a%22%2C+%22b%22%5D&sample_rate=16000"
        b"&speech_model=universal-streaming-english"
    )
    request = requested.request
    assert (request.model, request.format, request.keyterms) == ("universal-streaming-english", PCM_16K, ("a", "b"))
    assert requested.formatted
    assert not stream.parse_query(b"format_turns=False").formatted


@pytest.mark.parametrize(
    ("fields", "language"),
    [("language_codes=%5B%22es%22%5D", "es"), ("language_code=fr", "fr"), ("language_codes=%5B%22es%22,%22en%22%5D", "multi")],
)
def test_the_language_asked_for(fields, language):
    assert stream.parse_query(fields.encode()).request.language == language


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ("encoding=flac", "encoding"), ("sample_rate=0", "sample_rate"), ("sample_rate=x", "sample_rate"),
        ("sample_rate=%D9%A1", "sample_rate"), ("keyterms_prompt=a", "keyterms_prompt"),
        ("keyterms_prompt=%5B1%5D", "keyterms_prompt"), ("language_codes=%7B%7D", "language_codes"),
    ],
)  # fmt: skip
def test_a_query_that_is_none(fields, param):
    with pytest.raises(ClientProtocolError) as caught:
        stream.parse_query(fields.encode())
    assert caught.value.param == param


def test_client_frames():
    side = server()
    assert side.receive(b"\0\0") == (Audio(b"\0\0"),)
    assert side.receive(b"") == ()
    assert side.receive('{"type":"Terminate"}') == (Control.FINISH,)
    assert side.receive('{"type":"ForceEndpoint"}') == (Control.FLUSH,)
    assert side.receive('{"type":"KeepAlive"}') == (Forward('{"type":"KeepAlive"}'),)
    update = '{"type":"UpdateConfiguration","words":"x","keyterms_prompt":["a"]}'
    assert side.receive(update) == (Forward(update),)
    for bad in ("", "{", "[]", '{"type":1}'):
        with pytest.raises(ClientProtocolError):
            side.receive(bad)


def test_a_greeting_names_the_session():
    assert decoded(server().opening()) == [{"type": "Begin", "id": "s-1", "expires_at": 1_795_230_000}]


STRICT = {
    "type", "turn_order", "turn_is_formatted", "end_of_turn", "transcript", "end_of_turn_confidence", "words",
}  # fmt: skip


@pytest.mark.parametrize("formatted", [True, False])
def test_turns(formatted):
    side = server(b"format_turns=true" if formatted else b"")
    side.receive(bytes(64_000))
    events = [
        SpeechStarted(at_s=0.1),
        Interim(text="hel", start_s=0.1, end_s=0.2),
        Final(text="hello", start_s=0.1, end_s=0.3, language="en"),
        Interim(text="you", start_s=0.4, end_s=0.5),
        Final(text="you", start_s=0.4, end_s=0.6, words=(Word(text="you", start_s=0.4, end_s=0.6, speaker="1"),)),
        UtteranceEnd(at_s=0.6),
        Interim(text="bye", start_s=1.0, end_s=1.1),
    ]
    turns = [frame for event in events for frame in decoded(side.encode([event]))]
    assert all(turn.keys() >= STRICT for turn in turns)
    outline = [(t["turn_order"], t["transcript"], t["end_of_turn"], t["turn_is_formatted"]) for t in turns]
    ends = [(0, "hello you", True, False), (0, "hello you", True, True)] if formatted else [(0, "hello you", True, True)]
    assert outline == [
        (0, "hel", False, False), (0, "hello", False, False), (0, "hello you", False, False),
        (0, "hello you", False, False), *ends, (1, "bye", False, False),
    ]  # fmt: skip
    assert [word["word_is_final"] for word in turns[2]["words"]] == [True, False]
    assert turns[0]["words"] == [{"text": "hel", "start": 100, "end": 200, "confidence": 0.0, "word_is_final": False}]
    assert (turns[1]["language_code"], turns[4]["speaker_label"]) == ("en", "B")
    assert decoded(side.encode([ListenEnd()])) == [
        {"type": "Termination", "audio_duration_seconds": 2, "session_duration_seconds": 3}
    ]


def test_the_end_of_a_session_ends_its_turn():
    side = server(b"")
    side.encode([Final(text="bye")])
    assert [frame["type"] for frame in decoded(side.encode([ListenEnd()]))] == ["Turn", "Termination"]
    assert side.encode([UtteranceEnd(at_s=1.0)]) == []


def test_frames_of_the_same_dialect_go_out_as_they_are():
    events = [Final(text="x"), UtteranceEnd(at_s=0.0), Interim(text="y", raw='{"a":1}'), VendorFrame(raw=b'{"b":2}')]
    assert server().encode(events) == ['{"a":1}', '{"b":2}']


WORDS = st.text(st.characters(exclude_categories=("Cs", "Z", "C")), min_size=1, max_size=6)
SENTENCES = st.lists(st.lists(WORDS, min_size=1, max_size=4).map(" ".join), max_size=5)


@given(SENTENCES, st.booleans())
def test_the_client_decodes_what_the_server_encodes(sentences, formatted):
    query = f"sample_rate=16000&format_turns={formatted}".encode()
    side = server(query)
    request = attrs.evolve(stream.parse_query(query).request, keyterms=())
    client = AssemblyListenClient("p", request)
    events = received_events(client, side.opening())
    for text in sentences:
        sent = [Interim(text=text[:1]), Final(text=text, start_s=1.0, end_s=2.0), UtteranceEnd(at_s=2.0)]
        events += [event for one in sent for event in received_events(client, side.encode([one]))]
    events += received_events(client, side.encode([ListenEnd()]))
    assert [e.text for e in events if isinstance(e, Final)] == sentences
    assert sum(isinstance(e, UtteranceEnd) for e in events) == len(sentences)
    assert events[-1] == ListenEnd(usage=Usage(audio_seconds=3.0, source="vendor"))


@given(st.text() | st.binary())
def test_rubbish(frame):
    with suppress(ProviderError):   # and no other
        assert isinstance(listener(keep_raw=True).receive(frame), list)


def test_the_address_is_one():
    path = stream.path_of(ListenRequest(model="m", format=PCM_16K, keyterms=("a\r\n b #?&",)), "a/b c")
    parts = urlsplit(path)
    assert (parts.path, parts.fragment) == ("/v3/ws", "")
    assert dict(parse_qsl(parts.query))["speech_model"] == "a/b c"
