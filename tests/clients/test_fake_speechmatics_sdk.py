"""Speechmatics' own SDKs, unchanged, with the fake vendor: what they read is what our codecs write."""

from __future__ import annotations

import asyncio
import io
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat as Format
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.speechmatics import FakeSpeechmatics

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)


@pytest.fixture
def fake() -> FakeSpeechmatics:
    return FakeSpeechmatics(api_key="test-key", transcript=TEXT + ".")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


async def in_loop(use: Any) -> Any:
    return await trio.to_thread.run_sync(lambda: asyncio.run(use()))


def live(address: str, key: str = "test-key") -> Any:
    from speechmatics.rt import AsyncClient, ConnectionConfig

    return AsyncClient(api_key=key, url=address.replace("http", "ws", 1) + "/v2", conn_config=ConnectionConfig(ping_timeout=None))


async def test_a_session(fake, address):
    from speechmatics.rt import (
        AudioEncoding,
        AudioFormat,
        ConversationConfig,
        ServerMessageType,
        TranscriptionConfig,
        TranscriptResult,
    )

    audio = AudioFormat(encoding=AudioEncoding.PCM_S16LE, sample_rate=16_000, chunk_size=3_200)
    config = TranscriptionConfig(
        language="en", enable_partials=True, diarization="speaker", additional_vocab=[{"content": "Paris"}],
        conversation_config=ConversationConfig(end_of_utterance_silence_trigger=0.5),
    )  # fmt: skip

    async def use() -> tuple[list[Any], list[str]]:
        results, kinds = [], []
        async with live(address) as client:
            for kind in ServerMessageType:
                client.on(kind, lambda message: kinds.append(message["message"]))
            for kind in (ServerMessageType.ADD_TRANSCRIPT, ServerMessageType.ADD_PARTIAL_TRANSCRIPT):
                client.on(kind, lambda message: results.append(TranscriptResult.from_message(message)))
            await client.transcribe(io.BytesIO(PCM), transcription_config=config, audio_format=audio)
        return results, kinds

    results, kinds = await in_loop(use)
    final = "".join(result.metadata.transcript for result in results if result.is_final).strip()
    assert final == TEXT
    words = [item.alternatives[0].content for result in results if result.is_final for item in result.results if item.type == "word"]
    assert words == TEXT.split()
    assert any(not result.is_final for result in results)
    assert kinds[0] == "RecognitionStarted"
    assert kinds[-1] == "EndOfTranscript"
    assert kinds.count("AudioAdded") == -(-len(PCM) // 3_200)
    assert "EndOfUtterance" in kinds
    assert fake.ledger[0].fields["terms"] == ["Paris"]


async def test_a_forced_end(address):
    from speechmatics.rt import AudioEncoding, AudioFormat, ServerMessageType

    audio = AudioFormat(encoding=AudioEncoding.PCM_S16LE, sample_rate=16_000)

    async def use() -> list[Any]:
        messages, ended = [], asyncio.Event()
        async with live(address) as client:
            client.on(ServerMessageType.ADD_TRANSCRIPT, messages.append)
            client.on(ServerMessageType.END_OF_UTTERANCE, lambda message: (messages.append(message), ended.set()))
            await client.start_session(audio_format=audio)
            await client.send_audio(PCM[: len(PCM) // 2])
            await client.force_end_of_utterance()
            await asyncio.wait_for(ended.wait(), 120)
            await client.stop_session()
        return messages

    messages = await in_loop(use)
    assert [(message["message"], message.get("forced")) for message in messages[:2]] == [("AddTranscript", True), ("EndOfUtterance", True)]


async def test_refusals(fake, address):
    from speechmatics import rt

    async def use() -> tuple[str, str]:
        with pytest.raises(rt.ConnectionError) as wrong_key:
            await live(address, "wrong").start_session()
        with pytest.raises(rt.TranscriptionError) as wrong_audio:
            await live(address).start_session(audio_format=rt.AudioFormat(encoding=None))
        return str(wrong_key.value), str(wrong_audio.value)

    wrong_key, wrong_audio = await in_loop(use)
    assert "401" in wrong_key
    assert "raw audio" in wrong_audio


async def test_recordings(fake, address):
    from speechmatics.batch import AsyncClient, AuthenticationError, FormatType, JobError, TranscriptionConfig

    recording = wav.header(Format(encoding="wav", sample_rate_hz=16_000), len(PCM)) + PCM

    async def use() -> Any:
        async with AsyncClient(api_key="test-key", url=address + "/v2") as client:
            config = TranscriptionConfig(language="en", diarization="speaker")
            transcript = await client.transcribe(
                io.BytesIO(recording), transcription_config=config, polling_interval=0.05, format_type=FormatType.JSON
            )
            fake.job_status = "rejected"
            with pytest.raises(JobError):
                await client.transcribe(io.BytesIO(recording), polling_interval=0.05)
        async with AsyncClient(api_key="wrong", url=address + "/v2") as client:
            with pytest.raises(AuthenticationError):
                await client.submit_job(io.BytesIO(recording))
        return transcript

    transcript = await in_loop(use)
    words = [item for item in transcript.results if item.type == "word"]
    assert [item.alternatives[0].content for item in words] == TEXT.split()
    assert {item.alternatives[0].speaker for item in words} == {"S1", "S2"}
    assert transcript.results[-1].attaches_to == "previous"
    assert fake.ledger[0].fields["diarization"] == "speaker"
