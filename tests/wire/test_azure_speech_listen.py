"""Azure Speech's live transcription: turns, phrases, times with silence of our own, and what the server reads."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gw.errors import (
    ClientProtocolError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, Word
from gw.wire import azure_speech_listen as listen
from gw.wire.azure_speech_listen import AzureSpeechListenClient
from gw.wire.azure_speech_listen_server import AzureSpeechListenServer
from gw.wire.azure_speech_messages import text_frame
from gw.wire.live_messages import Audio, Control, DirectReply

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "azure_speech" / "listen.json").read_text("utf-8"))
SECOND = bytes(32_000)


def request(**more):
    return ListenRequest(**{"model": "m", "format": PCM_16K, **more})


def client(**more):
    return AzureSpeechListenClient("p", request(**more), "0" * 31 + "f", lambda: "2026-11-26T10:00:00.000Z", ("secret",))


def server_of(made, query=b"format=detailed&language=en-US&profanity=raw"):
    server = AzureSpeechListenServer(query)
    for frame in made.opening():
        server.receive(frame)
    return server


def phrase(offset_s, duration_s, text="Hi.", status="Success"):
    span = {"Offset": round(offset_s * 10_000_000), "Duration": round(duration_s * 10_000_000)}
    return text_frame("speech.phrase", {"RecognitionStatus": status, "DisplayText": text, **span})


def test_the_golden_session():
    made = client()
    made.opening()
    events = [event for frame in GOLDEN["frames"] for event in made.receive(frame)]
    words = (
        Word(text="what's", start_s=0.1, end_s=0.4, confidence=0.9), Word(text="the", start_s=0.4, end_s=0.5),
        Word(text="weather", start_s=0.5, end_s=1.3),
    )  # fmt: skip
    assert events == [
        SpeechStarted(at_s=0.1), Interim(text="what's the", start_s=0.1, end_s=0.42),
        Final(text="What's the weather?", start_s=0.1, end_s=1.3, words=words, confidence=0.92), UtteranceEnd(at_s=1.3),
        UtteranceEnd(at_s=6.3),
    ]  # fmt: skip
    assert not made.ended


def test_the_next_turn_begins_with_the_next_audio():
    made = client()
    server = server_of(made)
    (message,) = server.receive(made.audio(SECOND)[0])
    assert message == Audio(SECOND)
    assert made.receive(text_frame("turn.end", {})) == []
    context, header, audio = made.audio(SECOND)
    assert server.receive(context) == ()
    (start,) = server.receive(header)
    assert isinstance(start, DirectReply)
    assert server.receive(audio) == [Audio(SECOND)]
    (final,) = (made.receive(frame) for frame in server.encode([Final(text="Hi.", start_s=1.2, end_s=1.5)]))
    assert (final[0].start_s, final[0].end_s) == (pytest.approx(1.2), pytest.approx(1.5))


def test_a_turn_that_ends_in_the_middle_of_a_phrase():
    made = client()
    made.opening()
    made.receive(text_frame("speech.hypothesis", {"Text": "half a", "Offset": 0, "Duration": 10}))
    with pytest.raises(UpstreamCut):
        made.receive(text_frame("turn.end", {}))


def test_the_end():
    made = client()
    server = server_of(made)
    assert server.receive(made.finish()[0]) == [Control.FINISH]
    events = [event for frame in server.encode([ListenEnd()]) for event in made.receive(frame)]
    assert (events, made.ended) == ([ListenEnd()], True)


def test_the_end_after_the_vendor_has_ended_the_turn():
    made = client()
    server = server_of(made)
    made.receive(text_frame("turn.end", {}))
    assert [message for frame in made.finish() for message in server.receive(frame)][-1] is Control.FINISH


def test_silence_of_a_flush_is_not_time_of_the_session():
    made = client(endpointing_ms=500)
    made.opening()
    made.audio(SECOND)
    (silence,) = made.flush()
    assert len(silence) > 0.85 * 32_000
    assert (made.receive(phrase(0.2, 0.6))[0].end_s, listen.flush_s(request(endpointing_ms=500))) == (pytest.approx(0.8), 0.85)
    made.audio(SECOND)
    made.flush()
    spoken = made.receive(phrase(2.0, 0.5))[0]
    assert (spoken.start_s, spoken.end_s) == (pytest.approx(1.15), pytest.approx(1.65))
    for _ in range(200):
        made.flush()
    assert len(made._silences) <= 65


@pytest.mark.parametrize(
    ("status", "error"),
    [("TooManyRequests", RateLimitError), ("Forbidden", ProviderRejected), ("BadRequest", ProviderRejected), ("Error", ProviderFailed)],
)
def test_errors(status, error):
    with pytest.raises(error):
        client().receive(phrase(0, 0, "", status))


@pytest.mark.parametrize("frame", ["", "no headers", b"", b"\x00", b"\x00\xffabc", "Path:speech.phrase\r\n\r\n{", "X:y\r\n\r\n{}"])
def test_malformed_frames(frame):
    with pytest.raises(UpstreamProtocolError):
        client().receive(frame)
    with pytest.raises(ClientProtocolError):
        AzureSpeechListenServer(b"").receive(frame.replace("phrase", "context") if isinstance(frame, str) else frame)


def test_other_messages_are_skipped():
    made = client()
    assert made.receive(text_frame("speech.keyword", {})) == []
    assert client(interim_results=False).receive(text_frame("speech.hypothesis", {"Text": "a"})) == []
    assert made.receive(phrase(-1, 1e99))[0].start_s == 0.0


def test_what_is_sent_is_read():
    asked = request(
        language="de", keyterms=("Contoso",), endpointing_ms=9_999, profanity_filter=True,
        format=AudioFormat(encoding="mulaw", sample_rate_hz=8_000),
    )  # fmt: skip
    made = AzureSpeechListenClient("p", asked, "f" * 32, lambda: "t")
    read = server_of(made, listen.path_of(asked).partition("?")[2].encode()).request
    assert (read.language, read.keyterms, read.endpointing_ms, read.profanity_filter, read.format) == (
        "de-DE", ("Contoso",), 5_000, True, asked.format,
    )  # fmt: skip
    plain = server_of(client(), listen.path_of(request()).partition("?")[2].encode()).request
    assert (plain.language, plain.keyterms, plain.endpointing_ms, plain.profanity_filter) == ("en-US", (), None, False)
