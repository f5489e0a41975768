"""Azure Speech's text to speech: SSML of both roles, formats, languages and what is billed."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import azure_speech_speak as speech

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "azure_speech" / "speak.json").read_text("utf-8"))
REQUEST = SpeakRequest(model="m", text="Hello.", voice="en-US-AvaMultilingualNeural", format=PCM_24K, dialect="openai")


def test_the_golden_requests():
    read = [speech.parse(case["format"], case["body"].encode()) for case in GOLDEN["requests"]]
    assert [(request.model, request.voice, request.text, request.speed) for request in read] == [
        ("neural", "en-US-JennyNeural", "Hello there.", 1.25),
        ("neural", "en-US-ChristopherNeural", "I'm excited to try text to speech!", None),
        ("neural-hd", "en-US-Ava:DragonHDLatestNeural", "Here is a test", None),
    ]
    assert [request.format for request in read] == [
        PCM_24K, AudioFormat(encoding="mp3", sample_rate_hz=24_000, kbit_per_s=96), AudioFormat(encoding="mulaw", sample_rate_hz=8_000),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [
        {}, {"text": "<b>Fish & chips</b> \"now\""}, {"speed": 1.5}, {"language": "de-DE"}, {"language": "de-DE", "speed": 0.5},
        {"format": AudioFormat(encoding="alaw", sample_rate_hz=8_000)},
        {"format": AudioFormat(encoding="pcm_s16le", sample_rate_hz=22_050)},
        {"voice": "a'b\"c<d"},
    ],
)  # fmt: skip
def test_what_is_sent_is_read(changes):
    request = attrs.evolve(REQUEST, dialect="azure_speech", model="neural", **changes)
    assert speech.parse(speech.output_format(request.format), speech.body(request)) == request


def test_settings_that_a_voice_does_not_need():
    assert b"lang>" not in speech.body(attrs.evolve(REQUEST, language="en-GB"))
    assert b"prosody" not in speech.body(attrs.evolve(REQUEST, voice="en-US-Ava:DragonHDLatestNeural", speed=2.0))
    assert b'rate="2"' in speech.body(attrs.evolve(REQUEST, speed=9.0))
    assert "\x07" not in speech.body(attrs.evolve(REQUEST, text="a\x07b")).decode()


@pytest.mark.parametrize(
    ("changes", "characters"),
    [
        ({}, 6), ({"text": "a & b"}, 5), ({"text": "漢字とかな"}, 7), ({"speed": 1.5}, 6 + len('<prosody rate="1.5"></prosody>')),
        ({"language": "de-DE"}, 6 + len('<lang xml:lang="de-DE"></lang>')), ({"language": "en-GB"}, 6),
    ],
)  # fmt: skip
def test_billed_characters(changes, characters):
    assert speech.billed_characters(attrs.evolve(REQUEST, **changes)) == characters


@pytest.mark.parametrize(
    ("language", "voice", "speaks"),
    [
        ("en", "en-GB-SoniaNeural", True), ("de", "en-GB-SoniaNeural", False), ("de", "en-US-AvaMultilingualNeural", True),
        ("ja-JP", "en-us-ava:DragonHDOmniLatestNeural", True), ("sr", "sr-Latn-RS-NicholasNeural", True),
    ],
)  # fmt: skip
def test_languages(language, voice, speaks):
    assert speech.speaks(language, voice) is speaks


@pytest.mark.parametrize(
    ("rate_hz", "kbit_per_s", "name", "takes"),
    [
        (0, 0, "audio-24khz-96kbitrate-mono-mp3", True), (48_000, 192, "audio-48khz-192kbitrate-mono-mp3", True),
        (16_000, 0, "audio-16khz-128kbitrate-mono-mp3", True), (22_050, 0, "audio-24khz-96kbitrate-mono-mp3", False),
        (24_000, 320, "audio-24khz-96kbitrate-mono-mp3", False),
    ],
)  # fmt: skip
def test_mp3(rate_hz, kbit_per_s, name, takes):
    fmt = AudioFormat(encoding="mp3", sample_rate_hz=rate_hz, kbit_per_s=kbit_per_s)
    assert (speech.output_format(fmt), speech.takes_mp3(fmt)) == (name, takes)


@pytest.mark.parametrize(
    ("encoding", "rate_hz", "made_hz"),
    [("pcm_s16le", 32_000, 48_000), ("pcm_s16le", 11_025, 24_000), ("pcm_s16le", 44_100, 44_100), ("mulaw", 16_000, 8_000)],
)
def test_rates_that_the_vendor_does_not_have(encoding, rate_hz, made_hz):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=rate_hz)
    assert speech.made_format(fmt) == AudioFormat(encoding=encoding, sample_rate_hz=made_hz)
    assert speech.parse(speech.output_format(fmt), speech.body(REQUEST)).format == speech.made_format(fmt)


@pytest.mark.parametrize(
    ("format_name", "body"),
    [
        ("raw-24khz-16bit-mono-pcm", b"no xml"), ("raw-24khz-16bit-mono-pcm", b"<speak/>"),
        ("raw-7khz-16bit-mono-pcm", speech.body(REQUEST)),
        ("audio-24khz-97kbitrate-mono-mp3", speech.body(REQUEST)), ("", speech.body(REQUEST)),
        ("raw-24khz-16bit-mono-pcm", speech.body(attrs.evolve(REQUEST, text=" "))),
    ],
)  # fmt: skip
def test_bad_requests(format_name, body):
    with pytest.raises(ClientProtocolError):
        speech.parse(format_name, body)
