"""A caller's speed where a vendor takes fewer of them, or none.

Sources: developers.deepgram.com/docs/tts-voice-controls and its changelog of 2026-08-31; docs.cartesia.ai, "Older TTS Models" and
"Volume, Speed, and Emotion".
"""

from __future__ import annotations

from urllib.parse import parse_qs

import msgspec
import pytest

from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram

CONFIG = """
providers:
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
models:
  tts:
    deepgram/aura-2-thalia-en: {}
    deepgram/flux-alexis-en: {}
    deepgram/aura-asteria-en: {}
    cartesia/sonic-3.5: {default_voice: v}
    cartesia/sonic-turbo: {default_voice: v}
"""


async def _speak(plane, model, **members):
    body = {"model": model, "input": "alpha bravo.", "voice": "alloy", "response_format": "pcm", **members}
    return await plane.post("/v1/audio/speech", msgspec.json.encode(body))


@pytest.mark.parametrize(
    ("model", "speed", "sent"),
    [
        ("aura-2-thalia-en", 1.07, "1.07"), ("aura-2-thalia-en", 2, "1.5"), ("aura-2-thalia-en", 0.5, "0.7"),
        ("flux-alexis-en", 1.07, "1.05"), ("flux-alexis-en", 2, "1.5"), ("flux-alexis-en", 0.3, "0.5"),
    ],
)  # fmt: skip
async def test_the_nearest_speed_that_the_voice_has(model, speed, sent, tmp_path, autojump_clock):
    fake = FakeDeepgram(api_key="k", models=(model,))
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["deepgram.test", 80] = hosted(fake)
        reply = await _speak(plane, f"deepgram/{model}", speed=speed)
        assert reply.status == 200, reply.body[:300]
        assert "x-gw-ignored-settings" not in reply.headers
    (entry,) = fake.ledger
    assert parse_qs(entry.fields["query"])["speed"] == [sent]


async def test_voices_without_a_speed_are_not_sent_one(tmp_path, autojump_clock):
    fake = FakeDeepgram(api_key="k", models=("aura-asteria-en",))
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["deepgram.test", 80] = hosted(fake)
        reply = await _speak(plane, "deepgram/aura-asteria-en", speed=1.2)
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "speed")
        assert plane.kept.record.attempts[0].ignored_settings == ("speed",)
    (entry,) = fake.ledger
    assert "speed" not in parse_qs(entry.fields["query"])


@pytest.mark.parametrize(("query", "refused"), [("speed=0.6", True), ("speed=1.2", False)])
async def test_a_caller_of_the_vendors_own_protocol_gets_its_own_answer(query, refused, tmp_path, autojump_clock):
    fake = FakeDeepgram(api_key="k")
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["deepgram.test", 80] = hosted(fake)
        reply = await plane.post(f"/v1/speak?model=deepgram/aura-2-thalia-en&{query}", b'{"text":"alpha bravo."}')
    assert (reply.status == 400) is refused, reply.body[:300]
    (entry,) = fake.ledger
    assert query in entry.fields["query"]


@pytest.mark.parametrize(("model", "sent", "ignored"), [("sonic-3.5", {"speed": 1.5}, None), ("sonic-turbo", None, "speed")])
async def test_models_that_would_ignore_a_speed_are_not_sent_one(model, sent, ignored, tmp_path, autojump_clock):
    fake = FakeCartesia(api_key="k")
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["cartesia.test", 80] = hosted(fake)
        reply = await _speak(plane, f"cartesia/{model}", speed=2)
        assert (reply.status, reply.headers.get("x-gw-ignored-settings")) == (200, ignored), reply.body[:300]
    (entry,) = fake.ledger
    assert entry.fields.get("generation_config") == sent
