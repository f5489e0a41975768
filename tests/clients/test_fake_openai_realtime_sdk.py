"""OpenAI's own SDK, unchanged, in a realtime transcription session with the fake vendor."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable
from typing import Any, TypeVar

import openai
import pytest
import trio
import websockets

from gw.providers.sim import fsk
from tests.fakes.serve import serve_asgi
from tests.fakes.vendors.openai import FakeOpenAI

pytestmark = [
    pytest.mark.clients,
    pytest.mark.filterwarnings("ignore:connect.. must be used as a context manager:DeprecationWarning"),   # the SDK's own use
]
T = TypeVar("T")
SESSION: Any = {
    "type": "transcription",
    "audio": {
        "input": {
            "format": {"type": "audio/pcm", "rate": 24_000},
            "transcription": {"model": "gpt-4o-transcribe", "language": "en"},
            "turn_detection": {"type": "server_vad"},
        }
    },
}


@pytest.fixture
def fake() -> FakeOpenAI:
    return FakeOpenAI(api_key="test-key")


@pytest.fixture
async def ask(fake, nursery):
    address = await nursery.start(serve_asgi, fake)

    async def run(use: Callable[[Any], T], api_key: str = "test-key") -> T:
        def in_thread() -> T:
            made = openai.OpenAI(base_url=f"{address}/v1", api_key=api_key, max_retries=0)
            with made as client, client.realtime.connect(extra_query={"intent": "transcription"}) as connection:
                return use(connection)

        return await trio.to_thread.run_sync(in_thread)

    return run


def until(connection: Any, kind: str) -> list[Any]:
    events = [connection.recv()]
    while events[-1].type != kind:
        events.append(connection.recv())
    return events


async def test_a_session(fake, ask):
    def talk(connection: Any) -> list[Any]:
        events = until(connection, "session.created")
        connection.session.update(session=SESSION)
        events += until(connection, "session.updated")
        for piece in fsk.encode("hello there", 24_000):
            connection.input_audio_buffer.append(audio=b64encode(piece).decode())
        return events + until(connection, "conversation.item.input_audio_transcription.completed")

    events = await ask(talk)
    assert all(event.event_id for event in events)
    kinds = [event.type.removeprefix("conversation.item.input_audio_transcription.") for event in events]
    assert [kind for kind in kinds if kind != "delta"] == [
        "session.created", "session.updated", "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped",
        "input_audio_buffer.committed", "conversation.item.added", "conversation.item.done", "completed",
    ]  # fmt: skip
    assert "delta" in kinds
    assert events[1].session.audio.input.transcription.model == "gpt-4o-transcribe"
    assert (events[-1].transcript, events[-1].usage.type) == ("hello there", "duration")
    assert fake.ledger[0].fields["language"] == "en"


async def test_an_empty_commit_is_an_error_that_names_it(ask):
    def talk(connection: Any) -> Any:
        until(connection, "session.created")
        connection.send({"type": "input_audio_buffer.commit", "event_id": "mine"})
        return until(connection, "error")[-1].error

    error = await ask(talk)
    assert (error.code, error.event_id) == ("input_audio_buffer_commit_empty", "mine")


async def test_a_wrong_key(ask):
    with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
        await ask(lambda connection: connection.recv(), api_key="other")
    assert caught.value.response.status_code == 401
