"""OpenAI's realtime API, conversations: `WS /v1/realtime?model=STACK`, held by any three models.

What is heard is transcribed by a live session; where the speaker's turn ends, the language model is asked and its answer
spoken as it comes. Speech during an answer interrupts it, as the session's turn detection says. `model` is the name of a stack;
any other means the default of each modality, or a language model's id with the default ears and voice.
"""

from __future__ import annotations

from functools import partial

import msgspec
import trio

from gw.dialects.openai_response import Responder
from gw.dialects.websocket import Frame, WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.relay.listening import ListeningSession
from gw.types.caller import Caller
from gw.types.stt import Final, Interim, ListenEvent, SpeechStarted, UtteranceEnd
from gw.wire.openai_realtime_conversation import Members, RealtimeSession, checked_item, read_frame, user_item
from gw.wire.openai_realtime_server import decode_audio

_TRANSCRIPTION = "conversation.item.input_audio_transcription."
MOST_ITEMS = 1_000
"""Of a conversation that are kept; the oldest go first."""


async def converse(session: WebSocketSession, realtime: RealtimeSession, model: str, first: Frame | None) -> None:
    """Hold a conversation over a socket that was greeted already. `first` is the client's first frame."""
    with one_error():
        async with trio.open_nursery() as nursery:
            await _Conversation(session, realtime, model, nursery).run(first)
            nursery.cancel_scope.cancel()


