"""Deepgram's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.deepgram import FakeDeepgram

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)


@pytest.fixture
def fake() -> FakeDeepgram:
    return FakeDeepgram(api_key="test-key", transcript=TEXT)


@pytest.fixture
async def client(fake, nursery):
    import httpx
    from deepgram import DeepgramClient
    from deepgram.environment import DeepgramClientEnvironment

    address = await nursery.start(serve_asgi, fake)
    url = address.replace("http", "ws", 1)
    names = DeepgramClientEnvironment.__init__.__code__.co_varnames
    where = {"base": address, "production": url, "agent": url, "agent_rest": address}
    environment = DeepgramClientEnvironment(**{name: where[name] for name in names if name in where})
    with httpx.Client() as http:   # its own is never closed
        yield DeepgramClient(api_key="test-key", environment=environment, httpx_client=http)


def until_closed(connection) -> list[Any]:
    """Return the messages until the other side closes: two who close at once are too much for the host."""
    from websockets.exceptions import ConnectionClosed

    messages: list[Any] = []
    with suppress(ConnectionClosed):
        while True:
            messages.append(connection.recv())
    return messages


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
    assert [done.text for done in fsk.decode(pcm, 16_000)] == [TEXT]


async def test_a_live_session(client):
    from deepgram.core.events import EventType

    def listen() -> list[Any]:
        messages: list[Any] = []
        with client.listen.v1.connect(
            model="nova-3", encoding="linear16", sample_rate=16_000, interim_results="true", vad_events="true"
        ) as connection:
            connection.on(EventType.MESSAGE, messages.append)
            thread = threading.Thread(target=connection.start_listening)
            thread.start()
            for at in range(0, len(PCM), 1_280):
                connection.send_media(PCM[at : at + 1_280])
            connection.send_close_stream()
            thread.join(20)
        return messages

    events = await in_thread(listen)
    results = [event for event in events if event.type == "Results"]
    assert [r.channel.alternatives[0].transcript for r in results if r.is_final] == [TEXT]
    assert any(not r.is_final for r in results)
    assert events[-1].type == "Metadata"
    assert events[-1].duration == pytest.approx(len(PCM) / 32_000)


async def test_orders_of_a_live_session(client, fake):
    def listen() -> None:
        with client.listen.v1.connect(model="nova-3", encoding="linear16", sample_rate=16_000, keyterm=["Köln", "a b"]) as connection:
            connection.send_keep_alive()
            connection.send_finalize()
            connection.send_close_stream()
            assert [message.type for message in until_closed(connection)] == ["Metadata"]

    await in_thread(listen)
    fields = fake.ledger[0].fields
    assert (fields["kept"], fields["finalized"]) == (1, True)
    assert "keyterm=K%C3%B6ln&keyterm=a" in fields["query"]


async def test_a_live_session_by_turns(client, fake):
    from deepgram.core.events import EventType

    def listen() -> list[Any]:
        messages: list[Any] = []
        with client.listen.v2.connect(
            model="flux-general-en", encoding="linear16", sample_rate=16_000, eager_eot_threshold=0.4, keyterm=["Köln"]
        ) as connection:
            messages.append(connection.recv())
            connection.send_configure({"type": "Configure", "thresholds": {"eot_threshold": 0.9}, "keyterms": ["Bonn"]})
            messages.append(connection.recv())
            connection.on(EventType.MESSAGE, messages.append)
            thread = threading.Thread(target=connection.start_listening)
            thread.start()
            for at in range(0, len(PCM), 2_560):
                connection.send_media(PCM[at : at + 2_560])
            connection.send_force_end_turn()
            connection.send_close_stream()
            thread.join(20)
        return messages

    connected, configured, *turns = await in_thread(listen)
    assert (connected.type, connected.request_id, connected.sequence_id) == ("Connected", "r", 0)
    assert (configured.type, configured.thresholds.eot_threshold, configured.keyterms) == ("ConfigureSuccess", 0.9, ["Bonn"])
    assert [turn.sequence_id for turn in turns] == list(range(2, 2 + len(turns)))
    assert (turns[0].event, turns[-1].event) == ("StartOfTurn", "EndOfTurn")
    assert {turn.event for turn in turns[1:-1]} == {"Update"}
    assert (turns[-1].transcript, turns[-1].turn_index, turns[-1].trigger) == (TEXT, 0, "model")
    assert [word.word for word in turns[-1].words] == TEXT.split()
    assert "eager_eot_threshold=0.4" in fake.ledger[0].fields["query"]


async def test_an_error_in_a_session(client, fake):
    fake.session_error_after, fake.error_code = 1, "INTERNAL_SERVER_ERROR"

    def listen(version: Any, **query: Any) -> Any:
        with version.connect(encoding="linear16", sample_rate=16_000, **query) as connection:
            connection.send_media(bytes(320))
            while (message := connection.recv()).type in ("Connected", "Metadata"):
                pass
            return message

    for version, model in ((client.listen.v1, "nova-3"), (client.listen.v2, "flux-general-en")):
        message = await in_thread(lambda version=version, model=model: listen(version, model=model))
        assert (message.type, message.code) == ("Error", "INTERNAL_SERVER_ERROR")


async def test_a_refused_session(client, fake):
    """This version of the SDK lets the error of its WebSocket library through."""
    from websockets.exceptions import InvalidStatus

    def listen() -> None:
        with client.listen.v2.connect(model="flux-general-en"):
            pass

    fake.status = 402
    with pytest.raises(InvalidStatus) as caught:
        await in_thread(listen)
    assert caught.value.response.status_code == 402


async def test_live_speech_that_is_interrupted(client):
    from deepgram.speak.v1.types import SpeakV1Text

    def speak() -> list[Any]:
        with client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate=16_000) as connection:
            connection.send_text(SpeakV1Text(text="never mind"))
            connection.send_clear()
            connection.send_text(SpeakV1Text(text="hello"))
            connection.send_flush()
            messages: list[Any] = []
            while not messages or isinstance(messages[-1], bytes) or messages[-1].type != "Flushed":
                messages.append(connection.recv())
            connection.send_close()
            assert until_closed(connection) == []
        return messages

    opening, cleared, *audio, flushed = await in_thread(speak)
    assert (opening.type, cleared.type, cleared.sequence_id, flushed.sequence_id) == ("Metadata", "Cleared", 0, 1)
    assert [done.text for done in fsk.decode(b"".join(audio), 16_000)] == ["hello"]


async def test_live_speech(client):
    from deepgram.core.events import EventType

    def speak() -> list[Any]:
        messages: list[Any] = []
        done = threading.Event()

        def hear(message: Any) -> None:
            messages.append(message)
            if not isinstance(message, bytes) and message.type == "Flushed":
                done.set()

        with client.speak.v1.connect(model="aura-2-thalia-en", encoding="linear16", sample_rate=16_000) as connection:
            connection.on(EventType.MESSAGE, hear)
            thread = threading.Thread(target=connection.start_listening)
            thread.start()
            from deepgram.speak.v1.types import SpeakV1Text

            connection.send_text(SpeakV1Text(text=TEXT))
            connection.send_flush()
            assert done.wait(120)
            connection.send_close()
            thread.join(20)
        return messages

    events = await in_thread(speak)
    assert events[0].type == "Metadata"
    pcm = b"".join(event for event in events if isinstance(event, bytes))
    assert [done.text for done in fsk.decode(pcm, 16_000)] == [TEXT]


async def test_the_projects(client):
    answer = await in_thread(lambda: client.manage.v1.projects.list())
    assert [project.project_id for project in answer.projects] == ["p"]


async def test_a_wrong_key(fake, client):
    from deepgram.core.api_error import ApiError

    fake.api_key = "another"
    with pytest.raises(ApiError) as caught:
        await in_thread(lambda: client.listen.v1.media.transcribe_file(request=PCM, model="nova-3"))
    assert caught.value.status_code == 401


async def test_flux_speech(client, fake):
    from deepgram.speak.v2.types import SpeakV2Speak

    def speak() -> list[Any]:
        messages: list[Any] = []
        with client.speak.v2.connect(model="flux-alexis-en", encoding="linear16", sample_rate=16_000) as connection:
            connection.send_speak(SpeakV2Speak(text="never mind"))
            connection.send_interrupt()
            connection.send_speak(SpeakV2Speak(text=TEXT))
            connection.send_flush()
            while not messages or isinstance(messages[-1], bytes) or messages[-1].type != "Flushed":
                messages.append(connection.recv())
            connection.send_close()
            messages += until_closed(connection)
        return messages

    messages = await in_thread(speak)
    kinds = [message.type for message in messages if not isinstance(message, bytes)]
    assert kinds == ["Connected", "SpeechInterrupted", "SpeechStarted", "SpeechMetadata", "Flushed", "SessionMetadata"]
    metadata = next(m for m in messages if not isinstance(m, bytes) and m.type == "SpeechMetadata")
    assert metadata.billable_character_count == len(TEXT)
    pcm = b"".join(message for message in messages if isinstance(message, bytes))
    assert [done.text for done in fsk.decode(pcm, 16_000)] == [TEXT]


async def test_flux_speech_over_http(client, fake):
    def speak() -> bytes:
        return b"".join(client.speak.v2.audio.generate(text=TEXT, model="flux-alexis-en", encoding="linear16",
                                                       container="none", sample_rate=16_000))

    pcm = await in_thread(speak)
    assert [done.text for done in fsk.decode(pcm, 16_000)] == [TEXT]
    assert fake.ledger[0].path == "/v2/speak"
