"""The `wyoming` library, unchanged, on either side: its client at our fake server, our providers at its server."""

from __future__ import annotations

import asyncio
import threading
import warnings

import pytest
import trio

from gw.net.http1 import Pool
from gw.providers import piper, whisper
from gw.providers.spec import Account, spec_of
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.secret import Secret
from gw.types.stt import TranscribeRequest
from gw.types.tts import SpeakRequest
from tests.fakes.ports import free_port
from tests.fakes.recording import recognized, spoken, wav_of
from tests.fakes.vendors.wyoming import FakeWyoming

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)   # it imports audioop
    from wyoming.asr import Transcribe, Transcript
    from wyoming.audio import AudioChunk, AudioStart, AudioStop
    from wyoming.client import AsyncTcpClient
    from wyoming.event import Event
    from wyoming.info import AsrModel, AsrProgram, Attribution, Describe, Info, TtsProgram, TtsVoice
    from wyoming.server import AsyncEventHandler, AsyncServer
    from wyoming.tts import Synthesize, SynthesizeVoice

pytestmark = pytest.mark.clients
SOUND = bytes(range(256)) * 40
HERE = Attribution(name="t", url="t")


def _program(kind, inner, **more):
    return kind(name="x", attribution=HERE, installed=True, description=None, version=None, **inner, **more)


INFO = Info(
    asr=[_program(AsrProgram, {"models": [_program(AsrModel, {}, languages=["en"])]})],
    tts=[_program(TtsProgram, {"voices": [_program(TtsVoice, {}, languages=["en"])]})],
)


class Handler(AsyncEventHandler):
    """A server as the library's users write them."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.audio = b""

    async def handle_event(self, event: Event) -> bool:
        if Describe.is_type(event.type):
            await self.write_event(INFO.event())
        elif AudioChunk.is_type(event.type):
            self.audio += AudioChunk.from_event(event).audio
        elif Transcribe.is_type(event.type):
            self.language = Transcribe.from_event(event).language
        elif AudioStop.is_type(event.type):
            await self.write_event(Transcript(text=f"{len(self.audio)} bytes of {self.language}").event())
            return False
        elif Synthesize.is_type(event.type):
            synthesize = Synthesize.from_event(event)
            await self.write_event(AudioStart(rate=22_050, width=2, channels=1).event())
            audio = f"{synthesize.voice.name}: {synthesize.text}".encode()
            await self.write_event(AudioChunk(rate=22_050, width=2, channels=1, audio=audio).event())
            await self.write_event(AudioStop().event())
            return False
        return True


@pytest.fixture
def library_server():
    """A port on which the library's server runs, in a thread of its own."""
    port = free_port()
    begun, loop = threading.Event(), asyncio.new_event_loop()

    async def run():
        server = AsyncServer.from_uri(f"tcp://127.0.0.1:{port}")
        await server.start(Handler)
        begun.set()
        await stop.wait()
        await server.stop()

    stop = asyncio.Event()
    thread = threading.Thread(target=lambda: loop.run_until_complete(run()))
    thread.start()
    assert begun.wait(30)
    yield port
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)
    loop.close()


def account(provider_type, port):
    spec = spec_of(provider_type)
    origin = spec.origin("p", f"tcp://127.0.0.1:{port}", {})
    return Account(provider_id="p", model="en_US-x-low", origin=origin, api_key=Secret(""), pool=Pool(), options={})


async def test_our_providers_at_the_librarys_server(library_server):
    with trio.fail_after(60):
        stt, tts = account("whisper", library_server), account("piper", library_server)
        await whisper.check(stt)
        await piper.check(tts)
        wav = AudioFormat(encoding="wav", sample_rate_hz=16_000)
        request = TranscribeRequest(model="m", audio=wav_of(SOUND), format=wav, language="en-GB")
        (transcript,) = await recognized(whisper.transcribe(request, stt))
        assert transcript.text == f"{len(SOUND)} bytes of en"
        fmt, sound = await spoken(piper.speak(SpeakRequest(model="m", text="Hello!", format=PCM_24K), tts))
        assert (fmt.sample_rate_hz, sound) == (22_050, b"en_US-x-low: Hello!")


async def _as_client(port):
    """Return the events that the library's client receives from our fake."""
    events = []
    async with AsyncTcpClient("127.0.0.1", port) as client:
        await client.write_event(Describe().event())
        events.append(Info.from_event(await client.read_event()))
        await client.write_event(Transcribe(language="en").event())
        await client.write_event(AudioStart(rate=16_000, width=2, channels=1).event())
        await client.write_event(AudioChunk(rate=16_000, width=2, channels=1, audio=SOUND).event())
        await client.write_event(AudioStop().event())
        events.append(Transcript.from_event(await client.read_event()))
        await client.write_event(Synthesize(text="Hello!", voice=SynthesizeVoice(name="v")).event())
        events.append(AudioStart.from_event(await client.read_event()))
        pieces = [AudioChunk.from_event(await client.read_event()) for _ in range(2)]
        events.append(b"".join(piece.audio for piece in pieces))
        events.append((await client.read_event()).type)
    return events


async def test_the_librarys_client_at_our_fake(nursery):
    fake = FakeWyoming(speech_pcm=SOUND)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    nursery.start_soon(trio.serve_listeners, fake, listeners)
    port = listeners[0].socket.getsockname()[1]
    with trio.fail_after(60):
        info, transcript, start, sound, last = await trio.to_thread.run_sync(lambda: asyncio.run(_as_client(port)))
    assert [model.name for model in info.asr[0].models] == ["small"]
    assert (transcript.text.strip(), transcript.language) == ("hello there", "en")
    assert (start.rate, sound, last) == (22_050, SOUND, "audio-stop")
    assert bytes(fake.audio) == SOUND
    nursery.cancel_scope.cancel()
