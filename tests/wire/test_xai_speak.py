"""xAI's speech: bodies, settings of both roles, and the utterances of a session."""

from __future__ import annotations

import json
from base64 import b64encode

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire import xai_speak
from gw.wire.live_messages import Text, TtsCommand
from gw.wire.xai_speak import XaiSpeakClient, XaiSpeakServer

REQUEST = SpeakRequest(model="grok-tts", text="Hello.", voice="ara", format=AudioFormat(encoding="mp3"), dialect="openai")
LIVE = SpeakLiveRequest(model="grok-tts", voice="ara", format=PCM_24K)
DONE = '{"type":"audio.done","trace_id":"t"}'
SECOND = bytes(48_000)


def client() -> XaiSpeakClient:
    return XaiSpeakClient("p", LIVE, ("secret",))


def sent(speaker):
    """The frames queued since the last look: text, or the type of a command."""
    frames = []
    while (frame := speaker.next_frame()) is not None:
        members = json.loads(frame)
        frames.append(members.get("delta", members["type"]))
    return frames


def audio(data=SECOND, characters="", times=()):
    stamps = {"audio_timestamps": {"graph_chars": list(characters), "graph_times": times}} if characters else {}
    return json.dumps({"type": "audio.delta", "delta": b64encode(data).decode(), **stamps})


def due(speaker):
    events, speaker.due = speaker.due, []
    return events


@pytest.mark.parametrize(
    ("changes", "members"),
    [
        ({}, {"output_format": {"codec": "mp3", "sample_rate": 24_000, "bit_rate": 128_000}}),
        ({"format": AudioFormat(encoding="mp3", sample_rate_hz=44_100, kbit_per_s=192)},
         {"output_format": {"codec": "mp3", "sample_rate": 44_100, "bit_rate": 192_000}}),
        ({"format": PCM_24K, "language": "pt", "speed": 1.25},
         {"output_format": {"codec": "pcm", "sample_rate": 24_000}, "language": "pt-PT", "speed": 1.25}),
        ({"format": AudioFormat(encoding="wav"), "language": "es-mx", "speed": 3.0},
         {"output_format": {"codec": "wav", "sample_rate": 24_000}, "language": "es-MX"}),
    ],
)  # fmt: skip
def test_the_body(changes, members):
    made = msgspec.json.decode(xai_speak.body(attrs.evolve(REQUEST, **changes)))
    assert made == {"text": "Hello.", "language": "auto", "voice_id": "ara"} | members


def test_a_request_without_a_voice_has_the_vendors():
    assert "voice_id" not in msgspec.json.decode(xai_speak.body(attrs.evolve(REQUEST, voice="")))
    assert "voice=" not in xai_speak.live_path(attrs.evolve(LIVE, voice=""))


def test_a_server_reads_what_the_client_writes():
    request = attrs.evolve(REQUEST, language="fr-CA", speed=0.7)
    assert xai_speak.parse_body(xai_speak.body(request)) == attrs.evolve(
        request, language="fr", dialect="xai", format=AudioFormat(encoding="mp3", sample_rate_hz=24_000, kbit_per_s=128)
    )
    live = attrs.evolve(LIVE, language="ar", speed=1.5, format=AudioFormat(encoding="mulaw", sample_rate_hz=8_000))
    path, _, query = xai_speak.live_path(live).partition("?")
    assert path == "/tts"
    assert xai_speak.parse_query(query.encode()) == attrs.evolve(live, language="ar-EG", want_timings=True, dialect="xai")


