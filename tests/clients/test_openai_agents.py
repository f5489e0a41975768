"""A voice agent of OpenAI's agents SDK (`agents.realtime`), unchanged, in conversation with the gateway's models.

It sends `semantic_vad` and a trace by default, truncates an answer when its user speaks over it, and retrieves an item after
every turn. Only its address is changed, with the name of a stack as the model.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import STORY_WANTED, TEXT, spoken_text

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["own", "other", "speaking", "gemini"])
BY_THREE = pytest.mark.parametrize("who", ["own", "other"])
"""What was heard of an answer is known where the gateway holds the conversation; else the vendor knows it."""
PIECE = 2_400  # bytes of 50 ms
QUESTION = TEXT + "?"


async def _speak(session: Any, text: str) -> None:
    """Speak in real time, and then be silent."""
    pcm = b"".join(fsk.encode(text, 24_000)) + bytes(48_000)
    for at in range(0, len(pcm), PIECE):
        await session.send_audio(pcm[at : at + PIECE])
        await asyncio.sleep(0.05)


def _runner(drop_in: Any, who: str) -> tuple[Any, dict[str, Any]]:
    from agents.realtime import RealtimeAgent, RealtimeRunner

    runner = RealtimeRunner(RealtimeAgent(name="host", instructions="Be brief."))
    model = drop_in.conversation_model(who)
    settings = {"model_name": model, "voice": "alloy"}
    config = {
        "url": drop_in.at("openai", who, "ws") + "/v1/realtime?model=" + model,
        "api_key": "any",
        "initial_model_settings": settings,
    }
    return runner, config


async def _until(session: Any, seen: list[Any], kind: str) -> Any:
    """Return the next event of this kind of the server; an error fails the test."""
    async for event in session:
        assert event.type != "error", event
        seen.append(event)
        if event.type == "raw_model_event" and event.data.type == "raw_server_event":
            data = event.data.data
            if data["type"] == kind:
                return data
    raise AssertionError("the session has ended")


def _raw(seen: list[Any]) -> list[Any]:
    """Return the server's events."""
    return [event.data.data for event in seen if event.type == "raw_model_event" and event.data.type == "raw_server_event"]


def _kinds(seen: list[Any]) -> set[str]:
    return {event["type"] for event in _raw(seen)}


@WHO
def test_two_turns_without_an_error(drop_in, package, who):
    package("agents")

    async def talk() -> tuple[list[Any], list[Any]]:
        runner, config = _runner(drop_in, who)
        seen: list[Any] = []
        session = await runner.run(model_config=config)
        async with session:
            for _ in range(2):
                speaking = asyncio.create_task(_speak(session, QUESTION))
                await _until(session, seen, "response.done")
                await speaking
            if "conversation.item.retrieved" not in _kinds(seen):
                await _until(session, seen, "conversation.item.retrieved")
            return seen, list(session._history)

    seen, history = asyncio.run(asyncio.wait_for(talk(), 120))
    raw = _raw(seen)
    updated = [event for event in raw if event["type"] == "session.updated"]
    assert updated[-1]["session"]["audio"]["input"]["turn_detection"]["type"] == "semantic_vad"
    assert updated[-1]["session"]["tracing"] == "auto"
    assert [item.role for item in history if item.type == "message"][:2] == ["user", "assistant"]
    pcm = b"".join(event.audio.data for event in seen if event.type == "audio")
    assert TEXT in spoken_text(pcm, 24_000)


@BY_THREE
def test_the_user_interrupts_and_the_history_keeps_what_was_heard(drop_in, package, who):
    package("agents")

    async def talk() -> tuple[list[Any], dict[str, Any]]:
        runner, config = _runner(drop_in, who)
        seen: list[Any] = []
        session = await runner.run(model_config=config)
        async with session:
            await session.send_message(STORY_WANTED)
            await _until(session, seen, "response.output_audio.delta")
            await asyncio.sleep(1.0)
            speaking = asyncio.create_task(_speak(session, "Stop!"))
            truncated = await _until(session, seen, "conversation.item.truncated")
            while (retrieved := await _until(session, seen, "conversation.item.retrieved"))["item"]["id"] != truncated["item_id"]:
                pass
            speaking.cancel()
            return seen, retrieved["item"]

    seen, retrieved = asyncio.run(asyncio.wait_for(talk(), 120))
    raw = _raw(seen)
    assert any(event.type == "audio_interrupted" for event in seen)
    heard = retrieved["content"][0]["transcript"]
    generated = "".join(e["delta"] for e in raw if e["type"] == "response.output_audio_transcript.delta")
    assert generated.startswith(heard)
    assert 0 < len(heard) < len(generated)
