"""An app's own model names, of which none is listed: they go to the vendor whose protocol the app speaks."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
models: {llm: [openai/gpt-4o]}
"""
CHAT = b'{"model": "gpt-4.1-nano", "messages": [{"role": "user", "content": "hi"}]}'
SPEECH = b'{"text": "good morning"}'


@pytest.mark.parametrize("setting", ["", "routing: {unlisted_models: refuse}\n"])
async def test_names_of_the_apps_vendor(tmp_path: Path, setting: str) -> None:
    openai, deepgram = FakeOpenAI(), FakeDeepgram()
    async with open_plane(CONFIG + setting, tmp_path) as plane:
        plane.net.hosts["openai.test", 80] = hosted(openai)
        plane.net.hosts["deepgram.test", 80] = hosted(deepgram)
        chat = await plane.post("/v1/chat/completions", CHAT)
        speech = await plane.post("/v1/speak?model=aura-2-helena-en&encoding=linear16", SPEECH)
        unknown = await plane.post("/v1/chat/completions", CHAT.replace(b"gpt-4.1-nano", b"openai/gpt-4.1-nano"))
        assert unknown.status == 404  # an id of this gateway, whose mistakes the gateway reports
        if setting:
            assert (chat.status, speech.status) == (404, 404)
            assert openai.ledger == deepgram.ledger == []
            return
        assert (chat.status, speech.status) == (200, 200)
        assert openai.ledger[0].fields["model"] == "gpt-4.1-nano"
        assert [reply.headers["x-gw-model"] for reply in (chat, speech)] == ["openai/gpt-4.1-nano", "deepgram/aura-2-helena-en"]
        assert float(chat.headers["x-gw-cost-usd"]) > 0  # priced by its name
