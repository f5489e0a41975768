"""Random events of a client: whatever comes in whatever order, the session goes on and every response ends exactly once."""

from __future__ import annotations

from base64 import b64encode
from random import Random

import pytest
import trio

from tests.contract.talkers import as_json, speech
from tests.fakes.conversing import open_conversation
from tests.fakes.vendors.openai import FakeOpenAI

ODD = (None, 0, -1, 7.5, True, "", "x", [], ["x"], {}, {"type": "x"}, {"id": 5})
SPEECH = speech(["hello there"], 24_000, pause_s=0)


class Chance:
    """Makes events, sensible ones and others; it remembers the ids that the server has named."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.items: list[str] = []
        self.responses: list[str] = []

    def of(self, *values):
        return self.random.choice(values)

    def odd(self, *values):
        """Return one of the values, and sometimes something odd."""
        return self.of(*ODD) if self.random.random() < 0.2 else self.of(*values)

    def item_id(self):
        return self.odd(*self.items[-5:] or ["item_x"], "item_of_nobody")

    def part(self):
        return {
            "type": self.odd("input_text", "output_text", "input_audio", "input_image", "output_audio"),
            "text": self.odd("Hello."), "transcript": self.odd("Hello."), "image_url": self.odd("data:image/png;base64,AAAA"),
        }  # fmt: skip

    def item(self):
        kind = self.odd("message", "message", "function_call", "function_call_output", "mcp_call", "item_reference")
        return {
            "type": kind, "id": self.odd(None, self.item_id()), "role": self.odd("user", "system", "assistant"),
            "content": self.odd([self.part()], [self.part(), self.part()], [None]), "call_id": self.odd("c1", "c2"),
            "name": self.odd("look"), "arguments": self.odd("{}"), "output": self.odd("18 degrees"),
        }  # fmt: skip

    def settings(self):
        turns = self.odd(
            None, {"type": "semantic_vad", "eagerness": self.odd("high", "low")},
            {"type": "server_vad", "interrupt_response": self.odd(True, False), "create_response": self.odd(True, False)},
            {"type": "server_vad", "idle_timeout_ms": self.odd(5_000), "threshold": self.odd(0.5, 0.9)},
        )  # fmt: skip
        audio_in = {"turn_detection": turns, "transcription": self.odd(None, {"language": self.odd("fr")})}
        return {
            "instructions": self.odd("Be brief."), "output_modalities": self.odd(["audio"], ["text"]),
            "truncation": self.odd("auto", "disabled"), "tools": self.odd([], [{"type": "function", "name": "look"}]),
            "audio": self.odd({"input": audio_in}, {"output": {"speed": self.odd(1.0, 1.5), "voice": self.odd("alloy")}}),
        }  # fmt: skip

    def some(self, members):
        """Return some of the members."""
        return {name: value for name, value in members.items() if self.random.random() < 0.5}

    def options(self):
        return {"conversation": self.odd("none", "auto"), "input": self.odd([self.item()], [])}

    def event(self):
        at = self.random.randrange(0, len(SPEECH) - 9_600, 2)
        return self.of(
            {"type": "session.update", "session": self.odd(self.some(self.settings()))},
            {"type": "input_audio_buffer.append", "audio": self.odd(b64encode(SPEECH[at : at + 9_600]).decode())},
            {"type": "input_audio_buffer.append", "audio": b64encode(SPEECH).decode()},
            {"type": "input_audio_buffer.append", "audio": b64encode(bytes(24_000)).decode()},
            {"type": "input_audio_buffer.commit"},
            {"type": "input_audio_buffer.clear"},
            {"type": "conversation.item.create", "item": self.odd(self.item()), "previous_item_id": self.odd(None, self.item_id(), "root")},
            {"type": "conversation.item.delete", "item_id": self.item_id()},
            {"type": "conversation.item.retrieve", "item_id": self.item_id()},
            {"type": "conversation.item.truncate", "item_id": self.item_id(), "content_index": self.odd(0),
             "audio_end_ms": self.odd(0, 100, 1_000, 100_000)},
            {"type": "response.create"},
            {"type": "response.create", "response": self.odd(self.options())},
            {"type": "response.cancel", "response_id": self.odd(None, *self.responses[-3:])},
            {"type": self.odd("output_audio_buffer.clear", "nonsense")},
        )  # fmt: skip


@pytest.mark.parametrize("seed", range(12))
async def test_the_session_goes_on_and_every_response_ends_once(seed, tmp_path, autojump_clock):
    chance = Chance(seed)
    mind = FakeOpenAI(reply="The train leaves at nine from platform four.", token_gap_s=chance.of(0.0, 0.2))
    async with open_conversation(tmp_path, "model=read", mind=mind) as (client, _), trio.open_nursery() as nursery:
        nursery.start_soon(_follow, client, chance)
        for _ in range(60):
            await client.ws.send(as_json(**chance.event()))
            await trio.sleep(chance.of(0.0, 0.0, 0.05, 0.5))
        await trio.sleep(30)
        nursery.cancel_scope.cancel()
    created = [event["response"]["id"] for event in client.of("response.created")]
    done = [event["response"]["id"] for event in client.of("response.done")]
    assert len(set(created)) == len(created)
    assert set(done) <= set(created)
    assert len(set(done)) == len(done)
    assert len(created) - len(done) <= 1  # one that has just begun: a user who says nothing is prompted again and again
    assert created
    assert all(error["message"] and error["code"] for error in client.errors)
    ids = [event["event_id"] for event in client.seen]
    assert len(set(ids)) == len(ids)


async def _follow(client, chance):
    while True:
        event = await client.receive()
        if event["type"] == "conversation.item.added":
            chance.items.append(event["item"]["id"])
        elif event["type"] == "response.created":
            chance.responses.append(event["response"]["id"])
