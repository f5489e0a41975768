"""Ollama's generate and embed below `/ollama`, for every kind of upstream."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.hosting import GATEWAY, hosted, open_plane
from tests.fakes.vendors.ollama import FakeOllama
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  sim: {}
  ollama: {base_url: "http://own.test"}
  openai: {api_key: k, base_url: "http://openai.test/v1"}
models: {llm: [sim/echo, ollama/llama3.2, openai/gpt-4o-mini, openai/text-embedding-3-small]}
"""
MODELS = ("sim/echo", "ollama/llama3.2", "openai/gpt-4o-mini")


@pytest.fixture
def vendors():
    return {"own": FakeOllama(reply="hi there you"), "openai": FakeOpenAI(api_key="k", reply="hi there you")}


@pytest.fixture
async def plane(tmp_path, vendors, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as opened:
        for name, vendor in vendors.items():
            opened.net.hosts[f"{name}.test", 80] = hosted(vendor)
        yield opened


async def _post(plane, path, **body):
    return await plane.post(f"/ollama/api/{path}", msgspec.json.encode(body))


@pytest.mark.parametrize("model", MODELS)
async def test_a_prompt_is_answered_whole_and_in_lines(plane, model):
    whole = (await _post(plane, "generate", model=model, prompt="hi there you", stream=False)).json
    assert (whole["response"], whole["done"], whole["done_reason"]) == ("hi there you", True, "stop")
    assert (whole["model"], "message" in whole) == (model.partition("/")[2], False)
    assert (whole["prompt_eval_count"] > 0, whole["eval_count"] > 0) == (True, True)
    reply = await _post(plane, "generate", model=model, prompt="hi there you")
    lines = [msgspec.json.decode(line) for line in reply.body.splitlines()]
    assert "".join(line["response"] for line in lines) == "hi there you"
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert len(lines) > 2
    assert reply.headers["content-type"] == "application/x-ndjson"
    assert {record.status for record in plane.kept.records} == {"success"}


async def test_an_ollama_gets_the_settings_as_they_are(plane, vendors):
    settings = {"options": {"num_ctx": 9, "top_k": 3}, "format": "json", "think": False, "keep_alive": "5m"}
    await _post(plane, "generate", model=MODELS[1], prompt="one", system="be brief", images=["iVBORw=="], stream=False, **settings)
    sent = vendors["own"].ledger[0].fields
    assert {name: sent[name] for name in settings} == settings
    assert sent["messages"] == [
        {"role": "system", "content": "be brief"}, {"role": "user", "content": "one", "images": ["iVBORw=="]},
    ]  # fmt: skip


@pytest.mark.parametrize(("keep_alive", "reason"), [("5m", "load"), (0, "unload")])
async def test_without_a_prompt_nothing_is_generated(plane, vendors, keep_alive, reason):
    answer = (await _post(plane, "generate", model=MODELS[1], keep_alive=keep_alive)).json
    assert (answer["model"], answer["response"], answer["done"], answer["done_reason"]) == ("llama3.2", "", True, reason)
    assert vendors["own"].ledger == []
    assert (await _post(plane, "generate", model="sim/nothing")).status == 404


@pytest.mark.parametrize("member", ["suffix", "template", "context", "raw", "logprobs", "width"])
async def test_what_a_conversation_cannot_express_is_refused(plane, member):
    values = {"context": [1], "raw": True, "logprobs": True, "width": 64}
    answer = await _post(plane, "generate", model=MODELS[0], prompt="x", **{member: values.get(member, "text")})
    assert (answer.status, member in answer.json["error"]) == (400, True)
    empty = await _post(plane, "generate", model=MODELS[0], prompt="x", **{member: None})
    assert empty.status == 200


@pytest.mark.parametrize(("model", "size"), [("sim/echo", 256), ("openai/text-embedding-3-small", 2)])
async def test_embeddings(plane, model, size):
    answer = (await _post(plane, "embed", model=model, input=["one two", "three"], truncate=True, options={"num_ctx": None})).json
    assert (len(answer["embeddings"]), {len(vector) for vector in answer["embeddings"]}) == (2, {size})
    assert (answer["model"], answer["prompt_eval_count"] > 0) == (model.partition("/")[2], True)
    older = (await _post(plane, "embeddings", model=model, prompt="one two")).json
    assert older == {"embedding": answer["embeddings"][0]}
    refused = await _post(plane, "embed", model=model, input="x", options={"num_ctx": 9})
    assert (refused.status, "options" in refused.json["error"]) == (400, True)
    assert (await _post(plane, "embed", model=model, input="")).status == 400


async def test_no_model_is_in_memory(plane):
    async with plane.client.open("client", b"GET", GATEWAY, b"/ollama/api/ps", [], b"") as response:
        assert msgspec.json.decode(await response.read()) == {"models": []}
