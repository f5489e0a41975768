"""Cartesia's own SDK, unchanged, with the fake vendor: what it reads is what our codec writes.

What the SDK also does over the gateway stands in `test_cartesia.py`; here is the rest of its protocol.
"""

from __future__ import annotations

from typing import Any

import pytest
import trio

from gw.providers.sim import fsk
from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.cartesia import FakeCartesia

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

TEXT = "what is the weather in Paris today"
PCM = b"".join(fsk.encode(TEXT, 16_000)) + bytes(16_000)
RAW = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
SPEECH = {"model_id": "sonic-3", "voice": {"mode": "id", "id": "a-voice"}, "output_format": RAW}
LISTENING = {"model": "ink-2", "encoding": "pcm_s16le", "sample_rate": 16_000}


@pytest.fixture
def fake() -> FakeCartesia:
    return FakeCartesia(api_key="test-key", transcript=TEXT)


@pytest.fixture
async def client(fake, nursery):
    import cartesia

    address = await nursery.start(serve_asgi, fake)
    url = address.replace("http", "ws", 1)
    return cartesia.Cartesia(api_key="test-key", base_url=address, websocket_base_url=url, max_retries=0)


async def in_thread(use):
    return await trio.to_thread.run_sync(use)


def typed(events: list[Any]) -> list[Any]:
    """The SDK makes an object of whatever it is sent: that it fits is for its own model to say."""
    for event in events:
        type(event).model_validate_json(event.model_dump_json(), strict=True)
    return events


def words_of(events: list[Any]) -> str:
    pcm = b"".join(event.audio or b"" for event in events if event.type == "chunk")
    return " ".join(done.text.strip() for done in fsk.decode(pcm, 16_000))


async def test_speech(client, fake):
    audio = await in_thread(lambda: client.tts.generate(transcript=TEXT, **SPEECH | {"output_format": RAW | {"container": "wav"}}).read())
    info = wav.parse(audio)
    assert info is not None
    assert " ".join(done.text for done in fsk.decode(audio[info.data_offset :], 16_000)) == TEXT
    assert {"text": TEXT, "voice": "a-voice"}.items() <= fake.ledger[0].fields.items()


async def test_events_with_word_times(client):
    events = typed(await in_thread(lambda: list(client.tts.generate_sse(transcript=TEXT, add_timestamps=True, **SPEECH))))
    assert words_of(events) == TEXT
    words = [word for event in events if event.type == "timestamps" for word in event.word_timestamps.words]
    assert words == TEXT.split()
    assert events[-1].type == "done"


async def test_contexts_with_flushes_and_word_times(client):
    def speak() -> list[Any]:
        with client.tts.websocket_connect() as connection:
            context = connection.context(add_timestamps=True, **SPEECH)
            context.push("what is the ")
            context.push("weather", flush=True)
            context.push(" in Paris today")
            context.no_more_inputs()
            return list(context.receive())

    events = typed(await in_thread(speak))
    assert [words_of([e for e in events if e.type == "chunk" and e.flush_id == n]) for n in (1, 2)] == [
        "what is the weather", "in Paris today",
    ]  # fmt: skip
    (flushed,) = [event for event in events if event.type == "flush_done"]
    assert flushed.flush_id == 1
    kinds = [event.type for event in events]
    assert ("timestamps" in kinds, kinds[-1]) == (True, "done")


async def test_a_cancelled_context_and_the_next(client):
    def speak() -> list[Any]:
        with client.tts.websocket_connect() as connection:
            first = connection.context(**SPEECH)
            first.push("never heard")
            first.cancel()
            second = connection.context(**SPEECH)
            second.push(TEXT)
            second.no_more_inputs()
            return list(second.receive())

    assert words_of(await in_thread(speak)) == TEXT


async def test_a_context_with_nothing_to_speak(client):
    def speak() -> list[Any]:
        with client.tts.websocket_connect() as connection:
            context = connection.context(**SPEECH)
            context.no_more_inputs()
            return list(context.receive())

    (fault,) = typed(await in_thread(speak))
    assert (fault.type, fault.done, fault.status_code) == ("error", True, 400)


async def test_a_recording(client, fake):
    audio = wav.header(PCM_16K, len(PCM)) + PCM
    answer = await in_thread(
        lambda: client.stt.transcribe(
            file=("a.wav", audio, "audio/wav"), model="ink-whisper", language="en", timestamp_granularities=["word"]
        )
    )
    assert (typed([answer])[0].text, answer.duration) == (TEXT, pytest.approx(len(PCM) / 32_000))
    assert fake.ledger[0].audio == audio


async def test_a_session_with_finalize(client):
    def listen() -> list[Any]:
        with client.stt.manual_finalize.websocket(**LISTENING) as connection:
            for at in range(0, len(PCM), 5_120):
                connection.send_raw(PCM[at : at + 5_120])
            connection.send("finalize")
            connection.send("close")
            return list(connection)

    events = typed(await in_thread(listen))
    assert "".join(event.text for event in events if event.type == "transcript" and event.is_final) == TEXT
    assert [event.type for event in events][-2:] == ["flush_done", "done"]


async def test_a_session_by_turns(client):
    def listen() -> list[Any]:
        with client.stt.auto_finalize.websocket(**LISTENING) as connection:
            for at in range(0, len(PCM), 5_120):
                connection.send_raw(PCM[at : at + 5_120])
            connection.send({"type": "close"})
            return list(connection)

    events = typed(await in_thread(listen))
    kinds = [event.type for event in events]
    assert kinds[:2] == ["connected", "turn.start"]
    assert "turn.update" in kinds
    assert (kinds[-1], events[-1].transcript) == ("turn.end", TEXT)


async def test_a_wrong_key(fake, client):
    import cartesia

    fake.api_key = "another"
    with pytest.raises(cartesia.AuthenticationError):
        await in_thread(lambda: client.tts.generate(transcript=TEXT, **SPEECH).read())


async def test_a_limit(fake, client):
    import cartesia

    fake.status, fake.error_code = 429, "concurrency_limited"
    with pytest.raises(cartesia.RateLimitError) as caught:
        await in_thread(lambda: client.tts.generate(transcript=TEXT, **SPEECH).read())
    assert caught.value.body["error_code"] == "concurrency_limited"
