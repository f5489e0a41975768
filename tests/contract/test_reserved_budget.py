"""A budget that only requests in flight fill is not used up: its project is asked to try again, and may."""

from __future__ import annotations

import msgspec
import trio

from tests.fakes.complete import open_complete
from tests.fakes.hosting import GATEWAY
from tests.fakes.records import HandClock
from tests.fakes.vendors.openai import FakeOpenAI

YAML = """
providers: {openai: {api_key: k, base_url: "http://openai.test/v1"}}
models: {llm: {openai/m: {price: {unit: 1M_tokens, input: 10, output: 10}}}}
projects: {shop: {daily_budget: 0.01, budget_action: block}}
"""
BODY = {"model": "openai/m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1_000}
"""Its estimate is the whole budget, its cost a small part of it."""


async def test_reservations_ask_to_try_again_and_money_spent_does_not(tmp_path, autojump_clock):
    vendor = FakeOpenAI(api_key="k", first_token_after_s=3.0)
    answered: list[int] = []
    async with open_complete(YAML, tmp_path, {"openai.test": vendor}, HandClock(1_795_176_000.0)) as gateway:

        async def chat() -> tuple[int, dict[str, str], dict[str, object]]:
            async with gateway.client.open(
                "client", b"POST", GATEWAY, b"/v1/chat/completions",
                [(b"content-type", b"application/json"), (b"x-gw-project", b"shop")], msgspec.json.encode(BODY),
            ) as response:  # fmt: skip
                body = msgspec.json.decode(await response.read(100_000))
                return response.status, {k.decode().lower(): v.decode() for k, v in response.headers}, body

        async def first() -> None:
            answered.append((await chat())[0])

        async with trio.open_nursery() as nursery:
            nursery.start_soon(first)
            await trio.sleep(1.0)  # the first one waits for its vendor
            status, headers, body = await chat()
            error = body["error"]
            assert (status, error["code"], headers["retry-after"]) == (503, "budget_reserved", "1"), error
            assert "reserved" in error["message"]
            assert headers.get("x-should-retry") != "false"
        assert answered == [200]
        status, _, _ = await chat()
        assert status == 200
        [refused] = [line for line in await gateway.json("/v1/logs") if line["error_code"]]
        assert (refused["error_code"], refused["cost_usd"]) == ("budget_reserved", 0.0)
