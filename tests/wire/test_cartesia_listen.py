"""Cartesia's transcription: recordings and sessions with `finalize`, both sides."""

from __future__ import annotations

from urllib.parse import parse_qsl

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenRequest,
    SpeechStarted,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire import cartesia_listen
from gw.wire.cartesia_listen import CartesiaListenClient, CartesiaListenServer
from tests.fakes.golden import golden

FRAMES = golden("cartesia/transcription").decode().splitlines()
BODY = golden("cartesia/transcript")
WORDS = (
    Word(text="How", start_s=0.1, end_s=0.22), Word(text="are", start_s=0.25, end_s=0.35), Word(text="you?", start_s=0.38, end_s=0.75),
)  # fmt: skip


def request(fmt=PCM_16K, **more) -> ListenRequest:
    return ListenRequest(model="m", format=fmt, **more)


def listener(model="ink-whisper", **more) -> CartesiaListenClient:
    return CartesiaListenClient("p", request(**more), model, ("hush-hush",))


def query(path: str) -> list[tuple[str, str]]:
    assert path.startswith("/stt/websocket?")
    return parse_qsl(path.partition("?")[2])


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"type": kind, "request_id": "r", **members}).decode()


# ---- recordings


class _Audio:
    size = 4
    filename = "a.wav"
    content_type = "audio/wav"

    async def chunks(self):
        yield b"abcd"


def recording(**more) -> TranscribeRequest:
    return TranscribeRequest(model="m", audio=_Audio(), **more)


def test_the_fields_of_a_form():
    fields = cartesia_listen.form_fields(recording(language="de", timestamps=frozenset({"word", "segment"})), "ink-whisper")
    assert fields == [("model", "ink-whisper"), ("language", "de"), ("timestamp_granularities[]", "word")]
    own = (("model", "theirs"), ("language", "fr"), ("unheard_of", "1"))
    fields = cartesia_listen.form_fields(recording(dialect="cartesia", fields=own), "ink-whisper")
    assert fields == [("model", "ink-whisper"), ("language", "fr"), ("unheard_of", "1")]


@pytest.mark.parametrize(
    ("fmt", "path"),
    [
        (None, "/stt"),
        (AudioFormat(encoding="wav", sample_rate_hz=16_000), "/stt"),
        (PCM_16K, "/stt?encoding=pcm_s16le&sample_rate=16000"),
        (MULAW_8K, "/stt?encoding=pcm_mulaw&sample_rate=8000"),
    ],
)
def test_raw_samples_are_told_in_the_query(fmt, path):
    assert cartesia_listen.path_of(recording(format=fmt)) == path


def test_the_golden_transcript():
    result = cartesia_listen.decode_transcript(BODY, "p", keep_raw=True)
    assert (result.text, result.language, result.duration_s, result.usage, result.raw) == ("Guten Tag.", "de", 1.25, None, BODY)
    assert result.words == (Word(text="Guten", start_s=0.1, end_s=0.5), Word(text="Tag.", start_s=0.55, end_s=0.9))
    assert cartesia_listen.decode_transcript(BODY, "p", keep_raw=False).raw is None
    again = cartesia_listen.encode_transcript(result, request_id="b67e1c5d", words=True)
    assert msgspec.json.decode(again) == msgspec.json.decode(BODY)


def test_a_transcript_without_its_extras():
    result = cartesia_listen.decode_transcript(b'{"text":"","duration":null,"words":null,"is_final":null}', "p", keep_raw=False)
    assert (result.text, result.duration_s, result.words) == ("", None, ())
    body = cartesia_listen.encode_transcript(Transcript(text="a"), request_id="r", words=False)
    assert msgspec.json.decode(body) == {"type": "transcript", "is_final": True, "request_id": "r", "text": "a"}


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"{}", b'{"text":5}', b"\xff", *(BODY[:cut] for cut in range(1, len(BODY) - 3, 7))])
def test_a_body_that_is_none(body):
    with pytest.raises(UpstreamProtocolError):
        cartesia_listen.decode_transcript(body, "p", keep_raw=False)


