"""A realtime conversation held by three engines, in memory: speech in, speech out."""

from __future__ import annotations

from base64 import b64decode, b64encode

import msgspec
import pytest
import trio

from gw.net.ws import open_ws
from gw.providers.sim import fsk
from tests.contract.talkers import as_json, speech
from tests.fakes.hosting import GATEWAY, open_plane

CONFIG = """
providers: {first: {type: sim, latency_ms: 0, token_ms: TOKEN}}
models: {stt: [first/tone], tts: [first/tone], llm: [first/echo, first/scripted]}
stacks: {trio: {stt: first/tone, llm: first/echo, tts: first/tone}, tools: {stt: first/tone, llm: first/scripted, tts: first/tone}}
projects: {default: {default_stack: trio}}
"""
TEXT = "what is the weather in Paris"


class Client:
    def __init__(self, ws):
        self.ws = ws
        self.seen = []

    async def send(self, kind, **members):
        await self.ws.send(as_json(type=kind, **members))

    async def until(self, *kinds):
        with trio.fail_after(120):
            while True:
                event = msgspec.json.decode(await self.ws.receive())
                self.seen.append(event)
                assert event["type"] != "error", event
                if event["type"] in kinds:
                    return event

    async def speak(self, text):
        pcm = speech([text], 24_000, pause_s=0.5)
        for at in range(0, len(pcm), 1_920):
            await self.send("input_audio_buffer.append", audio=b64encode(pcm[at : at + 1_920]).decode())
            await trio.sleep(0.04)

    def kinds(self):
        frames = [event["type"] for event in self.seen]
        return [kind for n, kind in enumerate(frames) if not n or frames[n - 1] != kind]

    @property
    def spoken(self):
        pcm = b"".join(b64decode(e["delta"]) for e in self.seen if e["type"] == "response.output_audio.delta")
        return " ".join(" ".join(done.text for done in fsk.decode(pcm, 24_000)).split())


@pytest.fixture
def talk(tmp_path):
    from contextlib import asynccontextmanager

    @asynccontextmanager
    async def opened(query="model=trio", token_ms=0):
        async with open_plane(CONFIG.replace("TOKEN", str(token_ms)), tmp_path) as plane:
            target = f"/v1/realtime?{query}".encode()
            async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
                client = Client(ws)
                await client.until("session.created")
                yield client, plane

    return opened


async def test_what_is_said_is_answered_aloud_and_is_one_waterfall(talk, autojump_clock):
    async with talk() as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, TEXT)
            done = await client.until("response.done")
        assert (done["response"]["status"], client.spoken) == ("completed", TEXT)
        assert done["response"]["usage"]["total_tokens"] > 0
        (item,) = done["response"]["output"]
        assert item["content"] == [{"type": "output_audio", "transcript": TEXT}]
        order = [
            "input_audio_buffer.speech_started", "input_audio_buffer.speech_stopped", "input_audio_buffer.committed",
            "conversation.item.input_audio_transcription.completed", "response.created", "response.output_item.added",
            "response.content_part.added", "response.output_audio.done", "response.output_audio_transcript.done",
            "response.content_part.done", "response.output_item.done", "response.done",
        ]  # fmt: skip
        kinds = client.kinds()
        assert [kind for kind in kinds if kind in order] == order
        assert all(event["event_id"] for event in client.seen)
    await plane_records(plane, {"stt", "llm", "tts"})


async def plane_records(plane, modalities):
    records = plane.kept.records
    assert {record.modality for record in records} == modalities
    answered = [record for record in records if record.modality != "stt"]
    assert len({record.turn_id for record in answered}) == 1
    assert len({record.id for record in records}) == len(records)


async def test_speech_interrupts_an_answer(talk, autojump_clock):
    async with talk(token_ms=2_000) as (client, plane):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, TEXT)
            await client.until("response.output_audio_transcript.delta")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.speak, "stop")
            done = await client.until("response.done")
            nursery.cancel_scope.cancel()
        assert done["response"]["status"] == "cancelled"
        assert done["response"]["status_details"]["reason"] == "turn_detected"
        kinds = [event["type"] for event in client.seen]
        started = len(kinds) - 1 - kinds[::-1].index("input_audio_buffer.speech_started")
        assert "response.output_audio.delta" not in kinds[started:]
        statuses = {record.modality: record.status for record in plane.kept.records}
        assert statuses == {"llm": "cancelled", "tts": "cancelled"}


async def test_text_in_and_text_out(talk, autojump_clock):
    async with talk("model=gpt-realtime") as (client, plane):
        await client.send("session.update", session={"type": "realtime", "output_modalities": ["text"]})
        updated = await client.until("session.updated")
        assert updated["session"]["output_modalities"] == ["text"]
        assert updated["session"]["audio"]["output"]["voice"] == "alloy"
        content = [{"type": "input_text", "text": TEXT}]
        await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await client.until("conversation.item.done")
        await client.send("response.create")
        await client.until("response.done")
        deltas = [e["delta"] for e in client.seen if e["type"] == "response.output_text.delta"]
        assert "".join(deltas) == TEXT
        assert len(deltas) > 1
        assert plane.kept.record.modality == "llm"


async def test_a_tool_is_called_and_its_result_spoken(talk, autojump_clock):
    tool = {"type": "function", "name": "look", "description": "Look", "parameters": {"type": "object", "properties": {}}}
    async with talk("model=tools") as (client, _):
        await client.send("session.update", session={"type": "realtime", "tools": [tool], "output_modalities": ["text"]})
        content = [{"type": "input_text", "text": TEXT}]
        await client.send("conversation.item.create", item={"type": "message", "role": "user", "content": content})
        await client.send("response.create")
        called = await client.until("response.function_call_arguments.done")
        assert called["name"] == "look"
        await client.until("response.done")
        output = {"type": "function_call_output", "call_id": called["call_id"], "output": "18 degrees"}
        await client.send("conversation.item.create", item=output)
        await client.send("response.create")
        done = await client.until("response.done")
        assert "18 degrees" in done["response"]["output"][0]["content"][0]["text"]


async def test_bad_frames_are_answered_and_the_session_goes_on(talk, autojump_clock):
    async with talk() as (client, _):
        for frame in ("{", "[]", '{"type":1}', '{"type":"nonsense"}', as_json(type="input_audio_buffer.append", audio="!")):
            await client.ws.send(frame)
            event = msgspec.json.decode(await client.ws.receive())
            assert (event["type"], event["error"]["type"]) == ("error", "invalid_request_error")
        bad = {"audio": {"input": {"format": {"type": "audio/mp3"}}}}
        await client.ws.send(as_json(type="session.update", session=bad))
        assert msgspec.json.decode(await client.ws.receive())["type"] == "error"
        await client.send("session.update", session={"instructions": "Be brief."})
        assert (await client.until("session.updated"))["session"]["instructions"] == "Be brief."
