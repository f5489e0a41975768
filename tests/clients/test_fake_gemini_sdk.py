"""Google's own SDK and LiveKit's plugin, unchanged, with the fake vendor's speech: what they read is what our codec writes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.clients.livekit_speech import TEXT, in_loop, words_of
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.gemini import FakeGemini

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

FLASH = "gemini-3.8-flash-tts"


@pytest.fixture
def fake() -> FakeGemini:
    return FakeGemini(
        prefix="/v1", api_key="test-key", speech_pcm=lambda request: b"".join(fsk.encode(request.text.strip('"'), 24_000))
    )  # the SDK takes this version of the API by itself


@pytest.fixture
async def address(fake, nursery) -> str:
    import livekit.plugins.google  # noqa: F401  a plugin may be imported on the main thread only

    return await nursery.start(serve_asgi, fake)


def stream(address: str, key: str = "test-key", model: str = FLASH, style: str = "calm") -> list[Any]:
    from google import genai
    from google.genai import types

    client = genai.Client(api_key=key, http_options=types.HttpOptions(base_url=address))
    part = types.Part(text=TEXT, speech_metadata=types.SpeechMetadata(style=style) if style else None)
    voice = types.VoiceConfig(prebuilt_voice_config=types.PrebuiltVoiceConfig(voice_name="Puck"))
    config = types.GenerateContentConfig(
        response_modalities=["AUDIO"], speech_config=types.SpeechConfig(voice_config=voice, language_code="en-US")
    )
    contents = [types.Content(role="user", parts=[part])]
    return list(client.models.generate_content_stream(model=model, contents=contents, config=config))


async def test_google_genai(fake, address):
    events = await trio.to_thread.run_sync(lambda: stream(address))
    parts = [part for event in events for part in event.candidates[0].content.parts or []]
    assert words_of(b"".join(part.inline_data.data for part in parts)) == TEXT
    assert {part.inline_data.mime_type for part in parts} == {"audio/l16; rate=24000; channels=1"}
    last, used = events[-1], fake.ledger[0].usage
    assert last.candidates[0].finish_reason == "STOP"
    assert last.usage_metadata.prompt_token_count == used.input_tokens
    (spoken,) = last.usage_metadata.candidates_tokens_details
    assert (spoken.modality, spoken.token_count) == ("AUDIO", used.output_audio_tokens)
    assert (fake.ledger[0].fields["style"], fake.ledger[0].fields["voice"]) == ("calm", "Puck")


async def test_refusals(fake, address):
    from google.genai.errors import ClientError

    fake.voices = frozenset({"Kore"})
    for key, model, style, status in (
        ("wrong", FLASH, "", 401), ("test-key", FLASH, "", 400), ("test-key", "gemini-3.1-flash-tts-preview", "calm", 400),
        ("test-key", "no-such-model", "", 404),
    ):  # fmt: skip
        with pytest.raises(ClientError) as caught:
            await trio.to_thread.run_sync(lambda key=key, model=model, style=style: stream(address, key, model, style))
        assert caught.value.code == status


async def test_livekit(fake, address, monkeypatch):
    from livekit.agents import APIConnectOptions
    from livekit.plugins.google.beta import GeminiTTS

    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", address)

    async def use() -> bytes:
        voice = GeminiTTS(model=FLASH, voice_name="Kore", api_key="test-key", instructions="whisper")
        async with voice.synthesize(TEXT, conn_options=APIConnectOptions(max_retry=0)) as made:
            return b"".join([event.frame.data.tobytes() async for event in made])

    assert words_of(await in_loop(use)) == TEXT
    assert (fake.ledger[0].fields["style"], fake.ledger[0].fields["voice"]) == ("whisper", "Kore")
