"""Cartesia's speech: bodies and events, read and written."""

from __future__ import annotations

from base64 import b64decode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, RateLimitError, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_24K, AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakRequest, WordTiming
from gw.wire import cartesia_speak
from gw.wire.cartesia_speak import CartesiaSpeakServer, CartesiaSpeechDecoder
from gw.wire.live_messages import CancelContext, ContextText
from tests.fakes.golden import golden

EVENTS = golden("cartesia/speech_events")
VOICE = {"mode": "id", "id": "v"}
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
HEARD = [AudioChunk(data=b"\0\1\2\3"), WordTiming(word="Grüße.", start_s=0.05, end_s=0.61), SpeakEnd()]


def requested(**more) -> bytes:
    return msgspec.json.encode({"model_id": "sonic-3", "transcript": "Hi", "voice": VOICE, "output_format": RAW, **more})


def request(fmt=PCM_24K, **more) -> SpeakRequest:
    return SpeakRequest(model="m", text="Grüße 😀", voice="v", format=fmt, **more)


def decoded(frame: str | bytes) -> dict:
    return msgspec.json.decode(frame)


# ---- requests


@pytest.mark.parametrize(
    ("fmt", "wire"),
    [
        (PCM_24K, RAW),
        (MULAW_8K, {"container": "raw", "encoding": "pcm_mulaw", "sample_rate": 8_000}),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), {"container": "raw", "encoding": "pcm_alaw", "sample_rate": 8_000}),
        (AudioFormat(encoding="wav"), {"container": "wav", "encoding": "pcm_s16le", "sample_rate": 24_000}),
        (AudioFormat(encoding="mp3"), {"container": "mp3", "sample_rate": 44_100, "bit_rate": 128_000}),
    ],
)
def test_the_format_that_is_asked_for(fmt, wire):
    assert decoded(cartesia_speak.body(request(fmt), "sonic-3"))["output_format"] == wire


def test_what_is_asked_for():
    body = decoded(cartesia_speak.body(request(language="de", speed=9.0), "sonic-3"))
    assert body == {
        "model_id": "sonic-3", "transcript": "Grüße 😀", "voice": VOICE, "output_format": RAW, "language": "de",
        "generation_config": {"speed": 1.5},
    }  # fmt: skip


def test_a_callers_own_settings_go_on_but_for_what_routing_says():
    extra = cartesia_speak.parse_body(requested(save=True, voice={"id": "theirs"}, context_id="c"), events=False).extra
    body = decoded(cartesia_speak.body(request(dialect="cartesia", extra=extra), "sonic-3"))
    assert (body["save"], body["voice"], body["model_id"]) == (True, VOICE, "sonic-3")
    assert "context_id" not in body
    assert "save" not in decoded(cartesia_speak.body(request(dialect="openai", extra=extra), "sonic-3"))


@pytest.mark.parametrize(
    ("more", "fmt", "wanted"),
    [
        ({}, PCM_24K, False),
        ({"want_timings": True}, PCM_24K, True),
        ({"want_timings": True}, AudioFormat(encoding="mp3"), False),
        ({"dialect": "cartesia", "extra": {"add_phoneme_timestamps": msgspec.Raw(b"true")}}, PCM_24K, True),
        ({"dialect": "cartesia", "extra": {"add_phoneme_timestamps": msgspec.Raw(b"false")}}, PCM_24K, False),
        ({"dialect": "openai", "extra": {"add_phoneme_timestamps": msgspec.Raw(b"true")}}, PCM_24K, False),
    ],
)
def test_events_where_times_are_wanted(more, fmt, wanted):
    result = request(fmt, **more)
    assert cartesia_speak.wants_events(result) is wanted
    assert decoded(cartesia_speak.body(result, "m")).get("add_timestamps", False) is bool(more.get("want_timings"))


