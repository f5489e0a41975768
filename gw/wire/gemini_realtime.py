"""A conversation of OpenAI's realtime API that one of Gemini's Live models holds: the client's events, and what they are for the vendor.

A Live model answers the end of a turn by itself, and nearly everything that it is sent interrupts it. So what a client adds to the
conversation waits here until a response is requested:

- messages, until then or until the model is idle; from Gemini 3 on, only what is there at the beginning can be added without an answer;
- results of functions, until then: a model that waits for them goes on at once;
- audio where `turn_detection` is null, until it is committed, and then until a response is requested.

Where the vendor detects the turns, audio is sent on as it comes.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from gw.types.audio import PCM_16K
from gw.wire.convert import Converter, converter
from gw.wire.gemini_live import INTERRUPTION, takes_content
from gw.wire.gemini_live_functions import version_of
from gw.wire.gemini_realtime_answers import LiveAnswers
from gw.wire.gemini_realtime_items import (
    STREAM_END,
    audio_frame,
    content_frame,
    live_input,
    result_frame,
    spoken_input,
    turns_of,
)
from gw.wire.gemini_realtime_settings import GeminiRealtimeSession
from gw.wire.gemini_realtime_turns import CallerTurns
from gw.wire.json_frames import Frame
from gw.wire.openai_realtime_conversation import ResponseSettings
from gw.wire.openai_realtime_items import checked_item, length, missing_item, truncatable
from gw.wire.openai_realtime_server import COMMIT_EMPTY, EventRefused, decode_audio
from gw.wire.openai_realtime_settings import Members, invalid, unsupported

MAX_ITEMS = 1_000  # items that a client can retrieve; the oldest are dropped first
MAX_CHARACTERS = 32_000_000  # of the messages that wait: images in base64 are long
MAX_BUFFERED_S = 600.0  # of audio that waits for a response: 19 MB
LEAST_S = 0.1  # a client cannot commit less audio


class Step(msgspec.Struct, kw_only=True):
    """The consequences of a client's event, in this order."""

    replies: list[str] = []
    begins_turn: bool = False
    """Whether the model is to begin a turn, which has to be admitted."""
    announced: list[str] = []
    """Events for the client once it is."""
    frames: list[Frame] = []
    """For the vendor, whose session has to be open then."""


