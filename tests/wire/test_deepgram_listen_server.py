"""Live transcription, the server's side: what clients insist on, and against our own client's side."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError
from gw.types.audio import MULAW_8K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.types.usage import Usage
from gw.wire.deepgram_listen import DeepgramListenClient
from gw.wire.deepgram_listen_server import DeepgramListenServer, error_body, error_frame, parse_query
from gw.wire.live_messages import Audio, Control, Forward

RAW = b"model=m&encoding=linear16&sample_rate=16000"
ALL = RAW + b"&interim_results=true&vad_events=true&utterance_end_ms=1000"
WORD = Word(text="Hi,", start_s=0.25, end_s=0.5, confidence=0.9, speaker="2")
SESSION = [
    [SpeechStarted(at_s=0.25)],
    [Interim(text="hi", start_s=0.25, end_s=0.5)],
    [Final(text="Hi, Köln.", start_s=0.25, end_s=1.5, words=(WORD,), language="de", confidence=0.8), UtteranceEnd(at_s=1.5)],
    [Final(text="Bye.", start_s=2.0, end_s=2.5)],
    [UtteranceEnd(at_s=3.0)],
]


def server(query: bytes = ALL) -> DeepgramListenServer:
    return DeepgramListenServer(parse_query(query), request_id="r", created="2026-11-24T00:00:00Z")


def decoded(frames) -> list[dict]:
    return [msgspec.json.decode(text) for text in frames]


def test_a_query_is_read():
    requested = parse_query(
        b"model=nova-3&language=de&encoding=mulaw&sample_rate=8000&interim_results=True&endpointing=300&diarize=true"
        b"&keyterm=a+b&keyterm=K%C3%B6ln&keywords=w:2&token=x&gw_session=1&vad_events=&utterance_end_ms=1000"
    )
    request = requested.request
    assert (request.model, request.language, request.format, request.dialect) == ("nova-3", "de", MULAW_8K, "deepgram")
    assert (request.interim_results, request.endpointing_ms, request.diarize) == (True, 300, True)
    assert request.keyterms == ("a b", "Köln", "w")
    assert [name for name, _ in request.options].count("keyterm") == 2
    assert {"token", "gw_session"}.isdisjoint(dict(request.options))
    assert (requested.vad_events, requested.utterance_end) == (True, True)


def test_what_a_query_leaves_out():
    requested = parse_query(b"")
    assert requested.request.format == AudioFormat(encoding="unknown")
    assert (requested.request.model, requested.request.interim_results, requested.request.language) == ("", False, None)
    assert (requested.vad_events, requested.utterance_end) == (False, False)
    assert parse_query(b"endpointing=false").request.endpointing_ms is None
    assert parse_query(b"encoding=ogg-opus&channels=2").request.format == AudioFormat(encoding="ogg", channels=2)


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"encoding=speex9", "encoding"), (b"encoding=linear16", "sample_rate"), (b"encoding=alaw&sample_rate=99", "sample_rate"),
        (b"encoding=alaw&sample_rate=8k", "sample_rate"), (RAW + b"&channels=33", "channels"),
        (b"encoding=alaw&sample_rate=%D9%A8000", "sample_rate"),
    ],
)  # fmt: skip
def test_queries_that_are_refused(query, param):
    with pytest.raises(ClientProtocolError) as caught:
        parse_query(query)
    assert caught.value.param == param


def test_client_frames():
    side = server()
    assert side.receive(b"ab") == (Audio(b"ab"),)
    assert side.receive(b"") == (Control.FINISH,)
    assert side.receive('{"type":"Finalize"}') == (Control.FLUSH,)
    assert side.receive('{"type":"CloseStream"}') == (Control.FINISH,)
    assert side.receive('{"type":"KeepAlive","more":1}') == ()
    configure = '{"type":"Configure","keyterms":["a"]}'
    assert side.receive(configure) == (Forward(configure),)


@pytest.mark.parametrize("text", ["", "{", "[]", '{"type":7}', '{"x":1}', '"Finalize"', "[" * 100_000])
def test_malformed_frames(text):
    with pytest.raises(ClientProtocolError):
        server().receive(text)


def test_members_that_clients_require():
    (final,) = decoded(server().encode(SESSION[2])[:1])
    assert final["metadata"]["request_id"] == "r"
    assert (final["is_final"], final["speech_final"], final["from_finalize"]) == (True, True, False)
    assert (final["start"], final["duration"], final["channel_index"]) == (0.0, 1.5, [0, 1])
    alternative = final["channel"]["alternatives"][0]
    assert (alternative["transcript"], alternative["confidence"], alternative["languages"]) == ("Hi, Köln.", 0.8, ["de"])
    assert alternative["words"] == [
        {"word": "hi", "start": 0.25, "end": 0.5, "confidence": 0.9, "punctuated_word": "Hi,", "speaker": 2}
    ]


def test_only_what_was_asked_for():
    frames = [frame for events in SESSION for frame in server(RAW).encode(events)]
    assert {frame["type"] for frame in decoded(frames)} == {"Results"}
    assert all(frame["is_final"] for frame in decoded(frames))


def test_the_final_after_a_finalize_says_so():
    side = server()
    side.receive('{"type":"Finalize"}')
    interim, final, later = decoded(side.encode([SESSION[1][0], Final(text="a", end_s=1.0), Final(text="b", end_s=2.0)]))
    assert (interim["from_finalize"], final["from_finalize"], later["from_finalize"]) == (False, True, False)
    side.receive('{"type":"Finalize"}')
    assert decoded(side.encode([UtteranceEnd(at_s=3.0)]))[0]["from_finalize"] is True   # nothing was said


def test_times_are_of_one_stream():
    side = server()
    first, second = decoded(side.encode([Final(text="a", start_s=0.5, end_s=1.0), Final(text="b", start_s=1.75, end_s=2.0)]))
    assert (first["start"], first["duration"]) == (0.0, 1.0)
    assert (second["start"], second["duration"]) == (1.0, 1.0)


def test_the_end_reports_the_audio_received():
    side = server(RAW + b"&channels=2")
    side.receive(bytes(64_000))
    (end,) = decoded(side.encode([ListenEnd()]))
    assert (end["type"], end["duration"], end["channels"], end["created"]) == ("Metadata", 1.0, 2, "2026-11-24T00:00:00Z")
    assert len(end["sha256"]) == 64


def test_frames_of_the_same_dialect_go_out_as_they_came():
    side = server()
    events = [Final(text="a", end_s=1.0, raw='{"their":1}'), UtteranceEnd(at_s=1.0)]
    assert side.encode(events) == ['{"their":1}']
    assert side.encode([VendorFrame(raw='{"their":2}')]) == ['{"their":2}']


def test_our_own_client_reads_it_back():
    side, client = server(), DeepgramListenClient("p")
    side.receive(bytes(32_000))
    client.finish()
    received_events = [
        event for events in (*SESSION, [ListenEnd()]) for frame in side.encode(events) for event in client.receive(frame)
    ]
    assert received_events == [
        SpeechStarted(at_s=0.25),
        Interim(text="hi", start_s=0.0, end_s=0.5, confidence=0.0),
        Final(text="Hi, Köln.", start_s=0.25, end_s=1.5, words=(WORD,), language="de", confidence=0.8),
        UtteranceEnd(at_s=1.5),
        Final(text="Bye.", start_s=1.5, end_s=2.5, confidence=0.0),
        UtteranceEnd(at_s=3.0),
        ListenEnd(usage=Usage(audio_seconds=1.0, source="vendor")),
    ]


def test_errors():
    assert msgspec.json.decode(error_frame("busy", "no")) == {
        "type": "Error", "variant": "busy", "code": "busy", "description": "no", "message": "no"
    }  # fmt: skip
    body = msgspec.json.decode(error_body("c", "m", "r", provider="p"))
    assert (body["err_code"], body["category"], body["err_msg"], body["message"]) == ("c", "c", "m", "m")
    assert (body["request_id"], body["provider"]) == ("r", "p")


@given(st.text(max_size=30), st.floats(0, 1e6), st.floats(0, 1e6), st.booleans())
def test_any_transcript_is_read_back(text, start_s, length_s, ends):
    side, client = server(), DeepgramListenClient("p")
    sent = Final(text=text, start_s=start_s, end_s=start_s + length_s)
    received_events = [
        event
        for frame in side.encode([sent, UtteranceEnd(at_s=sent.end_s)] if ends else [sent])
        for event in client.receive(frame)
    ]
    assert [event.text for event in received_events if isinstance(event, Final)] == ([text] if text else [])
    assert sum(isinstance(event, UtteranceEnd) for event in received_events) == bool(text and ends)


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40)))
def test_any_frame_is_understood_or_refused(frame):
    with suppress(ClientProtocolError):
        server().receive(frame)
