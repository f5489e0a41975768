from __future__ import annotations

import pytest

from gw.dialects.data_plane import DataPlane
from tests.contract.endpoints import CHAT_WHOLE, ENDPOINTS
from tests.fakes.hosting import open_plane

CONFIG = """
providers: {sim: {}}
models: {llm: [sim/echo], stt: [sim/tone], tts: [sim/tone]}
"""
MODELS = {"llm": "sim/echo", "stt": "sim/tone", "tts": "sim/tone"}


UNDER_ITS_NAME = [(e, "/" + e.dialect) for e in ENDPOINTS if not e.path.startswith("/" + e.dialect)]


@pytest.mark.parametrize(
    ("endpoint", "prefix"), [*((e, "") for e in ENDPOINTS), *UNDER_ITS_NAME], ids=lambda value: getattr(value, "name", value)
)
async def test_every_endpoint_is_there_under_each_root(prefix, endpoint, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        assert DataPlane(plane.gateway).serves(b"POST", (prefix + endpoint.path).encode())
        body, content_type = endpoint.body(MODELS[endpoint.modality])
        reply = await plane.post(prefix + endpoint.path + "?api-version=1", body, content_type)
        assert reply.status == 200
        assert plane.kept.record.endpoint == prefix + endpoint.path


@pytest.mark.parametrize(
    ("method", "path"),
    [
        (b"GET", b"/v1/chat/completions"),
        (b"POST", b"/v1/chat/completions/"),
        (b"POST", b"/chat/completions"),
        (b"POST", b"/V1/chat/completions"),
        (b"POST", b"/openai/openai/v1/chat/completions"),
        (b"POST", b"/v1/models"),
        (b"POST", b"/api/chat"),
        (b"POST", b"/anthropic/v1/chat/completions"),
        (b"GET", b"/health"),
        (b"POST", b""),
    ],
)
async def test_paths_outside_the_data_plane(method, path, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        assert not DataPlane(plane.gateway).serves(method, path)
        assert (await CHAT_WHOLE.ask(plane, "sim/echo")).status == 200
