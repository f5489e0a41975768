"""What Ollama's API says of models below `/ollama`, read by the models of ollama-python 0.6.3 in `tests/clients`."""

from __future__ import annotations

import msgspec
import pytest

from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers: {sim: {}, off: {type: openai}}
models: {llm: [sim/echo, off/m], tts: [sim/tone]}
"""


def decoded(reply):
    return msgspec.json.decode(reply.body)


async def get(plane, path):
    async with plane.client.open("client", b"GET", GATEWAY, path, [], b"") as response:
        assert response.status == 200
        return msgspec.json.decode(await response.read(100_000))


async def test_what_is_said_of_models(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        assert await get(plane, b"/ollama/api/version") == {"version": plane.gateway.version}
        listed = (await get(plane, b"/ollama/api/tags"))["models"]
        assert [(m["model"], m["name"], m["details"]["family"]) for m in listed] == [
            ("sim/echo", "sim/echo", "sim"), ("off/m", "off/m", "off"),
        ]  # fmt: skip
        for name in ("off/m", "m"):
            shown = decoded(await plane.post("/ollama/api/show", msgspec.json.encode({"model": name})))
            assert shown["capabilities"] == ["completion", "tools", "vision"]
        unknown = await plane.post("/ollama/api/show", b'{"model": "sim/nothing"}')
        assert (unknown.status, "sim/nothing" in decoded(unknown)["error"]) == (404, True)


@pytest.mark.parametrize("name", ["pull", "push", "create", "copy"])
async def test_requests_that_change_models_are_refused(name, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        reply = await plane.post(f"/ollama/api/{name}", b'{"model": "m"}')
        assert (reply.status, "no models of its own" in decoded(reply)["error"]) == (501, True)


async def test_openai_s_protocol_below_ollama(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        body = msgspec.json.encode({"model": "echo", "messages": [{"role": "user", "content": "Hello"}]})
        reply = await plane.post("/ollama/v1/chat/completions", body)
        assert (reply.status, decoded(reply)["object"]) == (200, "chat.completion")
        refused = await plane.post("/ollama/v1/chat/completions", body.replace(b"echo", b"none"))
        assert (refused.status, decoded(refused)["error"]["code"]) == (404, "model_not_found")
        assert plane.kept.record.endpoint == "/ollama/v1/chat/completions"
