"""Perplexity, which has no chat completions: a gateway before a fake that has only its Agent API. Settings, functions, searches, money."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest

from gw.types.presets import PRESETS
from gw.types.usage import Usage
from gw.wire.chat_variants import NEEDED
from tests.contract.test_presets import HI, chat, value_of
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.perplexity import FakePerplexity

SONAR = "perplexity/perplexity/sonar"
TEXT = "Hello there, how are you?"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
FUNCTION = {"name": "weather", "description": "Return the weather.", "parameters": SCHEMA}
CALLED = [
    *HI,
    {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city":"Rome"}'}},
    ]},
    {"role": "tool", "tool_call_id": "call_1", "content": [{"type": "text", "text": "sunny"}]},
]  # fmt: skip


@asynccontextmanager
async def vendor(folder, price="", more=""):
    text = f"""
providers:
  perplexity: {{api_key: k, base_url: "http://perplexity.test/v1"}}
  sim: {{}}
models:
  llm:
    {SONAR}: {{{price}}}
    sim/echo:
{more}
"""
    async with open_plane(text, folder) as plane:
        fake = FakePerplexity(api_key="k", usage=Usage(input_tokens=1_000, output_tokens=20, source="vendor"))
        plane.net.hosts["perplexity.test", 80] = hosted(fake)
        yield plane, fake


def deltas_of(reply):
    chunks = [msgspec.json.decode(line[6:]) for line in reply.body.splitlines() if line.startswith(b"data: {")]
    return [choice["delta"] for chunk in chunks for choice in chunk["choices"]]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_chat_is_answered(stream, tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        reply = await chat(plane, SONAR, stream=stream, max_tokens=50, reasoning_effort="low", temperature=0.3, max_steps=3)
        assert reply.status == 200
        messages = deltas_of(reply) if stream else [reply.json["choices"][0]["message"]]
        assert "".join(message.get("content") or "" for message in messages) == TEXT
        assert fake.ledger[-1].path == "/v1/responses"
        assert fake.ledger[-1].fields == {
            "model": "perplexity/sonar", "input": [{"type": "message", "role": "user", "content": "hi"}], "max_output_tokens": 50,
            "reasoning": {"effort": "low"}, "temperature": 0.3, "max_steps": 3, **({"stream": True} if stream else {}),
        }  # fmt: skip


async def test_no_member_is_dropped_in_silence(tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        for member in sorted(PRESETS["perplexity"].llm.refuses):
            bare, _, kind = member.partition(".")
            called = len(fake.ledger)
            reply = await chat(plane, SONAR, **{bare: {"type": kind} if kind else value_of(member)})
            if bare in NEEDED:
                assert (member, reply.status, reply.json["error"]["param"]) == (member, 400, bare)
                assert len(fake.ledger) == called
            else:
                assert (member, reply.status, reply.headers["x-gw-ignored-settings"]) == (member, 200, bare)
                assert bare not in fake.ledger[-1].fields


@pytest.mark.parametrize("stream", [True, False])
async def test_functions_and_their_results(stream, tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        fake.tool_call = ("weather", '{"city":"Rome"}')
        tools = [{"type": "function", "function": FUNCTION}]
        reply = await chat(plane, SONAR, stream=stream, tools=tools, tool_choice="auto", web_search_options={})
        assert fake.ledger[-1].fields["tools"] == [{"type": "function", **FUNCTION}, {"type": "web_search"}]
        assert fake.ledger[-1].fields["tool_choice"] == "auto"
        messages = deltas_of(reply) if stream else [reply.json["choices"][0]["message"]]
        calls = [call for message in messages for call in message.get("tool_calls") or ()]
        assert [call["function"]["name"] for call in calls if "name" in call["function"]] == ["weather"]
        assert "".join(call["function"]["arguments"] for call in calls) == '{"city":"Rome"}'
        assert plane.kept.record.attempts[-1].error_code is None
        await chat(plane, SONAR, tools=tools, tool_choice={"type": "function", "function": {"name": "weather"}}, messages=CALLED)
        assert fake.ledger[-1].fields["tool_choice"] == {"type": "function", "name": "weather"}
        assert fake.ledger[-1].fields["input"][1:] == [
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city":"Rome"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": "sunny"},
        ]


async def test_a_search_is_no_call_of_a_function(tmp_path, autojump_clock):
    place = {"type": "approximate", "approximate": {"city": "Rome", "country": "IT"}}
    async with vendor(tmp_path) as (plane, fake):
        for stream in (True, False):
            reply = await chat(plane, SONAR, stream=stream, web_search_options={"search_context_size": "low", "user_location": place})
            messages = deltas_of(reply) if stream else [reply.json["choices"][0]["message"]]
            assert "".join(message.get("content") or "" for message in messages) == TEXT
            assert not any(message.get("tool_calls") for message in messages)
            tool = {"type": "web_search", "search_context_size": "low", "user_location": {"city": "Rome", "country": "IT"}}
            assert fake.ledger[-1].fields["tools"] == [tool]


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"messages": [{"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}]}, "messages"),
        ({"web_search_options": {"user_location": {"approximate": {"timezone": "CET"}}}}, "web_search_options"),
        ({"web_search_options": {"filters": {}}}, "web_search_options"),
        ({"tools": [{"type": "function", "function": "weather"}]}, "tools"),
    ],
)
async def test_what_cannot_be_sent_goes_to_another_candidate_or_is_refused(fields, param, tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        reply = await chat(plane, SONAR, **fields)
        assert (reply.status, reply.json["error"]["param"]) == (400, param)
        assert fake.ledger == []


@pytest.mark.parametrize("stream", [True, False])
async def test_the_cost_is_what_the_vendor_states(stream, tmp_path, autojump_clock):
    """Searches are in it. A price in gw.yaml goes before."""
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    async with vendor(tmp_path) as (plane, fake):
        fake.cached_tokens = 400
        await chat(plane, SONAR, web_search_options={}, **options)
        record = plane.kept.record
        assert record.cost_nusd == 600 * 1_000 + 400 * 100 + 20 * 4_000 + 2_500_000
        assert (record.pricing_source, record.usage.vendor_figure.unit) == ("vendor", "USD")
        assert (record.usage.input_tokens, record.usage.cached_input_tokens, record.usage.dimensions.searches) == (1_000, 400, 1)
    price = "price: {unit: 1M_tokens, input: 2, cached_input: 1, output: 10, per_search: 0.01}"
    async with vendor(tmp_path / "priced", price) as (plane, fake):
        await chat(plane, SONAR, web_search_options={}, **options)
        assert plane.kept.record.cost_nusd == 1_000 * 2_000 + 20 * 10_000 + 10_000_000


async def test_an_answer_that_states_no_cost_has_none(tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        fake.states_cost = False
        await chat(plane, SONAR)
        assert (plane.kept.record.cost_nusd, plane.kept.record.pricing_source) == (None, "unpriced")


async def test_apps_of_other_protocols(tmp_path, autojump_clock):
    """Those of Anthropic get a translation; those of the Responses API the vendor's own bytes."""
    async with vendor(tmp_path) as (plane, fake):
        body = {"model": SONAR, "max_tokens": 50, "messages": HI, "system": "Be brief."}
        reply = await plane.post("/v1/messages", msgspec.json.encode(body))
        assert (reply.status, reply.json["content"]) == (200, [{"type": "text", "text": TEXT}])
        assert fake.ledger[-1].fields["input"][0] == {"type": "message", "role": "system", "content": "Be brief."}
        body = {"model": SONAR, "input": "hi", "tools": [{"type": "web_search"}], "language_preference": "it"}
        reply = await plane.post("/v1/responses", msgspec.json.encode(body))
        assert [item["type"] for item in reply.json["output"]] == ["search_results", "message"]
        assert fake.ledger[-1].fields["language_preference"] == "it"
        assert plane.kept.records[-1].usage.dimensions.searches == 1


async def test_a_refusal_of_the_vendors_names_what_is_wrong(tmp_path, autojump_clock):
    async with vendor(tmp_path) as (plane, fake):
        reply = await chat(plane, SONAR, tools=[{"type": "bogus_search"}])
        assert (reply.status, len(fake.ledger)) == (400, 1)
        assert "bogus_search" in reply.json["error"]["message"]


async def test_a_failure_moves_on(tmp_path, autojump_clock):
    async with vendor(tmp_path, more="fallbacks: {llm: [sim/echo]}") as (plane, fake):
        fake.status = [500]
        assert (await chat(plane, SONAR)).headers["x-gw-model"] == "sim/echo"
        fake.error_in_stream = "server_error"
        assert (await chat(plane, SONAR, stream=True)).headers["x-gw-model"] == "sim/echo"
