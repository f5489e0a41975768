"""Inworld's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.inworld import FakeInworld

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
SETTINGS = {"voice": "Dennis", "model": "inworld-tts-1.5-max", "encoding": "PCM", "sample_rate": 24_000}


@pytest.fixture
def fake() -> FakeInworld:
    return FakeInworld(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


async def in_loop(use: Any) -> Any:
    return await trio.to_thread.run_sync(lambda: asyncio.run(use()))


def words_of(pcm: bytes) -> str:
    return " ".join(done.text for done in fsk.decode(pcm, 24_000))


async def test_speech(fake, address):
    from inworld_tts import InworldTTS

    async def use() -> list[bytes]:
        client = InworldTTS(api_key="test-key", base_url=address)
        return [chunk async for chunk in client.stream(TEXT, speaking_rate=1.2, language="en-US", **SETTINGS)]

    chunks = await in_loop(use)
    assert len(chunks) > 1
    assert words_of(b"".join(chunks)) == TEXT
    assert fake.ledger[0].fields["audioConfig"] == {"audioEncoding": "PCM", "sampleRateHertz": 24_000, "speakingRate": 1.2}
    assert fake.ledger[0].fields["language"] == "en-US"


async def test_word_times(address):
    from inworld_tts import InworldTTS

    async def use() -> list[Any]:
        client = InworldTTS(api_key="test-key", base_url=address)
        return [piece async for piece in client.stream_with_timestamps(TEXT, timestamp_type="WORD", **SETTINGS)]

    pieces = await in_loop(use)
    assert words_of(b"".join(piece["audio"] for piece in pieces)) == TEXT
    words = [word for piece in pieces if piece["timestamps"] for word in piece["timestamps"]["wordAlignment"]["words"]]
    assert words == TEXT.split()


async def test_an_error(address):
    from inworld_tts import ApiError, InworldTTS

    async def use() -> Any:
        with pytest.raises(ApiError) as caught:
            async for _ in InworldTTS(api_key="wrong", base_url=address).stream(TEXT, **SETTINGS):
                pass
        return caught.value

    error = await in_loop(use)
    assert error.code == 401
    assert error.details["message"] == "Incorrect API key provided"
