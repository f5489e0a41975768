"""xAI's speech and transcription, from the request to the reports: what each of the four ways cost."""

from __future__ import annotations

import pytest

from gw.net.http1 import Headers
from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.contract.endpoints import recording
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, converse
from tests.fakes.complete import open_complete
from tests.fakes.hosting import GATEWAY
from tests.fakes.records import HandClock
from tests.fakes.vendors.xai import FakeXai

EARS, MOUTH = "xai/grok-voice-transcribe-2.0", "xai/grok-tts"
YAML = f"""
providers: {{xai: {{api_key: k, base_url: "http://xai.test/v1"}}}}
models: {{stt: [{EARS}], tts: {{{MOUTH}: {{default_voice: eve}}}}}}
projects: {{shop: {{daily_budget: 5, budget_action: block}}}}
"""
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC."""
CHARACTER_USD, RECORDED_S_USD, LIVE_S_USD = 15 / 10**6, 0.1 / 3_600, 0.2 / 3_600
TEXT = "This is the first of two sentences. And this here is the second one."
EXACT = {"abs": 1e-9}


@pytest.fixture
def vendor():
    return FakeXai(api_key="k", transcript="")


@pytest.fixture
async def gateway(vendor, tmp_path, autojump_clock):
    async with open_complete(YAML, tmp_path, {"xai.test": vendor}, HandClock(NOON)) as opened:
        yield opened


async def check(gateway, cost: float, **usage: object) -> None:
    """Every report says that the one request cost this."""
    assert cost > 0
    assert (await gateway.json("/v1/costs"))["total"] == pytest.approx(cost, **EXACT)
    [record] = await gateway.json("/v1/logs")
    detail = await gateway.json(f"/v1/requests/{record['id']}")
    assert {name: detail["usage"][name] for name in usage} == usage
    assert detail["cost_usd"] == pytest.approx(cost, **EXACT)
    assert detail["pricing_source"].startswith("table:xai@")


async def post(gateway, path: str, headers: Headers, body: bytes) -> bytes:
    async with gateway.client.open("client", b"POST", GATEWAY, path.encode(), headers, body) as response:
        assert response.status == 200
        return await response.read(1_000_000)


async def test_a_complete_text(gateway, vendor):
    body = {"model": MOUTH, "input": TEXT, "voice": "ara", "response_format": "pcm"}
    status, pcm = await gateway.request("POST", "/v1/audio/speech", body)
    assert status == 200
    assert " ".join(done.text for done in fsk.decode(pcm, 24_000)) == TEXT
    assert vendor.ledger[0].fields["voice"] == "ara"
    await check(gateway, len(TEXT) * CHARACTER_USD, characters=len(TEXT))


async def test_live_speech(gateway):
    reader, spoken = next(reader for reader in READERS if reader.name.startswith("deepgram")), Spoken()
    async with reader.open(gateway, MOUTH) as ws:
        await send(ws, [*reader.begin(MOUTH), *reader.say(TEXT), *reader.end], MOUTH)
        await receive_speech(reader, ws, spoken)
    await check(gateway, len(TEXT) * CHARACTER_USD, characters=len(TEXT))


async def test_a_recording(gateway):
    wave = recording("hello there")
    length_s = round(PCM_16K.seconds(len(wave) - len(wav.header(PCM_16K, 0))), 2)
    answer = await post(gateway, f"/v1/listen?model={EARS}", [(b"content-type", b"audio/wav")], wave)
    assert b"hello there" in answer
    await check(gateway, length_s * RECORDED_S_USD, audio_seconds=length_s, source="vendor")


async def test_live_transcription(gateway, vendor):
    talker = next(talker for talker in TALKERS if talker.dialect == "deepgram")
    received = await converse(talker, gateway, EARS, ["one two three", "four"], pause_s=1.0)
    assert received.finals == ["one two three", "four"]
    heard_s = PCM_16K.seconds(sum(map(len, (bytes(entry.audio) for entry in vendor.ledger))))
    await check(gateway, heard_s * LIVE_S_USD)
