"""A conversation with a Live model, in its own protocol and in OpenAI's, from the socket to the reports: what each of them says it cost."""

from __future__ import annotations

import msgspec
import pytest

from gw.net.ws import open_ws
from gw.wire import gemini_live
from tests.fakes.complete import open_complete
from tests.fakes.hosting import GATEWAY
from tests.fakes.records import HandClock
from tests.fakes.vendors.gemini import FakeGemini

YAML = """
providers: {gemini: {api_key: k, base_url: "http://gemini.test/v1beta/openai"}}
models: {llm: {gemini/gemini-3.8-live: {aliases: [gemini-3.8-live]}}}
projects: {shop: {daily_budget: 5, budget_action: block}}
"""
HEADERS = [(b"x-gw-project", b"shop")]
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC."""
USD = ((300 + 600 + 60) * 0.75 + (200 + 640) * 3 + 260 * 1 + (30 + 40) * 4.5 + 120 * 12) / 1e6 + 0.014
"""Text with the tool's results, audio, video, text with thoughts, audio of the answer; a search."""


async def ask_in_googles_protocol(connect):
    async with open_ws("client", GATEWAY, gemini_live.path("v1beta").encode(), headers=HEADERS, connect=connect) as ws:
        await ws.send(msgspec.json.encode({"setup": {"model": "models/gemini-3.8-live"}}).decode())
        content = {"turns": [{"role": "user", "parts": [{"text": "one two"}]}], "turnComplete": True}
        await ws.send(msgspec.json.encode({"clientContent": content}).decode())
        while b"turnComplete" not in await ws.receive():
            pass


async def ask_in_openais_protocol(connect):
    async with open_ws("client", GATEWAY, b"/v1/realtime?model=gemini-3.8-live", headers=HEADERS, connect=connect) as ws:
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "one two"}]}
        await ws.send(msgspec.json.encode({"type": "conversation.item.create", "item": item}).decode())
        await ws.send('{"type":"response.create"}')
        while '"response.done"' not in await ws.receive():
            pass


@pytest.mark.parametrize("ask", [ask_in_googles_protocol, ask_in_openais_protocol])
async def test_a_turn_in_every_report(tmp_path, autojump_clock, ask):
    gemini = FakeGemini(prefix="/v1beta")
    gemini.live.searches = ("weather Paris",)
    async with open_complete(YAML, tmp_path, {"gemini.test": gemini}, HandClock(NOON)) as gateway:
        await ask(gateway.client.connect)
        for entry in gemini.ledger:
            await entry.aborted.wait()
        (record,) = await gateway.json("/v1/logs")
        detail = await gateway.json(f"/v1/requests/{record['id']}")
        usage = detail["usage"]
        assert (usage["input_tokens"], usage["cached_input_tokens"], usage["input_audio_tokens"]) == (2_060, 500, 840)
        assert (usage["output_tokens"], usage["reasoning_tokens"], usage["output_audio_tokens"]) == (190, 40, 120)
        assert usage["dimensions"] == {"cached_audio_tokens": 200, "image_tokens": 260, "searches": 1}
        assert detail["cost_usd"] == record["cost_usd"] == pytest.approx(USD, abs=1e-9)
        costs = await gateway.json("/v1/costs?project=shop")
        assert costs["total"] == pytest.approx(USD, abs=1e-8)
        assert (await gateway.json("/v1/projects/shop"))["today_spend"] == pytest.approx(USD, abs=1e-8)
        assert (await gateway.metrics())["gw_cost_usd_total", (("period", "today"),)] == pytest.approx(USD, abs=1e-8)
