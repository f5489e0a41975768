"""Tokens that a model spent on reasoning: whoever answers, callers of every dialect see the vendor's count, and pay it once."""

from __future__ import annotations

import msgspec
import trio

from gw.types.usage import NANO, Usage
from gw.wire.sse import SseDecoder
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.running import open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  groq: {api_key: k, base_url: "http://groq.test/openai/v1"}
  anthropic: {api_key: k, base_url: "http://anthropic.test"}
models:
  llm:
    openai/o4-mini: {price: &price {unit: 1M_tokens, input: 1, output: 10}}
    groq/openai/gpt-oss-20b: {price: *price}
    anthropic/claude-sonnet-4-5: {price: *price}
"""
VENDORS = ("openai/o4-mini", "groq/openai/gpt-oss-20b", "anthropic/claude-sonnet-4-5")
MESSAGES = [{"role": "user", "content": "Hi"}]
CALLERS = {
    "/v1/chat/completions": {"messages": MESSAGES, "stream_options": {"include_usage": True}},
    "/v1/responses": {"input": "Hi"},
    "/v1/messages": {"messages": MESSAGES, "max_tokens": 900},
}
COSTS_NUSD = (20 * 1 + 50 * 10) * NANO // 1_000_000


def reported(path: str, usage: dict) -> tuple[int, object]:
    """Return the output tokens and those of reasoning, as the caller's SDK reads them."""
    if path == "/v1/chat/completions":
        return usage["completion_tokens"], usage.get("completion_tokens_details", {}).get("reasoning_tokens")
    name = "thinking_tokens" if path == "/v1/messages" else "reasoning_tokens"
    return usage["output_tokens"], usage.get("output_tokens_details", {}).get(name)


def last_usage(body: bytes, *, stream: bool) -> dict:
    """Return the usage that the answer, or the last event with one, has."""
    if not stream:
        return msgspec.json.decode(body)["usage"]
    events = [msgspec.json.decode(event.data) for event in SseDecoder().feed(body) if event.data != b"[DONE]"]
    found = [event.get("response", event).get("usage") for event in events]
    return [usage for usage in found if usage][-1]


async def asked(plane, path: str, model: str, *, stream: bool) -> dict:
    body = {**CALLERS[path], "model": model, "stream": stream}
    if not stream:
        body.pop("stream_options", None)
    reply = await plane.post(path, msgspec.json.encode(body))
    assert reply.status == 200, (path, model, reply.body)
    return last_usage(reply.body, stream=stream)


def hosts(plane, usage: Usage) -> None:
    models = tuple(model.partition("/")[2] for model in VENDORS)
    fakes = {
        "openai": FakeOpenAI(reply="one two three", models=models, usage=usage),
        "groq": FakeOpenAI(reply="one two three", models=models, usage=usage, prefix="/openai/v1"),
        "anthropic": FakeAnthropic(reply="one two three", models=models, usage=usage),
    }
    for name, fake in fakes.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(fake)


async def test_the_vendors_count_reaches_callers_of_every_dialect_and_is_paid_once(tmp_path, autojump_clock):
    cells = 0
    async with open_plane(CONFIG, tmp_path) as plane:
        hosts(plane, Usage(input_tokens=20, output_tokens=50, reasoning_tokens=40, source="vendor"))
        for model in VENDORS:
            for path in CALLERS:
                for stream in (False, True):
                    usage = await asked(plane, path, model, stream=stream)
                    assert reported(path, usage) == (50, 40), (path, model, stream)
                    record = plane.kept.records[-1]
                    assert (record.usage.output_tokens, record.cost_nusd) == (50, COSTS_NUSD), (path, model, stream)
                    cells += 1
    assert cells == 18


async def test_a_count_that_no_vendor_gives_is_left_out_where_the_dialect_can(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        hosts(plane, Usage(input_tokens=20, output_tokens=50, source="vendor"))
        for path, other in (("/v1/chat/completions", VENDORS[2]), ("/v1/messages", VENDORS[0]), ("/v1/responses", VENDORS[2])):
            usage = await asked(plane, path, other, stream=False)
            unknown = 0 if path == "/v1/responses" else None  # the SDK of responses insists on a number
            assert reported(path, usage) == (50, unknown), path


async def test_the_request_shows_it(tmp_path):
    usage = Usage(input_tokens=20, output_tokens=50, reasoning_tokens=40, source="vendor")
    async with trio.open_nursery() as nursery:
        url = await nursery.start(serve_asgi, FakeAnthropic(reply="one", models=("claude-sonnet-4-5",), usage=usage))
        async with open_running(tmp_path, CONFIG.replace("http://anthropic.test", url)) as running:
            body = {"model": VENDORS[2], "messages": MESSAGES}
            answer = await running.ask("POST", "/v1/chat/completions", body)
            shown = await running.get(f"/v1/requests/{answer.headers['x-request-id']}")
            found = shown.json["usage"]
            assert (shown.status, found["output_tokens"], found["reasoning_tokens"]) == (200, 50, 40)
        nursery.cancel_scope.cancel()
