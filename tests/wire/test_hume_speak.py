"""Hume's speech: requests of both roles, lines of the answer, and errors."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, UpstreamCut
from gw.types.audio import AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.wire import hume_speak
from gw.wire.hume_speak import HumeDecoder

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "hume" / "speak.json").read_text("utf-8"))
LINES = [json.dumps(line).encode() + b"\n" for line in GOLDEN["lines"]]
PCM_48K = AudioFormat(encoding="pcm_s16le", sample_rate_hz=48_000)
REQUEST = SpeakRequest(model="m", text="Hello.", voice="Ava Song", format=PCM_48K, dialect="openai")
OWN = "5bb7de05-c8fe-426a-8fcc-ba4fc4ce9f9c"


def test_the_golden_lines():
    decoder = HumeDecoder("p")
    assert decoder.feed(b"".join(LINES)) == [AudioChunk(data=b"\0\1\2"), AudioChunk(data=b"\3\4\5")]
    assert decoder.end() == [SpeakEnd()]


def test_an_end_within_a_snippet_is_a_cut():
    decoder = HumeDecoder("p")
    decoder.feed(LINES[0])
    with pytest.raises(UpstreamCut):
        decoder.end()


def test_an_error_among_the_lines():
    with pytest.raises(ProviderFailed) as caught:
        HumeDecoder("p", ("secret",)).feed(json.dumps(GOLDEN["error"]).encode() + b"\n")
    assert caught.value.upstream_code == "E0001"
    assert "secret" not in caught.value.detail


@pytest.mark.parametrize(
    ("status", "body", "fault"),
    [
        (400, hume_speak.error_body("E1", "Voice not found: x"), "request"),
        (400, hume_speak.error_body("E2", "the text is too long"), "caller"),
        (422, b'{"detail":[{"loc":["body","version"],"msg":"version is not known","type":"value_error"}]}', "request"),
        (401, b'{"message":"Invalid ApiKey"}', "candidate"),
    ],
)  # fmt: skip
def test_refusals(status, body, fault):
    error = hume_speak.classify("p", status, None, body)
    assert isinstance(error, ProviderRejected)
    assert error.fault == fault


@pytest.mark.parametrize("encoding", hume_speak.ENCODINGS)
@pytest.mark.parametrize("voice", ["Ava Song", OWN])
def test_a_server_reads_what_the_client_writes(encoding, voice):
    fmt = PCM_48K if encoding == "pcm_s16le" else AudioFormat(encoding=encoding, sample_rate_hz=0)
    request = attrs.evolve(REQUEST, voice=voice, format=fmt, speed=1.25, instructions="calm")
    assert hume_speak.parse(hume_speak.body(request, "octave-1")) == attrs.evolve(request, model="octave-1", dialect="hume")
    assert hume_speak.parse(hume_speak.body(request, "octave-2")).instructions is None


def test_voices():
    for voice, expected in (("Ava Song", {"name": "Ava Song", "provider": "HUME_AI"}), (OWN, {"id": OWN, "provider": "CUSTOM_VOICE"})):
        sent = msgspec.json.decode(hume_speak.body(attrs.evolve(REQUEST, voice=voice), "octave-2"))
        assert sent["utterances"][0]["voice"] == expected
        assert (sent["version"], sent["instant_mode"]) == ("2", True)


@pytest.mark.parametrize(("speed", "expected"), [(0.1, 0.5), (1.0, 1.0), (4.0, 2.0)])
def test_speed_has_bounds(speed, expected):
    assert hume_speak.parse(hume_speak.body(attrs.evolve(REQUEST, speed=speed), "octave-2")).speed == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"utterances":[]}', "utterances"), (b'{"utterances":[{"text":"a"}],"format":{"type":"ogg"}}', "utterances"),
        (b'{"utterances":[{"text":" "}]}', "utterances.0.text"), (b'{"utterances":[{"text":"a"}],"version":"2"}', "version"),
        (b'{"utterances":[{"text":"a"}],"version":"3"}', "version"), (b'{"utterances":[{"text":"a","speed":3}]}', "utterances.0.speed"),
    ],
)  # fmt: skip
def test_a_request_that_the_vendor_refuses(body, param):
    with pytest.raises(ClientProtocolError) as caught:
        hume_speak.parse(body)
    assert caught.value.param == param