def test_languages_speeds_and_rates():
    assert [xai_speak.language_of(name) for name in ("en-US", "PT_br", "tlh", None)] == ["en", "pt-BR", None, None]
    assert [xai_speak.takes_speed(speed) for speed in (0.7, 1.5, 0.6, None)] == [True, True, False, False]
    formats = [{"kbit_per_s": 192}, {"kbit_per_s": 320}, {"channels": 2}]
    assert [xai_speak.makes_mp3(AudioFormat(encoding="mp3", **more)) for more in formats] == [True, False, False]


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"text": ""}, "text"), ({"text": "a" * 15_001}, "text"), ({"language": "tlh"}, "language"), ({"speed": 2}, "speed"),
        ({"output_format": {"codec": "opus"}}, "encoding"), ({"output_format": {"codec": "pcm", "sample_rate": 11_025}}, "sample_rate"),
        ({"output_format": {"codec": "pcm", "bit_rate": 128_000}}, "bit_rate"),
    ],
)  # fmt: skip
def test_bodies_that_the_vendor_refuses(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        xai_speak.parse_body(json.dumps({"text": "a", "language": "en"} | members).encode())
    assert caught.value.param == param
    with pytest.raises(ClientProtocolError):
        xai_speak.parse_body(b'{"text":"a"}')


@pytest.mark.parametrize(
    ("query", "param"), [("codec=mp3", "encoding"), ("sample_rate=1", "sample_rate"), ("speed=fast", "speed"), ("language=x", "language")]
)
def test_settings_of_a_session_that_the_vendor_refuses(query, param):
    with pytest.raises(ClientProtocolError) as caught:
        xai_speak.parse_query(query.encode())
    assert caught.value.param == param


def test_utterances_follow_each_other():
    speaker = client()
    speaker.text(" ")
    assert sent(speaker) == []
    speaker.text("One ")
    speaker.flush()
    speaker.text("two.")
    speaker.flush()
    assert sent(speaker) == [" One ", "text.done"]
    assert speaker.receive(audio(SECOND, "One", [[0.0, 0.1], [0.1, 0.2], [0.2, 0.4]])) == [AudioChunk(data=SECOND)]
    assert speaker.receive(DONE) == [WordTiming(word="One", start_s=0.0, end_s=0.4), Flushed()]
    assert sent(speaker) == ["two.", "text.done"]
    first, second = speaker.receive(audio(SECOND, "two. ", [[0.0, 0.1], [0.1, 0.2], [0.2, 0.3], [0.3, 0.4], [0.4, 0.4]]))
    assert (first, second) == (WordTiming(word="two.", start_s=1.0, end_s=1.4), AudioChunk(data=SECOND))
    speaker.finish()
    assert sent(speaker) == []
    assert speaker.receive(DONE) == [Flushed()]
    assert due(speaker) == [SpeakEnd()]
    assert speaker.ended


def test_words_are_sent_whole():
    speaker = client()
    for piece in ("Hel", "lo the", "re. 你", "好"):
        speaker.text(piece)
    assert sent(speaker) == ["Hello ", "there. 你", "好"]
    speaker.text("En")
    speaker.text("d")
    speaker.flush()
    assert sent(speaker) == ["End", "text.done"]


def test_the_end_speaks_what_is_left():
    speaker = client()
    speaker.text("One")
    speaker.finish()
    speaker.finish()
    assert sent(speaker) == ["One", "text.done"]
    assert speaker.receive(DONE) == [SpeakEnd()]
    assert speaker.ended


def test_a_flush_without_words_is_answered_at_once():
    speaker = client()
    speaker.text("...")
    speaker.flush()
    assert due(speaker) == [Flushed()]
    assert sent(speaker) == []
    assert speaker.receive(DONE) == []


def test_an_interruption():
    speaker = client()
    speaker.clear()
    assert sent(speaker) == []
    speaker.text("One")
    speaker.flush()
    speaker.text("two")
    speaker.receive(audio())
    speaker.clear()
    speaker.text("Three")
    speaker.flush()
    assert sent(speaker) == ["One", "text.done", "text.clear", "Three", "text.done"]
    assert speaker.receive(audio()) == speaker.receive(DONE) == []
    assert speaker.receive(xai_speak.cleared()) == []
    timed = speaker.receive(audio(SECOND, "Three ", [[0.0, 0.1]] * 6))
    assert timed == [WordTiming(word="Three", start_s=1.0, end_s=1.1), AudioChunk(data=SECOND)]
    assert speaker.receive(DONE) == [Flushed()]
    speaker.text("Four")
    speaker.finish()
    speaker.clear()
    assert due(speaker) == [SpeakEnd()]


def test_frames_that_cannot_be():
    for frame in ('{"type":', '{"type":"audio.delta","delta":"*"}'):
        with pytest.raises(UpstreamProtocolError):
            client().receive(frame)
    with pytest.raises(ProviderFailed) as caught:
        client().receive(xai_speak.error_frame("no secret"))
    assert "secret" not in caught.value.detail
    assert client().receive('{"type":"new"}') == []
    (word, chunk) = client().receive(audio(SECOND, "a ", [[1e308, 1e308], [0.0, 0.0]]))
    assert (word.start_s, chunk.data) == (1e7, SECOND)
    assert client().receive(audio(SECOND, "ab", [[0.0, 0.1]])) == [AudioChunk(data=SECOND)]


def test_the_server():
    server = XaiSpeakServer(timestamps=True)
    frames = ('{"type":"text.delta","delta":"a"}', '{"type":"text.done"}', '{"type":"text.clear"}')
    assert [server.receive(frame)[0] for frame in frames] == [Text("a"), TtsCommand.FLUSH, TtsCommand.CLEAR]
    with pytest.raises(ClientProtocolError):
        server.receive('{"type":"text.other"}')
    word = WordTiming(word="ab", start_s=0.0, end_s=0.2)
    speaker = client()
    speaker.text("ab")
    speaker.flush()
    read = [event for frame in server.encode([word, AudioChunk(data=SECOND), Flushed()]) for event in speaker.receive(frame)]
    assert read == [word, AudioChunk(data=SECOND), Flushed()]
