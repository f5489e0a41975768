"""Cartesia's transcription by turns, both sides."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.cartesia_listen import CartesiaTurnsClient, CartesiaTurnsServer, live_path, parse_turns_query, uses_turns
from gw.wire.live_messages import Audio, Control, Forward
from tests.fakes.golden import golden

FRAMES = golden("cartesia/turns").decode().splitlines()


def listener(fmt=PCM_16K, **more) -> CartesiaTurnsClient:
    return CartesiaTurnsClient("p", ListenRequest(model="m", format=fmt, **more), ("hush-hush",))


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"type": kind, "request_id": "r", **members}).decode()


def received_events(client: CartesiaTurnsClient, *frames: str) -> list:
    """Half a second of audio before each frame."""
    events = []
    for text in frames:
        client.audio(bytes(16_000))
        events += client.receive(text)
    return events


def test_the_golden_session():
    client = listener()
    events = received_events(client, *FRAMES)
    assert events == [
        SpeechStarted(at_s=1.0),
        Interim(text="I need to cancel", start_s=1.0, end_s=1.5),
        Interim(text="I need to cancel my subscription.", start_s=1.0, end_s=3.0),
        Final(text="I need to cancel my subscription.", start_s=1.0, end_s=3.5),
        UtteranceEnd(at_s=3.5),
        SpeechStarted(at_s=4.0),
        Interim(text="Please", start_s=4.0, end_s=4.5),
    ]
    assert client.closed() == []
    assert client.finish() == '{"type":"close"}'
    assert client.closed() == [
        Final(text="Please", start_s=4.0, end_s=4.5), UtteranceEnd(at_s=4.5), ListenEnd(),
    ]  # fmt: skip
    assert client.ended


def test_a_turn_is_open_until_its_end():
    client = listener()
    assert not client.speaking
    client.receive(frame("turn.update", transcript="a"))   # its beginning was missed
    assert client.speaking
    client.receive(frame("turn.end", transcript="a"))
    assert not client.speaking


def test_an_empty_turn():
    client = listener()
    assert [type(event) for event in received_events(client, frame("turn.start"), frame("turn.end"))] == [SpeechStarted, UtteranceEnd]
    client.finish()
    assert client.closed() == [ListenEnd()]


def config(timeout_ms: int) -> str:
    return msgspec.json.encode({"type": "config", "turn": {"end_timeout_ms": timeout_ms}}).decode()


@pytest.mark.parametrize(("ms", "wanted"), [(None, 5_600), (900, 900), (300, 640)])
def test_a_flush_is_a_shorter_pause_and_a_silence_that_takes_no_time(ms, wanted):
    """The longest pause of the vendor's is longer than any silence that is sent. Later turns have the wanted one again."""
    client = listener(MULAW_8K, endpointing_ms=ms)
    client.receive(frame("turn.start"))
    assert client.flush() == [config(640), b"\xff" * 8_000]
    assert client.audio(b"") == b""
    assert client.receive(frame("turn.end", transcript="a"))[0].end_s == 0.0
    assert client.audio(b"\xff") == [config(wanted), b"\xff"]
    assert client.audio(b"\xff") == b"\xff"


@pytest.mark.parametrize(("ms", "wanted"), [(800, 800), (100, 640), (99_999, 11_200)])
def test_a_callers_change_of_settings_is_passed_on_and_outlives_a_flush(ms, wanted):
    client = listener()
    assert client.forward(config(ms)) == config(ms)
    client.flush()
    assert client.audio(b"\xff") == [config(wanted), b"\xff"]
    assert listener().forward('{"type":"config"}') == '{"type":"config"}'


@pytest.mark.parametrize(
    ("ms", "more"),
    [(None, ""), (300, "&turn_end_timeout_ms=640"), (900, "&turn_end_timeout_ms=900"), (60_000, "&turn_end_timeout_ms=11200")],
)
def test_the_address(ms, more):
    request = ListenRequest(model="m", format=PCM_16K, endpointing_ms=ms, language="en", keyterms=("a b",))
    expected = "/stt/turns/websocket?model=ink-2&encoding=pcm_s16le&sample_rate=16000&keyterm=a%20b"
    assert live_path(request, "ink-2", turns=True) == expected + more


