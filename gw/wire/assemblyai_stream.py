"""AssemblyAI's live transcription (`WS /v3/ws`): both sides.

Source: assemblyai 1.8.2, `streaming/v3` (November 2026). A turn grows until `end_of_turn`; with `format_turns` its formatted
form follows under the same `turn_order` and is the one that counts. Times are milliseconds since the session began. What is
billed is the session's length, told by `Termination`, silence included. A turn's `transcript` has its final words only; what
is still a guess stands in `words`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias
from urllib.parse import parse_qsl, urlencode

import msgspec

from gw.errors import (
    ClientProtocolError,
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    ListenEvent,
    ListenRequest,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.types.usage import Usage
from gw.wire.assemblyai_audio import ENCODINGS, Frames
from gw.wire.assemblyai_batch import spoken_language
from gw.wire.bounds import seconds
from gw.wire.vendor_errors import filtered

TERMINATE, FORCE_ENDPOINT = '{"type":"Terminate"}', '{"type":"ForceEndpoint"}'
_OURS: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_mulaw": "mulaw", "opus": "opus", "ogg_opus": "ogg", "aac": "aac"}
_SET = frozenset({"speech_model", "encoding", "sample_rate"})
_NOT_SETTINGS = frozenset({"token", "api_key", "access_token"})
_RATES_HZ = range(4_000, 192_001)
_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
NEXT_CODES = frozenset({1008, 1013, 3005, 3009, 4001, 4002, 4003, 4102})
"""Close codes after which another vendor may do better: keys, money, too many sessions, their own failure."""
_TOO_MANY = frozenset({3009, 4102})
_READ = frozenset({"Begin", "Turn", "SpeechStarted", "Termination", "Error"})


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    word_is_final: bool = False
    speaker: str | None = None


class _Told(msgspec.Struct, gc=False):
    type: str = ""
    timestamp: float = 0.0
    turn_order: int = 0
    turn_is_formatted: bool = False
    end_of_turn: bool = False
    transcript: str = ""
    words: list[_Word] = []
    language_code: str | None = None
    speaker_label: str | None = None
    session_duration_seconds: float | None = None
    audio_duration_seconds: float | None = None
    error: str = ""
    error_code: int | None = None


class _Kind(msgspec.Struct, gc=False):
    type: str = ""


_TOLD = msgspec.json.Decoder(_Told)
_KIND = msgspec.json.Decoder(_Kind)


# ---- the client's side


def path_of(request: ListenRequest, model: str) -> str:
    """Path and query of a session in a format of `ENCODINGS`. A caller of this dialect has its own settings passed on."""
    fmt = request.format
    pairs = [("sample_rate", str(fmt.sample_rate_hz)), ("encoding", ENCODINGS[fmt.encoding])]
    pairs.append(("speech_model", model))
    if request.dialect == "assemblyai":
        pairs += [(name, value) for name, value in request.options if name not in _SET]
        return "/v3/ws?" + urlencode(pairs)
    pairs.append(("format_turns", "true"))
    if language := spoken_language(request.language, ()):
        pairs.append(("language_codes", msgspec.json.encode([language]).decode()))
    if request.endpointing_ms is not None:
        pairs.append(("max_turn_silence", str(request.endpointing_ms)))
    if request.keyterms:
        pairs.append(("keyterms_prompt", msgspec.json.encode(list(request.keyterms)).decode()))
    if request.diarize:
        pairs.append(("speaker_labels", "true"))
    return "/v3/ws?" + urlencode(pairs)


class AssemblyListener:
    """One session: frames in, events out. Raises CannotConvert for a format that the vendor does not take."""

    def __init__(
        self, provider: str, request: ListenRequest, *, keep_raw: bool = False, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._keep_raw = keep_raw
        self._frames = Frames(request.format)
        self._interims = request.interim_results
        options = dict(request.options)
        asked = options.get("format_turns", "false").lower() == "true" if request.dialect == "assemblyai" else True
        self._formatted = asked
        self._waiting: _Told | None = None
        """The end of a turn whose formatted form is due."""
        self._closed = -1
        """`turn_order` of the last turn that stands: its end may be told again."""

    def audio(self, data: bytes) -> list[bytes]:
        return self._frames.feed(data)

    def flush(self) -> list[str | bytes]:
        return [*self._frames.rest(), FORCE_ENDPOINT]

    def passed(self, frame: str) -> str:
        return frame

    def finish(self) -> list[str | bytes]:
        return [*self._frames.rest(), TERMINATE]

    def receive(self, frame: str | bytes) -> list[ListenEvent]:
        """Raises ProviderError for an `Error`, UpstreamProtocolError for what is no frame of this dialect."""
        try:
            text = frame if isinstance(frame, str) else frame.decode()
            kind = _KIND.decode(text).type   # what we do not read may have fields of our names and other types
            told = _TOLD.decode(text) if kind in _READ else _Told()
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = text if self._keep_raw else None
        match told.type:
            case "Turn":
                return self._turn(told, raw)
            case "SpeechStarted":
                return [SpeechStarted(at_s=told.timestamp / 1000, raw=raw)]
            case "Termination":
                return self._termination(told, raw)
            case "Error":
                raise self._fault(told)
            case "Begin":
                return []  # a caller of this dialect has been greeted before
        return _only(raw)

    def _turn(self, told: _Told, raw: str | None) -> list[ListenEvent]:
        events: list[ListenEvent] = []
        before, self._waiting = self._waiting, None
        if before is not None and before.turn_order != told.turn_order:
            events += self._final(before, None)
        if told.turn_order == self._closed:
            return events + _only(raw)
        if told.end_of_turn and (told.turn_is_formatted or not self._formatted):
            return events + self._final(told, raw)
        if told.end_of_turn:
            self._waiting = told
        text = told.transcript if all(w.word_is_final for w in told.words) else " ".join(w.text for w in told.words)
        if text and self._interims:
            return [*events, _said(Interim, told, text, raw)]
        return events + _only(raw)

    def _final(self, told: _Told, raw: str | None) -> list[ListenEvent]:
        self._closed = told.turn_order
        if not told.transcript:
            return _only(raw)
        final = _said(Final, told, told.transcript, raw)
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _termination(self, told: _Told, raw: str | None) -> list[ListenEvent]:
        self.ended = True
        events = self._final(self._waiting, None) if self._waiting is not None else []
        billed = seconds(told.session_duration_seconds)
        usage = None if billed is None else Usage(audio_seconds=billed, source="vendor")
        return [*events, ListenEnd(usage=usage, raw=raw)]

    def _fault(self, told: _Told) -> ProviderError:
        words = filtered(told.error, self._secrets)
        detail = "an error inside the session" + (f": {words}" if words else "")
        code = told.error_code or 0
        if code in _TOO_MANY:
            return RateLimitError(provider=self._provider, detail=detail, limit_source="upstream")
        if code and code not in NEXT_CODES:
            return ProviderRejected(
                provider=self._provider, detail=detail, upstream_status=101, upstream_code=str(code), fault="candidate"
            )
        return ProviderFailed(
            provider=self._provider, detail=detail, upstream_status=101, upstream_code=str(code or "")
        )


def _only(raw: str | None) -> list[ListenEvent]:
    """What a frame that says nothing in common terms is, for a caller of this dialect."""
    return [] if raw is None else [VendorFrame(raw=raw)]


def _said(kind: Any, told: _Told, text: str, raw: str | None) -> Any:
    speaker = told.speaker_label if told.speaker_label != "UNKNOWN" else None
    words = tuple(
        Word(
            text=w.text, start_s=w.start / 1000, end_s=w.end / 1000, confidence=w.confidence,
            speaker=w.speaker or speaker,
        )
        for w in told.words
    )  # fmt: skip
    return kind(
        text=text,
        start_s=words[0].start_s if words else 0.0,
        end_s=words[-1].end_s if words else 0.0,
        words=words,
        language=told.language_code,
        raw=raw,
    )


# ---- the server's side


class Audio(msgspec.Struct, frozen=True, kw_only=True):
    data: bytes


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is Terminate, ForceEndpoint, KeepAlive, UpdateConfiguration or one that says nothing in common terms."""

    type: str
    raw: str


