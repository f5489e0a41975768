from __future__ import annotations

from tests.fakes.running import open_running

YAML = """
providers: {openai: {api_key: k}, cartesia: {api_key: k}, kokoro: }
models: {tts: {openai/tts-1: {default_voice: nova}, cartesia/sonic-3: {}, kokoro/kokoro: {}}}
voices: {brand: {cartesia: c-1, openai: sage}}
fallbacks: {tts: [openai/tts-1, cartesia/sonic-3, kokoro/kokoro]}
"""


async def test_every_alias_default_and_gap_also_of_a_model_that_was_made_later(tmp_path):
    async with open_running(tmp_path, YAML) as running:
        body = {"modality": "tts", "provider_id": "openai", "model_name": "gpt-4o-mini-tts"}
        assert (await running.ask("POST", "/v1/models", body)).status == 200
        answer = (await running.get("/v1/tts/voices")).json
    assert [tuple(row.values()) for row in answer["voices"]] == [
        ("brand", "openai/tts-1", "sage", "voices"),
        ("brand", "cartesia/sonic-3", "c-1", "voices"),
        ("brand", "openai/gpt-4o-mini-tts", "sage", "voices"),
        ("", "openai/tts-1", "nova", "default_voice"),
        ("", "cartesia/sonic-3", "", "none"),
        ("", "kokoro/kokoro", "af_heart", "vendor"),
        ("", "openai/gpt-4o-mini-tts", "alloy", "vendor"),
    ]
    assert [(gap["chain"], gap["model"], gap["skipped"]) for gap in answer["gaps"]] == [
        ("fallbacks.tts", "cartesia/sonic-3", True),
        ("fallbacks.tts", "kokoro/kokoro", False),
    ]
    assert answer["gaps"][0]["message"].startswith("cartesia/sonic-3 has no voice for another vendor's, and is skipped")
