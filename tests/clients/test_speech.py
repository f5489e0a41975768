"""Real speech through a real recogniser: flite speaks, PocketSphinx listens behind the gateway as a local server."""

from __future__ import annotations

import io
import subprocess
import wave
from collections.abc import Callable, Iterator
from pathlib import Path

import openai
import pytest

from tests.clients import pocketsphinx_server
from tests.clients.conftest import Gateway
from tests.e2e.conftest import starter

pytestmark = pytest.mark.clients

SENTENCES = [
    ("slt", "the quick brown fox jumps over the lazy dog"),
    ("slt", "the children are playing in the garden"),
    ("awb", "the weather is very nice today"),
    ("kal16", "my father works in the city"),
]
"""Voice and text, which PocketSphinx gets right word for word; all but the first with every voice of flite."""


@pytest.fixture(scope="module")
def recogniser(package) -> Iterator[str]:
    package("pocketsphinx")
    with pocketsphinx_server.serve() as address:
        yield address


@pytest.fixture(scope="module")
def gateway(recogniser, tmp_path_factory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("speech")
    text = f"""
providers: {{local-stt: {{type: whisper, base_url: {recogniser}}}}}
models: {{stt: [local-stt/{pocketsphinx_server.MODEL}]}}
cost_tracking: {{db_path: {folder}/gw.db}}
routing: {{first_event_s: {{stt: 120}}}}
"""
    with starter(folder) as start:
        yield Gateway(start(text))


@pytest.fixture(scope="module")
def recorded(tool, tmp_path_factory) -> Callable[[str, str], bytes]:
    """`recorded(voice, text)` is flite's WAV of it, 16 kHz."""
    folder: Path = tmp_path_factory.mktemp("speech")

    def speak(voice: str, text: str) -> bytes:
        out = folder / "speech.wav"
        subprocess.run([tool("flite"), "-voice", voice, "-t", text, "-o", str(out)], check=True)
        return out.read_bytes()

    return speak


@pytest.fixture
def client(gateway):
    with openai.OpenAI(base_url=gateway.base, api_key="any", max_retries=0) as sdk:
        yield sdk


def seconds(wav: bytes) -> float:
    with wave.open(io.BytesIO(wav)) as file:
        return file.getnframes() / file.getframerate()


@pytest.mark.parametrize(("voice", "text"), SENTENCES, ids=[text.split()[-1] for _, text in SENTENCES])
def test_the_words_come_back_and_the_record_is_exact(gateway, client, recorded, voice, text):
    wav = recorded(voice, text)
    answer = client.audio.transcriptions.with_raw_response.create(
        model="local-stt/pocketsphinx", file=("speech.wav", wav), response_format="json"
    )
    assert answer.parse().text == text
    assert answer.headers["x-gw-model"] == "local-stt/pocketsphinx"
    record = gateway.record(answer.headers["x-request-id"])
    assert (record["status"], record["provider"], record["modality"]) == ("success", "local-stt", "stt")
    assert (record["cost_usd"], record["pricing_source"]) == (0, "local")
    assert record["unit"] == "audio_seconds"
    assert record["input_units"] == pytest.approx(seconds(wav), abs=0.001)
    assert 0 < record["gateway_ms"] < record["total_latency_ms"]


def test_streamed_although_the_server_cannot(client, recorded):
    voice, text = SENTENCES[0]
    events = list(
        client.audio.transcriptions.create(model="local-stt/pocketsphinx", file=("a.wav", recorded(voice, text)), stream=True)
    )
    assert events[-1].type == "transcript.text.done"
    assert events[-1].text == text


def test_what_the_server_refuses_is_refused(gateway, client, as_wav):
    stereo = bytearray(as_wav(bytes(3200)))
    stereo[22] = 2   # channels, in the header
    with pytest.raises(openai.BadRequestError) as caught:
        client.audio.transcriptions.create(model="local-stt/pocketsphinx", file=("a.wav", bytes(stereo)))
    record = gateway.record(caught.value.request_id)
    assert (record["status"], record["cost_usd"]) == ("error", 0)