class GeminiConversation:
    def __init__(self, session_id: str, model: str, name: str, voice_of: Callable[[str], str]) -> None:
        """`model`: as the client knows it; `name`: the vendor's; `voice_of`: see `GeminiRealtimeSession.setup`."""
        self.realtime = GeminiRealtimeSession(session_id, model)
        self.turns = CallerTurns(self.realtime, self._keep)
        self.answers = LiveAnswers(self.realtime, self.turns, self._keep)
        self._ignored: tuple[str, ...] = ()
        self._ignored_events: dict[str, None] = {}
        self._name = name
        self._voice_of = voice_of
        self._items: list[Members] = []
        self._pending: list[Members | bytes] = []
        """Messages and committed audio that the vendor was not sent, in order."""
        self._requested: list[Members | bytes] = []
        """The part of it that the last request for a response took."""
        self._requested_results: list[tuple[str | None, str, str]] = []
        self._history: list[Members] = []
        """The messages with which the session begins."""
        self._buffer = bytearray()
        self._converter: Converter | None = None
        self._format = self.realtime.input_format
        self._setup = ""
        self._has_changed = False
        """Whether the settings are others than those of the vendor's session."""
        self._has_sent = False
        """Whether the vendor was sent anything but settings."""

    # ---- the vendor's session

    def setup(self) -> str:
        """Return the first frame of the session, or of the one that resumes it."""
        self._history = self._messages if not self._setup and version_of(self._name) >= (3, 0) else []
        frame, self._ignored = self.realtime.setup(
            self._name, self._voice_of, handle=self.answers.handle, history=bool(self._history)
        )
        self._setup, self._has_changed = self._settings, False
        return frame

    @property
    def voice(self) -> str | None:
        """Return the vendor's voice; None where it is the client's own."""
        voice = self._voice_of(self.realtime.voice)
        return None if voice == self.realtime.voice else voice

    @property
    def ignored(self) -> tuple[str, ...]:
        """Return the settings in force, and the events, that the vendor cannot take."""
        return tuple(dict.fromkeys((*self._ignored, *self._ignored_events, *self.answers.ignored)))

    @property
    def _settings(self) -> str:
        return self.realtime.setup(self._name, self._voice_of)[0]

    @property
    def is_due_anew(self) -> bool:
        """Return whether the session should be opened anew now: the settings have changed, or the vendor ends it soon."""
        if not self.answers.is_idle or self.turns.is_open or (self._has_sent and not self.answers.handle):
            return False
        return self.answers.goes_away or self._has_changed

    def opened(self) -> list[Frame]:
        """Return the first frames behind the setup of a new session."""
        self.turns.base_s = self.turns.appended_s
        self.answers.goes_away = False
        history, self._history = self._history, []
        if not history:
            return []
        self._pending = [each for each in self._pending if isinstance(each, bytes)]
        self._has_sent = True
        return [content_frame(turns_of(history, answered=False), complete=True)]

    @property
    def _messages(self) -> list[Members]:
        return [each for each in self._pending if not isinstance(each, bytes)]

    def due(self) -> list[Frame]:
        """Return the messages that an idle model can be sent without an answer."""
        messages = self._messages
        if not messages or version_of(self._name) >= (3, 0) or not self.answers.is_idle or self.turns.is_open or not self.realtime.turns:
            return []
        self._pending.clear()
        self._has_sent = True
        return [content_frame(turns_of(messages), complete=False)]

    def received(self, provider: str, frame: Frame) -> list[str]:
        """Return the events of a frame of the vendor. Raises UpstreamProtocolError."""
        return self.answers.received(provider, frame)

    # ---- the client's events

    def handle(self, message: Members) -> Step:
        """Raises ClientProtocolError."""
        match message["type"]:
            case "session.update":
                return self._update(message)
            case "input_audio_buffer.append":
                return self._append(message)
            case "input_audio_buffer.commit":
                return self._commit()
            case "input_audio_buffer.clear":
                self._buffer.clear()
                return Step(replies=[self.realtime.frame("input_audio_buffer.cleared")])
            case "conversation.item.create":
                return self._create(message)
            case "conversation.item.retrieve":
                item = self._find(message.get("item_id"))
                if item is None:
                    raise missing_item("retrieve", message.get("item_id"))
                return Step(replies=[self.realtime.frame("conversation.item.retrieved", item=item)])
            case "conversation.item.truncate":
                return self._truncate(message)
            case "conversation.item.delete":
                if self._find(message.get("item_id")) is None:
                    raise missing_item("delete", message.get("item_id"))
                raise unsupported("type", "a Live model cannot forget a part of the conversation")
            case "response.create":
                return self._respond(self.realtime.response_settings(message.get("response")))
            case "response.cancel":
                return self._cancel(message.get("response_id"))
            case kind:
                raise EventRefused(what=f"Invalid value: '{kind}' is not an event of a realtime client", param="type")

    def _update(self, message: Members) -> Step:
        refused = self.realtime.update(message.get("session"))
        self._has_changed = bool(self._setup) and self._settings != self._setup
        event_id = message.get("event_id")
        id_ = event_id if isinstance(event_id, str) else None
        return Step(replies=[*[self.realtime.refusal(error, id_) for error in refused], self.realtime.about("session.updated")])

    def _append(self, message: Members) -> Step:
        pcm = self._converted(decode_audio(message.get("audio") or ""))
        if self.realtime.turns:
            self.turns.appended_s += PCM_16K.seconds(len(pcm))
            self.turns.unanswered = self._has_sent = True
            return Step(frames=[audio_frame(pcm)]) if pcm else Step()
        waiting = len(self._buffer) + sum(len(each) for each in self._pending if isinstance(each, bytes))
        if PCM_16K.seconds(waiting + len(pcm)) > MAX_BUFFERED_S:
            raise EventRefused(what=f"at most {MAX_BUFFERED_S:g} seconds of audio can wait for a response", param="audio")
        self._buffer += pcm
        return Step()

    def _converted(self, data: bytes) -> bytes:
        """Return audio of the client's format as the vendor takes it, at 16 kHz."""
        if self._converter is None or self._format != self.realtime.input_format:
            self._format = self.realtime.input_format
            self._converter = converter(self._format, PCM_16K)
        return self._converter.feed(data) if self._converter is not None else data

    def _commit(self) -> Step:
        if self.realtime.turns:
            if not self.turns.is_open and (self.turns.awaits_answer or not self.turns.unanswered):
                raise EventRefused(what="the input audio buffer is empty", event_code=COMMIT_EMPTY)
            return Step(replies=self.turns.end(), frames=[STREAM_END])
        seconds = PCM_16K.seconds(len(self._buffer))
        if seconds < LEAST_S:
            what = f"the input audio buffer has {seconds * 1000:.0f} ms of audio, and at least {LEAST_S * 1000:g} ms are expected"
            raise EventRefused(what=what, event_code=COMMIT_EMPTY)
        self._pending.append(bytes(self._buffer))
        self._buffer.clear()
        self.turns.appended_s += seconds
        return Step(replies=self.turns.commit(seconds))

    # ---- items

    def _keep(self, item: Members) -> str | None:
        """Add an item; return the id of the one before it."""
        previous: str | None = self._items[-1]["id"] if self._items else None
        self._items.append(item)
        del self._items[:-MAX_ITEMS]
        return previous

    def _find(self, id_: object) -> Members | None:
        return next((item for item in self._items if item["id"] == id_), None)

    def _create(self, message: Members) -> Step:
        item = checked_item(message.get("item"), self.realtime.new_id("item"))
        if self._find(item["id"]) is not None:
            raise invalid("item.id", f"the conversation has an item {item['id']!r} already")
        if item["type"] == "function_call":
            raise unsupported("item.type", "a Live model has the calls that it has made itself; send the others as messages")
        if item["type"] == "function_call_output":
            self.answers.answer(item["call_id"], item["output"])
            return Step(replies=self.realtime.item_added(item, self._keep(item)))
        self._require_end(message.get("previous_item_id"))
        if sum(map(length, self._messages)) + length(item) > MAX_CHARACTERS:
            raise EventRefused(what=f"the messages that wait have at most {MAX_CHARACTERS} characters", param="item")
        self._pending.append(item)
        return Step(replies=self.realtime.item_added(item, self._keep(item)))

    def _require_end(self, after: object) -> None:
        last = self._items[-1]["id"] if self._items else "root"
        if after is None or after == last:
            return
        if after != "root" and self._find(after) is None:
            raise invalid("previous_item_id", f"the conversation has no item {after!r}")
        raise unsupported("previous_item_id", f"a Live model takes a message at the end of the conversation only, behind {last!r}")

    def _truncate(self, message: Members) -> Step:
        """Acknowledge where the client stopped to play an answer. The model keeps what it has said."""
        end_ms = message.get("audio_end_ms")
        if type(end_ms) is not int or end_ms < 0:
            raise invalid("audio_end_ms", "a whole number of milliseconds is expected")
        item = truncatable(self._find(message.get("item_id")), message.get("item_id"))
        self._ignored_events["conversation.item.truncate"] = None
        members = {"item_id": item["id"], "content_index": 0, "audio_end_ms": end_ms}
        return Step(replies=[self.realtime.frame("conversation.item.truncated", **members)])

    # ---- responses

    def _respond(self, made_of: ResponseSettings) -> Step:
        if self.answers.is_speaking:
            what = (
                f"Conversation already has an active response in progress: {self.answers.response_id}. "
                "Wait until the response is finished before creating a new one."
            )
            raise EventRefused(what=what, event_code="conversation_already_has_active_response")
        instructions, results = made_of.settings["instructions"], self.answers.results
        awaits = bool(self.realtime.turns) and self.turns.awaits_answer
        own = instructions if instructions != self.realtime.settings["instructions"] else ""
        if own and (results or awaits):
            what = "a result of a function, and a turn that the server detects, are answered with the session's instructions"
            raise unsupported("response.instructions", what)
        continues = bool(results) and self.answers.turn_runs
        step = Step(replies=self.answers.finish(), announced=self.answers.request(made_of), begins_turn=not continues)
        self._has_sent = True
        self._requested, self._requested_results = [], [*results]
        if results:
            step.frames = [result_frame(results)]
            results.clear()
            return step
        if awaits:  # the model answers that turn by itself
            return step
        before = self._before(self._pending)
        self._requested, self._pending = self._pending[len(before) :], before
        pending = [*self._requested]
        if own:
            text = f"Instructions for the next answer only, which nobody has said: {own}"
            pending.append(_message(text))
        step.frames = self._input(pending)
        return step

    def _before(self, pending: list[Members | bytes]) -> list[Members | bytes]:
        """Return the messages with which the session is to begin, and that are no part of what is to be answered."""
        messages = self._messages
        if self._setup or version_of(self._name) < (3, 0) or len(messages) < len(pending):
            return []
        return [*(messages[:-1] if messages and messages[-1]["role"] == "user" else messages)]

    def _input(self, pending: list[Members | bytes]) -> list[Frame]:
        """Return what has the model answer these messages and audio."""
        messages = [each for each in pending if not isinstance(each, bytes)]
        if len(messages) < len(pending):
            return [*spoken_input(pending)]
        if version_of(self._name) < (3, 0):
            return [content_frame(turns_of(messages), complete=True)]
        return [*live_input(messages)] if self.realtime.turns else [*spoken_input(messages or [_message("")])]

    def refused(self) -> None:
        """Note that a response was not admitted: what it was to answer waits for the next one."""
        self.answers.withdraw()
        self._pending += self._requested
        self.answers.results += self._requested_results
        self._requested, self._requested_results = [], []

    def _cancel(self, id_: object) -> Step:
        if not self.answers.is_speaking or id_ not in (None, self.answers.response_id):
            raise EventRefused(what="Cancellation failed: no active response found", event_code="response_cancel_not_active")
        frames: list[Frame] = [INTERRUPTION] if takes_content(self._name) else []
        return Step(replies=self.answers.cancel(), frames=frames)


def _message(text: str) -> Members:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}
