"""A request that is over leaves nothing to the garbage collector: a cycle would keep all of it in memory, bodies included."""

from __future__ import annotations

import gc

import pytest

from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers: {up: {type: openai, api_key: k, base_url: "http://up.test/v1"}}
models:
  llm: {up/gpt-x: {price: {unit: 1M_tokens, input: 1, output: 1}}}
  tts: {up/tts-1: {price: {unit: 1M_characters, usd: 1}}}
  stt: {up/whisper-1: {price: {unit: minute, usd: 0.006}}}
"""
HI = b'"model":"up/gpt-x","messages":[{"role":"user","content":"hi"}]}'
FORM = (
    b'--b\r\ncontent-disposition: form-data; name="model"\r\n\r\nup/whisper-1\r\n'
    b'--b\r\ncontent-disposition: form-data; name="file"; filename="a.mp3"\r\n\r\n\xff\xfb\x90\x00\r\n--b--\r\n'
)
REQUESTS = {
    "chat": ("/v1/chat/completions", b"{" + HI, "application/json"),
    "streamed chat": ("/v1/chat/completions", b'{"stream":true,' + HI, "application/json"),
    "speech": ("/v1/audio/speech", b'{"model":"up/tts-1","voice":"alloy","input":"hello"}', "application/json"),
    "transcription": ("/v1/audio/transcriptions", FORM, "multipart/form-data; boundary=b"),
}


@pytest.mark.parametrize("name", REQUESTS)
async def test_nothing_is_left_to_the_collector(name, tmp_path, autojump_clock):
    path, body, content_type = REQUESTS[name]
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["up.test", 80] = hosted(FakeOpenAI(api_key="k"))
        for _ in range(2):  # what is made once is made now
            reply = await plane.post(path, body, content_type)
            assert reply.status == 200, reply.body
        gc.collect()
        gc.disable()
        gc.set_debug(gc.DEBUG_SAVEALL)
        try:
            for _ in range(3):
                await plane.post(path, body, content_type)
            gc.collect()
            left = {type(garbage).__qualname__ for garbage in gc.garbage if type(garbage).__module__.startswith("gw.")}
        finally:
            gc.set_debug(0)
            gc.garbage.clear()
            gc.enable()
        assert left == set()
