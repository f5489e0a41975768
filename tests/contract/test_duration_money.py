"""A conversation that its vendor bills by duration, from the socket to the reports: what each of them says it cost."""

from __future__ import annotations

import pytest
import trio

from gw.net.ws import open_ws
from tests.fakes.complete import open_complete
from tests.fakes.conversing import Conversing
from tests.fakes.hosting import GATEWAY
from tests.fakes.records import HandClock
from tests.fakes.vendors.openai_variants import CONVENTIONS, FakeVariant

YAML = """
providers: {xai: {api_key: k, base_url: "http://xai.test/v1"}}
models: {llm: {xai/grok-voice-3.0: }}
projects: {shop: {daily_budget: 5, budget_action: block}}
"""
NOON = 1_795_176_000.0
"""2026-11-20 12:00 UTC."""


async def test_a_session_in_every_report(tmp_path, autojump_clock):
    """A message, an answer, and a minute of silence after it."""
    xai = FakeVariant(conventions=CONVENTIONS["xai"])
    async with open_complete(YAML, tmp_path, {"xai.test": xai}, HandClock(NOON)) as gateway:
        target = b"/v1/realtime?model=xai/grok-voice-3.0"
        headers = [(b"x-gw-project", b"shop")]
        async with open_ws("client", GATEWAY, target, headers=headers, connect=gateway.client.connect) as ws:
            client = Conversing(ws)
            await client.until("conversation.created")
            await client.say("what is the weather")
            await client.send("response.create")
            done = await client.until("response.done")
            await trio.sleep(60)
        for entry in xai.ledger:
            await entry.aborted.wait()
        records = {record["status"]: record for record in await gateway.json("/v1/logs")}
        answer, silence = records["success"], records["cancelled"]
        answered_s = done["usage"]["billable_audio_seconds"]
        detail, rest = [await gateway.json(f"/v1/requests/{record['id']}") for record in (answer, silence)]
        assert (detail["usage"]["audio_seconds"], detail["usage"]["source"]) == (answered_s, "vendor")
        assert detail["usage"]["dimensions"] == {"text_messages": 1}
        assert detail["cost_usd"] == answer["cost_usd"] == pytest.approx(answered_s * 0.08 / 60 + 0.004, abs=1e-8)
        assert rest["usage"]["audio_seconds"] in (60.0, 61.0)
        assert rest["cost_usd"] == silence["cost_usd"] == pytest.approx(rest["usage"]["audio_seconds"] * 0.08 / 60, abs=1e-8)
        whole = answer["cost_usd"] + silence["cost_usd"]
        costs = await gateway.json("/v1/costs?project=shop")
        assert costs["total"] == pytest.approx(whole, abs=1e-8)
        [charge] = costs["charges"]
        assert charge["audio_seconds"] == pytest.approx(answered_s + rest["usage"]["audio_seconds"])
        assert charge["cost"] == pytest.approx(whole, abs=1e-8)
        assert (await gateway.json("/v1/projects/shop"))["today_spend"] == pytest.approx(whole, abs=1e-8)
        assert (await gateway.metrics())["gw_cost_usd_total", (("period", "today"),)] == pytest.approx(whole, abs=1e-8)
