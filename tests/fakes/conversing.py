"""A client of realtime conversations over a data plane in memory: tone voices on both sides, a language model that can be read."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec
import trio

from gw.net.ws import WebSocket, open_ws
from gw.providers.sim import fsk
from tests.contract.talkers import as_json, speech
from tests.fakes.hosting import GATEWAY, Plane, hosted, open_plane
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  first: {type: sim, latency_ms: 0, token_ms: TOKEN}
  mind: {type: openai, api_key: key, base_url: "http://mind.test/v1"}
models: {stt: [first/tone], tts: [first/tone], llm: [first/echo, first/scripted, mind/gpt-x]}
stacks:
  trio: {stt: first/tone, llm: first/echo, tts: first/tone}
  tools: {stt: first/tone, llm: first/scripted, tts: first/tone}
  read: {stt: first/tone, llm: mind/gpt-x, tts: first/tone}
projects: {default: {default_stack: trio}}
"""


class Conversing:
    """The client. `errors` keeps the error events; `seen` all others."""

    def __init__(self, ws: WebSocket) -> None:
        self.ws = ws
        self.seen: list[dict[str, Any]] = []
        self.errors: list[dict[str, Any]] = []

    async def send(self, kind: str, **members: Any) -> None:
        await self.ws.send(as_json(type=kind, **members))

    async def receive(self) -> dict[str, Any]:
        event: dict[str, Any] = msgspec.json.decode(await self.ws.receive())
        if event["type"] == "error":
            self.errors.append(event["error"])
        else:
            self.seen.append(event)
        return event

    async def until(self, *kinds: str) -> dict[str, Any]:
        """Return the next event of one of these types. Any error that is not one of them fails the test."""
        with trio.fail_after(120):
            while True:
                event = await self.receive()
                assert event["type"] in kinds or event["type"] != "error", event
                if event["type"] in kinds:
                    return event

    async def read_on(self) -> None:
        """Read until the gateway closes the socket. Raises WsClosed."""
        while True:
            await self.receive()

    async def spoken_turn(self, text: str) -> dict[str, Any]:
        """Speak, and return the end of the response."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self.speak, text)
            return await self.until("response.done")

    async def refused(self, kind: str, **members: Any) -> dict[str, Any]:
        """Send an event and return the error that answers it."""
        await self.send(kind, event_id=f"of-{kind}", **members)
        error: dict[str, Any] = (await self.until("error"))["error"]
        assert (error["type"], error["event_id"]) == ("invalid_request_error", f"of-{kind}")
        return error

    async def say(self, text: str, **members: Any) -> dict[str, Any]:
        """Add a message of the user; return its item."""
        item = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
        await self.send("conversation.item.create", item=item, **members)
        added: dict[str, Any] = (await self.until("conversation.item.done"))["item"]
        return added

    async def speak(self, *texts: str, pause_s: float = 0.5) -> None:
        """Speak with the tone voice, at the speed of speech."""
        await self.append(speech(texts, 24_000, pause_s=pause_s))

    async def append(self, pcm: bytes) -> None:
        for at in range(0, len(pcm), 1_920):
            await self.send("input_audio_buffer.append", audio=b64encode(pcm[at : at + 1_920]).decode())
            await trio.sleep(0.04)

    def kinds(self) -> list[str]:
        """Return the types of the events, repeats in a row once."""
        frames = [event["type"] for event in self.seen]
        return [kind for n, kind in enumerate(frames) if not n or frames[n - 1] != kind]

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.seen if event["type"] == kind]

    @property
    def spoken(self) -> str:
        pcm = b"".join(b64decode(event["delta"]) for event in self.of("response.output_audio.delta"))
        return " ".join(" ".join(done.text for done in fsk.decode(pcm, 24_000)).split())


@asynccontextmanager
async def open_conversation(
    tmp_path: Path,
    query: str = "model=trio",
    *,
    token_ms: int = 0,
    mind: FakeOpenAI | None = None,
    config: str = CONFIG,
) -> AsyncIterator[tuple[Conversing, Plane]]:
    """Yield a client that has been greeted, and its data plane. `mind`: the language model of the stack `read`."""
    async with open_plane(config.replace("TOKEN", str(token_ms)), tmp_path) as plane:
        plane.net.hosts["mind.test", 80] = hosted(mind or FakeOpenAI())
        target = f"/v1/realtime?{query}".encode()
        async with open_ws("client", GATEWAY, target, headers=[], connect=plane.client.connect) as ws:
            client = Conversing(ws)
            await client.until("session.created")
            yield client, plane
