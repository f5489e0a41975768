"""Every vendor that is a file, through a gateway, before a fake that has the vendor's conventions: settings, usage, money."""

from __future__ import annotations

from contextlib import asynccontextmanager

import msgspec
import pytest

from gw.types.presets import PRESETS
from gw.types.usage import Usage
from gw.wire.chat_variants import NEEDED
from tests.contract.vendors import address_of
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai_variants import CONVENTIONS, Conventions, FakeVariant

CHAT = [name for name, preset in PRESETS.items() if preset.llm is not None and preset.llm.protocol == "chat"]
HI = [{"role": "user", "content": "hi"}]
VALUES = {
    "n": 2, "stop": ["END"], "functions": [{"name": "f"}], "function_call": {"name": "f"}, "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "wav"}, "web_search_options": {"search_context_size": "low"}, "logit_bias": {"1": 2},
    "metadata": {"a": "b"}, "service_tier": "flex", "prompt_cache_options": {"ttl": "24h"}, "moderation": {"model": "m"},
    "prediction": {"type": "content", "content": "x"}, "response_format.json_schema": {"type": "json_schema", "json_schema": {"name": "n"}},
    "response_format.json_object": {"type": "json_object"}, "parallel_tool_calls": False, "logprobs": True, "store": True,
}  # fmt: skip
"""A value of each member that is no number or text, and says something."""


def value_of(member):
    default = 1.5 if "penalty" in member else 2 if member in ("seed", "top_logprobs") else "x"
    return VALUES.get(member, default)


@asynccontextmanager
async def vendor_of(name, folder, price="{unit: 1M_tokens, input: 1, cached_input: 0.5, output: 10}", fallback=""):
    model = PRESETS[name].llm.example
    text = f"""
providers:
  {name}: {{api_key: k, base_url: "http://{name}.test/v1"}}
  sim: {{}}
models:
  llm:
    {name}/{model}: {{price: {price}}}
    sim/echo:
{fallback}
"""
    async with open_plane(text, folder) as plane:
        fake = FakeVariant(api_key="k", conventions=CONVENTIONS.get(name, Conventions()))
        plane.net.hosts[f"{name}.test", 80] = hosted(fake)
        yield plane, fake, f"{name}/{model}"


async def chat(plane, model, **fields):
    body = {"model": model, "messages": HI, **fields}
    return await plane.post("/v1/chat/completions", msgspec.json.encode(body))


@pytest.mark.parametrize("name", CHAT)
async def test_no_member_is_dropped_in_silence(name, tmp_path, autojump_clock):
    """Each refused member is noted, or ends in an error that names it; the vendor never gets it."""
    preset = PRESETS[name].llm
    async with vendor_of(name, tmp_path) as (plane, fake, model):
        for member in sorted(preset.refuses):
            bare = member.partition(".")[0]
            seen = len(fake.ledger)
            reply = await chat(plane, model, **{bare: value_of(member)})
            if bare in NEEDED:
                assert (reply.status, reply.json["error"]["code"], reply.json["error"]["param"]) == (400, "unsupported_parameter", bare)
                assert len(fake.ledger) == seen
            else:
                assert (member, reply.status) == (member, 200)
                assert reply.headers["x-gw-ignored-settings"] == member
                assert plane.kept.records[-1].attempts[-1].ignored_settings == (member,)
                assert member not in fake.ledger[-1].fields
        for old, new in preset.renames.items():
            reply = await chat(plane, model, **{old: 7})
            assert (reply.status, "x-gw-ignored-settings" in reply.headers) == (200, False)
            assert fake.ledger[-1].fields[new] == 7
            assert old not in fake.ledger[-1].fields
        roles = [{"role": "developer", "content": "be brief"}, *HI]
        assert (await chat(plane, model, messages=roles)).status == 200
        assert fake.ledger[-1].fields["messages"][0]["role"] == ("developer" if preset.developer_role else "system")


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("stream", [True, False])
async def test_usage_is_the_vendors_and_so_is_the_money(name, stream, tmp_path, autojump_clock):
    async with vendor_of(name, tmp_path) as (plane, fake, model):
        fake.usage = Usage(input_tokens=100, output_tokens=20, source="vendor")
        fake.reasoning, fake.cached_tokens = "let me think", 40
        reply = await chat(plane, model, stream=stream, stream_options={"include_usage": True}) if stream else await chat(plane, model)
        assert reply.status == 200
        record = plane.kept.record
        assert (record.usage.input_tokens, record.usage.cached_input_tokens, record.usage.output_tokens) == (100, 40, 23)
        assert record.usage.reasoning_tokens == 3
        assert record.cost_nusd == 60 * 1_000 + 40 * 500 + 23 * 10_000


