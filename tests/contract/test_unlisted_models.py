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


GROQ = """
providers:
  groq: {api_key: k, base_url: "http://groq.test/openai/v1"}
  openai: {api_key: k, base_url: "http://openai.test/v1"}
models: {llm: [groq/llama-3.3-70b-versatile]}
"""
ONLY_GROQ = GROQ.replace("  openai: {api_key: k, base_url: \"http://openai.test/v1\"}\n", "")
"""Without a provider of OpenAI's."""
BY_GROQS_SDK = "AsyncGroq/Python 1.7.0"


@pytest.mark.parametrize(
    ("config", "agent", "path", "name", "who"),
    [
        (GROQ, BY_GROQS_SDK, "/openai/v1", "llama-3.1-8b-instant", "groq"),
        (GROQ, BY_GROQS_SDK, "/openai/v1", "meta-llama/llama-4-scout-17b-16e-instruct", "groq"),
        (GROQ, BY_GROQS_SDK, "/openai/v1", "openai/gpt-oss-120b", "groq"),
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/openai/v1", "gpt-4.1-nano", "openai"),
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/openai/v1", "whisper-large-v3", "groq"),  # by the price lists only Groq has it
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/openai/v1", "meta-llama/a-new-one", "groq"),
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/openai/v1", "openai/gpt-oss-120b", "groq"),
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/v1", "meta-llama/a-new-one", None),
        (GROQ, BY_GROQS_SDK, "/v1", "gpt-4.1-nano", "openai"),
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/livekit/v1", "openai/gpt-4.1-nano", "openai"),  # as LiveKit's inference names it
        (GROQ, "AsyncOpenAI/Python 3.52.0", "/livekit/v1", "google/gemini-2.5-flash", None),
        (ONLY_GROQ, "AsyncOpenAI/Python 3.52.0", "/livekit/v1", "openai/gpt-4.1-nano", None),
        (ONLY_GROQ, "AsyncOpenAI/Python 3.52.0", "/openai/v1", "llama-3.1-8b-instant", "groq"),
        (ONLY_GROQ, "AsyncOpenAI/Python 3.52.0", "/v1", "llama-3.1-8b-instant", None),
    ],
)
async def test_names_of_groqs_apps(tmp_path: Path, config: str, agent: str, path: str, name: str, who: str | None) -> None:
    fakes = {"groq": FakeOpenAI(prefix="/openai/v1"), "openai": FakeOpenAI()}
    async with open_plane(config, tmp_path) as plane:
        for vendor, fake in fakes.items():
            plane.net.hosts[f"{vendor}.test", 80] = hosted(fake)
        chat = await plane.post(f"{path}/chat/completions", CHAT.replace(b"gpt-4.1-nano", name.encode()), **{"User-Agent": agent})
        name = name.removeprefix("openai/") if who == "openai" else name
        assert chat.headers.get("x-gw-model") == (f"{who}/{name}" if who else None)
        assert chat.status == (200 if who else 404)
        assert {vendor: [call.fields["model"] for call in fake.ledger] for vendor, fake in fakes.items()} == {
            vendor: [name] if vendor == who else [] for vendor in fakes
        }
