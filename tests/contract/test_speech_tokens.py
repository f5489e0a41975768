"""Speech that a vendor bills by the tokens of text and of audio, Gemini's: what reports say of an answer and of live speech."""

from __future__ import annotations

import pytest

from gw.providers.sim import fsk
from tests.contract.readers import READERS, Spoken, receive_speech, send
from tests.fakes.complete import open_complete
from tests.fakes.records import HandClock
from tests.fakes.vendors.gemini import FakeGemini

MODEL = "gemini/gemini-3.8-flash-tts"
YAML = f"""
providers: {{gemini: {{api_key: k, base_url: "http://gemini.test/v1beta/openai"}}}}
models: {{tts: {{{MODEL}: {{default_voice: Kore}}}}}}
"""
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC."""
INPUT_USD, OUTPUT_USD = 0.5 / 10**6, 9 / 10**6
TEXT = "This is the first of two sentences. And this here is the second one."


def fake() -> FakeGemini:
    return FakeGemini(prefix="/v1beta", api_key="k", speech_pcm=lambda request: b"".join(fsk.encode(request.text, 24_000)))


async def check(gateway, vendor):
    used = [entry.usage for entry in vendor.ledger]
    cost = sum(usage.input_tokens * INPUT_USD + usage.output_tokens * OUTPUT_USD for usage in used)
    costs = await gateway.json("/v1/costs")
    assert costs["total"] == pytest.approx(cost, abs=1e-9)
    assert costs["total"] > 0
    [record] = await gateway.json("/v1/logs")
    detail = await gateway.json(f"/v1/requests/{record['id']}")
    assert (detail["usage"]["output_audio_tokens"], detail["usage"]["source"]) == (sum(usage.output_tokens for usage in used), "vendor")
    assert detail["cost_usd"] == pytest.approx(cost, abs=1e-9)


async def test_an_answer(tmp_path, autojump_clock):
    vendor = fake()
    async with open_complete(YAML, tmp_path, {"gemini.test": vendor}, HandClock(NOON)) as gateway:
        body = {"model": MODEL, "input": TEXT, "voice": "Puck", "response_format": "pcm", "instructions": "Whisper."}
        status, pcm = await gateway.request("POST", "/v1/audio/speech", body)
        assert status == 200
        assert " ".join(done.text for done in fsk.decode(pcm, 24_000)) == TEXT
        assert (vendor.ledger[0].fields["voice"], vendor.ledger[0].fields["style"]) == ("Puck", "Whisper.")
        await check(gateway, vendor)


async def test_live_speech(tmp_path, autojump_clock):
    vendor, reader = fake(), next(reader for reader in READERS if reader.name.startswith("deepgram"))
    async with open_complete(YAML, tmp_path, {"gemini.test": vendor}, HandClock(NOON)) as gateway:
        spoken = Spoken()
        async with reader.open(gateway, MODEL) as ws:
            await send(ws, [*reader.begin(MODEL), *reader.say(TEXT), *reader.end], MODEL)
            await receive_speech(reader, ws, spoken)
        assert len(vendor.ledger) == 2
        await check(gateway, vendor)
