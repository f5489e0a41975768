"""MiniMax's plugin for LiveKit and Pipecat's service, unchanged, with the fake vendor; the vendor has no SDK for Python."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.livekit_speech import TEXT, in_loop, synthesize, words_of
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.minimax import FakeMiniMax

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def fake() -> FakeMiniMax:
    return FakeMiniMax(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    import livekit.plugins.minimax  # noqa: F401  a plugin may be imported on the main thread only

    return await nursery.start(serve_asgi, fake)


async def livekit_speech(url: str, key: str = "test-key", **options: Any) -> bytes:
    from livekit.plugins import minimax

    return await synthesize(lambda session: minimax.TTS(base_url=url, api_key=key, http_session=session, audio_format="pcm", **options))


async def test_livekit(fake, address):
    pcm = await in_loop(lambda: livekit_speech(address, model="speech-2.6-turbo", speed=1.2, language_boost="English"))
    assert words_of(pcm) == TEXT
    sent = fake.ledger[0].fields
    assert (sent["model"], sent["voice_setting"]["speed"], sent["language_boost"]) == ("speech-2.6-turbo", 1.2, "English")


async def test_a_refusal(fake, address):
    from livekit.agents import APIError

    fake.refusal = (2049, "invalid api key")

    async def use() -> str:
        with pytest.raises(APIError) as caught:
            await livekit_speech(address)
        return str(caught.value)

    assert await in_loop(use)


async def test_pipecat(fake, address):
    async def use() -> bytes:
        import aiohttp
        from pipecat.frames.frames import TTSAudioRawFrame
        from pipecat.services.minimax.tts import MiniMaxHttpTTSService

        async with aiohttp.ClientSession() as session:
            service = MiniMaxHttpTTSService(
                api_key="test-key", base_url=address + "/v1/t2a_v2", group_id="g", aiohttp_session=session, sample_rate=24_000,
                settings=MiniMaxHttpTTSService.Settings(model="speech-2.8-turbo", voice="Calm_Woman"),
            )  # fmt: skip
            service._sample_rate = service._audio_sample_rate = 24_000  # set by the start of a pipeline
            frames = [frame async for frame in service.run_tts(TEXT, "c")]
            return b"".join(frame.audio for frame in frames if isinstance(frame, TTSAudioRawFrame))

    assert words_of(await in_loop(use)) == TEXT
    assert fake.ledger[0].fields["voice"] == "Calm_Woman"