class _Conversation:
    def __init__(self, session: WebSocketSession, realtime: RealtimeSession, model: str, nursery: trio.Nursery) -> None:
        self._session = session
        self._realtime = realtime
        self._nursery = nursery
        self._spares = PrewarmedSockets(nursery)
        catalog = session.gateway.live.catalog
        stack = model in catalog.stacks
        self._model = model if stack else "default"
        self._mind = model if stack or "/" in model else "default"
        """The language model, which may be named by itself."""
        self._items: list[Members] = []
        self._ears: ListeningSession | None = None
        self._response: Responder | None = None
        self._turns = 0
        self._item = ""
        """The user's item that is being spoken; "" for none."""
        self._said = ""
        self._finals: list[str] = []
        self._committing = False

    async def run(self, frame: Frame | None) -> None:
        """Until the client leaves."""
        while frame is not None:
            try:
                await self._take(read_frame(frame))
            except ClientProtocolError as error:  # of one frame; the session goes on
                await self._tell_error(error)
            frame = await self._session.socket.receive()

    async def _tell_error(self, error: GwError) -> None:
        told = self._realtime.error(type="invalid_request_error", code=error.code, message=error.message)
        await self._session.socket.send(told)

    async def _send(self, *frames: str) -> None:
        for frame in frames:
            await self._session.socket.send(frame)

    # ---- what the client says

    async def _take(self, told: Members) -> None:
        realtime = self._realtime
        match told["type"]:
            case "session.update":
                settings = told.get("session")
                if not isinstance(settings, dict):
                    raise ClientProtocolError(what="session is missing", param="session")
                realtime.update(settings)
                await self._send(realtime.about("session.updated"))
            case "input_audio_buffer.append":
                await self._hear(decode_audio(told.get("audio") or ""))
            case "input_audio_buffer.commit":
                await self._commit()
            case "input_audio_buffer.clear":
                await self._send(realtime.frame("input_audio_buffer.cleared"))
            case "conversation.item.create":
                item = checked_item(told.get("item"), realtime.new_id("item"))
                await self._send(*realtime.item_added(item, self._keep(item)))
            case "conversation.item.delete":
                id_ = told.get("item_id")
                self._items = [item for item in self._items if item["id"] != id_]
                await self._send(realtime.frame("conversation.item.deleted", item_id=id_))
            case "conversation.item.truncate":
                await self._truncate(told)
            case "response.create":
                asked = told.get("response")
                await self._respond(asked if isinstance(asked, dict) else {})
            case "response.cancel":
                self._interrupt("client_cancelled")
            case _:
                raise ClientProtocolError(what=f"{told['type']!r} is not understood here", param="type")

    def _keep(self, item: Members) -> str | None:
        before = self._items[-1]["id"] if self._items else None
        self._items.append(item)
        del self._items[:-MOST_ITEMS]
        return before

    async def _truncate(self, told: Members) -> None:
        """The listener heard an answer up to here; what follows was never said."""
        members = {name: told.get(name) for name in ("item_id", "content_index", "audio_end_ms")}
        await self._send(self._realtime.frame("conversation.item.truncated", **members))

    async def _hear(self, data: bytes) -> None:
        if self._ears is None:
            await self._nursery.start(self._listen)
        assert self._ears is not None
        await self._ears.send_audio(data)

    async def _commit(self) -> None:
        if self._ears is None:
            raise ClientProtocolError(what="the input audio buffer is empty", param="input_audio_buffer_commit_empty")
        self._committing = True
        await self._ears.flush()

    # ---- what is heard

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        """The session that transcribes, as long as the socket is open. Its failure ends the conversation."""
        session = self._session
        async with session.gateway.relay.listen(self._realtime.listen_request(self._model), session.caller) as live:
            self._ears = live
            task_status.started()
            while not live.done:
                events = await live.receive()
                for event in events:
                    await self._heard(event)

    async def _heard(self, event: ListenEvent) -> None:
        match event:
            case SpeechStarted(at_s=at_s):
                await self._begin(at_s)
            case Interim(text=text, start_s=start_s) if text:
                await self._begin(start_s)
                await self._delta(text)
            case Final(text=text, start_s=start_s, end_s=end_s) if text:
                await self._begin(start_s)
                await self._delta(text)
                self._finals.append(text)
                self._said = ""
                if self._committing:
                    await self._end(end_s)
            case UtteranceEnd(at_s=at_s):
                await self._end(at_s)

    async def _begin(self, at_s: float) -> None:
        if self._item:
            return
        self._item = self._realtime.new_id("item")
        started = {"item_id": self._item, "audio_start_ms": round(at_s * 1000)}
        await self._send(self._realtime.frame("input_audio_buffer.speech_started", **started))
        if self._realtime.turns.get("interrupt_response", True):
            self._interrupt("turn_detected")

    async def _delta(self, text: str) -> None:
        """Interims are rewritten, deltas append: one goes out as long as the interim continues what was said."""
        if not text.startswith(self._said) or text == self._said:
            return
        delta, self._said = text[len(self._said) :], text
        told = {"item_id": self._item, "content_index": 0, "delta": delta}
        await self._send(self._realtime.frame(_TRANSCRIPTION + "delta", **told))

    async def _end(self, at_s: float) -> None:
        """The speaker's turn is over."""
        committed, self._committing = self._committing, False
        if not self._finals:
            return
        realtime, id_, text = self._realtime, self._item, " ".join(self._finals)
        self._item, self._said, self._finals = "", "", []
        item = user_item(id_, text)
        before = self._keep(item)
        usage = {"type": "duration", "seconds": 0}
        if not committed:
            stopped = {"item_id": id_, "audio_end_ms": round(at_s * 1000)}
            await self._send(realtime.frame("input_audio_buffer.speech_stopped", **stopped))
        await self._send(
            realtime.frame("input_audio_buffer.committed", item_id=id_, previous_item_id=before),
            *realtime.item_added(item, before),
            realtime.frame(_TRANSCRIPTION + "completed", item_id=id_, content_index=0, transcript=text, usage=usage),
        )
        if not committed and realtime.turns.get("create_response", True) and realtime.turns:
            await self._respond({})

    # ---- what is answered

    async def _respond(self, asked: Members) -> None:
        if self._response is not None:
            raise ClientProtocolError(
                what="a response is under way; cancel it first", param="conversation_already_has_active_response"
            )
        self._turns += 1
        responder = self._response = Responder(
            self._session, self._realtime, self._keep, list(self._items), self._caller(), self._mind
        )
        responder.voice, responder.spares = self._model, self._spares
        self._nursery.start_soon(partial(self._answer, responder, asked))

    async def _answer(self, responder: Responder, asked: Members) -> None:
        try:
            await responder.run(asked)
        finally:
            if self._response is responder:
                self._response = None

    def _interrupt(self, why: str) -> None:
        if self._response is not None:
            self._response.why = why
            self._response.scope.cancel()

    def _caller(self) -> Caller:
        """The requests of one turn carry one id."""
        caller = self._session.caller
        turn = f"{caller.turn_id or caller.request_id}-{self._turns}"
        return msgspec.structs.replace(caller, turn_id=turn, session_id=caller.session_id or caller.request_id)