# ---- sessions, the client's side


def test_the_golden_session():
    client = listener()
    assert client.audio(bytes(64_000)) == bytes(64_000)
    events = client.receive(FRAMES[0]) + client.receive(FRAMES[1])
    assert client.flush() == "finalize"
    events += client.receive(FRAMES[2]) + client.receive(FRAMES[3])
    assert client.finish() == "close"
    events += client.receive(FRAMES[4]) + client.receive(FRAMES[5])
    assert events == [
        Interim(text="How are", start_s=0.0, end_s=0.5, language="en"),
        Final(text="How are you?", start_s=0.1, end_s=0.75, words=WORDS, language="en"),
        UtteranceEnd(at_s=0.75),
        Final(text="Fine.", start_s=0.75, end_s=1.15),
        UtteranceEnd(at_s=1.15),
        ListenEnd(),
    ]
    assert client.ended


def test_a_caller_of_the_same_dialect_gets_every_frame():
    client = listener(dialect="cartesia", interim_results=False)
    client.finish()
    events = [event for text in FRAMES for event in client.receive(text)]
    assert [event.raw for event in events if event.raw is not None] == FRAMES
    assert isinstance(events[-2], VendorFrame)
    assert client.forward("finalize") == "finalize"


def test_only_the_model_that_listens_for_silence_ends_an_utterance():
    assert [type(event) for event in listener("ink-whisper-2025-06-04").receive(FRAMES[1])] == [Final, UtteranceEnd]
    assert [type(event) for event in listener("ink-2").receive(FRAMES[1])] == [Final]


def test_a_final_without_times_ends_where_the_audio_does():
    client = listener("ink-2")
    client.audio(bytes(16_000))
    assert client.receive(frame("transcript", text=" Grüße 😀 ", is_final=True)) == [Final(text="Grüße 😀", start_s=0.0, end_s=0.5)]


def test_an_end_that_nobody_asked_for_is_none():
    assert listener().receive(frame("done")) == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (frame("error", status_code=500, error_code="internal", title="t", message="key hush-hush"), ProviderFailed),
        (frame("error", status_code=None, error="broken"), ProviderFailed),
        ("{", UpstreamProtocolError),
        (b"\xff", UpstreamProtocolError),
        ("[]", UpstreamProtocolError),
        (frame("transcript", text=[]), UpstreamProtocolError),
    ],
)
def test_what_ends_a_session(text, error):
    with pytest.raises(error) as caught:
        listener().receive(text)
    assert "hush-hush" not in str(caught.value)


def test_the_address_of_a_session():
    whisper = query(cartesia_listen.live_path(request(language="de", endpointing_ms=300, keyterms=("a",)), "ink-whisper"))
    assert whisper == [
        ("model", "ink-whisper"), ("encoding", "pcm_s16le"), ("sample_rate", "16000"), ("language", "de"),
        ("max_silence_duration_secs", "0.3"),
    ]  # fmt: skip
    path = cartesia_listen.live_path(request(MULAW_8K, endpointing_ms=300, keyterms=("new york", "Köln")), "ink-2")
    assert query(path)[1:] == [("encoding", "pcm_mulaw"), ("sample_rate", "8000"), ("keyterm", "new york"), ("keyterm", "Köln")]
    assert "new%20york" in path


def test_a_callers_own_settings_go_on():
    options = (("model", "theirs"), ("min_volume", "0.2"), ("keyterm", "a"), ("keyterm", "b"), ("sample_rate", "1"))
    path = cartesia_listen.live_path(request(dialect="cartesia", options=options), "ink-2")
    assert query(path)[3:] == [("min_volume", "0.2"), ("keyterm", "a"), ("keyterm", "b")]


@pytest.mark.parametrize("terms", [["a"] * 101, ["x" * 500, "y" * 500, "z" * 300], ["x" * 1_201]])
def test_more_keyterms_than_there_may_be(terms):
    assert not cartesia_listen.takes_keyterms(terms, "ink-2")
    assert cartesia_listen.takes_keyterms(terms[:1] if len(terms) > 1 else [], "ink-2")
    assert not cartesia_listen.takes_keyterms(["a"], "ink-whisper")