@pytest.mark.parametrize("name", CHAT)
@pytest.mark.parametrize("stream", [True, False])
async def test_an_app_of_openais_gets_text_and_reasoning(name, stream, tmp_path, autojump_clock):
    """The content of a message is a text for it, also where the vendor sends parts."""
    async with vendor_of(name, tmp_path) as (plane, fake, model):
        fake.reasoning = "let me think"
        reply = await chat(plane, model, stream=stream)
        assert reply.status == 200
        if stream:
            chunks = [msgspec.json.decode(line[6:]) for line in reply.body.splitlines() if line.startswith(b"data: {")]
            messages = [choice["delta"] for chunk in chunks for choice in chunk["choices"]]
        else:
            messages = [reply.json["choices"][0]["message"]]
        assert "".join(message.get("content") or "" for message in messages) == "Hello there, how are you?"
        assert "".join(m.get("reasoning") or m.get("reasoning_content") or "" for m in messages) == "let me think"


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("is_byok", [True, False])
async def test_openrouter_states_what_an_answer_costs(stream, is_byok, tmp_path, autojump_clock):
    """A price in gw.yaml goes before, as the test of usage shows."""
    text = 'providers: {openrouter: {api_key: k, base_url: "http://openrouter.test/v1"}}\nmodels: {llm: [openrouter/openai/gpt-4.1]}\n'
    async with open_plane(text, tmp_path) as plane:
        usage = Usage(input_tokens=100, output_tokens=20, source="vendor")
        fake = FakeVariant(api_key="k", conventions=CONVENTIONS["openrouter"], usage=usage, is_byok=is_byok)
        plane.net.hosts["openrouter.test", 80] = hosted(fake)
        assert (await chat(plane, "openrouter/openai/gpt-4.1", stream=stream)).status == 200
        record = plane.kept.record
        assert (record.cost_nusd, record.pricing_source) == (12_600_000 if is_byok else 12_000_000, "vendor")


@pytest.mark.parametrize("name", ["gemini", "xai", "mistral"])
async def test_a_wrong_key_moves_on(name, tmp_path, autojump_clock):
    fallback = "fallbacks: {llm: [sim/echo]}"
    async with vendor_of(name, tmp_path, fallback=fallback) as (plane, fake, model):
        fake.status, fake.error_body = 401, None
        if name != "mistral":   # which answer 400
            message = "API key not valid. Please pass a valid API key." if name == "gemini" else "Incorrect API key provided"
            fake.status, fake.error_body = 400, msgspec.json.encode(fake.conventions.error(400, "x", message))
        reply = await chat(plane, model)
        assert (reply.status, reply.headers["x-gw-model"]) == (200, "sim/echo")


async def test_a_candidate_that_cannot_is_skipped_for_one_that_can(tmp_path, autojump_clock):
    async with vendor_of("deepseek", tmp_path, fallback="fallbacks: {llm: [sim/echo]}") as (plane, fake, model):
        reply = await chat(plane, model, response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": {}}})
        assert (reply.status, reply.headers["x-gw-model"]) == (200, "sim/echo")
        assert fake.ledger == []
        assert plane.kept.record.attempts[0].detail == "cannot honour response_format"


async def test_azure_presents_its_key_in_its_own_header(tmp_path, autojump_clock):
    async with vendor_of("azure", tmp_path) as (plane, fake, model):
        assert (await chat(plane, model)).status == 200
        await plane.post("/v1/responses", msgspec.json.encode({"model": model, "input": "hi"}))
        await plane.post("/v1/embeddings", msgspec.json.encode({"model": model, "input": "hi"}))
        assert [entry.path for entry in fake.ledger] == ["/v1/chat/completions", "/v1/responses", "/v1/embeddings"]
        assert all(entry.headers["api-key"] == "k" and "authorization" not in entry.headers for entry in fake.ledger)


def test_every_address_is_that_of_the_vendor():
    assert address_of("azure").endswith(".openai.azure.com/openai/v1")
    assert {name for name in PRESETS if address_of(name).startswith("http://127.0.0.1")} == {
        name for name, preset in PRESETS.items() if preset.location == "local"
    }


async def test_groq_notes_what_it_is_not_sent(tmp_path, autojump_clock):
    """Groq has a module, and uses the same mechanism."""
    text = 'providers: {groq: {api_key: k, base_url: "http://groq.test/openai/v1"}}\nmodels: {llm: [groq/openai/gpt-oss-20b]}\n'
    async with open_plane(text, tmp_path) as plane:
        fake = FakeVariant(api_key="k", prefix="/openai/v1")
        plane.net.hosts["groq.test", 80] = hosted(fake)
        messages = [{"role": "user", "name": "Ann", "content": "hi"}]
        reply = await chat(plane, "groq/openai/gpt-oss-20b", messages=messages, logprobs=True, seed=3)
        assert (reply.status, reply.headers["x-gw-ignored-settings"]) == (200, "logprobs, name")
        assert fake.ledger[-1].fields["messages"] == HI
        assert fake.ledger[-1].fields["seed"] == 3
