"""A vendor whose handshake takes 300 ms: of a socket that many utterances share only the first one waits for it."""

from __future__ import annotations

import msgspec
import pytest
import trio

from gw.net.prewarm import IDLE_S
from gw.net.ws import open_ws
from gw.providers.spec import spec_of
from gw.types.asgi import ASGIApp
from tests.contract.dripping import SPEAKERS
from tests.contract.readers import READERS, Reader, send
from tests.contract.talkers import as_json
from tests.contract.vendors import KEY
from tests.fakes.hosting import GATEWAY, hosted, open_plane

HANDSHAKE_S = 0.3
CONFIG = """
providers: {house: {type: sim, latency_ms: 0}, behind: {type: TYPE, api_key: "KEY", base_url: "http://vendor.test"}}
models: {tts: {VOICE: {default_voice: alloy}}, stt: [house/tone], llm: [house/echo]}
stacks: {trio: {stt: house/tone, llm: house/echo, tts: VOICE}}
"""
SHARED = [reader for reader in READERS if reader.name != "elevenlabs stream"]
"""Whose sockets speak more than once."""
WARM = [who for who in SPEAKERS if who.type in ("cartesia", "elevenlabs", "deepgram")]
warm = pytest.mark.parametrize("behind", WARM, ids=lambda behind: behind.type)


@pytest.fixture
def plane(tmp_path):
    def opened(behind):
        text = CONFIG.replace("TYPE", behind.type).replace("KEY", KEY).replace("VOICE", behind.model)
        return open_plane(text, tmp_path)

    return opened


def slow(behind, plane):
    """The fake, its handshakes counted by `ledger`."""
    assert spec_of(behind.type).speak_live is not None
    fake = behind.fake()
    fake.answer_after_s = HANDSHAKE_S
    plane.net.hosts["vendor.test", 80] = hosted(fake)
    return fake


def impatient(app: ASGIApp) -> ASGIApp:
    """Closes a socket that is silent for half a second."""

    async def run(scope, receive, send):
        async def within():
            with trio.move_on_after(0.5):
                return await receive()
            await send({"type": "websocket.close", "code": 1000})
            return {"type": "websocket.disconnect", "code": 1000}

        await app(scope, within, send)

    return run


async def first_audio_s(reader: Reader, ws, model: str, number: int) -> float:
    """Of one utterance, which is heard to its end."""
    asked_at, first_at = trio.current_time(), None

    def named(frames):
        return [f.replace('"c1"', f'"c{number}"') if isinstance(f, str) else f for f in frames]

    begin = reader.begin(model) if number == 0 or reader.dialect == "elevenlabs" else ()
    await send(ws, named([*begin, *reader.say("Hello there. "), *reader.end]), model)
    while True:
        received = await ws.receive()
        text = received if isinstance(received, bytes) else received.replace(f'"c{number}"', '"c1"')
        frame = text if isinstance(text, bytes) else msgspec.json.decode(text)
        assert isinstance(frame, bytes) or reader.error(frame) is None
        if first_at is None and reader.audio(frame):
            first_at = trio.current_time()
        if reader.ended(frame):
            assert first_at is not None
            return first_at - asked_at


@warm
@pytest.mark.parametrize("reader", SHARED, ids=lambda reader: reader.name)
async def test_only_the_first_utterance_waits(reader, behind, plane, autojump_clock):
    async with plane(behind) as made:
        fake = slow(behind, made)
        async with reader.open(made, behind.model) as ws:
            took = []
            for number in range(4):
                took.append(await first_audio_s(reader, ws, behind.model, number))
                await trio.sleep(1)
            assert len(fake.ledger) == 5  # one spare at most
        assert took[0] == pytest.approx(HANDSHAKE_S, abs=0.01)
        assert max(took[1:]) < 0.01
        await trio.testing.wait_all_tasks_blocked()
        assert [entry.path for entry in fake.ledger if entry.closed is None] == []
        assert [record.status for record in made.kept.records] == ["success"] * 4
        assert len({intent.id for intent in made.kept.intents}) == 4


@warm
async def test_an_utterance_that_comes_during_the_handshake_waits_for_the_rest_of_it(behind, plane, autojump_clock):
    reader = next(reader for reader in READERS if reader.name == "livekit")
    async with plane(behind) as made:
        fake = slow(behind, made)
        async with reader.open(made, behind.model) as ws:
            await first_audio_s(reader, ws, behind.model, 0)
            await trio.sleep(0.2)
            assert await first_audio_s(reader, ws, behind.model, 1) == pytest.approx(0.1, abs=0.01)
            await trio.testing.wait_all_tasks_blocked()
            assert len(fake.ledger) == 3


@warm
async def test_a_spare_that_nobody_wants_is_closed(behind, plane, autojump_clock):
    reader = next(reader for reader in READERS if reader.name == "livekit")
    async with plane(behind) as made:
        fake = slow(behind, made)
        async with reader.open(made, behind.model) as ws:
            await first_audio_s(reader, ws, behind.model, 0)
            await trio.sleep(IDLE_S + 1)
            assert [entry.closed is None for entry in fake.ledger] == [False, False]
            assert await first_audio_s(reader, ws, behind.model, 1) == pytest.approx(HANDSHAKE_S, abs=0.01)


@warm
async def test_a_spare_that_the_vendor_closed_is_not_used(behind, plane, autojump_clock):
    reader = next(reader for reader in READERS if reader.name == "livekit")
    async with plane(behind) as made:
        made.net.hosts["vendor.test", 80] = hosted(impatient(slow(behind, made)))
        async with reader.open(made, behind.model) as ws:
            await first_audio_s(reader, ws, behind.model, 0)
            await trio.sleep(1)
            assert await first_audio_s(reader, ws, behind.model, 1) == pytest.approx(HANDSHAKE_S, abs=0.01)
        assert [record.status for record in made.kept.records] == ["success", "success"]


@warm
async def test_a_conversation_answers_its_second_turn_at_once(behind, plane, autojump_clock):
    async with plane(behind) as made:
        slow(behind, made)
        took = []
        async with open_ws("client", GATEWAY, b"/v1/realtime?model=trio", headers=[], connect=made.client.connect) as ws:
            message = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello there."}]}
            await send(ws, [as_json(type="conversation.item.create", item=message)])
            for _ in range(3):
                await send(ws, [as_json(type="response.create")])
                asked_at, first_at = trio.current_time(), None
                event = {"type": ""}
                while event["type"] != "response.done":
                    event = msgspec.json.decode(await ws.receive())
                    assert event["type"] != "error", event
                    if first_at is None and event["type"] == "response.output_audio.delta":
                        first_at = trio.current_time()
                took.append(first_at - asked_at)
                await trio.sleep(1)
        assert took[0] == pytest.approx(HANDSHAKE_S, abs=0.01)
        assert max(took[1:]) < 0.01
