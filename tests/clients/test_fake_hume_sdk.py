"""Hume's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

from base64 import b64decode
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.hume import FakeHume

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"


@pytest.fixture
def fake() -> FakeHume:
    return FakeHume(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def client_of(address: str, key: str = "test-key") -> Any:
    from hume import HumeClient
    from hume.environment import HumeClientEnvironment

    return HumeClient(api_key=key, environment=HumeClientEnvironment(base=address, evi=address, tts=address, stream=address))


def speak(address: str, key: str = "test-key", **more: Any) -> list[Any]:
    from hume.tts import FormatPcm, PostedUtterance, PostedUtteranceVoiceWithName

    voice = PostedUtteranceVoiceWithName(name="Ava Song", provider="HUME_AI")
    utterance = PostedUtterance(text=TEXT, voice=voice, speed=1.2)
    stream = client_of(address, key).tts.synthesize_json_streaming(
        utterances=[utterance], format=FormatPcm(), version="2", instant_mode=True, strip_headers=True, **more
    )
    return list(stream)


async def test_speech(fake, address):
    chunks = await trio.to_thread.run_sync(speak, address)
    pcm = b"".join(b64decode(chunk.audio) for chunk in chunks)
    assert " ".join(done.text for done in fsk.decode(pcm, 48_000)) == TEXT
    assert [chunk.is_last_chunk for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert [chunk.chunk_index for chunk in chunks] == list(range(len(chunks)))
    assert {type(chunk).__name__ for chunk in chunks} == {"SnippetAudioChunk"}
    assert (fake.ledger[0].fields["version"], fake.ledger[0].fields["voice"]) == ("2", "Ava Song")


async def test_voices(address):
    def use() -> list[Any]:
        return list(client_of(address).tts.voices.list(provider="HUME_AI"))

    assert await trio.to_thread.run_sync(use) == []


async def test_an_error(address):
    from hume.core.api_error import ApiError

    def use() -> Any:
        with pytest.raises(ApiError) as caught:
            speak(address, "wrong")
        return caught.value

    error = await trio.to_thread.run_sync(use)
    assert error.status_code == 401
    assert error.body["message"] == "Incorrect API key provided"
