"""The requests of programs that are too large to run here, as their source makes them, over HTTP to a whole gateway."""

from __future__ import annotations

import re

import msgspec
import pytest

from gw.wire import multipart
from tests.contract.endpoints import recording
from tests.fakes.running import open_running

CONFIG = """
providers: {sim: {}}
models:
  llm: {sim/echo: {aliases: [gpt-4o-mini]}, sim/scripted: {aliases: [house]}}
  stt: {sim/tone: {aliases: [whisper-1]}}
  tts: {sim/tone: {aliases: [tts-1]}}
voices: {alloy: {sim: a}, nova: {sim: b}}
projects: {default: {}}
"""
BOUNDARY = b"0123456789abcdef"


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path, CONFIG) as result:
        yield result


# ---- Open WebUI, backend/open_webui/routers/audio.py at 01fb3e46


async def test_open_webui_fills_its_lists_of_voices_and_speech_models(running):
    """It sends no credential with these."""
    voices = (await running.get("/v1/audio/voices")).json
    assert {voice["id"]: voice["name"] for voice in voices["voices"]} == {"alloy": "alloy", "nova": "nova"}
    assert (await running.get("/v1/audio/models")).json == {"models": [{"id": "sim/tone"}]}


async def test_open_webui_speaks_and_hears(running):
    user = {"x_openwebui_user_name": "Ada", "x_openwebui_user_id": "1", "x_openwebui_user_role": "user"}
    body = {"input": "good morning", "voice": "alloy", "model": "tts-1"}
    spoken = await running.ask("POST", "/v1/audio/speech", body, authorization="Bearer any", **user)
    assert (spoken.status, spoken.headers["content-type"]) == (200, "audio/mpeg")
    # The part has a file name and no content type of its own.
    head, tail = multipart.encode_form([("model", "whisper-1")], file_name="1.wav", file_content_type="audio/wav", boundary=BOUNDARY)
    head, lines = re.subn(rb"(?i)content-type: audio/wav\r\n", b"", head)
    assert lines == 1
    kind = "multipart/form-data; boundary=" + BOUNDARY.decode()
    heard = await running.ask("POST", "/v1/audio/transcriptions", head + recording("good morning") + tail, content_type=kind)
    assert (heard.status, heard.json["text"]) == (200, "good morning")


# ---- Home Assistant: openai_tts of sfortis, openaitts_engine.py; extended_openai_conversation of jekalmin, conversation.py


async def test_home_assistant_speaks(running):
    body = {"model": "tts-1", "input": "The door is open.", "voice": "nova", "response_format": "mp3", "speed": 1.0}
    answer = await running.ask("POST", "/v1/audio/speech", body, user_agent="HomeAssistant-OpenAI-TTS")
    assert (answer.status, answer.headers["content-type"]) == (200, "audio/mpeg")


LIST = {"type": "object", "properties": {"list": {"type": "array"}}}
SPEC = {"name": "execute_services", "description": "Run a service", "parameters": LIST}


@pytest.mark.parametrize("tools", ["functions", "tools"])
async def test_home_assistant_controls_a_house(running, tools):
    """By default it sends OpenAI's older `functions`, and `tools` where the user says so."""
    kinds = {
        "functions": {"functions": [SPEC], "function_call": "auto"},
        "tools": {"tools": [{"type": "function", "function": SPEC}], "tool_choice": "auto"},
    }
    body = {
        "model": "house", "messages": [{"role": "system", "content": "You run a house."}, {"role": "user", "content": "Light on"}],
        "top_p": 1, "temperature": 0.5, "user": "01J", "max_tokens": 150, **kinds[tools],
    }  # fmt: skip
    answer = await running.ask("POST", "/v1/chat/completions", body)
    assert answer.status == 200, msgspec.json.encode(answer.json)
    [choice] = answer.json["choices"]
    message = choice["message"]
    called = message["function_call"] if tools == "functions" else message["tool_calls"][0]["function"]
    assert called["name"] == "execute_services"
    assert choice["finish_reason"] == {"functions": "function_call", "tools": "tool_calls"}[tools]
