"""Unchanged ElevenLabs clients: the SDK (at the fake as well), LiveKit's plugin, Pipecat's services; over ElevenLabs and another."""

from __future__ import annotations

import asyncio
import io
from base64 import b64decode, b64encode
from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WHO = pytest.mark.parametrize("who", ["own", "other"])
WHERE = pytest.mark.parametrize("who", ["fake", "own", "other"])


@pytest.fixture
def client(drop_in, package):
    package("elevenlabs")
    from elevenlabs.client import ElevenLabs

    return lambda who: ElevenLabs(api_key="vendor-key", base_url=drop_in.at("elevenlabs", who))


@WHERE
def test_sdk_speech(client, drop_in, who):
    made, model = client(who), drop_in.model("elevenlabs", "tts")
    options = {"voice_id": "v", "text": TEXT, "model_id": model, "output_format": "pcm_16000"}
    for speak in (made.text_to_speech.convert, made.text_to_speech.stream):
        assert spoken_text(b"".join(speak(**options)), 16_000) == TEXT
    whole = made.text_to_speech.convert_with_timestamps(**options)
    assert spoken_text(b64decode(whole.audio_base_64), 16_000) == TEXT
    lines = list(made.text_to_speech.stream_with_timestamps(**options))
    assert spoken_text(b"".join(b64decode(line.audio_base_64) for line in lines), 16_000) == TEXT
    if who != "other":
        assert "".join(c for line in lines if line.alignment for c in line.alignment.characters).strip() == TEXT


@WHERE
def test_sdk_live_speech(client, drop_in, who):
    made = client(who)
    realtime = made.text_to_speech
    realtime._ws_base_url = drop_in.at("elevenlabs", who, "ws")   # it insists on wss
    pieces = realtime.convert_realtime(
        voice_id="v", text=(word + " " for word in TEXT.split()), model_id=drop_in.model("elevenlabs", "tts"),
        output_format="pcm_16000",
    )  # fmt: skip
    assert spoken_text(b"".join(pieces), 16_000) == TEXT


@WHERE
def test_sdk_recording(client, drop_in, who):
    audio = io.BytesIO(wav.header(PCM_16K, len(PCM)) + PCM)
    result = client(who).speech_to_text.convert(model_id=drop_in.model("elevenlabs", "stt"), file=audio)
    assert result.text == TEXT


@WHERE
def test_sdk_live_transcription(client, drop_in, who):
    """Committed by the client; a commit of silence is answered too."""
    from elevenlabs.realtime.connection import RealtimeEvents
    from elevenlabs.realtime.scribe import AudioFormat, CommitStrategy

    made = client(who)

    async def talk() -> list[str]:
        options: Any = {
            "model_id": drop_in.model("elevenlabs", "stt"), "audio_format": AudioFormat.PCM_16000, "sample_rate": 16_000,
            "commit_strategy": CommitStrategy.MANUAL,
        }  # fmt: skip
        connection = await made.speech_to_text.realtime.connect(options)
        committed: asyncio.Queue[str] = asyncio.Queue()
        connection.on(RealtimeEvents.COMMITTED_TRANSCRIPT, lambda message: committed.put_nowait(message["text"]))
        result = []
        for pcm in (bytes(16_000), PCM):
            for at in range(0, len(pcm), 3_200):
                await connection.send({"audio_base_64": b64encode(pcm[at : at + 3_200]).decode()})
            await connection.commit()
            result.append(await committed.get())
        await connection.close()
        return result

    assert asyncio.run(asyncio.wait_for(talk(), 120)) == ["", TEXT]


@pytest.mark.parametrize("who", ["own"])
def test_sdk_catalogue(client, drop_in, who):
    """Voices, models, the plan, a token for a browser."""
    made = client(who)
    voices = made.voices.get_all().voices
    assert [voice.voice_id for voice in voices] == ["a-voice"]
    result = made.voices.search(search="A-V")
    assert ([voice.name for voice in result.voices], result.has_more, result.total_count) == (["a-voice"], False, 1)
    assert made.voices.get("a-voice").high_quality_base_model_ids == voices[0].high_quality_base_model_ids
    assert "elevenlabs/eleven_flash_v2_5" in [model.model_id for model in made.models.list()]
    plan = made.user.subscription.get()
    assert (plan.status, plan.character_limit > plan.character_count) == ("active", True)
    assert made.tokens.single_use.create("realtime_scribe").token


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import elevenlabs

    async def talk() -> tuple[bytes, bytes, list[Any]]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            address = {"api_key": "any", "base_url": drop_in.at("elevenlabs", who) + "/v1", "http_session": http}
            voice = elevenlabs.TTS(
                model=drop_in.model("elevenlabs", "tts"), voice_id="v", encoding="pcm_24000", **address
            )
            once = b""
            async with voice.synthesize(TEXT) as speech:
                async for event in speech:
                    once += bytes(event.frame.data)
            pcm = b""
            async with voice.stream() as speech:
                speech.push_text(TEXT + ".")
                speech.end_input()
                async for event in speech:
                    pcm += bytes(event.frame.data)
            await voice.aclose()
            ears = elevenlabs.STT(
                model=drop_in.model("elevenlabs", "stt"), use_realtime=True, sample_rate=16_000,
                server_vad={}, **address,
            )  # fmt: skip
            events: list[Any] = []
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 1_600):
                    data = PCM[at : at + 1_600]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                async for event in stream:
                    events.append(event)
                    if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT:
                        break
            await ears.aclose()
        return once, pcm, events

    once, pcm, events = asyncio.run(asyncio.wait_for(talk(), 120))
    assert spoken_text(once, 24_000) == TEXT
    assert spoken_text(pcm, 24_000) == TEXT + "."
    assert events[-1].alternatives[0].text == TEXT


@WHO
def test_pipecat_services(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import TTSSpeakFrame, TTSStoppedFrame
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService

    from tests.clients.test_pipecat import run, sound

    mouth = ElevenLabsTTSService(
        api_key="any", url=drop_in.at("elevenlabs", who, "ws"), sample_rate=24_000,
        settings=ElevenLabsTTSService.Settings(model=drop_in.model("elevenlabs", "tts"), voice="v"),
    )  # fmt: skip
    pcm = sound(asyncio.run(run([mouth], [TTSSpeakFrame(TEXT)], TTSStoppedFrame)))
    assert spoken_text(pcm, 24_000) == TEXT