@pytest.mark.parametrize("voice", [VOICE, {"id": "v"}, "v"])
def test_a_voice_in_three_forms(voice):
    result = cartesia_speak.parse_body(requested(voice=voice, locale="de-AT", add_timestamps=True, unheard_of=[1]), events=True)
    assert (result.voice, result.model, result.text, result.format) == ("v", "sonic-3", "Hi", PCM_24K)
    assert (result.language, result.want_timings, result.dialect) == ("de-AT", True, "cartesia")


def test_a_body_of_ours_is_read_as_it_was_meant():
    result = cartesia_speak.parse_body(cartesia_speak.body(request(language="de", speed=1.2), "sonic-3"), events=False)
    assert (result.text, result.voice, result.language, result.speed, result.format) == ("Grüße 😀", "v", "de", 1.2, PCM_24K)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"transcript": ""}, "transcript"),
        ({"output_format": {"container": "ogg"}}, "output_format"),
        ({"output_format": {"container": "wav"}}, "output_format"),
        ({"output_format": RAW | {"encoding": "pcm_s64le"}}, "output_format"),
        ({"output_format": RAW | {"sample_rate": 1}}, "output_format"),
        ({"transcript": 5}, None),
    ],
)
def test_a_request_that_is_wrong(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        cartesia_speak.parse_body(requested(**members), events=True)
    assert caught.value.param == param


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 2_000])
def test_a_body_that_is_none(body):
    with pytest.raises(ClientProtocolError):
        cartesia_speak.parse_body(body, events=False)
    with pytest.raises(ClientProtocolError):
        cartesia_speak.parse_frame(body)


def test_frames_of_a_socket():
    result = cartesia_speak.parse_frame(requested(**{"context_id": "c", "continue": True, "flush": True, "max_buffer_delay_ms": 0}))
    assert isinstance(result, ContextText)
    assert result.request is not None
    assert (result.context, result.text, result.finish, result.flush) == ("c", "Hi", False, True)
    assert result.request.options == (("max_buffer_delay_ms", "0"),)
    assert cartesia_speak.parse_frame('{"context_id":"c","cancel":true}') == CancelContext("c")
    last = cartesia_speak.parse_frame(requested(context_id="c"))
    assert isinstance(last, ContextText)
    assert last.finish
    blank = cartesia_speak.parse_frame(requested(context_id="c", transcript=" "))
    assert isinstance(blank, ContextText)
    assert (blank.text, blank.finish) == ("", True)


# ---- events


def test_the_golden_events_cut_anywhere():
    for cut in range(len(EVENTS)):
        decoder = CartesiaSpeechDecoder("p")
        assert decoder.feed(EVENTS[:cut]) + decoder.feed(EVENTS[cut:]) == HEARD, cut


def test_what_has_no_common_terms_is_for_the_same_dialect():
    events = CartesiaSpeechDecoder("p", keep_raw=True).feed(EVENTS)
    (frame,) = [event for event in events if isinstance(event, VendorFrame)]
    (passed,) = CartesiaSpeakServer("mine", timestamps=True).encode([frame])
    assert decoded(passed) == decoded(frame.raw) | {"context_id": "mine"}


@pytest.mark.parametrize(
    ("members", "error"),
    [
        ({"status_code": 429, "error_code": "concurrency_limited", "message": "Too many."}, RateLimitError),
        ({"status_code": 402, "title": "No credits"}, ProviderFailed),
        ({"status_code": None, "error_code": None, "message": None}, ProviderFailed),
        ({"error": "broken"}, ProviderFailed),
    ],
)
def test_an_error_inside(members, error):
    event = b"event: error\ndata: " + msgspec.json.encode({"type": "error", "done": True, **members}) + b"\n\n"
    with pytest.raises(error):
        CartesiaSpeechDecoder("p").feed(event)


def test_an_error_tells_no_secret():
    event = b'data: {"type":"error","status_code":401,"message":"bad key hush-hush"}\n\n'
    with pytest.raises(ProviderError) as caught:
        CartesiaSpeechDecoder("p", secrets=("hush-hush",)).feed(event)
    assert "hush-hush" not in str(caught.value)


