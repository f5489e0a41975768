"""Numbers that cannot be true in a vendor's usage: the answer goes through, and costs what our own count says."""

from __future__ import annotations

from contextlib import asynccontextmanager
from functools import partial
from itertools import product
from typing import Any

import trio

from gw.store.writer import GATHER_S
from tests.contract.money_cases import chat
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import SetClock
from tests.fakes.vendors import billing
from tests.fakes.vendors.billing import BillingVendor, Reply

YAML = """
providers:
  openai: {{api_key: sk-0123456789abcdef, base_url: "{bills}/v1"}}
  anthropic: {{api_key: sk-ant-0123456789, base_url: "{bills}"}}
models:
  llm: [openai/gpt-4o, anthropic/claude-haiku-4-5]
"""
NUMBERS = (b"NaN", b"Infinity", b"-Infinity", b"1e400", b"1" + b"0" * 400, b"1" + b"0" * 5_000, b"1" + b"0" * 12, b"30000000")
PLACE = 12_345


@asynccontextmanager
async def opened(folder: Any) -> Any:
    bills = BillingVendor()
    async with trio.open_nursery() as nursery:
        place = await nursery.start(partial(serve_asgi, bills))
        async with open_running(folder, YAML.format(bills=place), SetClock()) as running:
            yield running, bills
        nursery.cancel_scope.cancel()


def reply_of(kind: str, number: bytes, *, stream: bool) -> Reply:
    """Return a complete answer whose counts of input and of output are this number."""
    if kind == "anthropic":
        reply = billing.anthropic_messages(billing.anthropic_usage(PLACE, PLACE), stream=stream)
    else:
        reply = billing.openai_chat(billing.openai_usage(PLACE, PLACE), None, stream=stream)
    return Reply(reply.body.replace(b"%d" % PLACE, number), reply.content_type)


async def test_an_impossible_usage_costs_neither_the_answer_nor_a_fortune(tmp_path, mock_clock):
    cells = 0
    async with opened(tmp_path) as (running, bills):
        for number, kind, stream in product(NUMBERS, ("openai", "anthropic"), (False, True)):
            bills.reply = reply_of(kind, number, stream=stream)
            if kind == "openai":
                answer = await running.ask("POST", "/v1/chat/completions", chat("openai/gpt-4o", stream=stream))
            else:
                body = chat("anthropic/claude-haiku-4-5", stream=stream, max_tokens=9)
                answer = await running.ask("POST", "/v1/messages", body, anthropic_version="2023-06-01")
            what = (number[:12], kind, stream)
            assert (answer.status, b"Hi." in answer.body) == (200, True), (what, answer.body)
            assert b"NaN" not in answer.body, what  # no JSON, so a client could not read it
            mock_clock.jump(GATHER_S)
            record = (await running.get(f"/v1/requests/{answer.headers['x-request-id']}")).json
            assert (record["status"], record["usage"]["source"]) == ("success", "estimated"), (what, record)
            assert 0 < record["cost_usd"] < 0.001, (what, record)
            cells += 1
    assert cells == 32
