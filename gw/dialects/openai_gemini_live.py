"""A realtime conversation in OpenAI's protocol with one of Gemini's Live models, which speak another one: the events are translated.

    greeted -- audio to detect turns in, or a request for a response -->  open: a vendor is dialled, with the settings until then
    open    -- other settings, or the vendor's `goAway` -->               open: once nothing runs, another session resumes this one
    open    -- either side leaves, a limit, a failure -->                 closed

A vendor's session has its settings from its first frame on, and clients send theirs in events, so it is not opened before it is needed.
Each turn is admitted and recorded as in `gw.relay.conversing`; `gw.wire.gemini_realtime` has the translation.
"""

from __future__ import annotations

from typing import Any

import trio

from gw.dialects.openai_speech_to_speech import error_event
from gw.dialects.websocket import WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.registry import voice_choice
from gw.relay.conversing import ConversingSession
from gw.types.conversation import ConverseRequest
from gw.wire.gemini_realtime import GeminiConversation, Step
from gw.wire.json_frames import Frame, frame_text
from gw.wire.openai_realtime_conversation import read_frame

_VERSION = "v1beta"


async def hold(session: WebSocketSession, model: str, settings: dict[str, Any]) -> None:
    """Hold the conversation until the client leaves. `settings`: those of the client secret that opened it."""
    catalog = session.gateway.current.catalog
    first, *_ = session.gateway.relay.resolve(model, "llm", session.caller)

    def voice_of(voice: str) -> str:
        return voice_choice.voice_of(catalog, voice, first, first) or ""

    talk = GeminiConversation(session.caller.request_id, model, first.name, voice_of)
    await _Translation(session, model, talk).run(settings)


class _Translation:
    def __init__(self, session: WebSocketSession, model: str, talk: GeminiConversation) -> None:
        self._session = session
        self._model = model
        self._talk = talk
        self._live: ConversingSession

    async def run(self, settings: dict[str, Any]) -> None:
        """Greet the client, and handle its events until it leaves."""
        realtime = self._talk.realtime
        refused = realtime.update(settings) if settings else []
        await self._send([realtime.about("session.created"), *[realtime.refusal(error, None) for error in refused]])
        frame, step = await self._until_needed()
        if step is None:
            return
        request = ConverseRequest(model=self._model, dialect="gemini", version=_VERSION, setup=self._talk.setup())
        async with self._session.gateway.relay.converse(request, self._session.caller) as live:
            self._live = live
            self._session.socket.busy_while(lambda: live.is_busy)
            for opening in live.opening:
                await self._send(self._talk.received(live.provider_id, opening))
            with one_error():
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._pass_on, frame, step, nursery.cancel_scope)
                    await self._answer()
                    nursery.cancel_scope.cancel()
        await self._session.socket.close()

    async def _send(self, frames: list[str]) -> None:
        for frame in frames:
            await self._session.socket.send(frame)

    # ---- the client

    async def _until_needed(self) -> tuple[str, Step | None]:
        """Handle events until one needs the vendor; return that one. No step: the client has left."""
        while (frame := await self._session.socket.receive()) is not None:
            step = await self._read(frame_text(frame))
            if step is not None and (step.frames or step.begins_turn):
                return frame_text(frame), step
        return "", None

    async def _read(self, frame: str) -> Step | None:
        """Handle an event, and send what answers it. One at fault is answered with an error event; the session goes on."""
        try:
            step = self._talk.handle(read_frame(frame))
        except ClientProtocolError as error:
            await self._send([error_event(self._talk.realtime, frame, error)])
            return None
        await self._send(step.replies)
        return step

    async def _pass_on(self, frame: str, step: Step | None, scope: trio.CancelScope) -> None:
        """Pass on the client's events until it leaves."""
        self._note()
        await self._pass(self._talk.opened())
        while True:
            if step is not None:
                await self._take(frame, step)
            received = await self._session.socket.receive()
            if received is None:
                break
            frame = frame_text(received)
            step = await self._read(frame)
            self._note()
            await self._reopen()
        scope.cancel()

    async def _take(self, frame: str, step: Step) -> None:
        if step.begins_turn:
            try:
                await self._live.expect_response()
            except GwError as error:
                self._talk.refused()
                await self._send([error_event(self._talk.realtime, frame, error)])
                return
        await self._send(step.announced)
        await self._pass(step.frames)
        await self._pass(self._talk.due())

    async def _pass(self, frames: list[Frame]) -> None:
        for frame in frames:
            await self._live.send(frame)

    def _note(self) -> None:
        self._live.ignored, self._live.voice = self._talk.ignored, self._talk.voice

    # ---- the vendor

    async def _answer(self) -> None:
        """Send the client what the vendor says, until it leaves for good."""
        talk, live = self._talk, self._live
        while (frame := await live.receive()) is not None:
            await self._send(talk.received(live.provider_id, frame))
            self._note()
            if not await self._reopen():
                await self._pass(talk.due())

    async def _reopen(self) -> bool:
        """Have another session resume this one, where that is due; return whether it was."""
        due = self._talk.is_due_anew
        if due:
            await self._live.reopen([self._talk.setup(), *self._talk.opened()])
        return due
