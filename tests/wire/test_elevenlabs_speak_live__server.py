"""Live speech of ElevenLabs, the server's side: what clients say, and what they are told."""

from __future__ import annotations

from base64 import b64decode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_16K, PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, WordTiming
from gw.wire.elevenlabs_speak_live import ElevenSpeakClient, ElevenSpeakServer, error_frame, parse_frame, parse_query
from gw.wire.live_messages import ContextText, TtsCommand


def message(context="c", text="", *, flush=False, finish=False, settings=()) -> ContextText:
    return ContextText(context=context, text=text, flush=flush, finish=finish, settings=settings)


SLOW = (("frame:voice_settings", '{"speed": 1}'),)
STEPS = (("frame:generation_config", '{"a":[1]}'),)
NEW = (("frame:new", "[1]"),)


def decoded(frames: list[str]) -> list[dict]:
    return [msgspec.json.decode(frame) for frame in frames]


def test_a_query():
    requested = parse_query("v", b"model_id=m&output_format=pcm_24000&language_code=de&auto_mode=true&gw_x=1&single_use_token=t")
    assert requested == SpeakLiveRequest(
        model="m", voice="v", format=PCM_24K, language="de", want_timings=True, dialect="elevenlabs",
        options=(("output_format", "pcm_24000"), ("auto_mode", "true")),
    )  # fmt: skip
    assert parse_query("v", b"").format == AudioFormat(encoding="mp3", sample_rate_hz=44_100, kbit_per_s=128)
    with pytest.raises(ClientProtocolError) as caught:
        parse_query("v", b"output_format=x")
    assert caught.value.param == "output_format"


@pytest.mark.parametrize(
    ("frame", "one", "many"),
    [
        ('{"text":" ","voice_settings":{"speed": 1}}', message("", " ", settings=SLOW), message("", " ", settings=SLOW)),
        ('{"text":"Hi ","try_trigger_generation":true}', message("", "Hi "), message("", "Hi ")),
        ('{"text":""}', message("", finish=True), message("")),
        ('{"text":"","context_id":"c"}', message(finish=True), message()),
        ('{"context_id":"c","flush":true}', message(flush=True), message(flush=True)),
        ('{"context_id":"c","close_context":true}', message(), message(finish=True)),
        ('{"close_socket":true}', TtsCommand.CLOSE, TtsCommand.CLOSE),
        ('{"text":" ","xi-api-key":"k","generation_config":{"a":[1]}}', message("", " ", settings=STEPS), message("", " ", settings=STEPS)),
        ('{"text":"é🎈","context_id":"c","new":[1]}', message(text="é🎈", settings=NEW), message(text="é🎈", settings=NEW)),
    ],
)
def test_what_a_client_says(frame, one, many):
    assert parse_frame(frame, many=False) == one
    assert parse_frame(frame, many=True) == many


@pytest.mark.parametrize("frame", ["", "[]", "x", '{"text":5}', '{"flush":"yes"}', b"\xff"])
def test_what_no_client_says(frame):
    with pytest.raises(ClientProtocolError):
        parse_frame(frame, many=True)


def test_audio_and_its_words():
    server = ElevenSpeakServer("c", PCM_16K)
    (first,) = decoded(server.encode([AudioChunk(data=bytes(3_200)), WordTiming(word="Hi", start_s=0.0, end_s=0.08)]))
    assert (first["contextId"], first["context_id"], first["isFinal"]) == ("c", "c", None)
    assert b64decode(first["audio"]) == bytes(3_200)
    assert first["alignment"]["chars"] == ["H", "i", " "]
    assert first["alignment"]["charStartTimesMs"] == [0, 40, 80]
    assert first["alignment"] == first["normalizedAlignment"]
    (second,) = decoded(server.encode([AudioChunk(data=b"ab"), WordTiming(word="x", start_s=0.2, end_s=0.3)]))
    assert second["alignment"]["charStartTimesMs"] == [100, 200]   # from where this frame's audio begins
    assert decoded(server.encode([AudioChunk(data=b"ab")]))[0]["alignment"] is None


def test_the_end():
    assert decoded(ElevenSpeakServer("c", PCM_16K).encode([SpeakEnd()])) == [
        {"audio": None, "isFinal": True, "contextId": "c", "context_id": "c"}
    ]
    assert decoded(ElevenSpeakServer(None, PCM_16K).encode([SpeakEnd()])) == [{"audio": None, "isFinal": True}]
    assert ElevenSpeakServer("c", PCM_16K).encode([Flushed()]) == []


def test_the_vendors_own_frames_go_out_under_our_names():
    raw = '{"audio":"YWI=","contextId":"gw-1","context_id":"gw-1","isFinal":true,"alignment":{"chars":["a"]},"new":5}'
    events = [AudioChunk(data=b"ab", raw=raw), WordTiming(word="a", start_s=0, end_s=1), SpeakEnd()]
    named = {"contextId": "c", "context_id": "c"}
    assert decoded(ElevenSpeakServer("c", PCM_16K).encode(events)) == [
        {"audio": "YWI=", "isFinal": None, "alignment": {"chars": ["a"]}, "new": 5, **named},
        {"audio": None, "isFinal": True, **named},
    ]
    assert decoded(ElevenSpeakServer(None, PCM_16K).encode(events[:1])) == [
        {"audio": "YWI=", "isFinal": None, "alignment": {"chars": ["a"]}, "new": 5}
    ]


def test_an_error():
    assert msgspec.json.decode(error_frame("quota_exceeded", "m", 1008)) == {"message": "m", "error": "quota_exceeded", "code": 1008}
    assert msgspec.json.decode(error_frame("x", "m", 1011, "c"))["contextId"] == "c"


LETTERS = st.text(st.characters(categories=["L"]), min_size=1, max_size=9)


@given(st.lists(st.tuples(st.binary(min_size=2, max_size=40), LETTERS), min_size=1, max_size=6))
def test_our_client_reads_what_our_server_writes(timed_words):
    client = ElevenSpeakClient("p", SpeakLiveRequest(model="m", voice="v", format=PCM_16K))
    client.text("x ")
    client.finish()
    server = ElevenSpeakServer("gw-1", PCM_16K)
    results = []
    for at, (data, word) in enumerate(timed_words):
        events = [AudioChunk(data=data), WordTiming(word=word, start_s=at, end_s=at + 0.5)]
        for frame in server.encode(events):
            results += client.receive(frame)
    for frame in server.encode([SpeakEnd()]):
        results += client.receive(frame)
    assert b"".join(event.data for event in results if isinstance(event, AudioChunk)) == b"".join(data for data, _ in timed_words)
    assert [event.word for event in results if isinstance(event, WordTiming)] == [word for _, word in timed_words]
    assert results[-1] == SpeakEnd()