ClientFrame: TypeAlias = Audio | Command


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`formatted`: the caller expects the end of a turn twice."""

    request: ListenRequest
    formatted: bool


def parse_query(query: bytes) -> StreamOptions:
    """Raises ClientProtocolError, with `param`."""
    found = parse_qsl(query.decode("utf-8", "replace"), keep_blank_values=True, errors="replace")
    pairs = [(name, value) for name, value in found if name not in _NOT_SETTINGS and not name.startswith("gw_")]
    fields = dict(pairs)
    encoding = _OURS.get(fields.get("encoding", "pcm_s16le"))
    if encoding is None:
        raise ClientProtocolError(what=f"encoding must be one of {', '.join(_OURS)}", param="encoding")
    rate = fields.get("sample_rate", "16000")
    if not (rate.isascii() and rate.isdigit() and len(rate) < 7 and int(rate) in _RATES_HZ):
        raise ClientProtocolError(what="sample_rate must be between 4000 and 192000", param="sample_rate")
    languages = _texts(fields.get("language_codes"), "language_codes")
    if not languages and (older := fields.get("language_code")):
        languages = (older,)
    request = ListenRequest(
        model=fields.get("speech_model", ""),
        format=AudioFormat(encoding=encoding, sample_rate_hz=int(rate)),
        language=languages[0] if len(languages) == 1 else None,
        keyterms=_texts(fields.get("keyterms_prompt"), "keyterms_prompt"),
        diarize=fields.get("speaker_labels", "").lower() == "true",
        dialect="assemblyai",
        options=tuple(pairs),
    )
    return StreamOptions(request=request, formatted=fields.get("format_turns", "").lower() == "true")


def _texts(value: str | None, name: str) -> tuple[str, ...]:
    """A JSON array in a query field."""
    if not value:
        return ()
    try:
        return tuple(msgspec.json.decode(value, type=list[str]))
    except _BAD_JSON:
        raise ClientProtocolError(what=f"{name} must be a JSON array of texts", param=name) from None


class AssemblyServer:
    """One session. `receive` reads what the client says, `encode` says what was heard."""

    def __init__(self, asked: StreamOptions, *, session_id: str) -> None:
        self._asked = asked
        self._id = session_id
        self._turn = 0
        self._heard_s = 0.0
        self._said: list[Final] = []
        """Finals of the turn that is open."""

    def begin(self, expires_at: int) -> str:
        """The first frame; `expires_at` in Unix seconds."""
        return _frame("Begin", id=self._id, expires_at=expires_at)

    def receive(self, frame: str | bytes) -> ClientFrame:
        """Raises ClientProtocolError for what is no frame of this dialect."""
        if isinstance(frame, bytes):
            self._heard_s += self._asked.request.format.seconds(len(frame))
            return Audio(data=frame)
        try:
            return Command(type=_KIND.decode(frame).type, raw=frame)
        except _BAD_JSON:
            raise ClientProtocolError(what="a text frame must be a JSON object with a type") from None

    def encode(self, events: list[ListenEvent], session_s: float) -> list[str]:
        """`session_s`: since the session began. Where the upstream speaks this dialect, its own frames go out."""
        if passed := [event.raw for event in events if event.raw is not None]:
            return [raw if isinstance(raw, str) else raw.decode("utf-8", "replace") for raw in passed]
        frames: list[str] = []
        for n, event in enumerate(events):
            match event:
                case Interim() if event.text:
                    frames.append(self._told([*self._said, event], end=False, formatted=False))
                case Final() if event.text:
                    self._said.append(event)
                    if not any(isinstance(later, UtteranceEnd) for later in events[n + 1 :]):
                        frames.append(self._told(self._said, end=False, formatted=False))
                case UtteranceEnd():
                    frames += self._end()
                case ListenEnd():
                    frames += [*self._end(), self._termination(session_s)]
        return frames

    def _end(self) -> list[str]:
        if not self._said:
            return []
        frames = [self._told(self._said, end=True, formatted=not self._asked.formatted)]
        if self._asked.formatted:
            frames.append(self._told(self._said, end=True, formatted=True))
        self._said = []
        self._turn += 1
        return frames

    def _told(self, said: list[Any], *, end: bool, formatted: bool) -> str:
        text = " ".join(one.text for one in said)
        words = [_word(word, final=isinstance(one, Final)) for one in said for word in _words_of(one)]
        members: dict[str, Any] = {
            "turn_order": self._turn,
            "turn_is_formatted": formatted,
            "end_of_turn": end,
            "transcript": text,
            "end_of_turn_confidence": 1.0 if end else 0.0,
            "words": words,
            "utterance": text if end else "",
        }
        if said[-1].language:
            members["language_code"] = said[-1].language
        if speaker := next((word.speaker for word in said[-1].words), None):
            members["speaker_label"] = speaker
        return _frame("Turn", **members)

    def _termination(self, session_s: float) -> str:
        return _frame(
            "Termination",
            audio_duration_seconds=round(self._heard_s),
            session_duration_seconds=round(session_s),
        )


def _words_of(said: Interim | Final) -> tuple[Word, ...]:
    """Their times; one word for all where the provider tells none, since clients take the first and the last."""
    return said.words or (Word(text=said.text, start_s=said.start_s, end_s=said.end_s),)


def _word(word: Word, *, final: bool) -> dict[str, Any]:
    told: dict[str, Any] = {
        "text": word.text,
        "start": round(word.start_s * 1000),
        "end": round(word.end_s * 1000),
        "confidence": 0.99 if word.confidence is None else word.confidence,
        "word_is_final": final,
    }
    if word.speaker is not None:
        told["speaker"] = word.speaker
    return told


def error_frame(code: int, message: str) -> str:
    """Said before the session is closed."""
    return _frame("Error", error_code=code, error=message)


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()
