"""Gladia's own SDK, unchanged, with the fake vendor: what it reads is what our codecs write."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.gladia import FakeGladia

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(32_000)
FRAMES = [PCM[at : at + 3_200] for at in range(0, len(PCM), 3_200)]


@pytest.fixture
def fake() -> FakeGladia:
    return FakeGladia(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def client_of(address: str, key: str = "test-key") -> Any:
    from gladiaio_sdk import GladiaClient

    return GladiaClient(api_key=key, api_url=address)


async def test_a_session(fake, address):
    from gladiaio_sdk import LiveV2InitRequest, LiveV2LanguageConfig, LiveV2MessagesConfig

    async def use() -> tuple[list[Any], list[Any], int]:
        messages = LiveV2MessagesConfig(
            receive_partial_transcripts=True, receive_final_transcripts=True, receive_speech_events=True, receive_lifecycle_events=True
        )
        options = LiveV2InitRequest(
            encoding="wav/pcm", bit_depth=16, sample_rate=16_000, channels=1, model="solaria-1", endpointing=0.3,
            language_config=LiveV2LanguageConfig(languages=["en"]), messages_config=messages,
        )  # fmt: skip
        session = client_of(address).live_v2_async().start_session(options)
        loop = asyncio.get_running_loop()
        heard, failed, connected, ended = [], [], loop.create_future(), loop.create_future()
        session.on("message")(heard.append)
        session.on("error")(failed.append)
        session.once("connected")(connected.set_result)
        session.once("ended")(ended.set_result)
        for frame in FRAMES:
            session.send_audio(frame)
        await asyncio.wait_for(connected, 120)  # until then it forgets that it was to stop
        session.stop_recording()
        return heard, failed, (await asyncio.wait_for(ended, 120)).code

    heard, failed, code = await trio.to_thread.run_sync(lambda: asyncio.run(use()))
    assert (failed, code) == ([], 1_000)
    transcripts = [message.data for message in heard if message.type == "transcript"]
    assert [data.utterance.text for data in transcripts if data.is_final] == [TEXT]
    assert any(not data.is_final for data in transcripts)
    assert {message.type for message in heard} >= {"start_session", "speech_start", "speech_end", "end_recording", "end_session"}
    assert fake.ledger[0].fields["language_config"] == {"languages": ["en"]}


async def test_recordings(fake, address):
    fake.transcript = TEXT
    recording = wav.header(AudioFormat(encoding="wav", sample_rate_hz=16_000), len(PCM)) + PCM

    def use() -> Any:
        options = {"model": "solaria-1", "language_config": {"languages": ["en"]}, "diarization": True}
        return client_of(address).pre_recorded_v2().transcribe(io.BytesIO(recording), options, interval=0.05)

    job = await trio.to_thread.run_sync(use)
    result = job.result
    assert (job.status, result.transcription.full_transcript) == ("done", TEXT)
    assert {utterance.speaker for utterance in result.transcription.utterances} == {0, 1}
    assert result.metadata.billing_time == pytest.approx(len(PCM) / 32_000)


async def test_errors(address):
    from gladiaio_sdk import HttpError

    def use() -> Any:
        with pytest.raises(HttpError) as caught:
            client_of(address, "wrong").pre_recorded_v2().create({"audio_url": "https://x.test/a.wav"})
        return caught.value

    error = await trio.to_thread.run_sync(use)
    assert (error.status, error.request_id) == (401, "G-1")
    assert "Incorrect API key" in str(error)
