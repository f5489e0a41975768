"""The realtime models of LiveKit Agents and Pipecat, unchanged, in conversation with the gateway's models."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["own", "other", "speaking", "gemini"])
SENTENCE = TEXT + "?"
PCM = b"".join(fsk.encode(SENTENCE, 24_000)) + bytes(48_000)


@WHO
def test_livekit_realtime_model(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.plugins import openai

    async def talk() -> tuple[list[Any], list[str], bytes, Any]:
        import aiohttp

        errors: list[Any] = []
        heard: list[str] = []
        created: asyncio.Queue[Any] = asyncio.Queue()
        async with aiohttp.ClientSession() as http:
            model = openai.realtime.RealtimeModel(
                model=drop_in.conversation_model(who), base_url=drop_in.at("openai", who) + "/v1", api_key="any", http_session=http
            )
            session = model.session()
            session.on("error", lambda event: errors.append(event.error))
            session.on("generation_created", created.put_nowait)
            session.on(
                "input_audio_transcription_completed",
                lambda event: heard.append(event.transcript) if event.is_final else None,
            )
            for at in range(0, len(PCM), 2_400):
                data = PCM[at : at + 2_400]
                session.push_audio(rtc.AudioFrame(data, 24_000, 1, len(data) // 2))
            generation = await created.get()
            pcm = b""
            async for message in generation.message_stream:
                async for frame in message.audio_stream:
                    pcm += bytes(frame.data)
                session.truncate(message_id=message.message_id, modalities=["audio"], audio_end_ms=200)
            reply = await session.generate_reply(instructions="Say it again.")
            async for message in reply.message_stream:
                async for _ in message.audio_stream:
                    pass
            await session.aclose()
        return errors, heard, pcm, reply

    errors, heard, pcm, reply = asyncio.run(asyncio.wait_for(talk(), 120))
    assert errors == []
    assert heard == [SENTENCE]
    assert TEXT in spoken_text(pcm, 24_000)
    assert reply.user_initiated


@WHO
def test_pipecat_realtime_service(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import InterruptionFrame, TranscriptionFrame, TTSStoppedFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
    from pipecat.services.openai.realtime.llm import OpenAIRealtimeLLMService

    from tests.clients.test_pipecat import run, sound, spoken

    service: Any = OpenAIRealtimeLLMService(
        api_key="any",
        base_url=drop_in.at("openai", who, "ws") + "/v1/realtime",
        settings=OpenAIRealtimeLLMService.Settings(model=drop_in.conversation_model(who)),
    )
    pair = LLMContextAggregatorPair(LLMContext())
    # Pipecat interrupts an answer when it learns that the user speaks. Said faster than in real time, the rest would be answered before.
    begun, *rest = spoken(PCM)
    until_noticed = len(rest) // 2
    said = [begun, *rest[:until_noticed], InterruptionFrame, *rest[until_noticed:]]
    frames = asyncio.run(run([pair.user(), service, pair.assistant()], said, TTSStoppedFrame))
    assert TEXT in spoken_text(sound(frames), 24_000)
    assert not [frame for frame in frames if isinstance(frame, TranscriptionFrame) and frame.text != SENTENCE]
