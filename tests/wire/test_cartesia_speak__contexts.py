"""Cartesia's live speech, the client's side: from a golden session, and against our own server's side."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, WordTiming
from gw.wire.cartesia_speak import CartesiaSpeakClient, CartesiaSpeakServer, error_frame, parse_frame
from gw.wire.live_messages import CancelContext, ContextText
from tests.fakes.golden import golden

FRAMES = golden("cartesia/speech_context").decode().splitlines()
PCM_8K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000)


def speaker(fmt=PCM_24K, **request) -> CartesiaSpeakClient:
    return CartesiaSpeakClient("p", SpeakLiveRequest(model="m", voice="v", format=fmt, **request), "sonic-3", ("hush-hush",))


def decoded(frame: str | None) -> dict:
    assert frame is not None
    return msgspec.json.decode(frame)


def due(client: CartesiaSpeakClient) -> list:
    events, client.due = client.due, []
    return events


def sent(context: str, *events, timestamps=True) -> list[str]:
    return CartesiaSpeakServer(context, timestamps=timestamps).encode(list(events))


def test_the_golden_session():
    client = speaker()
    assert decoded(client.text("Hello there.")) == {
        "context_id": "gw-0", "model_id": "sonic-3", "voice": {"mode": "id", "id": "v"}, "add_timestamps": True,
        "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000},
        "transcript": "Hello there.", "continue": True,
    }  # fmt: skip
    flush = decoded(client.flush())
    assert (flush["transcript"], flush["continue"], flush["flush"], flush["context_id"]) == ("", True, True, "gw-0")
    assert decoded(client.text(" Bye."))["transcript"] == " Bye."
    end = decoded(client.finish())
    assert (end["transcript"], end["continue"], end["context_id"]) == ("", False, "gw-0")
    assert client.finish() is None
    events = [event for frame in FRAMES for event in client.receive(frame)]
    assert events == [
        AudioChunk(data=b"\0\1\2\3"),
        WordTiming(word="Hello", start_s=0.02, end_s=0.38),
        WordTiming(word="there.", start_s=0.41, end_s=0.86),
        Flushed(),
        AudioChunk(data=b"\4\5\6\7"),
        SpeakEnd(),
    ]
    assert client.ended


def test_what_is_asked_for():
    frame = decoded(speaker(language="de", speed=0.1).text("Hallo"))
    assert (frame["language"], frame["generation_config"]) == ("de", {"speed": 0.6})
    options = (("max_buffer_delay_ms", "0"), ("add_timestamps", "false"), ("pronunciation_dict_id", '"d"'))
    frame = decoded(speaker(dialect="cartesia", options=options).text("Hallo"))
    assert (frame["max_buffer_delay_ms"], frame["pronunciation_dict_id"], frame["add_timestamps"]) == (0, "d", True)
    assert "max_buffer_delay_ms" not in decoded(speaker(dialect="deepgram", options=options).text("Hallo"))


def test_a_context_begins_with_a_word():
    client = speaker()
    assert [client.text(piece) for piece in (" ", "\n", "…")] == [None, None, None]
    assert decoded(client.text("日"))["transcript"] == " \n…日"
    assert decoded(client.text(" "))["transcript"] == " "


@pytest.mark.parametrize("text", ["", "... "])
def test_an_end_with_nothing_to_speak(text):
    client = speaker()
    assert client.text(text) is None
    assert client.flush() is None
    assert due(client) == [Flushed()]
    assert client.finish() is None
    assert due(client) == [SpeakEnd()]
    assert client.ended


def test_what_was_spoken_whole_is_left():
    """The vendor forgets a context, and a session may pause."""
    client = speaker(PCM_8K)
    assert decoded(client.text("One"))["context_id"] == "gw-0"
    client.flush()
    for frame in sent("gw-0", AudioChunk(data=bytes(16_000)), Flushed()):
        client.receive(frame)
    assert decoded(client.text("Two"))["context_id"] == "gw-1"
    (timing,) = client.receive(sent("gw-1", WordTiming(word="Two", start_s=0.1, end_s=0.4))[0])
    assert timing == WordTiming(word="Two", start_s=1.1, end_s=1.4)
    assert client.receive(sent("gw-0", AudioChunk(data=b"late"))[0]) == []
    assert decoded(client.finish())["context_id"] == "gw-1"


def test_a_context_the_vendor_ends():
    client = speaker()
    client.text("One")
    client.flush()
    client.text(" and")
    assert client.receive(sent("gw-0", Flushed())[0]) == [Flushed()]
    assert decoded(client.text(" two"))["context_id"] == "gw-0"   # more came meanwhile
    client.flush()
    assert client.receive(sent("gw-0", SpeakEnd())[0]) == [Flushed()]
    assert not client.ended
    assert client.finish() is None
    assert due(client) == [SpeakEnd()]


def test_each_flush_is_answered():
    client = speaker()
    client.text("One")
    assert client.flush() is not None
    assert client.flush() is None
    assert client.receive(sent("gw-0", Flushed())[0]) == [Flushed(), Flushed()]
    assert client.flush() is None
    assert due(client) == [Flushed()]


def test_a_mark_between_pieces_is_no_answer():
    client = speaker()
    client.text("One")
    assert client.receive(sent("gw-0", Flushed())[0]) == []
    assert decoded(client.text(" two"))["context_id"] == "gw-0"


def test_a_caller_of_the_same_dialect_keeps_its_context():
    client = speaker(dialect="cartesia")
    client.text("One")
    client.flush()
    assert client.receive(sent("gw-0", Flushed())[0]) == [Flushed()]
    assert decoded(client.text(" two"))["context_id"] == "gw-0"
    phonemes = '{"type":"phoneme_timestamps","context_id":"gw-0"}'
    assert client.receive(phonemes) == [VendorFrame(raw=phonemes)]
    assert speaker().receive(phonemes) == []


def test_an_interruption():
    client = speaker(PCM_8K)
    assert client.clear() is None
    client.text("One")
    client.flush()
    client.receive(sent("gw-0", AudioChunk(data=bytes(8_000)))[0])
    assert decoded(client.clear()) == {"context_id": "gw-0", "cancel": True}
    for late in sent("gw-0", AudioChunk(data=b"late"), Flushed(), SpeakEnd()):
        assert client.receive(late) == []
    assert client.receive(error_frame(400, "x", "the context was cancelled", "gw-0", "r")) == []
    assert decoded(client.text("Two"))["context_id"] == "gw-1"
    assert client.receive(sent("gw-1", WordTiming(word="Two", start_s=0, end_s=0.25))[0])[0].start_s == 0.5


def test_an_interruption_after_the_end():
    client = speaker()
    client.text("One")
    client.finish()
    assert decoded(client.clear())["cancel"]
    assert due(client) == [SpeakEnd()]
    assert client.clear() is None
    assert due(client) == []


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        (error_frame(429, "concurrency_limited", "Too many.", "gw-0", "r"), RateLimitError),
        (error_frame(404, "voice_not_found", "No such voice: hush-hush", None, "r"), ProviderRejected),
        ('{"type":"chunk","data":"?","context_id":"gw-0"}', UpstreamProtocolError),
        ("{", UpstreamProtocolError),
        (b"\xff", UpstreamProtocolError),
        ("[]", UpstreamProtocolError),
    ],
)
def test_what_ends_a_session(frame, error):
    client = speaker()
    client.text("One")
    with pytest.raises(error) as caught:
        client.receive(frame)
    assert caught.value.retryable
    assert "hush-hush" not in str(caught.value)


def test_what_is_new_is_skipped():
    assert speaker().receive('{"type":"unheard_of","context_id":"gw-0","x":[1]}') == []


def test_a_callers_frame_is_not_passed_on():
    assert speaker().forward('{"context_id":"theirs"}') is None


def test_frames_of_ours_are_read_as_they_were_meant():
    client = speaker(language="de")
    result = parse_frame(client.text("Grüße 😀") or "")
    assert isinstance(result, ContextText)
    assert result.request is not None
    assert (result.text, result.finish, result.flush, result.request.voice) == ("Grüße 😀", False, False, "v")
    assert (result.request.language, result.request.format) == ("de", PCM_24K)
    assert parse_frame(client.clear() or "") == CancelContext("gw-0")


@given(st.lists(st.tuples(st.integers(0, len(FRAMES) - 1), st.integers(0, 200), st.text(max_size=3)), max_size=12))
def test_spoiled_frames(picked):
    client = speaker()
    client.text("Hello there.")
    try:
        for number, at, rubbish in picked:
            frame = FRAMES[number]
            client.receive(frame[:at] + rubbish + frame[at + len(rubbish) :])
    except ProviderError:
        pass
