"""Transcription by turns, the server's side: what clients insist on, and against our own client's side."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_16K
from gw.types.stt import Final, Interim, ListenEnd, SpeechStarted, UtteranceEnd, VendorFrame, Word
from gw.wire.deepgram_flux_listen import FluxListenClient, FluxListenServer, parse_query
from gw.wire.deepgram_listen import by_turns
from gw.wire.live_messages import Audio, Control, DirectReply, Forward

HI = Word(text="Hi", start_s=0.25, end_s=0.5, confidence=0.9)


def server() -> FluxListenServer:
    return FluxListenServer(request_id="r")


def decoded(frames) -> list[dict]:
    return [msgspec.json.decode(text) for text in frames]


def events_of(frames) -> list[str]:
    return [frame["event"] for frame in decoded(frames)]


def test_a_query_is_read():
    request = parse_query(
        b"model=m&encoding=linear16&sample_rate=16000&eot_threshold=0.8&keyterm=a+b&keyterm=c&language_hint=de&token=x"
    )
    assert (request.model, request.format, request.language, request.keyterms) == ("m", PCM_16K, "de", ("a b", "c"))
    assert request.interim_results
    assert by_turns(request)
    assert ("eot_threshold", "0.8") in request.options
    assert "token" not in dict(request.options)
    assert parse_query(b"language_hint=de&language_hint=en").language is None
    with pytest.raises(ClientProtocolError) as caught:
        parse_query(b"encoding=mp3")
    assert caught.value.param == "encoding"


def test_client_frames():
    side = server()
    assert side.receive(b"ab") == (Audio(b"ab"),)
    assert side.receive(b"") == ()
    assert side.receive('{"type":"ForceEndTurn"}') == (Control.FLUSH,)
    assert side.receive('{"type":"CloseStream"}') == (Control.FINISH,)
    assert side.receive('{"type":"New"}') == (Forward('{"type":"New"}'),)
    for text in ("", "{", "[]", '{"type":7}', "[" * 100_000):
        with pytest.raises(ClientProtocolError):
            side.receive(text)


def test_a_session_in_the_order_of_the_state_machine():
    side = server()
    frames = [
        *side.opening(),
        *side.encode([SpeechStarted(at_s=0.25)]),
        *side.encode([Interim(text="Hi", start_s=0.25, end_s=0.5, words=(HI,))]),
        *side.encode([Final(text="Hi there.", start_s=0.25, end_s=1.0), UtteranceEnd(at_s=1.25)]),
        *side.encode([Final(text="Bye", start_s=2.0, end_s=2.5, language="en")]),
        *side.encode([Interim(text="now", start_s=2.5, end_s=3.0, language="en")]),
        *side.encode([ListenEnd()]),
    ]
    connected, *turns = decoded(frames)
    assert (connected["type"], connected["request_id"]) == ("Connected", "r")
    assert [frame["sequence_id"] for frame in (connected, *turns)] == list(range(len(frames)))
    assert [(frame["event"], frame["turn_index"], frame["transcript"]) for frame in turns] == [
        ("StartOfTurn", 0, ""), ("Update", 0, "Hi"), ("EndOfTurn", 0, "Hi there."),
        ("StartOfTurn", 1, ""), ("Update", 1, "Bye"), ("Update", 1, "Bye now"), ("EndOfTurn", 1, "Bye"),
    ]  # fmt: skip
    assert turns[1]["words"] == [{"word": "Hi", "start": 0.25, "end": 0.5, "confidence": 0.9}]
    assert turns[2]["words"] == [{"word": "Hi", "confidence": 0.0}, {"word": "there.", "confidence": 0.0}]
    assert (turns[2]["audio_window_start"], turns[2]["audio_window_end"]) == (0.25, 1.25)
    assert (turns[2]["trigger"], turns[2]["end_of_turn_confidence"]) == ("model", 1.0)
    assert "trigger" not in turns[1]
    assert "languages" not in turns[2]
    assert turns[5]["languages"] == ["en"]
    assert turns[6]["audio_window_end"] == 3.0


def test_silence_has_no_frames():
    side = server()
    assert side.encode([UtteranceEnd(at_s=1.0), Interim(text=""), Final(text=""), ListenEnd()]) == []
    assert events_of(side.encode([SpeechStarted(at_s=1.0), UtteranceEnd(at_s=2.0)])) == ["StartOfTurn", "EndOfTurn"]


def test_a_turn_that_was_forced():
    side = server()
    side.receive('{"type":"ForceEndTurn"}')   # no turn is open
    natural = decoded(side.encode([Final(text="a", end_s=1.0), UtteranceEnd(at_s=1.0)]))[-1]
    side.encode([Interim(text="b", start_s=1.0, end_s=1.5)])
    side.receive('{"type":"ForceEndTurn"}')
    forced = decoded(side.encode([Final(text="b", start_s=1.0, end_s=2.0), UtteranceEnd(at_s=2.0)]))[-1]
    assert (natural["trigger"], forced["trigger"]) == ("model", "manual")


def test_frames_of_the_same_protocol_go_out_as_they_came_and_another_goes_on_after_them():
    side = server()
    side.opening()
    assert side.encode([SpeechStarted(at_s=0.5, raw="{1}"), Interim(text="a", start_s=0.5, end_s=0.75)]) == ["{1}"]
    assert side.encode([VendorFrame(raw="{2}")]) == ["{2}"]
    assert side.encode([Final(text="a", end_s=1.0, raw="{3}"), UtteranceEnd(at_s=1.0)]) == ["{3}"]
    assert side.encode([SpeechStarted(at_s=1.5, raw="{4}")]) == ["{4}"]
    update, end = decoded(side.encode([Interim(text="b", start_s=1.5, end_s=2.0), Final(text="b", end_s=2.0), UtteranceEnd(at_s=2)]))
    assert (update["event"], update["turn_index"], update["sequence_id"]) == ("Update", 1, 5)
    assert (end["event"], end["turn_index"], end["transcript"]) == ("EndOfTurn", 1, "b")


def test_settings_in_mid_session():
    side = server()
    frame = '{"type":"Configure","thresholds":{"eot_threshold":0.9},"keyterms":["a"]}'
    forward, reply = side.receive(frame)
    assert forward == Forward(frame)
    assert isinstance(reply, DirectReply)
    (done,) = decoded([reply.frame])
    assert (done["type"], done["thresholds"], done["keyterms"]) == ("ConfigureSuccess", {"eot_threshold": 0.9}, ["a"])
    with pytest.raises(ClientProtocolError):
        side.receive('{"type":"Configure","thresholds":7}')


@given(st.lists(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12), max_size=6), st.booleans())
def test_any_transcript_is_read_back(texts, closes):
    """The last turn may be cut short by the end of the session."""
    side, client = server(), FluxListenClient("p")
    frames = [*side.opening()]
    for n, text in enumerate(texts):
        frames += side.encode([Interim(text=text, start_s=n, end_s=n + 0.5)])
        if n + 1 < len(texts) or not closes:
            frames += side.encode([Final(text=text, start_s=n, end_s=n + 0.75), UtteranceEnd(at_s=n + 0.75)])
    client_events = [event for frame in frames for event in client.receive(frame)]
    client.finish()
    client_events += client.closed()
    assert [event.text for event in client_events if isinstance(event, Final)] == texts
    assert sum(isinstance(event, UtteranceEnd) for event in client_events) == len(texts)


@given(st.one_of(st.binary(max_size=40), st.text(max_size=40)))
def test_any_frame_is_understood_or_refused(frame):
    with suppress(ClientProtocolError):
        server().receive(frame)
