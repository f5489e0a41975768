"""Unchanged AssemblyAI clients: the SDK (at the fake as well), LiveKit's plugin, Pipecat's service; over AssemblyAI and another."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WHO = pytest.mark.parametrize("who", ["own", "other"])
WHERE = pytest.mark.parametrize("who", ["fake", "own", "other"])


@WHERE
def test_sdk_recording(drop_in, package, who):
    package("assemblyai")
    import assemblyai

    settings = assemblyai.Settings(
        api_key="vendor-key", base_url=drop_in.at("assemblyai", who), polling_interval=0.1
    )
    client = assemblyai.Client(settings=settings)
    config = assemblyai.TranscriptionConfig(speech_models=[drop_in.model("assemblyai", "stt")])
    transcriber = assemblyai.Transcriber(client=client, config=config)
    import io

    transcript = transcriber.transcribe(io.BytesIO(wav.header(PCM_16K, len(PCM)) + PCM))
    assert transcript.error is None
    assert transcript.text == TEXT
    assert transcript.audio_duration == round(len(PCM) / 32_000)


@WHERE
@pytest.mark.parametrize("formatted", [True, False])
def test_sdk_live_transcription(drop_in, package, who, formatted):
    package("assemblyai")
    from assemblyai.streaming.v3 import (
        StreamingClient,
        StreamingClientOptions,
        StreamingEvents,
        StreamingParameters,
    )

    transcript: list[Any] = []
    ended = threading.Event()
    host = drop_in.at("assemblyai", who, "ws")
    client = StreamingClient(StreamingClientOptions(api_key="vendor-key", api_host=host))
    for kind in (StreamingEvents.Begin, StreamingEvents.Turn, StreamingEvents.Error):
        client.on(kind, lambda _, event: transcript.append(event))

    def over(_: Any, event: Any) -> None:
        transcript.append(event)
        ended.set()

    client.on(StreamingEvents.Termination, over)
    client.connect(
        StreamingParameters(
            sample_rate=16_000, format_turns=formatted, speech_model=drop_in.model("assemblyai", "stt")
        )
    )
    client.stream(PCM[at : at + 1_600] for at in range(0, len(PCM), 1_600))
    client.disconnect(terminate=True)
    assert ended.wait(120)
    turns = [event for event in transcript if type(event).__name__ == "TurnEvent"]
    ends = [t.transcript for t in turns if t.end_of_turn and (t.turn_is_formatted or not formatted)]
    assert ends == [TEXT]
    assert type(transcript[0]).__name__ == "BeginEvent"
    assert transcript[-1].audio_duration_seconds == round(len(PCM) / 32_000)


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import assemblyai

    async def talk() -> list[Any]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            ears = assemblyai.STT(
                model=drop_in.model("assemblyai", "stt"), api_key="any", http_session=http,
                base_url=drop_in.at("assemblyai", who, "ws"),
            )  # fmt: skip
            events: list[Any] = []
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 1_600):
                    data = PCM[at : at + 1_600]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                async for event in stream:
                    if not events:
                        stream.end_input()
                    events.append(event)
            await ears.aclose()
        return events

    events = asyncio.run(asyncio.wait_for(talk(), 120))
    finals = [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.FINAL_TRANSCRIPT]
    assert " ".join(finals).strip() == TEXT


@WHO
def test_pipecat_service(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import TranscriptionFrame
    from pipecat.services.assemblyai.stt import AssemblyAISTTService

    from tests.clients.test_pipecat import run, spoken

    ears = AssemblyAISTTService(
        api_key="any", sample_rate=16_000,
        api_endpoint_base_url=drop_in.at("assemblyai", who, "ws") + "/v3/ws",
        settings=AssemblyAISTTService.Settings(model=drop_in.model("assemblyai", "stt")),
    )  # fmt: skip
    frames = asyncio.run(run([ears], spoken(PCM), TranscriptionFrame))
    assert frames[-1].text.strip() == TEXT
