"""A realtime conversation (`WS /v1/realtime?model=STACK`), held by any three models.

A live session transcribes the audio (`openai_turns`). At the end of the user's turn the language model is called, and its
answer spoken as it comes (`openai_response`). `model` is the name of a stack; any other value means the default of each
modality, or a language model's id with the default transcription and voice.

One response at a time writes to the conversation. Another one that is requested meanwhile is refused, as OpenAI does, unless
the first has just been cancelled: then it waits for its end. Responses outside the conversation run beside it.

    idle       -- a turn ends, or the client asks -->  responding
    responding -- the response ends -->                idle
    responding -- the user speaks, or cancels -->      ending: the response is cut at the word that was heard last
    ending     -- a turn ends, or the client asks -->  responding, as soon as the response has ended
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

import msgspec
import trio

from gw.dialects.openai_response import Responder, truncation
from gw.dialects.openai_spoken import SpokenAnswer
from gw.dialects.openai_turns import UserTurns
from gw.dialects.websocket import WebSocketSession
from gw.errors import ClientProtocolError, UnknownNameError, UnsupportedSetting, one_error
from gw.net.prewarm import PrewarmedSockets
from gw.providers.spec import spec_of
from gw.types.ids import Caller
from gw.wire.openai_realtime_conversation import RealtimeSession, ResponseSettings, read_frame
from gw.wire.openai_realtime_items import checked_item, image_path, length, missing_item, truncatable, within_limit
from gw.wire.openai_realtime_server import EventRefused, decode_audio
from gw.wire.openai_realtime_settings import Members, Unsupported, invalid, unsupported

MAX_ITEMS = 1_000  # items of a conversation that are kept; the oldest are dropped first
MAX_CHARACTERS = 32_000_000  # of all items that a client may add: images in base64 are long
MAX_SPOKEN = 16  # answers of which is known at what time of the audio each word is spoken
MAX_BESIDE = 8  # responses at once outside the conversation


TRANSCRIPTION_PATH = "session.audio.input.transcription"
_TRANSCRIPTION_NAMES = {"keyterms": "keywords"}  # where OpenAI's name is another one


async def converse(session: WebSocketSession, model: str, settings: Members | None = None) -> None:
    """Hold a conversation over a socket that has been accepted. `settings`: those of the client secret that opened it."""
    catalog = session.gateway.current.catalog
    is_stack = model in catalog.stacks
    stack = model if is_stack else "default"
    with one_error():
        async with trio.open_nursery() as nursery:
            realtime = RealtimeSession(session.caller.request_id, model, stack)
            conversation = RealtimeConversation(session, realtime, nursery, stack)
            conversation.language_model = model if is_stack or "/" in model else "default"
            try:
                await conversation.run(settings)
            finally:
                conversation.spares.replaces = False  # nobody is left to speak to
            nursery.cancel_scope.cancel()


class RealtimeConversation:
    def __init__(self, session: WebSocketSession, realtime: RealtimeSession, nursery: trio.Nursery, stack: str) -> None:
        self.session = session
        self.realtime = realtime
        self.nursery = nursery
        self.spares = PrewarmedSockets(nursery)
        self.language_model = self.voice_model = stack
        self._turns = UserTurns(self, stack)
        self._items: list[Members] = []
        self._left_out = ""  # id of the last item that is too old for the language model
        self._spoken: dict[str, SpokenAnswer] = {}  # by the id of the item, in the order of the answers
        self._responder: Responder | None = None
        self._beside: dict[str, Responder] = {}  # responses outside the conversation, by id
        self._answers = 0
        self._idle = trio.CancelScope()  # of the wait for a user who says nothing

    async def run(self, settings: Members | None) -> None:
        """Greet the client and handle its events until it leaves. One at fault is answered with an error; the session goes on."""
        self.session.socket.busy_while(lambda: self._responder is not None or bool(self._beside) or self._turns.is_open)
        refused = self._apply_first(settings) if settings else []
        await self.send(
            self.realtime.about("session.created"), *[self.realtime.refusal(error, None) for error in refused]
        )
        while (frame := await self.session.socket.receive()) is not None:
            message: Members = {}
            try:
                message = read_frame(frame)
                await self._handle(message)
            except ClientProtocolError as error:
                event_id = message.get("event_id")
                await self.send(self.realtime.refusal(error, event_id if isinstance(event_id, str) else None))

    async def send(self, *frames: str) -> None:
        for frame in frames:
            await self.session.socket.send(frame)

    # ---- the client's events

    async def _handle(self, message: Members) -> None:
        match message["type"]:
            case "session.update":
                await self._update(message)
            case "input_audio_buffer.append":
                await self._turns.append(decode_audio(message.get("audio") or ""))
            case "input_audio_buffer.commit":
                await self._turns.commit()
            case "input_audio_buffer.clear":
                await self._turns.clear()
            case "conversation.item.create":
                await self._create(message)
            case "conversation.item.retrieve":
                item = self._find(message.get("item_id"))
                if item is None:
                    raise missing_item("retrieve", message.get("item_id"))
                await self.send(self.realtime.frame("conversation.item.retrieved", item=item))
            case "conversation.item.delete":
                await self._delete(message.get("item_id"))
            case "conversation.item.truncate":
                await self._truncate(message)
            case "response.create":
                self._respond(self.realtime.response_settings(message.get("response")))
            case "response.cancel":
                self._cancel(message.get("response_id"))
            case "output_audio_buffer.clear":
                raise invalid(
                    "type", "output_audio_buffer.clear is for WebRTC and SIP; truncate the item and cancel the response"
                )
            case kind:
                raise EventRefused(what=f"Invalid value: '{kind}' is not an event of a realtime client", param="type")

    def _apply_first(self, settings: Members) -> Sequence[ClientProtocolError]:
        """Apply the settings of a client secret; return those that are refused: the models may have changed since it was made."""
        try:
            return self._apply(settings)
        except ClientProtocolError as error:
            return [error]

    def _apply(self, settings: object) -> list[EventRefused]:
        """Change the settings; return those that are not done. Raises ClientProtocolError, and then changes nothing."""
        before = self.realtime.settings
        refused = self.realtime.update(settings)
        try:
            self.session.gateway.relay.refuse_unsupported(self._turns.listen_request(), self.session.caller)
        except UnknownNameError as error:
            self.realtime.settings = before
            raise invalid(f"{TRANSCRIPTION_PATH}.model", error.message) from None
        except UnsupportedSetting as error:
            refused += self._take_back(before, error)
        self._turns.settings_changed()
        return refused

    async def _update(self, message: Members) -> None:
        refused = self._apply(message.get("session"))
        event_id = message.get("event_id")
        await self.send(
            *[self.realtime.refusal(error, event_id if isinstance(event_id, str) else None) for error in refused],
            self.realtime.about("session.updated"),
        )

    def _take_back(self, before: Members, error: UnsupportedSetting) -> list[Unsupported]:
        """Restore settings that no transcription model of the conversation honours; return their refusals."""
        transcription, old = self.realtime.transcription or {}, before["audio"]["input"]["transcription"] or {}
        names = [_TRANSCRIPTION_NAMES.get(name, name) for name in error.settings]
        names = ["languages" if name == "language" and transcription.get("languages") else name for name in names]
        for name in names:
            transcription[name] = old.get(name)
        return [unsupported(f"{TRANSCRIPTION_PATH}.{name}", error.message) for name in names]

    # ---- items

    def _find(self, id_: object) -> Members | None:
        return next((item for item in self._items if item["id"] == id_), None)

    def keep(self, item: Members, at: int | None = None) -> str | None:
        """Add an item, at the end unless a place is given; return the id of the one before it."""
        at = len(self._items) if at is None else at
        previous: str | None = self._items[at - 1]["id"] if at else None
        self._items.insert(at, item)
        while len(self._items) > MAX_ITEMS:
            self._spoken.pop(self._items.pop(0)["id"], None)
        return previous

    def spoken(self, item_id: str, spoken: SpokenAnswer) -> None:
        self._spoken[item_id] = spoken
        for old in list(self._spoken.values())[:-MAX_SPOKEN]:
            old.forget_voice()

    @property
    def _first(self) -> int:
        """Index of the first item that responses are about."""
        return next((n + 1 for n, item in enumerate(self._items) if item["id"] == self._left_out), 0)

    def leave_out_before(self, item: Members) -> None:
        at = self._items.index(item) if item in self._items else 0
        self._left_out = self._items[at - 1]["id"] if at else self._left_out

    async def _create(self, message: Members) -> None:
        item = checked_item(message.get("item"), self.realtime.new_id("item"))
        if self._find(item["id"]) is not None:
            raise invalid("item.id", f"the conversation has an item {item['id']!r} already")
        self._require_sight(item, "item")
        if sum(map(length, self._items)) + length(item) > MAX_CHARACTERS:
            what = f"the items of a conversation have at most {MAX_CHARACTERS} characters; delete some first"
            raise EventRefused(what=what, param="item")
        after, at = message.get("previous_item_id"), None
        if after == "root":
            at = 0
        elif after:
            place = self._find(after)
            if place is None:
                raise invalid("previous_item_id", f"the conversation has no item {after!r}")
            at = self._items.index(place) + 1
        await self.send(*self.realtime.item_added(item, self.keep(item, at)))

    def _require_sight(self, item: Members, path: str) -> None:
        """Refuse an image that none of the conversation's language models can see."""
        image = image_path(item, path)
        if image is None:
            return
        catalog = self.session.gateway.current.catalog
        try:
            models = self.session.gateway.relay.resolve(self.language_model, "llm", self.session.caller)
        except UnknownNameError as error:
            raise invalid(image, error.message) from None
        if not any("vision" in spec_of(catalog.provider(model.provider).type).abilities for model in models):
            what = f"Unsupported parameter: '{image}': the language model {models[0].id} does not take images"
            raise Unsupported(what=what, param=image)

    async def _delete(self, id_: object) -> None:
        item = self._find(id_)
        if item is None:
            raise missing_item("delete", id_)
        self._items.remove(item)
        self._spoken.pop(item["id"], None)
        await self.send(self.realtime.frame("conversation.item.deleted", item_id=id_))

    async def _truncate(self, message: Members) -> None:
        """Cut an answer where the client stopped to play it."""
        end_ms = message.get("audio_end_ms")
        if type(end_ms) is not int or end_ms < 0:
            raise invalid("audio_end_ms", "a whole number of milliseconds is expected")
        if message.get("content_index", 0) != 0:
            raise invalid("content_index", "0 is expected: an answer has one part")
        item = truncatable(self._find(message.get("item_id")), message.get("item_id"))
        spoken = self._spoken[item["id"]]
        heard = spoken.truncate(end_ms)
        if heard is not None:
            item["content"][0]["transcript"] = heard
        await self.send(self.realtime.frame("conversation.item.truncated", **truncation(item["id"], spoken)))

    # ---- the user's turns

    async def speech_began(self) -> None:
        """Stop the answer that the user speaks over, or what the client still plays of it."""
        self._idle.cancel()
        if not self.realtime.turns.get("interrupt_response", True):
            return
        if self._responder is not None:
            self._interrupt(self._responder, "turn_detected")
            return
        id_, spoken = next(reversed(self._spoken.items()), (None, None))
        if id_ is None or spoken is None or not spoken.remaining_s or (item := self._find(id_)) is None:
            return
        item["content"][0]["transcript"] = spoken.interrupt()
        await self.send(self.realtime.frame("conversation.item.truncated", **truncation(id_, spoken)))

    async def turn_ended(self) -> None:
        if not self.realtime.turns.get("create_response", True):
            return
        try:
            self._respond(self.realtime.response_settings(None))
        except EventRefused as error:  # a response goes on that the turn did not interrupt
            await self.send(self.realtime.refusal(error, None))

    async def _wait_for_speech(self, idle_s: float, spoken: SpokenAnswer | None, scope: trio.CancelScope) -> None:
        """Have the model go on when the user says nothing for a while after an answer was played."""
        with scope:
            await trio.sleep(spoken.remaining_s if spoken is not None else 0.0)
            since_s = self._turns.appended_s
            await trio.sleep(idle_s)
        if not scope.cancelled_caught:
            await self._turns.time_out(since_s)

    # ---- responses

    def _respond(self, made_of: ResponseSettings) -> None:
        """Start a response. Raises EventRefused."""
        context = self._context(made_of)
        before = self._responder
        if not made_of.in_conversation:
            if len(self._beside) >= MAX_BESIDE:
                raise EventRefused(
                    what=f"{MAX_BESIDE} responses are in progress outside the conversation; wait for one to end"
                )
        elif before is not None and not before.scope.cancel_called:
            what = (
                f"Conversation already has an active response in progress: {before.id}. "
                "Wait until the response is finished before creating a new one."
            )
            raise EventRefused(what=what, event_code="conversation_already_has_active_response")
        self._answers += 1
        self._idle.cancel()
        responder = Responder(self, made_of, self._caller())
        if made_of.in_conversation:
            self._responder = responder
        else:
            self._beside[responder.id] = responder
        self.nursery.start_soon(self._run, responder, context, before if made_of.in_conversation else None)

    def _context(self, made_of: ResponseSettings) -> Callable[[], Awaitable[list[Members]]]:
        """Return a function that waits for the words that the response needs and returns its items. Raises EventRefused."""
        given: list[Members] | None = None
        if made_of.input is not None:
            given = [self._input_item(item, f"response.input[{n}]") for n, item in enumerate(made_of.input)]
        transcribed = self._turns.pending()

        async def context() -> list[Members]:
            await transcribed()
            if given is not None:
                return given
            items = within_limit(self._items[self._first :], made_of.settings["truncation"])
            if items:
                self.leave_out_before(items[0])
            return items

        return context

    def _input_item(self, item: object, path: str) -> Members:
        if isinstance(item, dict) and item.get("type") == "item_reference":
            result = self._find(item.get("id"))
            if result is None:
                raise invalid(f"{path}.id", f"the conversation has no item {item.get('id')!r}")
            return result
        made = checked_item(item, self.realtime.new_id("item"), path)
        self._require_sight(made, path)
        return made

    async def _run(
        self, responder: Responder, context: Callable[[], Awaitable[list[Members]]], before: Responder | None
    ) -> None:
        if before is not None:
            await before.ended.wait()
        try:
            await responder.run(context)
        finally:
            responder.ended.set()
            self._beside.pop(responder.id, None)
            if self._responder is responder:
                self._responder = None
                self._await_speech(responder)

    def _await_speech(self, responder: Responder) -> None:
        idle_ms = self.realtime.turns.get("idle_timeout_ms")
        if idle_ms is not None and responder.completed:
            self._idle = scope = trio.CancelScope()
            self.nursery.start_soon(self._wait_for_speech, idle_ms / 1000, responder.spoken, scope)

    def _cancel(self, id_: object) -> None:
        """Cancel the response with this id, or that in the conversation. Raises EventRefused."""
        running = self._responder
        responder = (
            running if id_ is None or (running is not None and running.id == id_) else self._beside.get(str(id_))
        )
        if responder is None or responder.scope.cancel_called:
            what = "Cancellation failed: no active response found"
            raise EventRefused(what=what, event_code="response_cancel_not_active")
        self._interrupt(responder, "client_cancelled")

    def _interrupt(self, responder: Responder, reason: str) -> None:
        if not responder.scope.cancel_called:
            responder.cancel_reason = reason
            responder.scope.cancel()

    def _caller(self) -> Caller:
        """Return the caller with an id for the turn, which all its requests carry."""
        caller = self.session.caller
        return msgspec.structs.replace(self.caller(), turn_id=f"{caller.turn_id or caller.request_id}-{self._answers}")

    def caller(self) -> Caller:
        """Return the caller with the id of the conversation as its session."""
        caller, group = self.session.caller, self.realtime.settings["tracing"]
        named = group.get("group_id") if isinstance(group, dict) else None
        return msgspec.structs.replace(caller, session_id=caller.session_id or named or caller.request_id)
