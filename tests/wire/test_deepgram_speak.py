"""Speech over HTTP and WebSocket: both sides, and a golden session."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage
from gw.wire import deepgram_speak
from gw.wire.deepgram_speak import CLEAR, CLOSE, FLUSH, DeepgramSpeakClient, DeepgramSpeakServer
from gw.wire.live_messages import Text, TtsCommand
from tests.fakes.golden import golden

FRAMES = golden("deepgram/speak_live").decode().splitlines()
FLUSHED, CLEARED = FRAMES[1], FRAMES[3]
MODEL = "aura-2-thalia-en"


def speaker(**more) -> DeepgramSpeakClient:
    return DeepgramSpeakClient("p", secrets=("a-secret",), **more)


def query_of(path_and_query: str) -> list[tuple[str, str]]:
    path, _, query = path_and_query.partition("?")
    assert path == "/v1/speak"
    return parse_qsl(query, keep_blank_values=True)


def spoken(text: str) -> str:
    return msgspec.json.encode({"type": "Speak", "text": text}).decode()


def end(characters: int) -> SpeakEnd:
    return SpeakEnd(usage=Usage(characters=characters, source="measured"))


# ---- HTTP


@pytest.mark.parametrize(
    ("fmt", "fields"),
    [
        (PCM_24K, [("encoding", "linear16"), ("sample_rate", "24000"), ("container", "none")]),
        (MULAW_8K, [("encoding", "mulaw"), ("sample_rate", "8000"), ("container", "none")]),
        (AudioFormat(encoding="wav"), [("encoding", "linear16"), ("sample_rate", "24000"), ("container", "wav")]),
        (AudioFormat(encoding="wav", sample_rate_hz=8_000), [("encoding", "linear16"), ("sample_rate", "8000"), ("container", "wav")]),
        (AudioFormat(encoding="opus"), [("encoding", "opus"), ("container", "ogg")]),
        (AudioFormat(encoding="mp3"), [("encoding", "mp3")]),
        (AudioFormat(encoding="flac"), [("encoding", "flac")]),
        (AudioFormat(encoding="flac", sample_rate_hz=16_000), [("encoding", "flac"), ("sample_rate", "16000")]),
    ],
)
def test_the_form_that_is_asked_for(fmt, fields):
    request = SpeakRequest(model="m", text="a", format=fmt)
    assert query_of(deepgram_speak.http_path(request, MODEL)) == [("model", MODEL), *fields]


def test_a_speed_is_asked_for():
    request = SpeakRequest(model="m", text="a", format=PCM_24K, speed=1.25)
    assert query_of(deepgram_speak.http_path(request, MODEL))[-1] == ("speed", "1.25")


@pytest.mark.parametrize(
    ("model", "voice", "name"),
    [
        ("aura-2-thalia-en", "", "aura-2-thalia-en"),
        ("aura-2-thalia-en", "aura-2-apollo-en", "aura-2-apollo-en"),
        ("aura-2", "thalia", "aura-2-thalia-en"),
        ("aura-2-thalia-en", "alloy", "aura-2-thalia-en"),
    ],
)
def test_the_voice_is_part_of_the_model(model, voice, name):
    assert deepgram_speak.voice_model(model, voice) == name


def test_a_request_is_read():
    request = deepgram_speak.parse_http(b"model=m&encoding=mulaw&speed=1.2", msgspec.json.encode({"text": "Grüß „Gott“"}))
    assert (request.model, request.text, request.format, request.speed) == ("m", "Grüß „Gott“", MULAW_8K, 1.2)
    assert request.dialect == "deepgram"


@pytest.mark.parametrize(
    ("query", "fmt"),
    [
        (b"", AudioFormat(encoding="mp3")),
        (b"encoding=mp3&bit_rate=24000", AudioFormat(encoding="mp3", sample_rate_hz=22_050, kbit_per_s=24)),
        (b"encoding=linear16", AudioFormat(encoding="wav", sample_rate_hz=24_000)),
        (b"encoding=linear16&container=none&sample_rate=16000", PCM_16K),
        (b"encoding=opus", AudioFormat(encoding="ogg")),
        (b"encoding=opus&container=ogg", AudioFormat(encoding="ogg")),
        (b"encoding=flac", AudioFormat(encoding="flac")),
        (b"encoding=flac&sample_rate=16000", AudioFormat(encoding="flac", sample_rate_hz=16_000)),
        (b"encoding=alaw&container=none", AudioFormat(encoding="alaw", sample_rate_hz=8_000)),
    ],
)
def test_the_form_of_a_request(query, fmt):
    request = deepgram_speak.parse_http(query, b'{"text":"a"}')
    assert (request.format, request.in_wav) == (fmt, False)


@pytest.mark.parametrize("container", [b"", b"&container=wav"])
def test_telephone_audio_is_a_wav_unless_the_caller_wants_no_container(container):
    request = deepgram_speak.parse_http(b"encoding=mulaw" + container, b'{"text":"a"}')
    assert (request.format, request.in_wav) == (MULAW_8K, True)


@pytest.mark.parametrize(
    ("query", "body", "param"),
    [
        (b"", b"", None), (b"", b"[]", None), (b"", b'{"text":7}', None), (b"", b"\xff", None), (b"", b'{"text":""}', "text"),
        (b"encoding=mp7", b'{"text":"a"}', "encoding"), (b"speed=fast", b'{"text":"a"}', "speed"),
        (b"speed=nan", b'{"text":"a"}', "speed"), (b"speed=9", b'{"text":"a"}', "speed"),
        (b"encoding=linear16&sample_rate=0", b'{"text":"a"}', "sample_rate"),
        (b"sample_rate=24000", b'{"text":"a"}', "sample_rate"), (b"encoding=opus&sample_rate=48000", b'{"text":"a"}', "sample_rate"),
        (b"container=wav", b'{"text":"a"}', "container"), (b"encoding=flac&container=none", b'{"text":"a"}', "container"),
        (b"encoding=opus&container=none", b'{"text":"a"}', "container"), (b"encoding=mulaw&container=ogg", b'{"text":"a"}', "container"),
        (b"encoding=mp3&bit_rate=64000", b'{"text":"a"}', "bit_rate"),
    ],
)  # fmt: skip
def test_requests_that_are_none(query, body, param):
    with pytest.raises(ClientProtocolError) as caught:
        deepgram_speak.parse_http(query, body)
    assert caught.value.param == param


# ---- the socket, the client's side


def test_the_address_of_a_session():
    request = SpeakLiveRequest(model="m", format=PCM_16K, speed=0.9, voice="aura-2-apollo-en")
    assert query_of(deepgram_speak.live_path(request, MODEL)) == [
        ("model", "aura-2-apollo-en"), ("encoding", "linear16"), ("sample_rate", "16000"), ("speed", "0.9")
    ]  # fmt: skip
    own = (("model", "x"), ("encoding", "alaw"), ("speed", "1.1"), ("mip_opt_out", "true"), ("container", "none"))
    same = SpeakLiveRequest(model="m", format=MULAW_8K, speed=1.1, dialect="deepgram", options=own)
    assert query_of(deepgram_speak.live_path(same, MODEL)) == [
        ("model", MODEL), ("encoding", "mulaw"), ("sample_rate", "8000"), ("speed", "1.1"), ("mip_opt_out", "true")
    ]  # fmt: skip


def test_a_session():
    client = speaker()
    assert client.receive(FRAMES[0]) == []
    assert client.text("Grüß ") == [spoken("Grüß ")]
    assert client.text("Gott.") == [spoken("Gott.")]
    assert client.flush() == [FLUSH]
    assert client.receive(b"ab") == [AudioChunk(data=b"ab")]
    assert client.receive(b"") == []
    assert client.receive(FLUSHED) == [Flushed()]
    assert client.receive(FRAMES[2]) == []
    assert client.text("Bye") == [spoken("Bye")]
    assert client.finish() == [FLUSH]
    assert client.receive(b"cd") == [AudioChunk(data=b"cd")]
    assert client.receive(FLUSHED) == [end(13)]
    assert client.ended


def test_the_end_when_all_is_spoken():
    client = speaker()
    client.text("a")
    client.flush()
    client.receive(FLUSHED)
    assert client.closed() == []
    assert client.finish() == [CLOSE]
    assert client.closed() == [end(1)]


def test_the_end_waits_for_a_flush_that_was_asked_for():
    client = speaker()
    client.text("a")
    client.flush()
    assert client.finish() == []
    assert client.closed() == []   # cut off
    assert client.receive(FLUSHED) == [Flushed(), end(1)]


def test_a_clear_answers_the_flushes_before_it():
    client = speaker()
    client.text("abc")
    client.flush()
    assert client.clear() == [CLEAR]
    client.text("de")
    assert client.finish() == [FLUSH]
    assert client.receive(CLEARED) == []
    assert client.receive(b"de") == [AudioChunk(data=b"de")]
    assert client.receive(FLUSHED) == [end(5)]


def test_a_clear_without_text_after_it():
    client = speaker()
    client.text("abc")
    client.flush()
    client.clear()
    assert client.finish() == []
    assert client.receive(CLEARED) == [end(3)]


def test_a_flush_that_is_answered_before_the_clear():
    client = speaker()
    client.text("abc")
    client.flush()
    client.clear()
    client.clear()
    assert client.receive(FLUSHED) == []   # its text was dropped, and it must not answer the next flush
    client.text("d")
    client.flush()
    assert client.receive(CLEARED) == client.receive(CLEARED) == client.receive(CLEARED) == []
    assert client.finish() == []
    assert client.receive(FLUSHED) == [Flushed(), end(4)]


def test_a_caller_of_the_same_dialect():
    client = speaker(keep_raw=True)
    assert client.receive(FRAMES[0]) == [VendorFrame(raw=FRAMES[0])]
    assert client.forward(spoken("abc")) == [spoken("abc")]
    assert client.forward('{"type":"Flush"}') == [FLUSH]
    assert client.receive(FLUSHED) == [Flushed(raw=FLUSHED)]
    assert client.forward('{"type":"Clear"}') == [CLEAR]
    assert client.receive(CLEARED) == [VendorFrame(raw=CLEARED)]
    assert client.forward('{"type":"New"}') == ['{"type":"New"}']
    assert client.forward("{") == []
    client.forward(spoken("d"))
    assert client.forward('{"type":"Close"}') == [FLUSH]
    assert client.receive(FLUSHED) == [end(4)]


def test_an_error():
    with pytest.raises(ProviderFailed) as caught:
        speaker().receive('{"type":"Error","description":"bad key a-secret","code":"NET-0001"}')
    assert caught.value.upstream_code == "NET-0001"
    assert "a-secret" not in str(caught.value)


@pytest.mark.parametrize("code", ["DATA-0000", "DATA-0002", "MESSAGE-0000", "BIG-0000"])
def test_an_error_of_what_was_sent(code):
    with pytest.raises(ProviderRejected) as caught:
        speaker().receive(f'{{"type":"Error","description":"a pause marker","code":"{code}"}}')
    assert (caught.value.fault, caught.value.upstream_status, caught.value.upstream_code) == ("request", 400, code)


@pytest.mark.parametrize("text", ["", "[]", '{"type":7}', "[" * 100_000])
def test_malformed(text):
    with pytest.raises(UpstreamProtocolError):
        speaker().receive(text)


def test_every_beginning_of_a_frame_is_malformed():
    for text in FRAMES:
        for at in range(len(text)):
            with pytest.raises(UpstreamProtocolError):
                speaker().receive(text[:at])


# ---- the socket, the server's side


def test_a_query_is_read():
    request = deepgram_speak.parse_live_query(b"model=m&encoding=alaw&speed=1.5&token=x")
    assert (request.model, request.format) == ("m", AudioFormat(encoding="alaw", sample_rate_hz=8_000))
    assert (request.speed, request.dialect) == (1.5, "deepgram")
    assert "token" not in dict(request.options)
    assert deepgram_speak.parse_live_query(b"").format == PCM_24K


@pytest.mark.parametrize("query", [b"encoding=mp3", b"sample_rate=1", b"sample_rate=x", b"speed=0", b"container=wav"])
def test_queries_that_are_refused(query):
    with pytest.raises(ClientProtocolError) as caught:
        deepgram_speak.parse_live_query(query)
    assert caught.value.param == query.partition(b"=")[0].decode()


def test_client_frames():
    side = DeepgramSpeakServer(request_id="r", model="m")
    assert side.receive(spoken("a")) == (Text("a"),)
    assert side.receive(spoken("")) == ()
    assert side.receive(FLUSH) == (TtsCommand.FINISH,)
    assert side.receive(CLEAR) == (TtsCommand.CLEAR,)
    assert side.receive(CLOSE) == (TtsCommand.CLOSE,)
    assert side.receive("{}") == ()
    for frame in ("", "[]", '{"type":7}', b"ab"):
        with pytest.raises(ClientProtocolError):
            side.receive(frame)


def test_server_frames():
    side = DeepgramSpeakServer(request_id="r", model="m")
    opening = msgspec.json.decode(side.opening())
    assert (opening["type"], opening["request_id"], opening["model_name"]) == ("Metadata", "r", "m")
    frames = side.encode([AudioChunk(data=b"ab"), AudioChunk(data=b""), Flushed(), end(1), VendorFrame(raw="{7}")])
    assert frames[0] == b"ab"
    assert msgspec.json.decode(frames[1]) == {"type": "Flushed", "sequence_id": 0}
    assert frames[2:] == ["{7}"]
    assert msgspec.json.decode(side.cleared()) == {"type": "Cleared", "sequence_id": 1}
    assert msgspec.json.decode(side.encode([Flushed()])[0])["sequence_id"] == 2
    assert msgspec.json.decode(deepgram_speak.error_frame("c", "m")) == {"type": "Error", "code": "c", "description": "m"}


@given(st.lists(st.one_of(st.text(min_size=1, max_size=8), st.none()), max_size=8))
def test_both_sides_agree(pieces):
    """None is a flush. Whatever was said is flushed once, and its end told once."""
    client, side = speaker(), DeepgramSpeakServer(request_id="r", model="m")
    events: list = []
    buffered = spoken_text = ""

    def exchange(frames):
        nonlocal buffered, spoken_text
        for frame in frames:
            match side.receive(frame):
                case (Text(text=text),):
                    buffered += text
                case (TtsCommand.FINISH,):
                    spoken_text, buffered = spoken_text + buffered, ""
                    for answer in side.encode([AudioChunk(data=b"x"), Flushed()]):
                        events.extend(client.receive(answer))
                case (TtsCommand.CLOSE,):
                    events.extend(client.closed())

    for piece in pieces:
        exchange(client.flush() if piece is None else client.text(piece))
    exchange(client.finish())
    sent = "".join(piece for piece in pieces if piece is not None)
    assert (spoken_text, events[-1]) == (sent, end(len(sent)))
    assert sum(isinstance(event, SpeakEnd) for event in events) == 1
    assert sum(isinstance(event, Flushed) for event in events) == sum(piece is None for piece in pieces)


@given(st.lists(st.tuples(st.sampled_from(FRAMES), st.integers(0, 120), st.text(max_size=3)), max_size=8))
def test_spoilt_frames_are_a_provider_error_or_events(frames):
    client = speaker(keep_raw=True)
    try:
        for text, at, rubbish in frames:
            client.receive(text[:at] + rubbish + text[at + len(rubbish) :])
    except ProviderError:
        pass


def test_a_name_that_is_not_utf8():
    with pytest.raises(ClientProtocolError):
        deepgram_speak.parse_http(b"model=m", b'{"text":"a","\xf7":1}')
