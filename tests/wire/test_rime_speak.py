"""Rime's speech: requests of both roles, languages, speed and errors."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import rime_speak

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "rime" / "speak.json").read_text("utf-8"))
REQUEST = SpeakRequest(model="m", text="Hello.", voice="lyra", format=PCM_24K, dialect="openai")


def test_the_golden_requests():
    read = [rime_speak.parse(case["accept"], json.dumps(case["body"]).encode()) for case in GOLDEN["requests"]]
    assert [(request.model, request.voice, request.text) for request in read] == [
        (case["body"]["modelId"], case["body"]["speaker"], case["body"]["text"]) for case in GOLDEN["requests"]
    ]
    assert [request.format for request in read] == [
        AudioFormat(encoding="mp3"), AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000),
        AudioFormat(encoding="mulaw", sample_rate_hz=8_000),
    ]  # fmt: skip
    assert [read[1].language, read[2].speed] == ["eng", pytest.approx(1.111, abs=0.001)]


def test_the_golden_errors():
    subscription, key, voice = (rime_speak.classify("p", case["status"], None, case["body"].encode()) for case in GOLDEN["errors"])
    assert isinstance(subscription, ProviderFailed)
    assert (subscription.out_of_credit, subscription.upstream_code) == (True, "invalid_subscription")
    assert isinstance(key, ProviderRejected)
    assert (key.fault, key.detail) == ("candidate", "HTTP 401: empty apikey")
    assert isinstance(voice, ProviderRejected)
    assert (voice.fault, voice.retryable) == ("request", True)


def test_other_errors():
    limit = rime_speak.classify("p", 429, b"3", b"too many requests")
    assert isinstance(limit, RateLimitError)
    assert limit.retry_after_s == 3
    page = rime_speak.classify("p", 502, None, b"<html>bad gateway of a secret kind</html>", ("secret",))
    assert (type(page), page.detail) == (ProviderFailed, "HTTP 502")
    rejected = rime_speak.classify("p", 400, None, b"text is empty")
    assert (rejected.fault, rejected.retryable) == ("caller", False)
    assert "secret" not in rime_speak.classify("p", 500, None, b"key secret is bad", ("secret",)).detail


@pytest.mark.parametrize(
    ("model", "speed", "member"),
    [
        ("coda", 1.25, {"timeScaleFactor": 0.8}), ("mistv3", 4.0, {"timeScaleFactor": 0.4}), ("mistv2", 0.25, {"speedAlpha": 2.5}),
        ("arcana", 2.0, {}), ("coda", None, {}),
    ],
)  # fmt: skip
def test_speed_is_a_factor_of_duration(model, speed, member):
    members = msgspec.json.decode(rime_speak.body(attrs.evolve(REQUEST, speed=speed), model))
    assert {name: value for name, value in members.items() if "Scale" in name or "Alpha" in name} == member
    assert rime_speak.takes_speed(model) is (model != "arcana")


@pytest.mark.parametrize("encoding", rime_speak.ACCEPTS)
def test_a_server_reads_what_the_client_writes(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=0 if encoding == "mp3" else 8_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de-CH", speed=1.25)
    read = rime_speak.parse(rime_speak.ACCEPTS[encoding], rime_speak.body(request, "coda"))
    assert read == attrs.evolve(request, model="coda", dialect="rime", language="de", speed=pytest.approx(1.25))


def test_a_body_cut_at_every_byte_is_an_error_and_nothing_else():
    body = rime_speak.body(REQUEST, "coda")
    for at in range(len(body)):
        with pytest.raises(ClientProtocolError):
            rime_speak.parse("audio/L16", body[:at])


@pytest.mark.parametrize(
    ("accept", "body", "param"),
    [
        ("application/json", b'{"text":"a","speaker":"b"}', "accept"), ("audio/L16", b'{"text":" ","speaker":"b"}', "text"),
        ("audio/L16", b'{"text":"a"}', "speaker"),
    ],
)  # fmt: skip
def test_a_request_that_the_vendor_refuses(accept, body, param):
    with pytest.raises(ClientProtocolError) as caught:
        rime_speak.parse(accept, body)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("language", "model", "expected"),
    [
        ("en-US", "coda", True), ("ja", "coda", True), ("ja", "mistv2", False), ("hi", "mistv3", True), ("es", "mist", False),
        ("tlh", "own-model", True), ("multi", "coda", False),
    ],
)  # fmt: skip
def test_languages(language, model, expected):
    assert rime_speak.speaks(language, model) is expected
