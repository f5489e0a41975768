"""Recordings in ElevenLabs' protocol: what the gateway cannot do is refused as ElevenLabs would, and not left out."""

from __future__ import annotations

import pytest

from tests.contract.endpoints import form_body
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

CONFIG = """
providers: {own: {type: elevenlabs, api_key: k, base_url: "http://own.test"}, sim: {latency_ms: 0}}
models: {stt: [own/scribe_v2, sim/tone]}
"""


@pytest.mark.parametrize("model", ["own/scribe_v2", "sim/tone"])
async def test_a_webhook_is_refused_since_nobody_would_call_it(tmp_path, autojump_clock, model):
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["own.test", 80] = hosted(FakeElevenLabs(api_key="k"))
        for members in ({"webhook": "true"}, {"webhook": "True", "webhook_id": "w1"}):
            refused = await plane.post("/v1/speech-to-text", *form_body(model, model_id=model, **members))
            detail = refused.json["detail"]
            assert (refused.status, detail["param"]) == (400, "webhook")
            assert "webhook is not supported" in detail["message"]
            assert plane.kept.records == []
        answered = await plane.post("/v1/speech-to-text", *form_body(model, model_id=model, webhook="false"))
        assert (answered.status, "text" in answered.json) == (200, True)
