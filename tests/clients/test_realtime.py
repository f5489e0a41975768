"""OpenAI's realtime socket through the gateway by unchanged clients: openai's SDK, LiveKit's plugin, Pipecat's service."""

from __future__ import annotations

import asyncio
from base64 import b64decode, b64encode
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of the clients' own making
]

PCM = b"".join(fsk.encode(TEXT, 24_000)) + bytes(24_000)
WHO = pytest.mark.parametrize("who", ["own", "other"])


@WHO
def test_openai_sdk(drop_in, who):
    import openai

    client = openai.OpenAI(base_url=drop_in.at("openai", who) + "/v1", api_key="any")
    model = drop_in.model("openai", "stt")
    with client, client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
        connection.session.update(
            session={"type": "transcription", "audio": {"input": {"transcription": {"model": model}}}}
        )
        for at in range(0, len(PCM), 2_400):
            connection.input_audio_buffer.append(audio=b64encode(PCM[at : at + 2_400]).decode())
        events = []
        while not events or not events[-1].type.endswith("transcription.completed"):
            events.append(connection.recv())
            assert events[-1].type != "error", events[-1]
    assert events[-1].transcript == TEXT
    assert [e.type for e in events][:2] == ["session.created", "session.updated"]


def test_openai_client_secret(drop_in):
    import openai

    base_url = drop_in.at("openai", "own") + "/v1"
    with openai.OpenAI(base_url=base_url, api_key="any") as server:
        secret = server.realtime.client_secrets.create(
            expires_after={"anchor": "created_at", "seconds": 60},
            session={"type": "realtime", "model": "talk", "instructions": "Be brief."},
        )
    assert (secret.session.type, secret.session.instructions) == ("realtime", "Be brief.")
    with openai.OpenAI(base_url=base_url, api_key=secret.value) as page, page.realtime.connect() as connection:
        created = connection.recv()
    assert (created.type, created.session.instructions) == ("session.created", "Be brief.")


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import openai

    async def listen() -> list[stt.SpeechEvent]:
        import aiohttp

        ears = openai.STT(
            model=drop_in.model("openai", "stt"), use_realtime=True, base_url=drop_in.at("openai", who) + "/v1", api_key="any"
        )
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

    events = asyncio.run(asyncio.wait_for(listen(), 120))
    assert events[-1].alternatives[0].text == TEXT


@WHO
def test_pipecat_service(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import TranscriptionFrame
    from pipecat.services.openai.stt import OpenAIRealtimeSTTService

    from tests.clients.test_pipecat import run, spoken

    ears: Any = OpenAIRealtimeSTTService(
        api_key="any",
        base_url=drop_in.at("openai", who, "ws") + "/v1/realtime",
        settings=OpenAIRealtimeSTTService.Settings(model=drop_in.model("openai", "stt")),
    )
    frames = asyncio.run(run([ears], spoken(PCM), TranscriptionFrame))
    assert frames[-1].text == TEXT


@WHO
def test_openai_sdk_conversation(drop_in, who):
    """Speech in, speech out, by the three models of a stack."""
    import openai

    client = openai.OpenAI(base_url=drop_in.at("openai", who) + "/v1", api_key="any")
    with client, client.realtime.connect(model="talk") as connection:
        for at in range(0, len(PCM), 2_400):
            connection.input_audio_buffer.append(audio=b64encode(PCM[at : at + 2_400]).decode())
        events = []
        while not events or events[-1].type != "response.done":
            events.append(connection.recv())
            assert events[-1].type != "error", events[-1]
    (transcript,) = [e.transcript for e in events if e.type.endswith("transcription.completed")]
    assert transcript == TEXT
    assert events[-1].response.status == "completed", events[-1].response
    assert events[-1].response.output[0].content[0].transcript == TEXT
    pcm = b"".join(b64decode(e.delta) for e in events if e.type == "response.output_audio.delta")
    assert spoken_text(pcm, 24_000) == TEXT
