"""Models that the configuration does not list, from the request of an app to the vendor and into the record."""

from __future__ import annotations

import msgspec

from gw.types.audio import PCM_16K
from gw.types.usage import NANO
from gw.wire import wav
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  openai: {api_key: a-key-of-no-value, base_url: "http://openai.test/v1"}
  elevenlabs: {api_key: a-key-of-no-value, base_url: "http://elevenlabs.test"}
  deepgram: {api_key: a-key-of-no-value, base_url: "http://deepgram.test"}
  sim: {}
models: {llm: [sim/echo], tts: [sim/tone], stt: [sim/tone]}
fallbacks: {tts: [sim/tone], stt: [sim/tone]}
"""


def chat(model):
    return msgspec.json.encode({"model": model, "messages": [{"role": "user", "content": "Hello"}]})


async def test_a_bare_name_reaches_the_vendor_and_has_its_price(tmp_path, autojump_clock):
    vendor = FakeOpenAI(reply="one two three", models=("gpt-4.1-nano",))
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["openai.test", 80] = hosted(vendor)
        reply = await plane.post("/v1/chat/completions", chat("gpt-4.1-nano"))
        assert reply.status == 200
        record = plane.kept.record
        assert (record.model_id, record.provider, record.status) == ("openai/gpt-4.1-nano", "openai", "success")
        # 0.10 and 0.40 USD per million tokens (gw/pricing/rates/openai.toml)
        tokens = record.usage.input_tokens * 0.10 + record.usage.output_tokens * 0.40
        assert tokens > 0
        assert record.cost_nusd == round(tokens * NANO / 1_000_000)


async def test_speech_without_a_model_is_the_vendor_s_documented_default(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["elevenlabs.test", 80] = hosted(FakeElevenLabs())
        reply = await plane.post("/v1/text-to-speech/v?output_format=pcm_24000", msgspec.json.encode({"text": "one two three"}))
        assert reply.status == 200
        assert plane.kept.record.model_id == "elevenlabs/eleven_multilingual_v2"


async def test_a_recording_without_a_model_is_the_vendor_s_documented_default(tmp_path, autojump_clock):
    recording = wav.header(PCM_16K, 64_000) + bytes(64_000)
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["deepgram.test", 80] = hosted(FakeDeepgram(models=("base-general",)))
        reply = await plane.post("/v1/listen", recording, "audio/wav")
        assert reply.status == 200
        record = plane.kept.record
        # 0.0125 USD per minute (gw/pricing/rates/deepgram.toml)
        assert (record.model_id, record.cost_nusd) == ("deepgram/base-general", round(2 / 60 * 0.0125 * NANO))


async def test_many_unlisted_names_are_not_kept(tmp_path, autojump_clock, monkeypatch):
    monkeypatch.setattr("gw.relay.endpoints._MOST_ENDPOINTS", 3)
    monkeypatch.setattr("gw.relay.limits._MOST_MODELS", 3)
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["openai.test", 80] = hosted(FakeOpenAI(models=("gpt-4.1-nano",)))
        for number in range(8):
            await plane.post("/v1/chat/completions", chat(f"name-{number}"))
        planner = plane.gateway.relay.planner
        assert len(planner._endpoints._by_model) <= 3
        (gate,) = planner._limits._gates.values()
        assert list(gate.models) == [f"llm:openai/name-{number}" for number in (5, 6, 7)]
        assert planner._cache == {}
