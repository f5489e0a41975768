"""Captured sound, with the codec: in over HTTP, out as a WAV of the same length, and not in clear anywhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from gw.codecs import speech_parts
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.wire import multipart, wav
from tests.contract.endpoints import BOUNDARY, recording
from tests.contract.test_capture import CANARY, CONFIG, SECRET, captured, nowhere_in_clear
from tests.fakes.running import Running, open_running

pytestmark = pytest.mark.clients

LIVE = CONFIG.replace("text: true", "text: true, audio: true")


@pytest.fixture
async def live(tmp_path):
    async with open_running(tmp_path, LIVE, secret=SECRET) as running:
        yield running


async def test_a_speech_is_captured_with_its_sound(live: Running, tmp_path: Path):
    body = {"model": "sim/tone", "input": f"say the {CANARY}", "voice": "alloy", "response_format": "pcm"}
    answer = await live.ask("POST", "/v1/audio/speech", body, x_gw_project="kept", x_gw_session="s1")
    assert answer.status == 200, answer.body
    (one,) = await captured(live, "s1")
    assert one["said"] == [{"role": "speech", "text": f"say the {CANARY}"}]
    assert one["has_audio"]
    sound = await live.get(f"/v1/capture-audio/{one['request_id']}")
    assert (sound.status, sound.headers["content-type"]) == (200, "audio/wav")
    info = wav.parse(sound.body)
    assert info is not None
    assert len(sound.body) - info.data_offset == len(answer.body)
    assert loudness(sound.body[info.data_offset :]) == pytest.approx(loudness(answer.body), rel=0.2)
    newest = (await live.get("/v1/audit-log?entity_type=capture&limit=1")).json
    assert (newest[0]["entity_id"], newest[0]["changes"]) == (one["request_id"], {"what": "audio", "requests": 1})
    await nowhere_in_clear(live, tmp_path, CANARY.encode(), answer.body[24_000:24_064], b"OggS")


async def test_a_recording_is_captured_with_its_transcript(live: Running, tmp_path: Path):
    samples = recording(CANARY)[44:]
    head, tail = multipart.encode_form(
        [("model", "sim/tone")], file_name="a.wav", file_content_type="audio/wav", boundary=BOUNDARY
    )
    form, content_type = head + recording(CANARY) + tail, f"multipart/form-data; boundary={BOUNDARY.decode()}"
    for project in ("kept", "off"):
        answer = await live.ask(
            "POST", "/v1/audio/transcriptions", form, content_type=content_type, x_gw_project=project, x_gw_session="s1"
        )
        assert answer.json["text"] == CANARY
    (one,) = await captured(live, "s1")
    assert one["said"] == [{"role": "transcript", "text": CANARY}]
    sound = await live.get(f"/v1/capture-audio/{one['request_id']}")
    assert len(sound.body) == 44 + len(samples)
    await nowhere_in_clear(live, tmp_path, CANARY.encode(), samples[16_000:16_064])


def loudness(samples: bytes) -> float:
    values = memoryview(samples).cast("h")
    return (sum(value * value for value in values) / len(values)) ** 0.5


@pytest.mark.parametrize("fmt", [PCM_16K, MULAW_8K, AudioFormat(encoding="pcm_s16le", sample_rate_hz=44_100, channels=2)], ids=str)
def test_a_part_has_exactly_as_many_samples_as_before(fmt):
    data = bytes(fmt.bytes_per_second * 5)
    file = speech_parts.encode(data, fmt)
    assert file.startswith(b"OggS")
    assert len(file) < 20_000
    pcm = speech_parts.pcm_of(fmt)
    assert len(speech_parts.decode(file, pcm, 5.0)) == pcm.bytes_per_second * 5
    assert speech_parts.encode(b"", fmt) == b""
    assert speech_parts.decode(b"", pcm, 0.5) == bytes(pcm.bytes_per_second // 2)
