"""LiveKit's xAI plugin and Pipecat's services, unchanged, with the fake of xAI's speech. xAI's own SDK (xai-sdk 1.21.0) has no speech."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import Any

import attrs
import pytest

from gw.providers.sim import fsk
from tests.clients.livekit_speech import TEXT, in_loop, words_of
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.xai import FakeXai

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(32_000)
VENDOR = "://api.x.ai"


@pytest.fixture
def fake() -> FakeXai:
    return FakeXai(api_key="test-key", transcript=TEXT)


@pytest.fixture
async def address(fake, nursery) -> str:
    import livekit.plugins.xai  # noqa: F401  a plugin may be imported on the main thread only

    return await nursery.start(serve_asgi, fake)


@attrs.frozen
class ToFake:
    """An HTTP session that goes to the fake for the vendor's address, which the plugin lets nobody change."""

    session: Any
    address: str

    @property
    def closed(self) -> bool:
        return self.session.closed

    def post(self, url: str, **more: Any) -> Any:
        return self.session.post(self._there(url), **more)

    def ws_connect(self, url: str, **more: Any) -> Any:
        return self.session.ws_connect(self._there(url), **more)

    def _there(self, url: str) -> str:
        scheme, _, path = url.partition(VENDOR)
        assert scheme in ("https", "wss")
        return ("http" if scheme == "https" else "ws") + self.address.removeprefix("http") + path


@asynccontextmanager
async def http_session(address: str):
    import aiohttp

    async with aiohttp.ClientSession() as session:
        yield ToFake(session, address)


async def test_livekit_listens(fake, address):
    from livekit import rtc
    from livekit.agents import stt
    from livekit.plugins import xai

    async def use() -> list[Any]:
        async with http_session(address) as session:
            ears = xai.STT(api_key="test-key", language="en", keyterm=["Paris", "Acme"], enable_diarization=True, http_session=session)
            async with ears.stream() as stream:
                for at in range(0, len(PCM), 3_200):
                    data = PCM[at : at + 3_200]
                    stream.push_frame(rtc.AudioFrame(data, 16_000, 1, len(data) // 2))
                stream.end_input()
                return [event async for event in stream]

    events = await in_loop(use)
    kinds = [event.type for event in events]
    (final,) = (event for event in events if event.type == stt.SpeechEventType.FINAL_TRANSCRIPT)
    assert final.alternatives[0].text == TEXT
    assert [str(word) for word in final.alternatives[0].words] == TEXT.split()
    assert final.alternatives[0].speaker_id == "S0"
    assert {stt.SpeechEventType.START_OF_SPEECH, stt.SpeechEventType.INTERIM_TRANSCRIPT, stt.SpeechEventType.END_OF_SPEECH} <= set(kinds)
    (seen,) = fake.ledger
    assert (seen.path, seen.fields["keyterm"], seen.fields["endpointing"]) == ("/v1/stt", ["Paris", "Acme"], "100")


async def test_livekit_recognizes_a_recording(fake, address):
    from livekit import rtc
    from livekit.plugins import xai

    async def use() -> Any:
        async with http_session(address) as session:
            ears = xai.STT(api_key="test-key", language="fr", http_session=session)
            return await ears.recognize(rtc.AudioFrame(PCM, 16_000, 1, len(PCM) // 2))

    event = await in_loop(use)
    assert event.alternatives[0].text == TEXT
    assert [str(word) for word in event.alternatives[0].words] == TEXT.split()
    assert fake.ledger[0].fields == {"keyterm": []}  # the plugin sends its settings after the file, where the vendor does not read them


async def test_livekit_speaks_twice_over_one_socket(fake, address):
    from livekit.plugins import xai

    async def use() -> list[bytes]:
        async with http_session(address) as session:
            voice = xai.TTS(api_key="test-key", voice="eve", language="en", speed=1.2, http_session=session)
            spoken = []
            for _ in range(2):
                async with voice.synthesize(TEXT) as stream:
                    spoken.append(b"".join([event.frame.data.tobytes() async for event in stream]))
            await voice.aclose()
            return spoken

    run_together = TEXT.replace(" ", "")  # the plugin sends words without the spaces between them
    assert [words_of(pcm) for pcm in await in_loop(use)] == [run_together, run_together]
    (seen,) = fake.ledger
    assert (seen.fields["voice"], "speed=1.2" in seen.fields["query"]) == ("eve", True)


async def test_refusals(fake, address):
    from livekit.agents import APIConnectionError, APIConnectOptions
    from livekit.plugins import xai

    async def use() -> None:
        once = APIConnectOptions(max_retry=0)
        async with http_session(address) as session:
            voice = xai.TTS(api_key="wrong", http_session=session)
            with pytest.raises(APIConnectionError):
                async with voice.synthesize(TEXT, conn_options=once) as stream:
                    [event async for event in stream]
            await voice.aclose()

    await in_loop(use)
    assert fake.ledger


async def test_pipecat_speaks_a_complete_text(fake, address):
    async def use() -> bytes:
        import aiohttp
        from pipecat.frames.frames import TTSAudioRawFrame
        from pipecat.services.xai.tts import XAIHttpTTSService

        async with aiohttp.ClientSession() as session:
            service = XAIHttpTTSService(
                api_key="test-key", base_url=address + "/v1/tts", aiohttp_session=session, sample_rate=24_000,
                settings=XAIHttpTTSService.Settings(voice="leo", speed=1.1),
            )  # fmt: skip
            service._sample_rate = service._audio_sample_rate = 24_000  # set by the start of a pipeline
            frames = [frame async for frame in service.run_tts(TEXT, "c")]
            return b"".join(frame.audio for frame in frames if isinstance(frame, TTSAudioRawFrame))

    assert words_of(await in_loop(use)) == TEXT
    assert (fake.ledger[0].fields["voice"], fake.ledger[0].fields["speed"]) == ("leo", 1.1)


async def test_pipecat_listens_and_speaks_live(fake, address):
    """Pipecat drops what is said before `transcript.created`, so the microphone waits for it."""
    fake.created_after_s = 0.2

    async def use() -> tuple[list[str], list[str], bytes]:
        from pipecat.frames.frames import TranscriptionFrame, TTSSpeakFrame, TTSStoppedFrame, TTSTextFrame
        from pipecat.services.xai.stt import XAISTTService
        from pipecat.services.xai.tts import XAITTSService

        from tests.clients.test_pipecat import run, sound, spoken

        socket = address.replace("http", "ws", 1) + "/v1"
        mouth = XAITTSService(api_key="test-key", base_url=socket + "/tts", sample_rate=24_000)
        frames = await run([mouth], [TTSSpeakFrame(TEXT)], TTSStoppedFrame)
        words = [frame.text for frame in frames if isinstance(frame, TTSTextFrame)]
        pcm = sound(frames)
        ears = XAISTTService(api_key="test-key", ws_url=socket + "/stt", sample_rate=24_000)
        frames = await run([ears], spoken(pcm + bytes(48_000)), TranscriptionFrame, ears._session_ready.wait)
        return [frame.text for frame in frames if isinstance(frame, TranscriptionFrame)], words, pcm

    texts, words, pcm = await in_loop(use)
    assert [text.strip() for text in texts] == [TEXT]
    assert words == TEXT.split()
    assert words_of(pcm).strip() == TEXT
