"""Rime's plugin for LiveKit and Pipecat's service, unchanged, with the fake vendor; the vendor's own SDK has no calls over HTTP."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clients.livekit_speech import TEXT, in_loop, synthesize, words_of
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.rime import FakeRime

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]


@pytest.fixture
def fake() -> FakeRime:
    return FakeRime(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    import livekit.plugins.rime  # noqa: F401  a plugin may be imported on the main thread only

    return await nursery.start(serve_asgi, fake)


async def livekit_speech(url: str, key: str = "test-key", **options: Any) -> bytes:
    from livekit.plugins import rime

    return await synthesize(
        lambda session: rime.TTS(base_url=url, api_key=key, http_session=session, allow_custom_endpoint=True, **options)
    )


@pytest.mark.parametrize("model", ["coda", "mistv3"])
async def test_livekit(model, fake, address):
    pcm = await in_loop(lambda: livekit_speech(address + "/v1/rime-tts", model=model, time_scale_factor=0.9))
    assert words_of(pcm) == TEXT
    assert {"modelId": model, "lang": "eng", "timeScaleFactor": 0.9, "samplingRate": 24_000}.items() <= fake.ledger[0].fields.items()


async def test_an_error(fake, address):
    from livekit.agents import APIStatusError

    async def use() -> int:
        with pytest.raises(APIStatusError) as caught:
            await livekit_speech(address + "/v1/rime-tts", key="wrong")
        return caught.value.status_code

    assert await in_loop(use) == 401


async def test_pipecat(fake, address):
    async def use() -> list[Any]:
        import aiohttp
        from pipecat.services.rime.tts import RimeHttpTTSService

        async with aiohttp.ClientSession() as session:
            settings = RimeHttpTTSService.Settings(voice="lyra", model="mistv2", speedAlpha=1.1)
            service = RimeHttpTTSService(api_key="test-key", aiohttp_session=session, sample_rate=24_000, settings=settings)
            service._base_url = address + "/v1/rime-tts"  # its constructor takes none
            service._sample_rate = 24_000  # which its pipeline would set
            return [frame async for frame in service.run_tts(TEXT, "c")]

    frames = await in_loop(use)
    assert words_of(b"".join(getattr(frame, "audio", b"") for frame in frames)) == TEXT
    assert {"speaker": "lyra", "modelId": "mistv2", "speedAlpha": 1.1}.items() <= fake.ledger[0].fields.items()
