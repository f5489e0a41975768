"""Realtime transcription through the gateway by unchanged clients: openai's SDK, LiveKit's plugin, Pipecat's service."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import pytest

from gw.wire import tone

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of the clients' own making
]

TEXT = "what is the weather in Paris today"
PCM = b"".join(tone.encode(TEXT, 24_000)) + bytes(24_000)


def test_openai_sdk(demo):
    import openai

    client = openai.OpenAI(base_url=demo.base, api_key="any")
    with client, client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(
            session={"type": "transcription", "audio": {"input": {"transcription": {"model": "sim/tone"}}}}
        )
        for at in range(0, len(PCM), 2_400):
            connection.input_audio_buffer.append(audio=b64encode(PCM[at : at + 2_400]).decode())
        events = []
        while not events or not events[-1].type.endswith("transcription.completed"):
            events.append(connection.recv())
            assert events[-1].type != "error", events[-1]
    assert events[-1].transcript == TEXT
    assert [e.type for e in events][:2] == ["session.created", "session.updated"]


def test_livekit_plugin(demo, package):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import openai

    async def listen() -> list[stt.SpeechEvent]:
        import aiohttp

        ears = openai.STT(model="sim/tone", use_realtime=True, base_url=demo.base, api_key="any")
        async with aiohttp.ClientSession() as http:
            ears._session = http
            events = []
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 960):
                    data = PCM[at : at + 960]
                    stream.push_frame(rtc.AudioFrame(data, 24_000, 1, len(data) // 2))
                async for event in stream:
                    events.append(event)
                    if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                        break
            await ears.aclose()
        return events

    events = asyncio.run(asyncio.wait_for(listen(), 30))
    assert events[-1].alternatives[0].text == TEXT


def test_pipecat_service(demo, package):
    package("pipecat")
    from pipecat.frames.frames import TranscriptionFrame
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService

    from tests.clients.test_pipecat import run, spoken

    url = demo.base.replace("http", "ws", 1) + "/realtime"
    ears: Any = OpenAIRealtimeSTTService(
        api_key="any", base_url=url, settings=OpenAIRealtimeSTTService.Settings(model="sim/tone")
    )
    frames = asyncio.run(run([ears], spoken(PCM), TranscriptionFrame))
    assert frames[-1].text == TEXT


def test_openai_sdk_conversation(demo):
    """Speech in, speech out: the demo's echo says what it heard."""
    import openai

    client = openai.OpenAI(base_url=demo.base, api_key="any")
    with client, client.realtime.connect(model="gpt-realtime") as connection:
        for at in range(0, len(PCM), 2_400):
            connection.input_audio_buffer.append(audio=b64encode(PCM[at : at + 2_400]).decode())
        events = []
        while not events or events[-1].type != "response.done":
            events.append(connection.recv())
            assert events[-1].type != "error", events[-1]
    assert events[-1].response.status == "completed"
    assert events[-1].response.output[0].content[0].transcript == TEXT
    pcm = b"".join(b64decode(e.delta) for e in events if e.type == "response.output_audio.delta")
    assert " ".join(" ".join(done.text for done in tone.decode(pcm, 24_000)).split()) == TEXT
