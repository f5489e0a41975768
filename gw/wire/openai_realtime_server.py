"""OpenAI's realtime transcription over a WebSocket: the server, and what it shares with conversations.

Source: openai-python 3.52.0, `types/realtime` (November 2026): which members typed clients insist on. A session begins with
`session.created`; the client may name its model in the query or in its first `session.update`. Deltas append, while interim
results of other vendors are rewritten: a delta is sent only as long as the interim continues the text before it.

=========  ============================  ================================================================
Item       Event                         Frames
=========  ============================  ================================================================
(none)     SpeechStarted                 `speech_started`; the item is spoken
spoken     Interim                       `delta`, where the text continues
spoken     Final                         `speech_stopped` (with turn detection), `committed`, item frames,
                                         `completed`; no item
(any)      the client commits            `committed`, item frames; the item is awaited
awaited    Interim                       `delta`, where the text continues
awaited    Final                         `completed`
awaited    UtteranceEnd, ListenEnd       `completed` without text: nothing was said
=========  ============================  ================================================================
"""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_24K, AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.json_codec import BAD_JSON, decode_client, decode_or
from gw.wire.json_frames import Frame, frame_text, typed_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, DirectReply, Forward
from gw.wire.vendor_errors import filtered

COMMIT_EMPTY = "input_audio_buffer_commit_empty"
TRANSCRIPTION = "conversation.item.input_audio_transcription."  # prefix of the types of transcription events
DEFAULT_TURNS = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}
PCM_FORMAT = {"type": "audio/pcm", "rate": 24_000}
_COMMON = frozenset({"format", "turn_detection", "model", "language", "languages", "keywords", "prompt"})
"""Settings that a request has in common terms, or that the server obeys."""
_G711: dict[str, Encoding] = {"audio/pcmu": "mulaw", "audio/pcma": "alaw"}


def decode_audio(audio: str) -> bytes:
    """Decode the audio of an `input_audio_buffer.append`. Raises ClientProtocolError."""
    try:
        return b64decode(audio, validate=True)
    except (ValueError, TypeError):
        raise ClientProtocolError(what="'audio' must be base64", param="audio") from None


def audio_format(kind: str | None, rate: int | None) -> AudioFormat:
    """Return the format that the protocol names. Raises ClientProtocolError."""
    if kind == "audio/pcm" and rate in (None, 24_000):
        return PCM_24K
    encoding = _G711.get(kind or "")
    if encoding is None:
        raise ClientProtocolError(what="a format must be audio/pcm at 24000, audio/pcmu or audio/pcma", param="format")
    return AudioFormat(encoding=encoding, sample_rate_hz=8_000)


class EventRefused(ClientProtocolError):
    """A client's event that is answered with an `error` event. `param` names the member at fault."""

    event_code: str = "invalid_value"


class EventFrames:
    """The numbered events that a server sends in one session."""

    def __init__(self, session_id: str) -> None:
        self.id = session_id
        self._events = 0

    def frame(self, kind: str, **members: Any) -> str:
        self._events += 1
        return typed_frame(kind, event_id=f"event_{self.id}_{self._events}", **members)

    def error(self, *, type: str, code: str | None, message: str, event_id: str | None = None) -> str:  # noqa: A002  the wire's name
        """Return an error event; the session stays open. `event_id`: the client's, of the frame at fault."""
        return self._error(type, code, filtered(message), None, event_id)

    def refusal(self, error: ClientProtocolError, event_id: str | None) -> str:
        """Return the error event for a client's event."""
        code = error.event_code if isinstance(error, EventRefused) else "invalid_value"
        return self._error("invalid_request_error", code, error.message, error.param, event_id)

    def _error(self, kind: str, code: str | None, message: str, param: str | None, event_id: str | None) -> str:
        error = {"type": kind, "code": code, "message": message, "param": param, "event_id": event_id}
        return self.frame("error", error=error)

    def item_added(self, item: dict[str, Any], previous_id: str | None) -> list[str]:
        """Return the events of an item that joins the conversation complete."""
        return [
            self.frame("conversation.item.added", item=item, previous_item_id=previous_id),
            self.frame("conversation.item.done", item=item, previous_item_id=previous_id),
        ]


class _Format(msgspec.Struct, gc=False):
    type: str = "audio/pcm"
    rate: int | None = None


