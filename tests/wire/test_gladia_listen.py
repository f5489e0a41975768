"""Gladia's live sessions: the golden frames, settings of both roles, and times without the silence of a flush."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.speech_settings import DETECT
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, Word
from gw.wire import gladia_listen
from gw.wire.gladia_listen import GladiaListenClient

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "gladia" / "listen.json").read_text("utf-8"))
REQUEST = ListenRequest(model="solaria-1", format=PCM_16K, dialect="gladia")


def client(**more) -> GladiaListenClient:
    return GladiaListenClient("p", attrs.evolve(REQUEST, **more), ("secret",))


def transcript(start_s, end_s, *, final=True, text="hello"):
    utterance = {"start": start_s, "end": end_s, "text": text, "words": [{"word": text, "start": start_s, "end": end_s}]}
    return gladia_listen.message("transcript", data={"id": "0", "is_final": final, "utterance": utterance})


def test_the_golden_session():
    read = client()
    read.finish()
    events = [event for frame in GOLDEN["frames"] for event in read.receive(json.dumps(frame))]
    words = (
        Word(text="Split", start_s=0.25, end_s=0.5, confidence=0.9), Word(text="infinity.", start_s=0.5, end_s=1.0, confidence=0.9),
    )  # fmt: skip
    assert events == [
        SpeechStarted(at_s=0.2),
        Interim(text="Split", start_s=0.25, end_s=0.5, language="en", confidence=0.8,
                words=(Word(text="Split", start_s=0.25, end_s=0.5, confidence=0.8),)),
        Final(text="Split infinity.", start_s=0.25, end_s=1.0, language="en", confidence=0.9, words=words),
        UtteranceEnd(at_s=1.0), ListenEnd(),
    ]  # fmt: skip
    assert read.ended
    assert gladia_listen.session_url(json.dumps(GOLDEN["created"]).encode(), "p") == GOLDEN["created"]["url"]


def test_errors():
    for frame in (json.dumps(GOLDEN["refused"]), gladia_listen.error_frame("the secret is bad")):
        with pytest.raises(ProviderFailed) as caught:
            client().receive(frame)
        assert "secret" not in caught.value.detail
    with pytest.raises(ProviderFailed, match="by itself"):
        client().receive(gladia_listen.message("end_session"))
    for body in (b"{}", b'{"id":"a b","url":"wss://x"}'):
        with pytest.raises(UpstreamProtocolError):
            gladia_listen.session_url(body, "p")
    assert client().closed() == []


@pytest.mark.parametrize(
    ("code", "error"), [(4_401, ProviderRejected), (4_429, RateLimitError), (4_500, type(None)), (1_011, type(None))]
)
def test_close_codes(code, error):
    assert isinstance(gladia_listen.close_error("p", code), error)


def test_times_leave_out_the_silence_of_flushes():
    read = client()
    second = bytes(32_000)
    read.audio(second)
    first = read.flush()
    assert PCM_16K.seconds(len(first)) == pytest.approx(read.flush_s) == pytest.approx(0.6)
    assert not any(first)
    (final, end) = read.receive(transcript(0.5, 1.3))  # its end lies within the silence
    assert (final.start_s, final.end_s, end.at_s) == (0.5, 1.0, 1.0)
    read.audio(second)
    (interim,) = read.receive(transcript(2.0, 2.4, final=False))
    assert (interim.start_s, interim.end_s) == (pytest.approx(1.4), pytest.approx(1.8))
    read.flush()
    (final, _) = read.receive(transcript(1.7, 3.2))
    assert (final.start_s, final.end_s) == (pytest.approx(1.1), pytest.approx(2.0))
    assert read.receive(gladia_listen.message("speech_start", data={"time": 4.2, "channel": 0})) == [SpeechStarted(at_s=pytest.approx(3.0))]


@pytest.mark.parametrize("encoding", gladia_listen.ENCODINGS)
def test_a_server_reads_what_the_client_writes(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=8_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de-CH", keyterms=("Acme",), endpointing_ms=500)
    read, lifecycle = gladia_listen.parse_settings(gladia_listen.settings(request, "solaria-1"))
    assert (read, lifecycle) == (attrs.evolve(request, language="de"), True)


def test_detection_and_bounds():
    request = attrs.evolve(REQUEST, language=DETECT, endpointing_ms=60_000, interim_results=False)
    read, _ = gladia_listen.parse_settings(gladia_listen.settings(request, "solaria-1"))
    assert (read.language, read.endpointing_ms, read.interim_results) == (DETECT, 10_000, False)


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"encoding": "mp3"}, "encoding"), ({"bit_depth": 8}, "encoding"), ({"sample_rate": 24_000}, "encoding"),
        ({"endpointing": 11}, "endpointing"), ({"maximum_duration_without_endpointing": 61}, "maximum_duration_without_endpointing"),
    ],
)  # fmt: skip
def test_settings_that_the_vendor_refuses(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        gladia_listen.parse_settings(json.dumps(members).encode())
    assert caught.value.param == param


def test_channels_are_mixed():
    read = client(format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2))
    assert read.audio(b"\x02\x00\x04\x00" * 10) == b"\x03\x00" * 10