@pytest.mark.parametrize(
    "data", [b"{", b"[]", b'{"type":5}', b'{"type":"chunk","data":"?"}', b'{"type":"chunk","data":5}', b"\xff"]
)
def test_an_event_that_is_none(data):
    with pytest.raises(UpstreamProtocolError):
        CartesiaSpeechDecoder("p").feed(b"data: " + data + b"\n\n")


def test_an_event_without_end():
    with pytest.raises(UpstreamProtocolError):
        CartesiaSpeechDecoder("p").feed(b"data: " + b"x" * 5_000_000)


@given(st.lists(st.tuples(st.integers(0, len(EVENTS) - 1), st.binary(min_size=1, max_size=4)), max_size=3), st.integers(1, 64))
def test_spoiled_events(spoilt, step):
    data = bytearray(EVENTS)
    for at, rubbish in spoilt:
        data[at : at + len(rubbish)] = rubbish
    decoder = CartesiaSpeechDecoder("p")
    try:
        for at in range(0, len(data), step):
            decoder.feed(bytes(data[at : at + step]))
    except ProviderError:
        pass


# ---- the server's side


def test_our_frames_are_those_of_the_golden_session():
    vendor_value = [decoded(line) for line in golden("cartesia/speech_context").splitlines()]
    server = CartesiaSpeakServer("gw-0", timestamps=True)
    words = [WordTiming(word="Hello", start_s=0.02, end_s=0.38), WordTiming(word="there.", start_s=0.41, end_s=0.86)]
    own_frame = [
        decoded(frame)
        for events in ([AudioChunk(data=b"\0\1\2\3")], [*words, Flushed()], [AudioChunk(data=b"\4\5\6\7")], [SpeakEnd()])
        for frame in server.encode(events)
    ]
    vendor_value = [frame for frame in vendor_value if frame["type"] != "phoneme_timestamps"]
    assert [frame["type"] for frame in own_frame] == [frame["type"] for frame in vendor_value]
    for own_id, golden_frame in zip(own_frame, vendor_value, strict=True):
        known = {"step_time", "status_code"}
        assert {k: v for k, v in own_id.items() if k not in known} == {
            k: v for k, v in golden_frame.items() if k not in known and (k in own_id or k != "flush_id")
        }


def test_no_times_for_who_wants_none():
    assert CartesiaSpeakServer("c", timestamps=False).encode([WordTiming(word="a", start_s=0, end_s=1)]) == []


def test_events_of_ours_are_read_as_they_were_meant():
    server = CartesiaSpeakServer("c", timestamps=True)
    sent = [AudioChunk(data=bytes(9)), WordTiming(word="Grüße", start_s=0.1, end_s=0.5), SpeakEnd()]
    assert CartesiaSpeechDecoder("p").feed(cartesia_speak.as_sse(server.encode(sent))) == sent


def test_an_error_frame():
    frame = decoded(cartesia_speak.error_frame(429, "rate_limited", "Later.", "c", "r"))
    assert (frame["type"], frame["done"], frame["status_code"], frame["context_id"]) == ("error", True, 429, "c")
    assert {"title", "message", "request_id", "error_code"} <= frame.keys()


def test_a_chunk_of_nothing_is_not_sent():
    (frame,) = CartesiaSpeakServer("c", timestamps=True).encode([AudioChunk(data=b""), AudioChunk(data=b"ab")])
    assert b64decode(decoded(frame)["data"]) == b"ab"


def test_a_name_that_is_not_utf8():
    """Beside members that are known."""
    body = b'{"model_id":"m","transcript":"a","voice":{"mode":"id","id":"v"},"output_format":{"container":"raw",'
    with pytest.raises(ClientProtocolError):
        cartesia_speak.parse_body(body + b'"encoding":"pcm_s16le","sample_rate":24000},"\xf7":1}', events=False)