class _Transcription(msgspec.Struct, gc=False):
    model: str | None = None
    language: str | None = None
    languages: list[str] | None = None
    keywords: list[str] | None = None
    prompt: str | None = None


class _Turns(msgspec.Struct, gc=False):
    silence_duration_ms: int | None = None


class _Input(msgspec.Struct, gc=False):
    format: _Format | None = None
    transcription: _Transcription | None = None
    turn_detection: _Turns | msgspec.UnsetType | None = msgspec.UNSET


class _Audio(msgspec.Struct, gc=False):
    input: _Input | None = None


class _Session(msgspec.Struct, gc=False):
    audio: _Audio | None = None
    type: str = "transcription"


class _ClientFrame(msgspec.Struct, gc=False):
    type: str
    event_id: str | None = None
    audio: str | None = None
    session: msgspec.Raw = msgspec.Raw(b"")


class _EventId(msgspec.Struct, gc=False):
    event_id: str | None = None


_CLIENT_FRAME = msgspec.json.Decoder(_ClientFrame)
_EVENT_ID = msgspec.json.Decoder(_EventId)


class RealtimeListenServer(EventFrames, ListenProtocol):
    def __init__(self, *, session_id: str, model: str = "") -> None:
        super().__init__(session_id)
        self.request: ListenRequest | None = None  # the session's settings; None until the client has sent them
        self._format = PCM_24K
        self._transcription: dict[str, Any] = {"model": model} if model else {}
        self._input: dict[str, Any] = {"format": PCM_FORMAT, "turn_detection": DEFAULT_TURNS}
        self._others: dict[str, Any] = {}  # members of the session without a meaning here
        self._items = 0
        self._item = ""  # id of the item that is being spoken; "" for none
        self._text = ""  # text of the deltas sent for the item
        self._last_item: str | None = None
        self._awaited: deque[str] = deque()  # items committed by the client that have no transcript yet
        self._buffered_s = self._committed_s = self._received_s = 0.0
        self._appended = False  # audio has come since the client's last commit

    def opening(self) -> Sequence[Frame]:
        return (self._about("session.created"),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. A malformed one is answered with an error event; the session goes on."""
        try:
            return self._receive(frame)
        except ClientProtocolError as error:
            return (DirectReply(self.refusal(error, decode_or(_EVENT_ID, frame, _EventId()).event_id)),)

    def _receive(self, frame: Frame) -> Sequence[ClientMessage]:
        message = decode_client(_CLIENT_FRAME, frame)
        match message.type:
            case "input_audio_buffer.append":
                data = decode_audio(message.audio or "")
                length_s = self._format.seconds(len(data))
                self._buffered_s += length_s
                self._appended = True
                self._received_s += length_s
                return (Audio(data),)
            case "session.update" | "transcription_session.update":
                self.update(message.session)
                return (DirectReply(self._about("session.updated")),)
            case "input_audio_buffer.commit":
                appended, self._appended = self._appended, False
                if not self._buffered_s and appended and self._input.get("turn_detection") is None:
                    return ()  # the words came before the commit, and their audio was committed with them
                if not self._buffered_s:
                    raise EventRefused(what="the input audio buffer is empty", event_code=COMMIT_EMPTY)
                item, self._item = self._open_item(self._committed_s), ""
                self._awaited.append(item)
                return (*map(DirectReply, self._commit(item, self._received_s)), Control.FLUSH)
            case "input_audio_buffer.clear":
                self._buffered_s = 0.0
                return (DirectReply(self.frame("input_audio_buffer.cleared")),)
        return (Forward(frame_text(frame)),)

    def update(self, session: bytes | msgspec.Raw) -> None:
        """Change the settings; members that are left out keep their value. Raises ClientProtocolError."""
        try:
            update = msgspec.json.decode(session, type=_Session)
            members = msgspec.json.decode(session, type=dict[str, Any])
        except BAD_JSON as error:
            raise ClientProtocolError(what=f"'session' does not have the expected form: {error}", param="session") from None
        if update.type != "transcription":
            raise ClientProtocolError(what="this session transcribes; it holds no conversation", param="session.type")
        settings = update.audio.input if update.audio is not None else None
        if settings is not None and settings.format is not None:
            self._format = audio_format(settings.format.type, settings.format.rate)
        changes = members.get("audio", {}).get("input", {}) if settings is not None else {}
        self._transcription |= {name: v for name, v in (changes.get("transcription") or {}).items() if v is not None}
        self._input |= {name: value for name, value in changes.items() if name != "transcription"}
        self._others |= {name: value for name, value in members.items() if name not in ("audio", "type")}
        transcription = msgspec.convert(self._transcription, _Transcription)
        languages = transcription.languages or []
        self.request = ListenRequest(
            model=transcription.model or "",
            format=self._format,
            language=transcription.language or (languages[0] if len(languages) == 1 else None),
            endpointing_ms=(self._input.get("turn_detection") or {}).get("silence_duration_ms"),
            keyterms=tuple(transcription.keywords or ()),
            prompt=transcription.prompt,
            ignorable=self._ignorable(),
            dialect="openai",
            options=(("session", msgspec.json.encode(self._settings()).decode()),),
        )

    def _ignorable(self) -> tuple[str, ...]:
        """Return the names of the settings that only a provider of this dialect knows."""
        named = [*self._others.items(), *self._input.items(), *self._transcription.items()]
        return tuple(dict.fromkeys(name for name, value in named if value and name not in _COMMON))

    def _settings(self) -> dict[str, Any]:
        settings = {**self._input, "transcription": self._transcription or None}
        return {"type": "transcription", "audio": {"input": settings}, **self._others}

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if event.raw is not None:
                frames.append(frame_text(event.raw))
                continue
            match event:
                case SpeechStarted(at_s=at_s):
                    started = {"item_id": self._open_item(at_s), "audio_start_ms": round(at_s * 1000)}
                    frames.append(self.frame("input_audio_buffer.speech_started", **started))
                case Interim(text=text, start_s=start_s):
                    frames += self._delta(text, start_s)
                case Final():
                    frames += self._final(event)
                case UtteranceEnd() | ListenEnd():
                    frames += [self._completed(item, Final(text="")) for item in self._awaited]
                    self._awaited.clear()
        return frames

    def _open_item(self, at_s: float) -> str:
        if not self._item:
            self._items += 1
            self._item, self._text = f"item_{self.id}_{self._items}", ""
        return self._item

    def _delta(self, text: str, start_s: float) -> list[str]:
        item = self._awaited[0] if self._awaited else self._open_item(start_s)
        if not text.startswith(self._text) or text == self._text:
            return []
        delta, self._text = text[len(self._text) :], text
        return [self.frame(TRANSCRIPTION + "delta", item_id=item, content_index=0, delta=delta)]

    def _final(self, final: Final) -> list[str]:
        if self._awaited:
            return [self._completed(self._awaited.popleft(), final)]
        item, self._item = self._open_item(final.start_s), ""
        frames = []
        if self._input.get("turn_detection") is not None:
            stopped = {"item_id": item, "audio_end_ms": round(final.end_s * 1000)}
            frames.append(self.frame("input_audio_buffer.speech_stopped", **stopped))
        return [*frames, *self._commit(item, final.end_s), self._completed(item, final)]

    def _commit(self, item: str, at_s: float) -> list[str]:
        previous, self._last_item = self._last_item, item
        self._committed_s = max(self._committed_s, at_s)
        self._buffered_s = 0.0
        message = {
            "id": item, "object": "realtime.item", "type": "message", "role": "user", "status": "completed",
            "content": [{"type": "input_audio", "transcript": None}],
        }  # fmt: skip
        committed = self.frame("input_audio_buffer.committed", item_id=item, previous_item_id=previous)
        return [committed, *self.item_added(message, previous)]

    def _completed(self, item: str, final: Final) -> str:
        self._text = ""
        members: dict[str, Any] = {"item_id": item, "content_index": 0, "transcript": final.text}
        members["usage"] = {"type": "duration", "seconds": round(max(0.0, final.end_s - final.start_s), 3)}
        if final.language:
            members["languages"] = [{"code": final.language}]
        return self.frame(TRANSCRIPTION + "completed", **members)

    def _about(self, kind: str) -> str:
        return self.frame(kind, session=self.session())

    def session(self) -> dict[str, Any]:
        """Return the session with the settings in force, as clients read it."""
        return {"id": f"sess_{self.id}", "object": "realtime.transcription_session", **self._settings()}
