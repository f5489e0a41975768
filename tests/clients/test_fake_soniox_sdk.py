"""Soniox's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import AudioFormat
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.soniox import FakeSoniox

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
FRAMES = [PCM[at : at + 3_200] for at in range(0, len(PCM), 3_200)]


@pytest.fixture
def fake() -> FakeSoniox:
    return FakeSoniox(api_key="test-key")


@pytest.fixture
async def address(fake, nursery) -> str:
    return await nursery.start(serve_asgi, fake)


def client_of(address: str, key: str = "test-key") -> Any:
    from soniox import SonioxClient

    socket = address.replace("http", "ws", 1) + "/transcribe-websocket"
    return SonioxClient(api_key=key, api_base_url=address + "/v1", websocket_base_url=socket)


def configuration(**more: Any) -> Any:
    from soniox.types import RealtimeSTTConfig

    return RealtimeSTTConfig(**{"model": "stt-rt-v5", "audio_format": "pcm_s16le", "sample_rate": 16_000, "num_channels": 1, **more})


async def test_a_session(fake, address):
    def use() -> list[Any]:
        options = {"language_hints": ["en"], "enable_endpoint_detection": True, "context": {"terms": ["Paris"]}}
        with client_of(address).realtime.stt.connect(config=configuration(**options)) as session:
            for frame in FRAMES:
                session.send_byte_chunk(frame)
            session.keep_alive()
            session.finish()
            return list(session.receive_events())

    events = await trio.to_thread.run_sync(use)
    finals = [token.text for event in events for token in event.tokens if token.is_final]
    assert "".join(finals).removesuffix("<end>") == TEXT
    assert finals[-1] == "<end>"
    assert any(token.is_final is False for event in events for token in event.tokens)
    assert events[-1].finished
    assert events[-1].total_audio_proc_ms == pytest.approx(len(PCM) / 32, abs=120)
    assert fake.ledger[0].fields["context"]["terms"] == ["Paris"]


async def test_finalizing(address):
    def use() -> list[Any]:
        with client_of(address).realtime.stt.connect(config=configuration()) as session:
            for frame in FRAMES[: len(FRAMES) // 2]:
                session.send_byte_chunk(frame)
            session.finalize()
            events = []
            for event in session.receive_events():
                events.append(event)
                if any(token.text == "<fin>" for token in event.tokens):
                    return events
        return events

    events = await trio.to_thread.run_sync(use)
    assert any(token.is_final and token.text != "<fin>" for event in events for token in event.tokens)


async def test_errors(fake, address):
    from soniox.errors import SonioxAPIError, SonioxRealtimeError

    fake.session_error_after = 2

    def use() -> Any:
        with client_of(address).realtime.stt.connect(config=configuration()) as session:
            session.send_byte_chunk(FRAMES[0])
            event = session.receive_event()
        with pytest.raises(SonioxRealtimeError), client_of(address, "wrong").realtime.stt.connect(config=configuration()):
            pass
        with pytest.raises(SonioxAPIError) as caught:
            client_of(address, "wrong").models.list()
        return event, caught.value

    event, refused = await trio.to_thread.run_sync(use)
    assert (event.error_code, event.error_message.startswith("Cannot continue")) == (503, True)
    assert refused.status_code == 401


async def test_models(fake, address):
    models = await trio.to_thread.run_sync(lambda: client_of(address).models.list())
    assert [model.id for model in models.models] == list(fake.models)


async def test_recordings(fake, address):
    from soniox.types import CreateTranscriptionConfig

    fake.transcript = TEXT
    recording = wav.header(AudioFormat(encoding="wav", sample_rate_hz=16_000), len(PCM)) + PCM

    def use() -> tuple[Any, Any]:
        client = client_of(address)
        file = client.files.upload(recording, filename="a.wav")
        config = CreateTranscriptionConfig(language_hints=["en"], enable_speaker_diarization=True)
        job = client.stt.create(file_id=file.id, config=config)
        job = client.stt.wait(job.id, interval_sec=0.05)
        transcript = client.stt.get_transcript(job.id)
        client.stt.delete(job.id)
        client.files.delete(file.id)
        return job, transcript

    job, transcript = await trio.to_thread.run_sync(use)
    assert (job.status, job.audio_duration_ms) == ("completed", round(len(PCM) / 32))
    assert transcript.text == "".join(token.text for token in transcript.tokens) == TEXT
    assert {token.speaker for token in transcript.tokens} == {"1", "2"}
    assert fake.deleted == ["/v1/transcriptions/t1", "/v1/files/f1"]
