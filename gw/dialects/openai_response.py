"""One response of a realtime conversation: a language model's answer, spoken by a voice as it comes.

These are two requests with a record each, in one turn: the model's text is passed to the voice while more is generated.
Cancelling ends both upstreams at once; the conversation keeps what was said until then.

    in_progress -- both upstreams have ended -->  completed: the message ends, tool calls follow
    in_progress -- `scope` is cancelled -->       cancelled: the message ends as incomplete
    in_progress -- an upstream fails -->          failed:    the message ends as incomplete
"""

from __future__ import annotations

from base64 import b64encode
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
from gw.types.ids import Caller
from gw.types.llm import ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.tts import AudioChunk
from gw.types.usage import Usage
from gw.wire import openai_chat
from gw.wire.chat_answer import as_delta, join_pieces
from gw.wire.openai_realtime_conversation import Members, RealtimeSession, assistant_item, call_item

AddItem = Callable[[Members], str | None]
"""Adds an item to the conversation, and returns the id of the one before it."""


class Responder:
    """Generates one response. `run` returns when it is complete, cancelled or failed."""

    def __init__(
        self, session: WebSocketSession, realtime: RealtimeSession, add_item: AddItem, items: list[Members], caller: Caller, model: str
    ) -> None:
        self.scope = trio.CancelScope()
        self.cancel_reason = "client_cancelled"  # reason to report if it is cancelled
        self.id = realtime.new_id("resp")
        self._session = session
        self._realtime = realtime
        self._add_item = add_item
        self._items = items
        self._caller = caller
        self._model = model
        self.voice = model  # text-to-speech model
        self.spares: PrewarmedSockets | None = None  # prewarmed sockets of the conversation
        self._item = realtime.new_id("item")
        self._has_audio = "audio" in realtime.settings["output_modalities"]
        self._text = ""
        self._started = False
        self._calls: dict[int, list[ToolCallPiece]] = {}
        self._usage: Usage | None = None
        self._chat: ChatAnswer | None = None
        self._output: list[Members] = []

    async def run(self, options: Members) -> None:
        """Generate and send the response; `options` are the members of `response.create`."""
        await self._send("response.created", response=self._realtime.response(self.id, "in_progress", [], None))
        status = "completed"
        details: Members = {}
        try:
            with self.scope, one_error():
                await self._answer(options)
        except GwError as error:
            failure = {"type": "server_error", "code": error_bodies.code_of(error), "message": error.message}
            status, details = "failed", {"error": failure}
        if self.scope.cancelled_caught:
            status, details = "cancelled", {"reason": self.cancel_reason}
        if self._started:
            await self._end_message("completed" if status == "completed" else "incomplete")
        if status == "completed":
            await self._send_calls()
        done = self._realtime.response(self.id, status, self._output, self._usage, **details)
        await self._send("response.done", response=done)

    async def _answer(self, options: Members) -> None:
        body = self._realtime.chat_body(self._model, self._items, options)
        if not self._has_audio:
            await self._generate(body, None)
            return
        relay = self._session.gateway.relay
        speech = relay.speak_live(self._realtime.speak_request(self.voice), self._new_caller(), self.spares)
        try:
            async with speech as voice, trio.open_nursery() as nursery:
                nursery.start_soon(self._send_audio, voice, nursery.cancel_scope)
                await self._generate(body, voice)
                if self._text:
                    await voice.finish()
                else:
                    nursery.cancel_scope.cancel()  # nothing to say, a tool is called
        finally:
            if self._chat is not None:
                self._chat.close(error=None, cancelled=False)

    def _new_caller(self) -> Caller:
        """Return the caller for a further request in the same turn."""
        return msgspec.structs.replace(self._caller, request_id=self._session.gateway.request_ids.new())

    async def _generate(self, body: bytes, voice: SpeakingSession | None) -> None:
        request = openai_chat.parse_request(body)
        request = msgspec.structs.replace(request, dialect="")
        async with self._session.gateway.relay.chat(request, self._new_caller()) as answer:
            if voice is not None:
                self._chat = answer
                answer.spoken_share = lambda: voice.heard_characters / len(self._text) if self._text else 1.0
            while not answer.done:
                for event in await answer.receive():
                    await self._take(event, voice)

    async def _take(self, event: ChatEvent, voice: SpeakingSession | None) -> None:
        match event:
            case Delta(text=text, tool_calls=pieces):
                for piece in pieces:
                    self._calls.setdefault(piece.index, []).append(piece)
                await self._send_text(text, voice)
            case Completion(usage=usage):
                self._usage = usage
                await self._take(as_delta(event), voice)
            case UsageReport(usage=usage):
                self._usage = usage
            case StreamError(code=code):
                raise UpstreamProtocolError(provider=self._model, detail=f"an error inside the answer: {code}")

    async def _send_text(self, text: str, voice: SpeakingSession | None) -> None:
        if not text:
            return
        await self._begin_message()
        self._text += text
        kind = "response.output_audio_transcript.delta" if self._has_audio else "response.output_text.delta"
        await self._send(kind, **self._place, delta=text)
        if voice is not None:
            await voice.send_text(text)

    async def _send_audio(self, voice: SpeakingSession, scope: trio.CancelScope) -> None:
        while not voice.done:
            for event in await voice.receive():
                if isinstance(event, AudioChunk) and event.data:
                    await self._send("response.output_audio.delta", **self._place, delta=b64encode(event.data).decode())
        scope.cancel()

    @property
    def _place(self) -> Members:
        return {"response_id": self.id, "item_id": self._item, "output_index": 0, "content_index": 0}

    def _part(self, text: str) -> Members:
        return {"type": "audio", "transcript": text} if self._has_audio else {"type": "text", "text": text}

    async def _begin_message(self) -> None:
        if self._started:
            return
        self._started = True
        item = assistant_item(self._item, "", audio=self._has_audio, status="in_progress") | {"content": []}
        await self._send("response.output_item.added", response_id=self.id, output_index=0, item=item)
        await self._send("response.content_part.added", **self._place, part=self._part(""))

    async def _end_message(self, status: str) -> None:
        item = assistant_item(self._item, self._text, audio=self._has_audio, status=status)
        self._output.append(item)
        before = self._add_item(item)
        if self._has_audio:
            await self._send("response.output_audio.done", **self._place)
            await self._send("response.output_audio_transcript.done", **self._place, transcript=self._text)
        else:
            await self._send("response.output_text.done", **self._place, text=self._text)
        await self._send("response.content_part.done", **self._place, part=self._part(self._text))
        await self._send("response.output_item.done", response_id=self.id, output_index=0, item=item)
        for frame in self._realtime.item_added(item, before):
            await self._session.socket.send(frame)

    async def _send_calls(self) -> None:
        for pieces in self._calls.values():
            at: Members = {"response_id": self.id, "output_index": len(self._output)}
            joined = join_pieces(pieces)
            call_id, name = joined.id or self._realtime.new_id("call"), joined.name
            item = call_item(self._realtime.new_id("item"), call_id, name, joined.arguments)
            self._output.append(item)
            before = self._add_item(item)
            call: dict[str, Any] = {**at, "item_id": item["id"], "call_id": call_id}
            await self._send("response.output_item.added", **at, item=item | {"status": "in_progress", "arguments": ""})
            await self._send("response.function_call_arguments.delta", **call, delta=item["arguments"])
            await self._send("response.function_call_arguments.done", **call, name=name, arguments=item["arguments"])
            await self._send("response.output_item.done", **at, item=item)
            for frame in self._realtime.item_added(item, before):
                await self._session.socket.send(frame)

    async def _send(self, kind: str, **members: Any) -> None:
        await self._session.socket.send(self._realtime.frame(kind, **members))
