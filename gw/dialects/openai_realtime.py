"""OpenAI's realtime API, `WS /v1/realtime`: conversations and, with `intent=transcription`, transcription.

A transcription's client may name its model in the query or in its first `session.update`, so the handshake is answered first
and the upstream dialled with the first audio. The protocol has no last frame: a session ends by closing the socket.

A conversation (`model=STACK`) is held by any three models. A live session transcribes the audio. At the end of the speaker's
turn the language model is called, and its answer spoken as it comes. Speech during an answer interrupts it, if the session's
turn detection says so. `model` is the name of a stack; any other value means the default of each modality, or a language
model's id with the default transcription and voice.

=========  =============================  ===================================================================
Turn       Event                          Becomes
=========  =============================  ===================================================================
(none)     speech                         open: an item is started, a running response interrupted
open       interim or final transcript    open: deltas of the transcript
open       end of the utterance           (none): the item joins the conversation, a response starts
open       a final after a commit         (none): the item joins the conversation
=========  =============================  ===================================================================
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import trio

from gw.dialects import error_bodies, live_transcription
from gw.dialects.auth import query_fields
from gw.dialects.openai_response import Responder
from gw.dialects.websocket import SocketDialect, SocketHandler, WebSocketSession
from gw.errors import ClientProtocolError, GwError, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.relay.listening import ListeningSession
from gw.types.ids import Caller
from gw.types.stt import Final, Interim, ListenEvent, SpeechStarted, UtteranceEnd
from gw.wire.json_frames import Frame
from gw.wire.live_messages import Audio, ClientMessage, DirectReply
from gw.wire.openai_realtime_conversation import Members, RealtimeSession, checked_item, read_frame, user_item
from gw.wire.openai_realtime_server import TRANSCRIPTION, RealtimeListenServer, decode_audio

_SUBPROTOCOL = "realtime"
_EARLY_BYTES = 480_000  # audio kept before the client has named its model: ten seconds at 24 kHz
_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}
MAX_ITEMS = 1_000  # items of a conversation that are kept; the oldest are dropped first


def _error_frames(error: GwError, request_id: str) -> Sequence[Frame]:
    status = error_bodies.status_of(error)
    kind = _TYPES.get(status, "invalid_request_error" if status < 500 else "server_error")
    server = RealtimeListenServer(session_id=request_id)
    return [server.error(type=kind, code=error_bodies.code_of(error), message=error.message)]


DIALECT = SocketDialect(name="openai", error_frames=_error_frames)


async def realtime(session: WebSocketSession) -> None:
    fields = query_fields(session.scope.get("query_string", b""), (b"model", b"intent"))
    model = fields.get(b"model", b"").decode("utf-8", "replace")
    await session.accept(_SUBPROTOCOL if _SUBPROTOCOL in session.socket.offered else None)
    if fields.get(b"intent") != b"transcription":
        conversation = RealtimeSession(session.caller.request_id, model)
        await session.socket.send(conversation.about("session.created"))
        await _converse(session, conversation, model, await session.socket.receive())
        return
    server = RealtimeListenServer(session_id=session.caller.request_id, model=model)
    for frame in server.opening():
        await session.socket.send(frame)
    early = await _receive_until_audio(session, server)
    if early:
        assert server.request is not None
        await live_transcription.listen(session, server.request, server, early=early)


async def _receive_until_audio(session: WebSocketSession, server: RealtimeListenServer) -> Sequence[ClientMessage]:
    """Return the client's messages from the first audio on, once it has named its model; () if it leaves before.

    Some clients send audio while their `session.update` is still on its way: it is kept.
    """
    early: list[ClientMessage] = []
    early_bytes = 0
    while (frame := await session.socket.receive()) is not None:
        for message in server.receive(frame):
            if isinstance(message, DirectReply):
                await session.socket.send(message.frame)
            elif early or isinstance(message, Audio):
                early.append(message)
                early_bytes += len(message.data) if isinstance(message, Audio) else 0
        if early and server.request is not None:
            return early
        if early_bytes > _EARLY_BYTES:
            what = "send session.update with the model: ten seconds of audio came before it"
            raise ClientProtocolError(what=what, param="session")
    return ()


# ---- conversations


async def _converse(session: WebSocketSession, realtime: RealtimeSession, model: str, first: Frame | None) -> None:
    """Hold a conversation over a socket that has been greeted. `first` is the client's first frame."""
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
        is_stack = model in session.gateway.current.catalog.stacks
        self._model = model if is_stack else "default"
        self._language_model = model if is_stack or "/" in model else "default"
        self._items: list[Members] = []
        self._listening: ListeningSession | None = None
        self._responder: Responder | None = None
        self._turns = 0
        self._item = ""  # id of the user's item that is being spoken; "" for none
        self._text = ""  # text of the deltas sent since the last final transcript
        self._finals: list[str] = []
        self._committing = False

    async def run(self, frame: Frame | None) -> None:
        """Handle frames until the client leaves. A malformed one is answered with an error; the session goes on."""
        while frame is not None:
            try:
                await self._handle(read_frame(frame))
            except ClientProtocolError as error:
                await self._send(
                    self._realtime.error(type="invalid_request_error", code=error.code, message=error.message)
                )
            frame = await self._session.socket.receive()

    async def _send(self, *frames: str) -> None:
        for frame in frames:
            await self._session.socket.send(frame)

    # ---- the client's frames

    async def _handle(self, message: Members) -> None:
        realtime = self._realtime
        match message["type"]:
            case "session.update":
                realtime.update(message.get("session"))
                await self._send(realtime.about("session.updated"))
            case "input_audio_buffer.append":
                await self._append(decode_audio(message.get("audio") or ""))
            case "input_audio_buffer.commit":
                await self._commit()
            case "input_audio_buffer.clear":
                await self._send(realtime.frame("input_audio_buffer.cleared"))
            case "conversation.item.create":
                item = checked_item(message.get("item"), realtime.new_id("item"))
                await self._send(*realtime.item_added(item, self._keep(item)))
            case "conversation.item.delete":
                id_ = message.get("item_id")
                self._items = [item for item in self._items if item["id"] != id_]
                await self._send(realtime.frame("conversation.item.deleted", item_id=id_))
            case "conversation.item.truncate":
                members = {name: message.get(name) for name in ("item_id", "content_index", "audio_end_ms")}
                await self._send(realtime.frame("conversation.item.truncated", **members))
            case "response.create":
                options = message.get("response")
                self._respond(options if isinstance(options, dict) else {})
            case "response.cancel":
                self._interrupt("client_cancelled")
            case kind:
                raise ClientProtocolError(what=f"{kind!r} is not supported here", param="type")

    def _keep(self, item: Members) -> str | None:
        """Add an item; return the id of the one before it."""
        previous = self._items[-1]["id"] if self._items else None
        self._items.append(item)
        del self._items[:-MAX_ITEMS]
        return previous

    async def _append(self, data: bytes) -> None:
        if self._listening is None:
            await self._nursery.start(self._listen)
        assert self._listening is not None
        await self._listening.send_audio(data)

    async def _commit(self) -> None:
        if self._listening is None:
            raise ClientProtocolError(what="the input audio buffer is empty", param="input_audio_buffer_commit_empty")
        self._committing = True
        await self._listening.flush()

    # ---- transcription

    async def _listen(self, task_status: trio.TaskStatus[None]) -> None:
        """Transcribe while the socket is open. A failure ends the conversation."""
        session = self._session
        async with session.gateway.relay.listen(self._realtime.listen_request(self._model), session.caller) as live:
            self._listening = live
            task_status.started()
            while not live.done:
                events = await live.receive()
                for event in events:
                    await self._transcribed(event)

    async def _transcribed(self, event: ListenEvent) -> None:
        match event:
            case SpeechStarted(at_s=at_s):
                await self._start_turn(at_s)
            case Interim(text=text, start_s=start_s) if text:
                await self._start_turn(start_s)
                await self._delta(text)
            case Final(text=text, start_s=start_s, end_s=end_s) if text:
                await self._start_turn(start_s)
                await self._delta(text)
                self._finals.append(text)
                self._text = ""
                if self._committing:
                    await self._end_turn(end_s)
            case UtteranceEnd(at_s=at_s):
                await self._end_turn(at_s)

    async def _start_turn(self, at_s: float) -> None:
        if self._item:
            return
        self._item = self._realtime.new_id("item")
        started = {"item_id": self._item, "audio_start_ms": round(at_s * 1000)}
        await self._send(self._realtime.frame("input_audio_buffer.speech_started", **started))
        if self._realtime.turns.get("interrupt_response", True):
            self._interrupt("turn_detected")

    async def _delta(self, text: str) -> None:
        """Send a delta. Interims are rewritten, deltas append: one is sent only if the interim continues the text before."""
        if not text.startswith(self._text) or text == self._text:
            return
        delta, self._text = text[len(self._text) :], text
        members = {"item_id": self._item, "content_index": 0, "delta": delta}
        await self._send(self._realtime.frame(TRANSCRIPTION + "delta", **members))

    async def _end_turn(self, at_s: float) -> None:
        committed, self._committing = self._committing, False
        if not self._finals:
            return
        realtime, id_, text = self._realtime, self._item, " ".join(self._finals)
        self._item, self._text, self._finals = "", "", []
        item = user_item(id_, text)
        previous = self._keep(item)
        usage = {"type": "duration", "seconds": 0}
        if not committed:
            stopped = {"item_id": id_, "audio_end_ms": round(at_s * 1000)}
            await self._send(realtime.frame("input_audio_buffer.speech_stopped", **stopped))
        await self._send(
            realtime.frame("input_audio_buffer.committed", item_id=id_, previous_item_id=previous),
            *realtime.item_added(item, previous),
            realtime.frame(TRANSCRIPTION + "completed", item_id=id_, content_index=0, transcript=text, usage=usage),
        )
        if not committed and realtime.turns and realtime.turns.get("create_response", True):
            self._respond({})

    # ---- responses

    def _respond(self, options: Members) -> None:
        if self._responder is not None:
            raise ClientProtocolError(
                what="a response is in progress; cancel it first", param="conversation_already_has_active_response"
            )
        self._turns += 1
        responder = self._responder = Responder(
            self._session, self._realtime, self._keep, list(self._items), self._caller(), self._language_model
        )
        responder.voice, responder.spares = self._model, self._spares
        self._nursery.start_soon(self._run, responder, options)

    async def _run(self, responder: Responder, options: Members) -> None:
        try:
            await responder.run(options)
        finally:
            if self._responder is responder:
                self._responder = None

    def _interrupt(self, reason: str) -> None:
        if self._responder is not None:
            self._responder.cancel_reason = reason
            self._responder.scope.cancel()

    def _caller(self) -> Caller:
        """Return the caller with an id for the turn, which all its requests carry."""
        caller = self._session.caller
        turn = f"{caller.turn_id or caller.request_id}-{self._turns}"
        return msgspec.structs.replace(caller, turn_id=turn, session_id=caller.session_id or caller.request_id)


SOCKETS: dict[str, SocketHandler] = {"/v1/realtime": realtime}
