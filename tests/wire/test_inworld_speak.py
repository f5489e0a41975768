"""Inworld's speech: requests of both roles, lines of the answer, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest, WordTiming
from gw.wire import inworld_speak
from gw.wire.inworld_speak import InworldDecoder

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "inworld" / "speak.json").read_text("utf-8"))
LINES = [json.dumps(line).encode() + b"\n" for line in GOLDEN["lines"]]
REQUEST = SpeakRequest(model="m", text="Hello.", voice="Dennis", format=PCM_24K, dialect="openai")
TIMES = [WordTiming(word="Hello", start_s=0.0, end_s=0.4), WordTiming(word="there.", start_s=0.4, end_s=0.9)]


def test_the_golden_lines():
    decoder = InworldDecoder("p")
    assert decoder.feed(b"".join(LINES)) == [AudioChunk(data=b"\0\1\2"), *TIMES, AudioChunk(data=b"\3\4\5")]
    assert decoder.end() == [SpeakEnd()]
    with pytest.raises(RateLimitError):
        InworldDecoder("p").feed(json.dumps(GOLDEN["error"]).encode() + b"\n")


@pytest.mark.parametrize(
    ("code", "error", "fault"),
    [
        (3, ProviderRejected, "caller"), (5, ProviderRejected, "candidate"), (16, ProviderRejected, "candidate"), (8, RateLimitError, ""),
        (14, ProviderFailed, ""), (429, RateLimitError, ""), (99, ProviderFailed, ""),
    ],
)  # fmt: skip
def test_errors_among_the_lines(code, error, fault):
    with pytest.raises(error) as caught:
        InworldDecoder("p", ("secret",)).feed(inworld_speak.error_line(code, "the secret is bad"))
    assert getattr(caught.value, "fault", "") == fault
    assert "secret" not in caught.value.detail


def test_refused_requests():
    voice = inworld_speak.classify("p", 400, None, inworld_speak.error_body(400, "Unknown voice: x not found!"))
    assert (voice.fault, voice.retryable) == ("request", True)
    assert inworld_speak.classify("p", 400, None, inworld_speak.error_body(400, "text is required")).fault == "caller"
    assert isinstance(inworld_speak.classify("p", 429, b"2", inworld_speak.error_body(429, "slow down")), RateLimitError)


@pytest.mark.parametrize("encoding", inworld_speak.ENCODINGS)
def test_a_server_reads_what_the_client_writes(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=0 if encoding == "mp3" else 16_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de-CH", speed=1.25, want_timings=True)
    read = inworld_speak.parse(inworld_speak.body(request, "inworld-tts-2"))
    assert read == attrs.evolve(request, model="inworld-tts-2", dialect="inworld", language="de-DE")


@pytest.mark.parametrize(("speed", "expected"), [(0.1, 0.5), (1.0, 1.0), (4.0, 1.5)])
def test_speed_has_bounds(speed, expected):
    body = msgspec.json.decode(inworld_speak.body(attrs.evolve(REQUEST, speed=speed), "m"))
    assert body["audioConfig"]["speakingRate"] == expected


def test_a_text_that_is_too_long():
    inworld_speak.check_length(attrs.evolve(REQUEST, text="a" * 2_000), "p")
    with pytest.raises(ProviderRejected) as caught:
        inworld_speak.check_length(attrs.evolve(REQUEST, text="a" * 2_001), "p")
    assert (caught.value.fault, caught.value.retryable) == ("request", True)


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"text":" ","voiceId":"v","modelId":"m"}', "text"), (b'{"text":"a","modelId":"m"}', "voiceId"),
        (b'{"text":"a","voiceId":"v"}', "modelId"),
        (b'{"text":"a","voiceId":"v","modelId":"m","audioConfig":{"audioEncoding":"LINEAR16"}}', "audioConfig"),
        (b'{"text":"' + b"a" * 2_001 + b'","voiceId":"v","modelId":"m"}', "text"),
    ],
)  # fmt: skip
def test_a_request_that_the_vendor_refuses(body, param):
    with pytest.raises(ClientProtocolError) as caught:
        inworld_speak.parse(body)
    assert caught.value.param == param


def test_languages():
    assert inworld_speak.speaks("en-GB")
    assert inworld_speak.speaks("zh")
    assert not inworld_speak.speaks("sv")
    assert not inworld_speak.speaks("multi")
