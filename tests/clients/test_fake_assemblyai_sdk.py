"""AssemblyAI's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.assemblyai import FakeAssemblyAI

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
FRAMES = [PCM[at : at + 3_200] for at in range(0, len(PCM) - 3_199, 3_200)]
RECORDING = wav.header(PCM_16K, len(PCM)) + PCM


@pytest.fixture
def fake() -> FakeAssemblyAI:
    return FakeAssemblyAI(api_key="test-key", transcript=TEXT, measures=True)


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


@pytest.fixture
def transcribed(address):
    import assemblyai

    def run(api_key="test-key", **config: Any) -> Any:
        settings = assemblyai.Settings(api_key=api_key, base_url=address, polling_interval=0.05)
        transcriber = assemblyai.Transcriber(client=assemblyai.Client(settings=settings))
        transcription_config = assemblyai.TranscriptionConfig(speech_models=["universal-2"], **config)
        return transcriber.transcribe(io.BytesIO(RECORDING), config=transcription_config)

    return lambda **more: trio.to_thread.run_sync(lambda: run(**more))


async def test_a_recording(fake, transcribed):
    transcript = await transcribed(speaker_labels=True, language_code="en_us")
    assert (transcript.error, transcript.text, transcript.audio_duration) == (None, TEXT, round(len(PCM) / 32_000))
    upload, job, *_ = fake.ledger
    assert upload.audio == RECORDING
    assert (job.fields["speech_models"], job.fields["speaker_labels"]) == (["universal-2"], True)


async def test_a_recording_that_cannot_be_read(fake, transcribed):
    fake.job_error = "File type is no audio"
    transcript = await transcribed()
    assert (transcript.status.value, transcript.error, transcript.text) == ("error", "File type is no audio", None)


async def test_a_wrong_key(transcribed):
    from assemblyai import TranscriptError

    with pytest.raises(TranscriptError) as caught:
        await transcribed(api_key="another")
    assert "Incorrect API key" in str(caught.value)
    assert caught.value.status_code == 401


class Ears:
    """The SDK's client with everything it hears, in order."""

    def __init__(self, address: str, **parameters: Any) -> None:
        from assemblyai.streaming.v3 import (
            StreamingClient,
            StreamingClientOptions,
            StreamingEvents,
            StreamingParameters,
        )

        self.events: list[Any] = []
        self.over = threading.Event()
        host = address.replace("http", "ws", 1)
        self.client = StreamingClient(
            StreamingClientOptions(api_key="test-key", api_host=host, max_connection_retries=0, connect_timeout=60)
        )
        for kind in StreamingEvents:
            self.client.on(kind, lambda _, event: self._hear(event))
        self.parameters = StreamingParameters(
            sample_rate=16_000, speech_model="universal-streaming-english", **parameters
        )

    def _hear(self, event: Any) -> None:
        self.events.append(event)
        if type(event).__name__ in ("TerminationEvent", "RealTimeError"):
            self.over.set()

    def of_kind(self, kind: str) -> list[Any]:
        return [event for event in self.events if type(event).__name__ == kind]


async def test_a_live_session(fake, address):
    from assemblyai.streaming.v3 import StreamingSessionParameters

    ears = Ears(address, format_turns=True, keyterms_prompt=["Paris", "Zürich"])

    def talk() -> None:
        ears.client.connect(ears.parameters)
        ears.client.set_params(StreamingSessionParameters(max_turn_silence=500, keyterms_prompt=["Rome"]))
        ears.client.keep_alive()
        ears.client.stream(iter(FRAMES))
        ears.client.disconnect(terminate=True)
        assert ears.over.wait(120)

    await trio.to_thread.run_sync(talk)
    begin, *_, end = ears.events
    assert (type(begin).__name__, begin.id, begin.expires_at.timestamp()) == ("BeginEvent", "s", 2_000_000_000)
    turns = ears.of_kind("TurnEvent")
    assert not turns[0].end_of_turn
    assert [(t.transcript, t.turn_order, t.turn_is_formatted) for t in turns if t.end_of_turn] == [
        (TEXT, 0, False), (TEXT, 0, True),
    ]  # fmt: skip
    assert end.audio_duration_seconds == round(len(FRAMES) / 10)
    entry = fake.ledger[0]
    assert entry.fields["frames"][:2] == ["UpdateConfiguration", "KeepAlive"]
    assert "keyterms_prompt=" in entry.fields["query"]
    assert entry.audio == b"".join(FRAMES)


async def test_an_end_that_is_forced(address):
    ears = Ears(address)

    def talk() -> None:
        ears.client.connect(ears.parameters)
        ears.client.stream(iter(FRAMES[: len(FRAMES) // 2]))
        ears.client.force_endpoint()
        ears.client.stream(iter(FRAMES[len(FRAMES) // 2 :]))
        ears.client.disconnect(terminate=True)
        assert ears.over.wait(120)

    await trio.to_thread.run_sync(talk)
    ends = [turn for turn in ears.of_kind("TurnEvent") if turn.end_of_turn]
    assert [turn.turn_order for turn in ends] == [0, 1]
    assert " ".join(turn.transcript for turn in ends) == TEXT


@pytest.mark.parametrize(("fault", "code"), [("short frames", 3007), ("server", 3005), ("refused", 401)])
async def test_what_the_sdk_is_told(fault, code, fake, address):
    ears = Ears(address)
    fake.session_error_after = 2 if fault == "server" else None
    fake.api_key = "another" if fault == "refused" else fake.api_key

    def talk() -> None:
        ears.client.connect(ears.parameters)
        ears.client.stream(iter([bytes(640 if fault == "short frames" else 3_200)] * 3))
        assert ears.over.wait(120)
        if fault != "refused":
            ears.client.disconnect()

    await trio.to_thread.run_sync(talk)
    assert [error.code for error in ears.of_kind("RealTimeError")] == [code]
