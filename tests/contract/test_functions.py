"""`functions`, OpenAI's form before `tools`: the caller gets `function_call`, whoever answers, and every vendor understands it."""

from __future__ import annotations

import msgspec
from openai.types.chat import ChatCompletion, ChatCompletionChunk

from gw.wire.sse import SseDecoder
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.ollama import FakeOllama

CONFIG = """
providers:
  anthropic: {api_key: k, base_url: "http://anthropic.test"}
  ollama: {base_url: "http://ollama.test"}
  sim: {}
models: {llm: [anthropic/claude-sonnet-4-5, ollama/llama3.2, sim/scripted]}
"""
MODELS = ("anthropic/claude-sonnet-4-5", "ollama/llama3.2", "sim/scripted")
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTIONS = [{"name": "weather", "description": "Weather of a city", "parameters": CITY}]
HISTORY = [
    {"role": "user", "content": "Rome and Oslo?"},
    {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"city":"Rome"}'}},
    {"role": "function", "name": "weather", "content": "sunny"},
    {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": '{"city":"Oslo"}'}},
    {"role": "function", "name": "weather", "content": "snow"},
]


def vendors(plane, **more):
    fakes = {"anthropic": FakeAnthropic(models=("claude-sonnet-4-5",), **more), "ollama": FakeOllama(models=("llama3.2",), **more)}
    for name, fake in fakes.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(fake)
    return fakes


async def asked(plane, model: str, **members) -> bytes:
    body = {"model": model, "messages": HISTORY[:1], "functions": FUNCTIONS, **members}
    reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body))
    assert reply.status == 200, (model, reply.body)
    return reply.body


async def test_the_answer_has_the_form_of_the_request(tmp_path, autojump_clock):
    cells = 0
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors(plane, tool_call=("weather", '{"city":"Rome"}'))
        for model in MODELS:
            [choice] = ChatCompletion.model_validate_json(await asked(plane, model)).choices
            assert (choice.finish_reason, choice.message.tool_calls, choice.message.content) == ("function_call", None, None), model
            assert choice.message.function_call.name == "weather"
            whole = msgspec.json.decode(choice.message.function_call.arguments)
            assert whole.keys() == {"city"}

            sent = await asked(plane, model, stream=True, function_call={"name": "weather"})
            events = [event.data for event in SseDecoder().feed(sent) if event.data != b"[DONE]"]
            chunks = [choice for data in events for choice in ChatCompletionChunk.model_validate_json(data).choices]
            assert [c.finish_reason for c in chunks if c.finish_reason] == ["function_call"], model
            assert not any(c.delta.tool_calls for c in chunks)
            calls = [c.delta.function_call for c in chunks if c.delta.function_call]
            assert "".join(call.name or "" for call in calls) == "weather"
            assert msgspec.json.decode("".join(call.arguments or "" for call in calls)) == whole
            cells += 2
    assert cells == 6


async def test_other_vendors_get_tools_and_a_history_of_calls(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        fakes = vendors(plane, reply="cold")
        for model in MODELS[:2]:
            await asked(plane, model, messages=HISTORY, function_call={"name": "weather"})
        claude, llama = fakes["anthropic"].ledger[0].fields, fakes["ollama"].ledger[0].fields
    assert claude["tools"] == [{"name": "weather", "description": "Weather of a city", "input_schema": CITY}]
    assert claude["tool_choice"] == {"type": "tool", "name": "weather", "disable_parallel_tool_use": True}
    blocks = [block for turn in claude["messages"] for block in turn["content"]]
    uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
    results = [(block["tool_use_id"], block["content"]) for block in blocks if block["type"] == "tool_result"]
    assert results == [(uses[0], "sunny"), (uses[1], "snow")]
    assert llama["tools"] == [{"type": "function", "function": FUNCTIONS[0]}]
    shown = [(m["role"], [c["function"]["arguments"] for c in m.get("tool_calls") or ()]) for m in llama["messages"]]
    assert shown == [("user", []), ("assistant", [{"city": "Rome"}]), ("tool", []), ("assistant", [{"city": "Oslo"}]), ("tool", [])]


async def test_what_is_no_function_is_refused(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendors(plane)
        for members, param in (({"functions": ["x"]}, "functions"), ({"function_call": 7}, "function_call")):
            body = {"model": MODELS[0], "messages": HISTORY[:1], "functions": FUNCTIONS, **members}
            reply = await plane.post("/v1/chat/completions", msgspec.json.encode(body))
            assert (reply.status, reply.error["param"]) == (400, param)