# ---- the server's side


def test_what_a_query_asks_for():
    requested = b"model=ink-2&encoding=pcm_mulaw&sample_rate=8000&language=en&keyterm=a&keyterm=b%20c&api_key=k&gw_x=1"
    result = cartesia_listen.parse_query(requested)
    assert (result.model, result.format, result.language, result.keyterms) == ("ink-2", MULAW_8K, "en", ("a", "b c"))
    assert dict(result.options).keys() == {"model", "encoding", "sample_rate", "language", "keyterm"}
    assert cartesia_listen.parse_query(b"").format == PCM_16K


@pytest.mark.parametrize(
    ("text", "param"), [(b"encoding=opus", "encoding"), (b"sample_rate=1", "sample_rate"), (b"sample_rate=x", "sample_rate")]
)
def test_a_query_that_is_wrong(text, param):
    with pytest.raises(ClientProtocolError) as caught:
        cartesia_listen.parse_query(text)
    assert caught.value.param == param


def test_finals_bring_their_own_spaces():
    server, client = CartesiaListenServer("r"), listener("ink-2")
    events = [SpeechStarted(at_s=0.1), Final(text="How are you?", start_s=0.1, end_s=0.75, words=WORDS, language="en")]
    sent = server.encode(events) + server.encode([Final(text="Fine.", start_s=0.75, end_s=1.15), UtteranceEnd(at_s=1.15)])
    assert "".join(msgspec.json.decode(text)["text"] for text in sent) == "How are you? Fine."
    assert [event for text in sent for event in client.receive(text)] == [
        Final(text="How are you?", start_s=0.1, end_s=0.75, words=WORDS, language="en"), Final(text="Fine.", start_s=0.75, end_s=1.15),
    ]  # fmt: skip
    assert [msgspec.json.decode(text)["type"] for text in server.encode([Interim(text="a"), ListenEnd()])] == ["transcript", "done"]


def test_each_flush_is_answered_after_its_own_time():
    server = CartesiaListenServer("r")
    replies = [server.receive("finalize")[1].frames for _ in range(3)]
    assert [len(reply()) for reply in replies] == [1, 1, 1]
    server = CartesiaListenServer("r")
    (_, first), (_, second) = server.receive("finalize"), server.receive("finalize")
    vendor_value = frame("flush_done")
    assert server.encode([UtteranceEnd(at_s=1, raw=vendor_value)]) == [vendor_value]  # an upstream answers the first
    assert (first.frames(), len(second.frames())) == ((), 1)
    assert second.frames() == ()


def test_a_flood_of_flushes_is_answered_with_the_last_that_is_timed():
    server = CartesiaListenServer("r")
    replies = [server.receive("finalize") for _ in range(40)]
    timed = [reply[1] for reply in replies if len(reply) == 2]
    assert [len(reply.frames()) for reply in timed] == [1] * 15 + [25]


def test_a_flush_is_answered_once():
    server = CartesiaListenServer("r")
    vendor_value = frame("flush_done")
    assert msgspec.json.decode(server.flush_done()) == {"type": "flush_done", "request_id": "r"}
    assert server.encode([UtteranceEnd(at_s=1, raw=vendor_value)]) == []
    assert server.encode([UtteranceEnd(at_s=1, raw=vendor_value)]) == [vendor_value]


@given(st.lists(st.tuples(st.integers(0, len(FRAMES) - 1), st.integers(0, 200), st.text(max_size=3)), max_size=12))
def test_spoiled_frames(picked):
    client = listener()
    client.finish()
    try:
        for number, at, rubbish in picked:
            text = FRAMES[number]
            client.receive(text[:at] + rubbish + text[at + len(rubbish) :])
    except ProviderError:
        pass


def test_a_name_that_is_not_utf8():
    """The decoder of known members ignores it."""
    with pytest.raises(UpstreamProtocolError):
        cartesia_listen.decode_transcript(b'{"\xf7":1,"text":"a"}', "p", keep_raw=False)