def test_a_callers_own_settings_are_passed_on_at_the_same_address():
    own = "keyterm=a&turn_start_threshold=0.3&turn_end_timeout_ms=800.0&new=1"
    request = parse_turns_query(f"model=mine&{own}&api_key=k&gw_session=s".encode())
    assert (request.dialect, request.keyterms, request.endpointing_ms) == ("cartesia", ("a",), 800)
    assert uses_turns(request, "ink-2")
    assert live_path(request, "ink-2", turns=True) == f"/stt/turns/websocket?model=ink-2&encoding=pcm_s16le&sample_rate=16000&{own}"
    assert not uses_turns(request, "ink-whisper")
    expected = "/stt/websocket?model=ink-whisper&encoding=pcm_s16le&sample_rate=16000&max_silence_duration_secs=0.8"
    assert live_path(request, "ink-whisper") == expected


@pytest.mark.parametrize("decoded", ["", "x", "-1", "1e3", "999999"])
def test_a_silence_that_is_none(decoded):
    assert parse_turns_query(f"turn_end_timeout_ms={decoded}".encode()).endpointing_ms is None


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (frame("error", status_code=500, title="t", message="key hush-hush"), ProviderFailed),
        ("{", UpstreamProtocolError),
        (b"\xff", UpstreamProtocolError),
        (frame("turn.end", transcript=5), UpstreamProtocolError),
    ],
)
def test_what_ends_a_session(text, error):
    with pytest.raises(error) as caught:
        listener().receive(text)
    assert "hush-hush" not in str(caught.value)


def test_what_is_new_is_skipped():
    assert listener().receive(frame("turn.unheard_of", x=1)) == []


# ---- the server's side


def test_frames_of_ours_are_read_as_they_were_meant():
    server, client = CartesiaTurnsServer("r"), listener()
    sent = [*server.opening()]
    for events in (
        [SpeechStarted(at_s=0)],
        [Interim(text="Grüße", start_s=0, end_s=0)],
        [Final(text="Grüße 😀", start_s=0, end_s=0), UtteranceEnd(at_s=0)],
        [Final(text="one", start_s=0, end_s=0)],
        [Interim(text="two", start_s=0, end_s=0)],
        [ListenEnd()],
    ):
        sent += server.encode(events)
    assert [event for text in sent for event in client.receive(text)] == [
        SpeechStarted(at_s=0), Interim(text="Grüße"), Final(text="Grüße 😀"), UtteranceEnd(at_s=0),
        SpeechStarted(at_s=0), Interim(text="one"), Interim(text="one two"), Final(text="one"), UtteranceEnd(at_s=0),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("frame", "messages"),
    [
        ('{"type":"close"}', (Control.FINISH,)), ('{"type":"config","turn":{}}', (Forward('{"type":"config","turn":{}}'),)),
        ("{}", (Forward("{}"),)), (b"ab", (Audio(b"ab"),)), (b"", ()),
    ],
)
def test_what_a_client_sends(frame, messages):
    assert CartesiaTurnsServer("r").receive(frame) == messages


@pytest.mark.parametrize("text", ["", "close", "[]", '{"type":5}'])
def test_a_command_that_is_none(text):
    with pytest.raises(ClientProtocolError):
        CartesiaTurnsServer("r").receive(text)


@given(st.lists(st.tuples(st.integers(0, len(FRAMES) - 1), st.integers(0, 90), st.text(max_size=3)), max_size=12))
def test_spoiled_frames(picked):
    client = listener()
    try:
        for number, at, rubbish in picked:
            text = FRAMES[number]
            client.receive(text[:at] + rubbish + text[at + len(rubbish) :])
    except ProviderError:
        pass
