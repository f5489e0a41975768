"""Unchanged Deepgram clients at the gateway: the SDK, LiveKit's plugin, Pipecat's services; over Deepgram and over another."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from gw.providers.sim import fsk
from gw.types.audio import MULAW_8K, PCM_16K
from gw.wire import wav
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
WHO = pytest.mark.parametrize("who", ["own", "other"])


@pytest.fixture(params=["", "/deepgram"])
def client(request, drop_in, package, who):
    package("deepgram")
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    url = drop_in.at("deepgram", who) + request.param
    socket = url.replace("http", "ws", 1)
    names = DeepgramClientEnvironment.__init__.__code__.co_varnames
    where = {"base": url, "production": socket, "agent": socket, "agent_rest": url}
    environment = DeepgramClientEnvironment(**{name: where[name] for name in names if name in where})
    return DeepgramClient(api_key="any", environment=environment)


@WHO
def test_sdk_recording(client, drop_in, who):
    audio = wav.header(PCM_16K, len(PCM)) + PCM
    answer = client.listen.v1.media.transcribe_file(
        request=audio, model=drop_in.model("deepgram", "stt"), smart_format=True
    )
    assert answer.results.channels[0].alternatives[0].transcript == TEXT
    assert answer.metadata.duration == pytest.approx(len(PCM) / 32_000, rel=0.01)


@WHO
def test_sdk_speech(client, drop_in, who):
    pieces = client.speak.v1.audio.generate(
        text=TEXT, model=drop_in.model("deepgram", "tts"), encoding="linear16", container="none", sample_rate=16_000
    )
    assert spoken_text(b"".join(pieces), 16_000) == TEXT


@WHO
@pytest.mark.parametrize("container", [None, "wav"])
def test_sdk_telephone_speech_is_a_wav(client, drop_in, who, container):
    model = drop_in.model("deepgram", "tts")
    chosen = {} if container is None else {"container": container}
    audio = b"".join(client.speak.v1.audio.generate(text=TEXT, model=model, encoding="mulaw", **chosen))
    bare = b"".join(client.speak.v1.audio.generate(text=TEXT, model=model, encoding="mulaw", container="none"))
    info = wav.parse(audio)
    assert info is not None
    assert info.format == MULAW_8K
    assert len(audio) - info.data_offset == len(bare)


@WHO
def test_sdk_live_transcription(client, drop_in, who):
    from deepgram.core.events import EventType

    events: list[Any] = []
    model = drop_in.model("deepgram", "stt")
    with client.listen.v1.connect(
        model=model, encoding="linear16", sample_rate=16_000, interim_results="true", vad_events="true"
    ) as connection:
        connection.on(EventType.MESSAGE, events.append)
        thread = threading.Thread(target=connection.start_listening)
        thread.start()
        connection.send_keep_alive()
        for at in range(0, len(PCM), 1_280):
            connection.send_media(PCM[at : at + 1_280])
        connection.send_close_stream()
        thread.join(20)
    results = [event for event in events if event.type == "Results"]
    finals = [r.channel.alternatives[0].transcript for r in results if r.is_final]
    assert [text for text in finals if text] == [TEXT]
    assert any(not r.is_final for r in results)
    assert events[-1].type == "Metadata"


@WHO
def test_sdk_live_speech(client, drop_in, who):
    from deepgram.core.events import EventType
    from deepgram.speak.v1.types import SpeakV1Text

    events: list[Any] = []
    done = threading.Event()

    def hear(message: Any) -> None:
        events.append(message)
        if not isinstance(message, bytes) and message.type in ("Flushed", "Error"):
            done.set()

    model = drop_in.model("deepgram", "tts")
    with client.speak.v1.connect(model=model, encoding="linear16", sample_rate=16_000) as connection:
        connection.on(EventType.MESSAGE, hear)
        thread = threading.Thread(target=connection.start_listening)
        thread.start()
        connection.send_text(SpeakV1Text(text=TEXT))
        connection.send_flush()
        assert done.wait(120)
        connection.send_close()
        thread.join(20)
    assert spoken_text(b"".join(event for event in events if isinstance(event, bytes)), 16_000) == TEXT


@WHO
def test_sdk_interruption_reports_the_words_heard(client, drop_in, who):
    from deepgram.speak.v2.types import SpeakV2Interrupt, SpeakV2InterruptPlaybackOffset, SpeakV2Speak

    model = drop_in.model("deepgram", "tts")
    with client.speak.v2.connect(model=model, encoding="linear16", sample_rate=16_000) as connection:
        connection.send_speak(SpeakV2Speak(text=TEXT))
        connection.send_flush()
        pcm = b""
        for message in connection:
            pcm += message if isinstance(message, bytes) else b""
            if not isinstance(message, bytes) and message.type == "Flushed":
                break
        half_ms = len(pcm) // 64
        connection.send_interrupt(SpeakV2Interrupt(playback_offset=SpeakV2InterruptPlaybackOffset(value=half_ms)))
        interrupted = next(message for message in connection if not isinstance(message, bytes))
    assert (interrupted.type, interrupted.audio_played_ms) == ("SpeechInterrupted", half_ms)
    assert f"{interrupted.text_spoken} {interrupted.text_remaining}" == TEXT


@pytest.mark.parametrize("who", ["own"])
def test_sdk_catalogue(client, drop_in, who):
    """Models, and a token that is made and used."""
    from deepgram import DeepgramClient

    listed = client.manage.v1.models.list()
    assert "deepgram/nova-3" in [model.name for model in listed.stt]
    assert "deepgram/aura-2-thalia-en" in [model.name for model in listed.tts]
    granted = client.auth.v1.tokens.grant(ttl_seconds=30)
    assert granted.expires_in == 30
    other = DeepgramClient(access_token=granted.access_token, environment=client._client_wrapper.get_environment())
    audio = wav.header(PCM_16K, len(PCM)) + PCM
    answer = other.listen.v1.media.transcribe_file(request=audio, model=drop_in.model("deepgram", "stt"))
    assert answer.results.channels[0].alternatives[0].transcript == TEXT


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import deepgram

    url = drop_in.at("deepgram", who)

    async def talk() -> tuple[bytes, str, list[Any]]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            voice = deepgram.TTS(
                model=drop_in.model("deepgram", "tts"), api_key="any", base_url=url + "/v1/speak", http_session=http
            )
            pcm = b""
            async with voice.stream() as speech:
                speech.push_text(TEXT)
                speech.end_input()
                async for event in speech:
                    pcm += bytes(event.frame.data)
            await voice.aclose()
            ears = deepgram.STT(
                model=drop_in.model("deepgram", "stt"), api_key="any", base_url=url + "/v1/listen", http_session=http
            )
            whole = rtc.AudioFrame(PCM, 16_000, 1, len(PCM) // 2)
            once = await ears.recognize(whole)
            events = []
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 1_600):
                    data = PCM[at : at + 1_600]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                stream.end_input()
                events = [event async for event in stream]
            await ears.aclose()
        return pcm, once.alternatives[0].text, events

    pcm, once, events = asyncio.run(asyncio.wait_for(talk(), 120))
    assert spoken_text(pcm, 24_000) == TEXT
    assert once == TEXT
    assert [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.FINAL_TRANSCRIPT] == [TEXT]
    assert {e.type for e in events} >= {stt.SpeechEventType.START_OF_SPEECH, stt.SpeechEventType.END_OF_SPEECH}


@WHO
def test_pipecat_services(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import TranscriptionFrame, TTSSpeakFrame, TTSStoppedFrame
    from pipecat.services.deepgram.stt import DeepgramSTTService
    from pipecat.services.deepgram.tts import DeepgramTTSService

    from tests.clients.test_pipecat import run, sound, spoken

    socket = drop_in.at("deepgram", who, "ws")
    mouth = DeepgramTTSService(
        api_key="any", base_url=socket, sample_rate=24_000,
        settings=DeepgramTTSService.Settings(voice=drop_in.model("deepgram", "tts")),
    )  # fmt: skip
    pcm = sound(asyncio.run(run([mouth], [TTSSpeakFrame(TEXT)], TTSStoppedFrame)))
    assert spoken_text(pcm, 24_000) == TEXT
    ears = DeepgramSTTService(
        api_key="any", base_url=socket, sample_rate=24_000,
        settings=DeepgramSTTService.Settings(model=drop_in.model("deepgram", "stt")),
    )  # fmt: skip
    frames = asyncio.run(run([ears], spoken(pcm + bytes(48_000)), TranscriptionFrame))
    assert frames[-1].text.strip() == TEXT
