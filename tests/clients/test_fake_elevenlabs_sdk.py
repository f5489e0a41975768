"""ElevenLabs' own SDK, unchanged, with the fake vendor: what it reads is what our codec writes.

Speech and recordings are in `test_elevenlabs.py`, which drives it at the fake as well as at the gateway.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)


@pytest.fixture
def fake() -> FakeElevenLabs:
    return FakeElevenLabs(api_key="test-key")


@pytest.fixture
async def client(fake, nursery):
    from elevenlabs.client import ElevenLabs

    address = await nursery.start(serve_asgi, fake)
    return lambda key: ElevenLabs(api_key=key, base_url=address)


async def listen(client: Any, strategy: str, **options: Any) -> list[dict[str, Any]]:
    """All messages of a session of the SDK's, which runs in asyncio, up to the last committed transcript."""
    from elevenlabs import AudioFormat, CommitStrategy, RealtimeEvents

    async def talk() -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = []
        done = asyncio.Event()
        last = RealtimeEvents.COMMITTED_TRANSCRIPT_WITH_TIMESTAMPS if options else RealtimeEvents.COMMITTED_TRANSCRIPT
        connection = await client.speech_to_text.realtime.connect(
            {
                "model_id": "scribe_v2_realtime", "audio_format": AudioFormat.PCM_16000, "sample_rate": 16_000,
                "commit_strategy": CommitStrategy(strategy), **options,
            }
        )  # fmt: skip
        for event in RealtimeEvents:
            connection.on(event, lambda data=None: messages.append(data) if isinstance(data, dict) and "message_type" in data else None)
        connection.on(last, lambda message: done.set())
        for at in range(0, len(PCM), 1_600):
            await connection.send({"audio_base_64": b64encode(PCM[at : at + 1_600]).decode()})
        if strategy == "manual":
            await connection.commit()
        await asyncio.wait_for(done.wait(), 120)
        await connection.close()
        return messages

    return await trio.to_thread.run_sync(lambda: asyncio.run(talk()))


@pytest.mark.parametrize("strategy", ["manual", "vad"])
async def test_a_live_session(client, strategy):
    events = await listen(client("test-key"), strategy)
    kinds = [event["message_type"] for event in events]
    assert kinds[0] == "session_started"
    assert "partial_transcript" in kinds
    assert [event["text"] for event in events if event["message_type"] == "committed_transcript"] == [TEXT]
    assert "committed_transcript_with_timestamps" not in kinds


async def test_a_live_session_with_timestamps(client):
    events = await listen(client("test-key"), "vad", include_timestamps=True, keyterms=["Paris"])
    timed = events[-1]
    assert (timed["message_type"], timed["text"]) == ("committed_transcript_with_timestamps", TEXT)
    assert timed["words"][0]["start"] < timed["words"][-1]["end"]


async def test_a_wrong_key(client):
    from elevenlabs.core.api_error import ApiError

    with pytest.raises(ApiError) as caught:
        await trio.to_thread.run_sync(lambda: list(client("another").text_to_speech.stream(voice_id="v", text="x")))
    assert caught.value.status_code == 401
    assert caught.value.body["detail"]["status"] == "invalid_api_key"
