"""Vendors that drip: who stands behind, the HTTP forms of speech, and a vendor that waits after its first piece."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs
import msgspec
import trio

from gw.providers.sim import fsk
from gw.types.asgi import ASGIApp
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.aws_polly import FakeAwsPolly
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe
from tests.fakes.vendors.azure_speech import FakeAzureSpeech
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gladia import FakeGladia
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.hume import FakeHume
from tests.fakes.vendors.inworld import FakeInworld
from tests.fakes.vendors.minimax import FakeMiniMax
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.piper import FakePiper
from tests.fakes.vendors.rime import FakeRime
from tests.fakes.vendors.soniox import FakeSoniox
from tests.fakes.vendors.speechmatics import FakeSpeechmatics
from tests.fakes.vendors.xai import FakeXai

TEXT = "One, two, three, four and five, and six, seven, eight and nine. "
"""Some three seconds of the tone voice."""
PIECE = 600
"""Messages of a vendor that are larger are audio."""

RATE = 24_000


def _openai(prefix: str) -> FakeOpenAI:
    return FakeOpenAI(prefix=prefix, speech_pcm=b"".join(fsk.encode(TEXT, RATE)), speech_chunk_bytes=4_800)


@attrs.frozen
class Behind:
    """The upstream: a provider type, its fake and its model."""

    type: str
    fake: Callable[[], ASGIApp]
    name: str

    @property
    def model(self) -> str:
        return f"behind/{self.name}"


SPEAKERS = (
    Behind("openai", lambda: _openai("/v1"), "tts-x"),
    Behind("elevenlabs", FakeElevenLabs, "eleven_flash_v2_5"),
    Behind("cartesia", FakeCartesia, "sonic-3"),
    Behind("deepgram", FakeDeepgram, "aura-2-thalia-en"),
    Behind("kokoro", lambda: _openai("/v1"), "kokoro"),
    Behind("piper", lambda: FakePiper(piece_s=0.1), "piper"),
    Behind("rime", FakeRime, "coda"),
    Behind("minimax", FakeMiniMax, "speech-2.8-turbo"),
    Behind("hume", FakeHume, "octave-2"),
    Behind("inworld", FakeInworld, "inworld-tts-1.5-max"),
    Behind("aws_polly", FakeAwsPolly, "neural"),
    Behind("azure_speech", FakeAzureSpeech, "neural"),
    Behind("xai", FakeXai, "grok-tts"),
)
LISTENERS = (
    Behind("openai", lambda: FakeOpenAI(prefix="/v1"), "gpt-realtime-whisper"),
    Behind("deepgram", FakeDeepgram, "nova-3"),
    Behind("cartesia", FakeCartesia, "ink-2"),
    Behind("assemblyai", FakeAssemblyAI, "universal-3-6-pro"),
    Behind("elevenlabs", FakeElevenLabs, "scribe_v2_realtime"),
    Behind("soniox", FakeSoniox, "stt-rt-v5"),
    Behind("speechmatics", FakeSpeechmatics, "enhanced"),
    Behind("gladia", FakeGladia, "solaria-1"),
    Behind("azure_speech", FakeAzureSpeech, "standard"),
    Behind("aws_transcribe", FakeAwsTranscribe, "standard"),
    Behind("google_cloud", FakeGoogleCloud, "chirp_2"),
    Behind("xai", FakeXai, "grok-voice-transcribe-2.0"),
)
class Dripping:
    """A vendor whose second piece of content waits for `received`."""

    def __init__(self, app: ASGIApp, is_content: Callable[[str | bytes], bool]) -> None:
        self.first_at: float | None = None
        self.received = trio.Event()
        self.overtaken = False
        """The second piece went out."""
        self._app = app
        self._is_content = is_content

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def drip(message: Mapping[str, Any]) -> None:
            data = message.get("body") or message.get("bytes") or message.get("text") or b""
            content = self._is_content(data)
            if self.first_at is not None and (content or message["type"] == "http.response.body"):
                await self.received.wait()
                self.overtaken = self.overtaken or content
            if content and self.first_at is None:
                self.first_at = trio.current_time()
            await send(message)

        await self._app(scope, receive, drip)

    def arrived(self) -> None:
        """The caller has the first piece."""
        assert self.first_at == trio.current_time()
        assert not self.overtaken
        self.received.set()


def is_audio(data: str | bytes) -> bool:
    return len(data) > PIECE


class Upstream:
    """A vendor that speaks at real time, and when it learnt that the gateway has left."""

    def __init__(self, app: Any, clock: Callable[[], float] = trio.current_time, *, most: int | None = None) -> None:
        """`most`: after so many pieces of a speech it does not go on."""
        app.speech_gap_s = 0.1
        self.learnt: list[float] = []
        self.silenced: list[float] = []
        """Time at which the gateway left while it spoke, or after it had stopped."""
        self._most = most
        self.spoken_at: list[float] = []
        self._app = app
        self._clock = clock

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        into, out = trio.open_memory_channel[Any](1_000)
        spoken, ended = 0, False

        async def pump(scope: trio.CancelScope) -> None:
            """The app hears nothing while it speaks."""
            message = {"type": ""}
            while not message["type"].endswith("disconnect"):
                message = await receive()
                await into.send(message)
            scope.cancel()

        async def noted(message: Any) -> None:
            nonlocal spoken
            if is_audio(message.get("body") or message.get("bytes") or message.get("text") or b""):
                if spoken == self._most:
                    await trio.sleep_forever()
                spoken += 1
                self.spoken_at.append(self._clock())
            await send(message)

        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(pump, nursery.cancel_scope)
                await self._app(scope, out.receive, noted)
                ended = True
                nursery.cancel_scope.cancel()
        finally:
            self.learnt.append(self._clock())
            if spoken and not ended:
                self.silenced.append(self._clock())

    def left_at(self) -> float:
        """When the gateway left first."""
        return min(self.learnt)


@attrs.frozen(kw_only=True)
class Form:
    """One HTTP form of speech: its request, and whether the bytes received so far contain audio."""

    name: str
    path: str
    body: Mapping[str, Any]
    audio: Callable[[bytes], bytes] = bytes
    headers: Mapping[str, str] = attrs.field(factory=dict)


def events(received: bytes) -> Iterator[Any]:
    for block in received.split(b"\n\n")[:-1]:
        data = [line.removeprefix(b"data: ") for line in block.split(b"\n") if line.startswith(b"data: ")]
        if data:
            yield msgspec.json.decode(data[0])


def _audio_of_lines(received: bytes) -> bytes:
    full = received[: received.rfind(b"\n") + 1]
    return b"".join(b64decode(msgspec.json.decode(line).get("audio_base64") or "") for line in full.split(b"\n") if line)


_CARTESIA = {
    "transcript": TEXT,
    "voice": {"mode": "id", "id": "alloy"},
    "output_format": {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE},
}
FORMS = (
    Form(name="openai audio", path="/v1/audio/speech", body={"input": TEXT, "voice": "alloy", "response_format": "pcm"}),
    Form(name="openai wav", path="/v1/audio/speech", body={"input": TEXT, "voice": "alloy", "response_format": "wav"}),
    Form(
        name="openai sse",
        path="/v1/audio/speech",
        body={"input": TEXT, "voice": "alloy", "response_format": "pcm", "stream_format": "sse"},
        audio=lambda got: b"".join(b64decode(e["audio"]) for e in events(got) if e["type"] == "speech.audio.delta"),
    ),
    Form(name="elevenlabs", path="/v1/text-to-speech/alloy?output_format=pcm_24000", body={"text": TEXT}),
    Form(name="elevenlabs stream", path="/v1/text-to-speech/alloy/stream?output_format=pcm_24000", body={"text": TEXT}),
    Form(name="elevenlabs telephone", path="/v1/text-to-speech/alloy/stream?output_format=ulaw_8000", body={"text": TEXT}),
    Form(
        name="elevenlabs stream with timestamps",
        path="/v1/text-to-speech/alloy/stream/with-timestamps?output_format=pcm_24000",
        body={"text": TEXT},
        audio=_audio_of_lines,
    ),
    Form(name="cartesia bytes", path="/tts/bytes", body=_CARTESIA),
    Form(
        name="cartesia sse",
        path="/tts/sse",
        body=_CARTESIA,
        audio=lambda got: b"".join(b64decode(e["data"]) for e in events(got) if e["type"] == "chunk"),
    ),
    Form(name="deepgram", path="/v1/speak?encoding=linear16&sample_rate=24000&container=none&model=MODEL", body={"text": TEXT}),
    Form(name="deepgram 16 kHz", path="/v1/speak?encoding=linear16&sample_rate=16000&container=none&model=MODEL", body={"text": TEXT}),
)
"""All but ElevenLabs' `with-timestamps`, which is one JSON object: there is nothing to hear before its end."""
_MODEL = {"openai": "model", "elevenlabs": "model_id", "cartesia": "model_id"}


def request_of(form: Form, model: str) -> tuple[str, bytes]:
    """Target and body."""
    member = _MODEL.get(form.name.partition(" ")[0])
    body = {**form.body, member: model} if member else dict(form.body)
    return form.path.replace("MODEL", model), msgspec.json.encode(body)
