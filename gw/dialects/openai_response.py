"""One response of a realtime conversation: a language model's answer, spoken by a voice as it comes.

These are two requests with a record each, in one turn: the model's text is passed to the voice while more is generated.
Cancelling ends both upstreams at once; the conversation keeps what the listener has heard until then.

    waiting     -- the turns before are transcribed -->  in_progress
    in_progress -- both upstreams have ended -->         completed: the message ends, tool calls follow
    in_progress -- `scope` is cancelled -->              cancelled: the message ends as incomplete, cut at the word heard last
    in_progress -- an upstream fails -->                 failed:    the message ends as incomplete
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec
import trio

from gw.dialects import error_bodies
from gw.dialects.openai_spoken import SpokenAnswer
from gw.dialects.websocket import WebSocketSession
from gw.errors import AllCandidatesFailed, GwError, UpstreamProtocolError, leaves_of
from gw.net.prewarm import PrewarmedSockets
from gw.relay.relay import ChatAnswer
from gw.relay.speaking import SpeakingSession
from gw.types.ids import Caller
from gw.types.llm import ChatEvent, Completion, Delta, StreamError, ToolCallPiece, UsageReport
from gw.types.tts import AudioChunk
from gw.types.usage import Usage
from gw.wire import openai_chat
from gw.wire.chat_answer import as_delta, join_pieces
from gw.wire.openai_realtime_conversation import RealtimeSession, ResponseSettings
from gw.wire.openai_realtime_items import shortened
from gw.wire.openai_realtime_output import ResponseOutput
from gw.wire.openai_realtime_settings import Members

INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
"""The model's reason to stop → the reason of an incomplete response."""


class Conversation(Protocol):
    """The conversation, as far as a response needs it."""

    session: WebSocketSession
    realtime: RealtimeSession
    spares: PrewarmedSockets
    language_model: str
    voice_model: str

    def keep(self, item: Members) -> str | None:
        """Add an item, and return the id of the one before it."""

    def spoken(self, item_id: str, spoken: SpokenAnswer) -> None:
        """Note the speech of an item, which may be truncated later."""

    def leave_out_before(self, item: Members) -> None:
        """Have later responses begin with this item: those before it no longer fit the language model."""


def truncation(item_id: str, spoken: SpokenAnswer) -> Members:
    """Return the members of the event that reports where the audio of an item ends now."""
    return {"item_id": item_id, "content_index": 0, "audio_end_ms": spoken.end_ms}


def is_too_long(error: GwError) -> bool:
    """Return whether a language model has refused a request for its length."""
    failed = [failure.error for failure in error.failures] if isinstance(error, AllCandidatesFailed) else [error]
    return any(getattr(failure, "upstream_code", "") == "context_length_exceeded" for failure in failed)


