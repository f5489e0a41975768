"""Deepgram's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import trio

from gw.wire import tone
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.deepgram import FakeDeepgram

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(tone.encode(TEXT, 16_000)) + bytes(16_000)


@pytest.fixture
def fake() -> FakeDeepgram:
    return FakeDeepgram(api_key="test-key", transcript=TEXT)


@pytest.fixture
async def client(fake, nursery):
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    address = await nursery.start(serve_asgi, fake)
    url = address.replace("http", "ws", 1)
    names = DeepgramClientEnvironment.__init__.__code__.co_varnames
    where = {"base": address, "production": url, "agent": url, "agent_rest": address}
    environment = DeepgramClientEnvironment(**{name: where[name] for name in names if name in where})
    return DeepgramClient(api_key="test-key", environment=environment)


async def in_thread(use):
    return await trio.to_thread.run_sync(use)


async def test_a_recording(client, fake):
    from gw.types.audio import PCM_16K
    from gw.wire import wav

    audio = wav.header(PCM_16K, len(PCM)) + PCM
    answer = await in_thread(lambda: client.listen.v1.media.transcribe_file(request=audio, model="nova-3"))
    assert answer.results.channels[0].alternatives[0].transcript == TEXT
    assert answer.metadata.duration == pytest.approx(len(PCM) / 32_000)
    assert fake.ledger[0].audio == audio


async def test_speech(client):
    def speak() -> bytes:
        return b"".join(client.speak.v1.audio.generate(text=TEXT, model="aura-2-thalia-en", encoding="linear16",
                                                       container="none", sample_rate=16_000))

    pcm = await in_thread(speak)
    assert [done.text for done in tone.decode(pcm, 16_000)] == [TEXT]


async def test_a_live_session(client):
    from deepgram.core.events import EventType

    def listen() -> list[Any]:
        found: list[Any] = []
        with client.listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate=16_000, interim_results="true", vad_events="true"
        ) as connection:
            connection.on(EventType.MESSAGE, found.append)
            thread = threading.Thread(target=connection.start_listening)
            thread.start()
            for at in range(0, len(PCM), 1_280):
                connection.send_media(PCM[at : at + 1_280])
            connection.send_close_stream()
            thread.join(20)
        return found

    events = await in_thread(listen)
    results = [event for event in events if event.type == "Results"]
    assert [r.channel.alternatives[0].transcript for r in results if r.is_final] == [TEXT]
    assert any(not r.is_final for r in results)
    assert events[-1].type == "Metadata"
    assert events[-1].duration == pytest.approx(len(PCM) / 32_000)


async def test_live_speech(client):
    from deepgram.core.events import EventType

    def speak() -> list[Any]:
        found: list[Any] = []
        done = threading.Event()

        def hear(message: Any) -> None:
            found.append(message)
            if not isinstance(message, bytes) and message.type == "Flushed":
                done.set()

        with client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate=16_000) as connection:
            connection.on(EventType.MESSAGE, hear)
            thread = threading.Thread(target=connection.start_listening)
            thread.start()
            from deepgram.speak.v1.types import SpeakV1Text

            connection.send_text(SpeakV1Text(text=TEXT))
            connection.send_flush()
            assert done.wait(20)
            connection.send_close()
            thread.join(20)
        return found

    events = await in_thread(speak)
    assert events[0].type == "Metadata"
    pcm = b"".join(event for event in events if isinstance(event, bytes))
    assert [done.text for done in tone.decode(pcm, 16_000)] == [TEXT]


async def test_a_wrong_key(fake, client):
    from deepgram.core.api_error import ApiError

    fake.api_key = "another"
    with pytest.raises(ApiError) as caught:
        await in_thread(lambda: client.listen.v1.media.transcribe_file(request=PCM, model="nova-3"))
    assert caught.value.status_code == 401
