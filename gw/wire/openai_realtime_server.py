"""OpenAI's realtime transcription over a WebSocket: the server's side, for an endpoint (or a fake vendor).

Source: openai-python 3.52.0, `types/realtime` (November 2026): which members typed clients insist on. A session begins with
`session.created`; the client may name its model in the query or in its first `session.update`. Deltas append, while
interim results of other vendors are rewritten: a delta goes out only as long as the interim continues what was said.
"""

from __future__ import annotations

from base64 import b64decode
from collections import deque
from typing import Any, TypeAlias

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire.vendor_errors import filtered

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_PREFIX = "conversation.item.input_audio_transcription."
_G711 = {"audio/pcmu": "mulaw", "audio/pcma": "alaw"}


class SessionUpdated(msgspec.Struct, frozen=True, kw_only=True):
    """The session's settings, changed or not. `turns`: the server finds where speech ends; else the client commits."""

    request: ListenRequest
    turns: bool


class AudioAppended(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Committed(msgspec.Struct, frozen=True, kw_only=True):
    """The client has ended an item; what was heard is to be made final."""


class Cleared(msgspec.Struct, frozen=True, kw_only=True):
    """Audio not yet committed is to be forgotten."""


class OtherFrame(msgspec.Struct, frozen=True, kw_only=True):
    """A frame that says nothing in common terms."""

    type: str
    raw: str


ClientEvent: TypeAlias = SessionUpdated | AudioAppended | Committed | Cleared | OtherFrame


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


_FRAME = msgspec.json.Decoder(_ClientFrame)


class RealtimeServer:
    """One session. `receive` reads what the client says, `encode` says what was heard."""

    def __init__(self, *, session_id: str, model: str = "") -> None:
        self._id = session_id
        self._format = PCM_24K
        self._transcription: dict[str, Any] = {"model": model} if model else {}
        self._input: dict[str, Any] = {"format": {"type": "audio/pcm", "rate": 24_000}, "turn_detection": _DEFAULT_TURNS}
        self._more: dict[str, Any] = {}
        self._events = self._items = 0
        self._buffered_s = 0.0
        self._item = ""
        """The item that is being spoken; "" for none."""
        self._said = ""
        self._begun_s = self._committed_s = self._heard_s = 0.0
        self._last_item: str | None = None
        self._awaited: deque[str] = deque()
        """Items the client has committed whose transcript is due."""

    # ---- in

    def receive(self, frame: str | bytes) -> ClientEvent:
        """Raises ClientProtocolError for what is no frame of this dialect."""
        try:
            told = _FRAME.decode(frame)
        except _BAD_JSON:
            raise ClientProtocolError(what="a frame is not the JSON expected") from None
        match told.type:
            case "session.update" | "transcription_session.update":
                return self._updated(told)
            case "input_audio_buffer.append":
                return self._appended(told.audio or "")
            case "input_audio_buffer.commit":
                if not self._buffered_s:
                    raise ClientProtocolError(what="the input audio buffer is empty", param="input_audio_buffer_commit_empty")
                return Committed()
            case "input_audio_buffer.clear":
                self._buffered_s = 0.0
                return Cleared()
        return OtherFrame(type=told.type, raw=frame if isinstance(frame, str) else frame.decode("utf-8", "replace"))

    @staticmethod
    def event_id_of(frame: str | bytes) -> str | None:
        """The client's own id of a frame, which an error about it repeats."""
        try:
            return _FRAME.decode(frame).event_id
        except _BAD_JSON:
            return None

    def _appended(self, audio: str) -> AudioAppended:
        try:
            data = b64decode(audio, validate=True)
        except ValueError:
            raise ClientProtocolError(what="'audio' must be base64", param="audio") from None
        length_s = self._format.seconds(len(data))
        self._buffered_s += length_s
        self._heard_s += length_s
        return AudioAppended(data=data)

    def _updated(self, told: _ClientFrame) -> SessionUpdated:
        """Members that are left out keep their value."""
        try:
            session = msgspec.json.decode(told.session, type=_Session)
            raw = msgspec.json.decode(told.session, type=dict[str, Any])
        except _BAD_JSON as error:
            raise ClientProtocolError(what=f"'session' is not of the expected form: {error}", param="session") from None
        if session.type != "transcription":
            raise ClientProtocolError(what="this session transcribes; it holds no conversation", param="session.type")
        heard = session.audio.input if session.audio is not None else None
        told_input = raw.get("audio", {}).get("input", {}) if heard is not None else {}
        if heard is not None and heard.format is not None:
            self._format = _audio_format(heard.format)
        self._transcription |= {n: v for n, v in (told_input.get("transcription") or {}).items() if v is not None}
        self._input |= {name: value for name, value in told_input.items() if name != "transcription"}
        self._more |= {name: value for name, value in raw.items() if name not in ("audio", "type")}
        return SessionUpdated(request=self._request(), turns=self._input.get("turn_detection") is not None)

    def _request(self) -> ListenRequest:
        told = msgspec.convert(self._transcription, _Transcription)
        turns = self._input.get("turn_detection") or {}
        languages = told.languages or []
        return ListenRequest(
            model=told.model or "",
            format=self._format,
            language=told.language or (languages[0] if len(languages) == 1 else None),
            endpointing_ms=turns.get("silence_duration_ms"),
            keyterms=tuple(told.keywords or ()),
            dialect="openai",
            options=(("session", msgspec.json.encode(self._session()).decode()),),
        )

    def _session(self) -> dict[str, Any]:
        heard = {**self._input, "transcription": self._transcription or None}
        return {"type": "transcription", "audio": {"input": heard}, **self._more}

    # ---- out

    def created(self) -> str:
        """The first frame of a session."""
        return self._about("session.created")

    def updated(self) -> str:
        """The answer to a `SessionUpdated`."""
        return self._about("session.updated")

    def cleared(self) -> str:
        """The answer to a `Cleared`."""
        return self._frame("input_audio_buffer.cleared")

    def error(self, *, type: str, code: str | None, message: str, event_id: str | None = None) -> str:   # noqa: A002  the wire's name
        """The session stays open. `event_id`: the client's, of the frame at fault."""
        fault = {"type": type, "code": code, "message": filtered(message), "param": None, "event_id": event_id}
        return self._frame("error", error=fault)

    def committed(self) -> list[str]:
        """The answer to a `Committed`: the item that will be transcribed."""
        item = self._speaking(self._committed_s)
        self._awaited.append(item)
        self._item = ""
        return self._commit(item, self._heard_s)

    def encode(self, events: list[ListenEvent]) -> list[str]:
        """What was heard, as frames. What has `raw` goes out as it came."""
        frames: list[str] = []
        for event in events:
            if event.raw is not None:
                frames.append(event.raw if isinstance(event.raw, str) else event.raw.decode("utf-8", "replace"))
                continue
            match event:
                case SpeechStarted(at_s=at_s):
                    item = self._speaking(at_s)
                    frames.append(
                        self._frame("input_audio_buffer.speech_started", item_id=item, audio_start_ms=round(at_s * 1000))
                    )
                case Interim(text=text, start_s=start_s):
                    frames += self._delta(text, start_s)
                case Final(text=text):
                    frames += self._final(event, text)
                case UtteranceEnd() | ListenEnd():
                    frames += self._nothing_more()
        return frames

    def _speaking(self, at_s: float) -> str:
        if not self._item:
            self._items += 1
            self._item, self._said, self._begun_s = f"item_{self._id}_{self._items}", "", at_s
        return self._item

    def _delta(self, text: str, start_s: float) -> list[str]:
        item = self._awaited[0] if self._awaited else self._speaking(start_s)
        if not text.startswith(self._said) or text == self._said:
            return []
        delta, self._said = text[len(self._said) :], text
        return [self._frame(_PREFIX + "delta", item_id=item, content_index=0, delta=delta)]

    def _final(self, final: Final, text: str) -> list[str]:
        if self._awaited:
            return [self._completed(self._awaited.popleft(), text, final)]
        item = self._speaking(final.start_s)
        self._item = ""
        frames = []
        if self._input.get("turn_detection") is not None:
            end_ms = round(final.end_s * 1000)
            frames.append(self._frame("input_audio_buffer.speech_stopped", item_id=item, audio_end_ms=end_ms))
        return [*frames, *self._commit(item, final.end_s), self._completed(item, text, final)]

    def _nothing_more(self) -> list[str]:
        """Committed audio in which nothing was said is transcribed as nothing."""
        frames = [self._completed(item, "", Final(text="")) for item in self._awaited]
        self._awaited.clear()
        return frames

    def _commit(self, item: str, at_s: float) -> list[str]:
        before, self._last_item = self._last_item, item
        self._committed_s = max(self._committed_s, at_s)
        self._buffered_s = 0.0
        content = [{"type": "input_audio", "transcript": None}]
        made = {"id": item, "object": "realtime.item", "type": "message", "role": "user", "status": "completed", "content": content}
        return [
            self._frame("input_audio_buffer.committed", item_id=item, previous_item_id=before),
            self._frame("conversation.item.added", item=made, previous_item_id=before),
            self._frame("conversation.item.done", item=made, previous_item_id=before),
        ]

    def _completed(self, item: str, text: str, final: Final) -> str:
        self._said = ""
        usage = {"type": "duration", "seconds": round(max(0.0, final.end_s - final.start_s), 3)}
        more: dict[str, Any] = {"languages": [{"code": final.language}]} if final.language else {}
        return self._frame(_PREFIX + "completed", item_id=item, content_index=0, transcript=text, usage=usage, **more)

    def _about(self, kind: str) -> str:
        session = {"id": f"sess_{self._id}", "object": "realtime.transcription_session", **self._session()}
        return self._frame(kind, session=session)

    def _frame(self, kind: str, **members: Any) -> str:
        self._events += 1
        return msgspec.json.encode({"type": kind, "event_id": f"event_{self._id}_{self._events}", **members}).decode()


_DEFAULT_TURNS = {"type": "server_vad", "threshold": 0.5, "prefix_padding_ms": 300, "silence_duration_ms": 500}


def _audio_format(told: _Format) -> AudioFormat:
    if told.type == "audio/pcm" and told.rate in (None, 24_000):
        return PCM_24K
    encoding = _G711.get(told.type)
    if encoding is None:
        raise ClientProtocolError(what="the format must be audio/pcm at 24000, audio/pcmu or audio/pcma", param="format")
    return AudioFormat(encoding="mulaw" if encoding == "mulaw" else "alaw", sample_rate_hz=8_000)
