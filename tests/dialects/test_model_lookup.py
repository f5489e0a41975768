"""`GET /v1/models/{id}` finds what a request with that name would reach."""

from __future__ import annotations

import pytest

from tests.fakes.running import open_running

CONFIG = """
providers:
  sim: {latency_ms: 0}
  openai: {api_key: k, base_url: "http://127.0.0.1:1/v1"}
  anthropic: {api_key: k, base_url: "http://127.0.0.1:1"}
  groq: {api_key: k, base_url: "http://127.0.0.1:1/openai/v1"}
models: {llm: [sim/echo]}
"""
CLAUDE = {"anthropic_version": "2023-06-01", "x_api_key": "k"}
FOUND = [
    ("/v1/models/gpt-4o-mini", {}, "openai", "llm"),
    ("/openai/v1/models/gpt-4o-mini", {}, "openai", "llm"),
    ("/openai/models/gpt-4o-mini?api-version=2024-10-21", {}, "openai", "llm"),
    ("/v1/models/gpt-4o-mini-tts", {}, "openai", "tts"),
    ("/v1/models/tts-1", {}, "openai", "tts"),
    ("/v1/models/whisper-1", {}, "openai", "stt"),
    ("/v1/models/gpt-4o-transcribe", {}, "openai", "stt"),
    ("/v1/models/claude-sonnet-4-5", CLAUDE, "anthropic", "llm"),
    ("/anthropic/v1/models/claude-sonnet-4-5", {}, "anthropic", "llm"),
    ("/openai/v1/models/whisper-large-v3", {}, "groq", "stt"),
    ("/openai/v1/models/openai%2Fgpt-oss-20b", {}, "groq", "llm"),
    ("/livekit/v1/models/openai/gpt-4o-mini", {}, "openai", "llm"),
]


@pytest.fixture
async def running(tmp_path):
    async with open_running(tmp_path, CONFIG) as result:
        yield result


@pytest.mark.parametrize(("path", "headers", "vendor", "modality"), FOUND)
async def test_a_name_that_is_not_listed_but_known_at_the_vendor(running, path, headers, vendor, modality):
    found = await running.get(path, **headers)
    assert (found.status, found.json.get("owned_by"), found.json.get("modality")) == (200, vendor, modality)
    assert (found.json["source"], found.json["id"], found.json["object"]) == ("vendor", found.json["model"], "model")


@pytest.mark.parametrize("path", ["/v1/models/gpt-nonsense", "/anthropic/v1/models/gpt-4o-mini", "/v1/models/claude-sonnet-4-5"])
async def test_a_name_that_no_price_table_has_at_that_vendor(running, path):
    assert (await running.get(path)).status == 404


async def test_a_mount_finds_listed_models(running):
    for path in ("/anthropic/v1/models/sim/echo", "/deepgram/v1/models/sim%2Fecho", "/ollama/v1/models/echo"):
        found = await running.get(path)
        assert (found.status, found.json["id"], found.json["source"]) == (200, "sim/echo", "yaml")


async def test_no_name_is_found_that_requests_may_not_have(tmp_path):
    async with open_running(tmp_path, CONFIG + "routing: {unlisted_models: refuse}\n") as running:
        assert (await running.get("/v1/models/gpt-4o-mini")).status == 404
