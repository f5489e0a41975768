"""Amazon Polly's speech: requests of both roles, languages, speed and errors."""

from __future__ import annotations

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import aws_polly_speak as polly

REQUEST = SpeakRequest(model="m", text="Hello.", voice="Joanna", format=PCM_16K, dialect="openai")


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"language": "en-GB"}, {"speed": 1.5}, {"speed": 0.2, "text": "<b>Fish & chips</b>"}, {"text": "<speak>a</speak>"},
        {"format": AudioFormat(encoding="mp3")}, {"format": AudioFormat(encoding="mp3", sample_rate_hz=44_100)},
        {"format": AudioFormat(encoding="mulaw", sample_rate_hz=8_000)}, {"format": AudioFormat(encoding="alaw", sample_rate_hz=8_000)},
    ],
)  # fmt: skip
def test_what_is_sent_is_read(changes):
    request = attrs.evolve(REQUEST, dialect="aws_polly", model="neural", **changes)
    assert polly.parse(polly.body(request, "neural")) == request


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "made_hz"),
    [("pcm_s16le", 24_000, 16_000), ("pcm_s16le", 11_025, 8_000), ("pcm_s16le", 0, 16_000), ("mulaw", 16_000, 8_000), ("mp3", 0, 0)],
)
def test_rates_that_the_vendor_does_not_have(encoding, rate_hz, made_hz):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=rate_hz)
    assert polly.made_format(fmt) == AudioFormat(encoding=encoding, sample_rate_hz=made_hz)
    assert polly.parse(polly.body(attrs.evolve(REQUEST, format=fmt), "neural")).format == polly.made_format(fmt)


def test_settings_that_an_engine_does_not_have():
    sent = msgspec.json.decode(polly.body(attrs.evolve(REQUEST, speed=2.0, language="en"), "generative"))
    assert sent == {
        "Engine": "generative", "OutputFormat": "pcm", "VoiceId": "Joanna", "Text": "Hello.", "TextType": "text", "SampleRate": "16000",
    }  # fmt: skip
    assert b"200%" in polly.body(attrs.evolve(REQUEST, speed=9.0), "long-form")


@pytest.mark.parametrize(
    ("language", "code", "speaks"),
    [
        ("en-GB", "en-GB", True), ("zh-cn", "cmn-CN", True), ("en", None, True), ("zh", None, True), ("no", None, True), ("ar", None, True),
        ("tlh", None, False), ("fi-SE", None, False), ("no-NO", "nb-NO", True), (None, None, False), ("e", None, False),
    ],
)  # fmt: skip
def test_languages(language, code, speaks):
    assert (polly.language_code(language), polly.speaks(language)) == (code, speaks)


@pytest.mark.parametrize(
    ("fmt", "makes"),
    [
        (AudioFormat(encoding="mp3"), True), (AudioFormat(encoding="mp3", sample_rate_hz=22_050), True),
        (AudioFormat(encoding="mp3", sample_rate_hz=32_000), False), (AudioFormat(encoding="mp3", kbit_per_s=64), False),
    ],
)  # fmt: skip
def test_mp3(fmt, makes):
    assert polly.makes_mp3(fmt) is makes


def test_errors():
    voice = polly.classify("p", 400, None, b'{"message":"This voice does not support the selected engine: neural"}')
    assert isinstance(voice, ProviderRejected)
    assert (voice.fault, voice.retryable) == ("request", True)
    assert isinstance(polly.classify("p", 400, None, b'{"message":"Rate exceeded"}'), RateLimitError)
    other = polly.classify("p", 400, None, b'{"message":"Invalid SSML request"}')
    assert (other.fault, other.retryable) == ("caller", False)
    key = polly.classify("p", 403, None, b'{"message":"bad AKIDX of secretpart, AKIDX:secretpart"}', ("AKIDX:secretpart",))
    assert isinstance(key, ProviderRejected)
    assert "AKIDX" not in key.detail
    assert "secretpart" not in key.detail
    assert isinstance(polly.classify("p", 503, None, b"<html>"), ProviderFailed)


@pytest.mark.parametrize(
    "change",
    [
        {"OutputFormat": "wav"}, {"SampleRate": "24000"}, {"Engine": "loud"}, {"Text": " "}, {"VoiceId": ""}, {"Text": 5},
        {"TextType": "ssml", "Text": "<speak>"},
    ],
)  # fmt: skip
def test_bad_requests(change):
    body = msgspec.json.decode(polly.body(REQUEST, "neural")) | change
    with pytest.raises(ClientProtocolError):
        polly.parse(msgspec.json.encode(body))