class Responder:
    """Generates one response. `run` returns when it is complete, cancelled or failed."""

    def __init__(self, conversation: Conversation, made_of: ResponseSettings, caller: Caller) -> None:
        self.scope = trio.CancelScope()
        self.cancel_reason = "client_cancelled"  # reason to report if it is cancelled
        self.ended = trio.Event()
        self.completed = False
        self.made_of = made_of
        self.spoken: SpokenAnswer | None = None  # its speech
        self._conversation = conversation
        self._session = conversation.session
        self._caller = caller
        self._output = ResponseOutput(conversation.realtime, made_of, self._keep)
        self.id = self._output.id
        self._has_audio = made_of.has_audio
        self._calls: dict[int, list[ToolCallPiece]] = {}
        self._usage: Usage | None = None
        self._finish_reason: str | None = None
        self._chat: ChatAnswer | None = None

    async def run(self, context: Callable[[], Awaitable[list[Members]]]) -> None:
        """Generate and send the response; `context` returns the items that it answers."""
        await self._send(self._output.about("response.created", "in_progress"))
        status = "completed"
        details: Members = {}
        try:
            with self.scope:
                await self._answer(await context())
        except (GwError, BaseExceptionGroup) as raised:
            error, *others = leaves_of(raised)  # both upstreams may fail, or one in the moment of a cancellation
            if not isinstance(error, GwError) or not all(isinstance(other, GwError) for other in others):
                raise
            failure = {"type": "server_error", "code": error_bodies.spoken_code(error, error_bodies.OPENAI_CODES), "message": error.message}
            status, details = "failed", {"error": failure}
        if self.scope.cancelled_caught:
            status, details = "cancelled", {"reason": self.cancel_reason}
        elif status == "completed" and self._finish_reason in INCOMPLETE:
            status, details = "incomplete", {"reason": INCOMPLETE[self._finish_reason]}
        if self._output.has_begun:
            await self._end_message("completed" if status == "completed" else "incomplete")
        if status == "completed":
            self.completed = True
            await self._send_calls()
        await self._send(self._output.about("response.done", status, self._usage, **details))

    def _keep(self, item: Members) -> str | None:
        previous = self._conversation.keep(item)
        if self.spoken is not None and item is self._output.item:
            self._conversation.spoken(item["id"], self.spoken)
        return previous

    async def _answer(self, items: list[Members]) -> None:
        if not self._has_audio:
            await self._generate(items, None)
            return
        request = self.made_of.speak_request(self._conversation.voice_model)
        speech = self._session.gateway.relay.speak_live(request, self._new_caller(), self._conversation.spares)
        try:
            async with speech as voice, trio.open_nursery() as nursery:
                self.spoken = SpokenAnswer(voice, self.made_of.format)
                nursery.start_soon(self._send_audio, voice, self.spoken, nursery.cancel_scope)
                await self._generate(items, voice)
                if self._output.text:
                    await voice.finish()
                else:
                    nursery.cancel_scope.cancel()  # nothing to say, a tool is called
        finally:
            if self._chat is not None:
                self._chat.close(error=None, cancelled=False)

    def _new_caller(self) -> Caller:
        """Return the caller for a further request in the same turn."""
        return msgspec.structs.replace(self._caller, request_id=self._session.gateway.request_ids.new())

    async def _generate(self, items: list[Members], voice: SpeakingSession | None) -> None:
        """Have the answer generated; leave out the oldest items where the language model refuses all of them as too long."""
        while True:
            try:
                await self._chat_about(items, voice)
                return
            except GwError as error:
                fewer = shortened(items, self.made_of.settings["truncation"]) if is_too_long(error) else None
                if fewer is None or self._output.has_begun:
                    raise
                items = fewer
                self._conversation.leave_out_before(items[0])

    async def _chat_about(self, items: list[Members], voice: SpeakingSession | None) -> None:
        request = openai_chat.parse_request(self.made_of.chat_body(self._conversation.language_model, items))
        request = msgspec.structs.replace(request, dialect="")
        async with self._session.gateway.relay.chat(request, self._new_caller()) as answer:
            if voice is not None:
                self._chat = answer
                answer.spoken_share = lambda: voice.heard_characters / len(self._output.text) if self._output.text else 1.0
            while not answer.done:
                for event in await answer.receive():
                    await self._take(event, voice)

    async def _take(self, event: ChatEvent, voice: SpeakingSession | None) -> None:
        match event:
            case Delta(text=text, tool_calls=pieces):
                for piece in pieces:
                    self._calls.setdefault(piece.index, []).append(piece)
                self._finish_reason = event.finish_reason or self._finish_reason
                await self._send_text(text or event.refusal, voice)
            case Completion(usage=usage):
                self._usage = usage
                await self._take(as_delta(event), voice)
            case UsageReport(usage=usage):
                self._usage = usage
            case StreamError(code=code):
                model = self._conversation.language_model
                raise UpstreamProtocolError(provider=model, detail=f"an error inside the answer: {code}")

    async def _send_text(self, text: str, voice: SpeakingSession | None) -> None:
        if not text:
            return
        await self._send(*self._output.begin_message(), self._output.text_delta(text))
        if voice is not None:
            await voice.send_text(text)

    async def _send_audio(self, voice: SpeakingSession, spoken: SpokenAnswer, scope: trio.CancelScope) -> None:
        while not voice.done:
            for event in await voice.receive():
                if isinstance(event, AudioChunk) and (data := spoken.whole_samples(event.data)):
                    await self._send(self._output.audio_delta(b64encode(data).decode()))
                    spoken.sent(data)
        scope.cancel()

    async def _end_message(self, status: str) -> None:
        """End the message. The item keeps what was heard, or will be."""
        item, kept = self._output.item, self._output.text
        if self.spoken is not None:
            kept = self.spoken.end(kept, cut=self.scope.cancelled_caught)
        await self._send(*self._output.end_message(status, kept))
        if self.made_of.in_conversation and self.spoken is not None and self.scope.cancelled_caught:
            await self._send(self._conversation.realtime.frame("conversation.item.truncated", **truncation(item["id"], self.spoken)))

    async def _send_calls(self) -> None:
        for pieces in self._calls.values():
            joined = join_pieces(pieces)
            call_id = joined.id or self._conversation.realtime.new_id("call")
            await self._send(*self._output.call(call_id, joined.name, joined.arguments))

    async def _send(self, *frames: str) -> None:
        for frame in frames:
            await self._session.socket.send(frame)
