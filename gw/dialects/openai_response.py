"""One response of a realtime conversation: a language model's answer, spoken as it comes by a voice.

Two requests, each with its own record, under one turn: the model's text goes to the voice while more is written. Cancelling
ends both upstreams at once; what was said until then stands in the conversation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import trio

from gw.dialects import error_bodies
from gw.dialects.websocket import WebSocketSession
from gw.errors import GwError, UpstreamProtocolError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.relay.relay import ChatAnswer
from gw.relay.speaking import SpeakingSession
from gw.types.caller import Caller
from gw.types.llm import ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.tts import AudioChunk
from gw.types.usage import Usage
from gw.wire import openai_chat_server
from gw.wire.openai_realtime_conversation import Members, RealtimeSession, assistant_item, base64, call_item

Keep = Callable[[Members], str | None]
"""Adds an item to the conversation; the id of the one before it."""


class Responder:
    """Makes one response. `run` ends when it has been told whole, was cancelled or failed."""

    def __init__(
        self, session: WebSocketSession, realtime: RealtimeSession, keep: Keep, items: list[Members], caller: Caller, model: str
    ) -> None:
        self.scope = trio.CancelScope()
        self.why = "client_cancelled"
        """The reason told when it is cancelled."""
        self.id = realtime.new_id("resp")
        self._session = session
        self._realtime = realtime
        self._keep = keep
        self._items = items
        self._caller = caller
        self._model = model
        self.voice = model
        """Who speaks."""
        self.spares: PrewarmedSockets | None = None
        """Sockets of the conversation, dialled ahead."""
        self._item = realtime.new_id("item")
        self._aloud = "audio" in realtime.settings["output_modalities"]
        self._text = ""
        self._begun = False
        self._calls: dict[int, list[ToolCallPiece]] = {}
        self._usage: Usage | None = None
        self._mind: ChatAnswer | None = None
        self._output: list[Members] = []

    async def run(self, asked: Members) -> None:
        """`asked`: the members of `response.create`."""
        await self._send("response.created", response=self._realtime.response(self.id, "in_progress", [], None))
        status = "completed"
        details: Members = {}
        try:
            with self.scope, one_error():
                await self._answer(asked)
        except GwError as error:
            fault = {"type": "server_error", "code": error_bodies.code_of(error), "message": error.message}
            status, details = "failed", {"error": fault}
        if self.scope.cancelled_caught:
            status, details = "cancelled", {"reason": self.why}
        if self._begun:
            await self._end_message("completed" if status == "completed" else "incomplete")
        if status == "completed":
            await self._tell_calls()
        done = self._realtime.response(self.id, status, self._output, self._usage, **details)
        await self._send("response.done", response=done)

    async def _answer(self, asked: Members) -> None:
        body = self._realtime.chat_body(self._model, self._items, asked)
        if not self._aloud:
            await self._think(body, None)
            return
        relay = self._session.gateway.relay
        speech = relay.speak_live(self._realtime.speak_request(self.voice), self._named(), self.spares)
        try:
            async with speech as voice, trio.open_nursery() as nursery:
                nursery.start_soon(self._speak, voice, nursery.cancel_scope)
                await self._think(body, voice)
                if self._text:
                    await voice.finish()
                else:
                    nursery.cancel_scope.cancel()  # nothing to say, a tool is called
        finally:
            if self._mind is not None:
                self._mind.close(error=None, cancelled=False)

    def _named(self) -> Caller:
        """A request of its own, in the same turn."""
        return msgspec.structs.replace(self._caller, request_id=self._session.gateway.request_ids.new())

    async def _think(self, body: bytes, voice: SpeakingSession | None) -> None:
        request = openai_chat_server.parse_request(body)
        request = msgspec.structs.replace(request, dialect="")
        async with self._session.gateway.relay.chat(request, self._named()) as answer:
            if voice is not None:
                self._mind = answer
                answer.spoken_share = lambda: voice.heard_characters / len(self._text) if self._text else 1.0
            while not answer.done:
                for event in await answer.receive():
                    await self._heard(event, voice)

    async def _heard(self, event: ChatEvent, voice: SpeakingSession | None) -> None:
        match event:
            case Delta(text=text, tool_calls=pieces):
                for piece in pieces:
                    self._calls.setdefault(piece.index, []).append(piece)
                await self._say(text, voice)
            case Completion(text=text, tool_calls=pieces, usage=usage):
                for piece in pieces:
                    self._calls.setdefault(piece.index, []).append(piece)
                self._usage = usage
                await self._say(text, voice)
            case UsageReport(usage=usage):
                self._usage = usage
            case StreamError(code=code):
                raise UpstreamProtocolError(provider=self._model, detail=f"an error inside the answer: {code}")

    async def _say(self, text: str, voice: SpeakingSession | None) -> None:
        if not text:
            return
        await self._begin_message()
        self._text += text
        kind = "response.output_audio_transcript.delta" if self._aloud else "response.output_text.delta"
        await self._send(kind, **self._place, delta=text)
        if voice is not None:
            await voice.send_text(text)

    async def _speak(self, voice: SpeakingSession, scope: trio.CancelScope) -> None:
        while not voice.done:
            for event in await voice.receive():
                if isinstance(event, AudioChunk) and event.data:
                    await self._send("response.output_audio.delta", **self._place, delta=base64(event.data))
        scope.cancel()

    @property
    def _place(self) -> Members:
        return {"response_id": self.id, "item_id": self._item, "output_index": 0, "content_index": 0}

    def _part(self, text: str) -> Members:
        return {"type": "audio", "transcript": text} if self._aloud else {"type": "text", "text": text}

    async def _begin_message(self) -> None:
        if self._begun:
            return
        self._begun = True
        item = assistant_item(self._item, "", audio=self._aloud, status="in_progress") | {"content": []}
        await self._send("response.output_item.added", response_id=self.id, output_index=0, item=item)
        await self._send("response.content_part.added", **self._place, part=self._part(""))

    async def _end_message(self, status: str) -> None:
        item = assistant_item(self._item, self._text, audio=self._aloud, status=status)
        self._output.append(item)
        before = self._keep(item)
        if self._aloud:
            await self._send("response.output_audio.done", **self._place)
            await self._send("response.output_audio_transcript.done", **self._place, transcript=self._text)
        else:
            await self._send("response.output_text.done", **self._place, text=self._text)
        await self._send("response.content_part.done", **self._place, part=self._part(self._text))
        await self._send("response.output_item.done", response_id=self.id, output_index=0, item=item)
        for frame in self._realtime.item_added(item, before):
            await self._session.socket.send(frame)

    async def _tell_calls(self) -> None:
        for pieces in self._calls.values():
            at: Members = {"response_id": self.id, "output_index": len(self._output)}
            call_id = next((piece.id for piece in pieces if piece.id), self._realtime.new_id("call"))
            name = next((piece.name for piece in pieces if piece.name), "")
            item = call_item(self._realtime.new_id("item"), call_id, name, "".join(piece.arguments for piece in pieces))
            self._output.append(item)
            before = self._keep(item)
            told: dict[str, Any] = {**at, "item_id": item["id"], "call_id": call_id}
            await self._send("response.output_item.added", **at, item=item | {"status": "in_progress", "arguments": ""})
            await self._send("response.function_call_arguments.delta", **told, delta=item["arguments"])
            await self._send("response.function_call_arguments.done", **told, name=name, arguments=item["arguments"])
            await self._send("response.output_item.done", **at, item=item)
            for frame in self._realtime.item_added(item, before):
                await self._session.socket.send(frame)

    async def _send(self, kind: str, **members: Any) -> None:
        await self._session.socket.send(self._realtime.frame(kind, **members))
