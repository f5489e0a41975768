"""Unchanged Cartesia clients: the SDK (at the fake as well), LiveKit's plugin, Pipecat's services; over Cartesia and another."""

from __future__ import annotations

import asyncio
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
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
VOICE = {"mode": "id", "id": "a-voice"}


@pytest.fixture
def client(drop_in, package):
    package("cartesia")
    import cartesia

    def made(who: str) -> Any:
        url = drop_in.at("cartesia", who)
        return cartesia.Cartesia(api_key="vendor-key", base_url=url, websocket_base_url=url.replace("http", "ws", 1))

    return made


@WHERE
def test_sdk_speech(client, drop_in, who):
    options = {"model_id": drop_in.model("cartesia", "tts"), "transcript": TEXT, "voice": VOICE, "output_format": RAW}
    with client(who) as made:
        assert spoken_text(made.tts.generate(**options).read(), 16_000) == TEXT
        events = list(made.tts.generate_sse(**options))
    assert events[-1].type == "done"
    pcm = b"".join(event.audio or b"" for event in events if event.type == "chunk")
    assert spoken_text(pcm, 16_000) == TEXT


@WHERE
def test_sdk_live_speech(client, drop_in, who):
    with client(who) as made, made.tts.websocket_connect() as connection:
        for _ in range(2):
            context = connection.context(
                model_id=drop_in.model("cartesia", "tts"), voice=VOICE, output_format=RAW
            )
            for word in TEXT.split():
                context.push(word + " ")
            context.no_more_inputs()
            pcm = b"".join(event.audio or b"" for event in context.receive() if event.type == "chunk")
            assert spoken_text(pcm, 16_000) == TEXT


@WHERE
def test_sdk_recording(client, drop_in, who):
    audio = wav.header(PCM_16K, len(PCM)) + PCM
    with client(who) as made:
        answer = made.stt.transcribe(file=("a.wav", audio, "audio/wav"), model=drop_in.model("cartesia", "stt"))
    assert answer.text == TEXT


@WHERE
def test_sdk_live_transcription(client, drop_in, who):
    options = {"model": drop_in.model("cartesia", "stt"), "encoding": "pcm_s16le", "sample_rate": 16_000}
    with client(who) as made, made.stt.manual_finalize.websocket(**options) as connection:
        for at in range(0, len(PCM), 5_120):
            connection.send_raw(PCM[at : at + 5_120])
        connection.send_raw("finalize")
        connection.send_raw("close")
        events = list(connection)
    finals = [event.text for event in events if event.type == "transcript" and event.is_final]
    assert "".join(finals).strip() == TEXT
    assert events[-1].type == "done"


@pytest.mark.parametrize("root", ["", "/cartesia"])
def test_sdk_catalogue(drop_in, package, root):
    """A sign of life, voices to the last page, a token for a browser, and that token used."""
    package("cartesia")
    import cartesia

    url = drop_in.at("cartesia", "own") + root
    with cartesia.Cartesia(api_key="any", base_url=url) as made:
        assert made.get_status().ok is True
        assert [voice.id for voice in made.voices.list(limit=1)] == ["a-voice"]
        assert made.voices.get("a-voice").is_owner is True
        token = made.access_token.create(grants={"tts": True, "stt": True}, expires_in=60).token
    with cartesia.Cartesia(token=token, base_url=url) as made:
        options = {"model_id": drop_in.model("cartesia", "tts"), "transcript": TEXT, "voice": VOICE, "output_format": RAW}
        assert spoken_text(made.tts.generate(**options).read(), 16_000) == TEXT


@WHO
def test_livekit_plugin(drop_in, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import cartesia

    async def talk() -> tuple[bytes, list[Any]]:
        import aiohttp

        async with aiohttp.ClientSession() as http:
            address = {"api_key": "any", "base_url": drop_in.at("cartesia", who), "http_session": http}
            voice = cartesia.TTS(model=drop_in.model("cartesia", "tts"), **address)
            pcm = b""
            async with voice.stream() as speech:
                speech.push_text(TEXT + ".")
                speech.end_input()
                async for event in speech:
                    pcm += bytes(event.frame.data)
            await voice.aclose()
            ears = cartesia.STT(model=drop_in.model("cartesia", "stt"), **address)
            events = []
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 1_600):
                    data = PCM[at : at + 1_600]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                async for event in stream:
                    if not events:
                        stream.end_input()  # not before: a stream that has ended before it began says nothing
                    events.append(event)
            await ears.aclose()
        return pcm, events

    pcm, events = asyncio.run(asyncio.wait_for(talk(), 120))
    assert spoken_text(pcm, 24_000) == TEXT + "."
    finals = [e.alternatives[0].text for e in events if e.type == stt.SpeechEventType.FINAL_TRANSCRIPT]
    assert " ".join(finals).strip() == TEXT


@WHO
def test_pipecat_services(drop_in, package, who):
    package("pipecat")
    from pipecat.frames.frames import TranscriptionFrame, TTSSpeakFrame, TTSStoppedFrame
    from pipecat.services.cartesia.stt import CartesiaSTTService
    from pipecat.services.cartesia.tts import CartesiaTTSService

    from tests.clients.test_pipecat import run, sound, spoken

    url = drop_in.at("cartesia", who)
    mouth = CartesiaTTSService(
        api_key="any", url=url.replace("http", "ws", 1) + "/tts/websocket", sample_rate=24_000,
        settings=CartesiaTTSService.Settings(model=drop_in.model("cartesia", "tts"), voice="a-voice"),
    )  # fmt: skip
    pcm = sound(asyncio.run(run([mouth], [TTSSpeakFrame(TEXT)], TTSStoppedFrame)))
    assert spoken_text(pcm, 24_000) == TEXT
    ears = CartesiaSTTService(
        api_key="any", base_url=url.replace("http", "ws", 1), sample_rate=24_000,
        settings=CartesiaSTTService.Settings(model=drop_in.model("cartesia", "stt")),
    )  # fmt: skip
    frames = asyncio.run(run([ears], spoken(pcm + bytes(48_000)), TranscriptionFrame))
    assert frames[-1].text.strip() == TEXT
