"""Deepgram's speech over HTTP and WebSocket (`/v1/speak`): both sides.

Source: deepgram-sdk 7.17.0, `speak/v1` (November 2026). On the socket audio comes in binary frames without a container;
`Flush` is answered by `Flushed` after the last audio of what was said, and `Close` by closing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage
from gw.wire.deepgram_listen_client import ENCODINGS
from gw.wire.deepgram_listen_server import pairs_of, whole
from gw.wire.vendor_errors import filtered, safe_code

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_QUERY = "query:"
"""Begins the name of an `extra` member that came in the query; the others stood in the body."""
_OURS = frozenset({"model", "encoding", "sample_rate", "container"})
_USUAL_HZ = {"linear16": 24_000, "mulaw": 8_000, "alaw": 8_000}
RATES_HZ = frozenset({8_000, 16_000, 24_000, 32_000, 48_000})
_SERVED_HZ = range(4_000, 192_001)
FLUSH, CLEAR, CLOSE = '{"type":"Flush"}', '{"type":"Clear"}', '{"type":"Close"}'
_CONTAINERS: dict[str, Encoding] = {"mp3": "mp3", "opus": "ogg", "flac": "flac", "aac": "aac"}


# ---- the client's side


def http_path(request: SpeakRequest, model: str) -> str:
    """Path and query of `POST /v1/speak`. Raw audio is asked for without a container.

    A caller who speaks this dialect has its own settings passed on.
    """
    pairs = [("model", voice_model(model, request.voice)), *_audio_fields(request.format)]
    if request.speed is not None:
        pairs.append(("speed", f"{request.speed:g}"))
    own = ((name, raw) for name, raw in _own(request).items() if name.startswith(_QUERY))
    pairs += [(name[len(_QUERY) :], value) for name, raw in own for value in msgspec.json.decode(raw, type=list[str])]
    return "/v1/speak?" + urlencode(pairs)


def voice_model(model: str, voice: str) -> str:
    """A voice is part of the model's name here: `aura-2-thalia-en`; the bare names of voices are put together with `aura-2`."""
    if not voice or voice == model:
        return model
    return voice if voice.startswith("aura") else f"{model}-{voice}-en" if model in ("aura", "aura-2") else model


def _audio_fields(fmt: AudioFormat) -> list[tuple[str, str]]:
    raw = ENCODINGS.get(fmt.encoding)
    if raw is not None:
        return [("encoding", raw), ("sample_rate", str(fmt.sample_rate_hz)), ("container", "none")]
    match fmt.encoding:
        case "wav":
            return [("encoding", "linear16"), ("sample_rate", str(fmt.sample_rate_hz or 24_000)), ("container", "wav")]
        case "ogg" | "opus":
            return [("encoding", "opus"), ("container", "ogg")]
        case _:
            return [("encoding", fmt.encoding)]


def body(request: SpeakRequest) -> bytes:
    own = {name: raw for name, raw in _own(request).items() if not name.startswith(_QUERY)}
    return msgspec.json.encode({"text": request.text, **own})


def _own(request: SpeakRequest) -> Mapping[str, msgspec.Raw]:
    return request.extra if request.dialect == "deepgram" else {}


def live_path(request: SpeakLiveRequest, model: str) -> str:
    """Path and query of the socket. A caller who speaks this dialect has its own settings passed on."""
    raw = ENCODINGS.get(request.format.encoding, "linear16")
    pairs = [
        ("model", voice_model(model, request.voice)),
        ("encoding", raw),
        ("sample_rate", str(request.format.sample_rate_hz)),
    ]
    if request.dialect == "deepgram":
        pairs += [(name, value) for name, value in request.options if name not in _OURS]
    elif request.speed is not None:
        pairs.append(("speed", f"{request.speed:g}"))
    return "/v1/speak?" + urlencode(pairs)


class _Told(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    sequence_id: int = 0
    description: str = ""
    code: str | None = None


_FRAME = msgspec.json.Decoder(_Told)


class DeepgramSpeaker:
    """One session: text and orders out, audio in."""

    def __init__(self, provider: str, *, keep_raw: bool = False, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self._provider = provider
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._flushes = 0
        """That have not been answered."""
        self._clears: list[int] = []
        """For each that has not been answered, the flushes that were due when it was sent."""
        self._unflushed = False
        self._finishing = False
        self._own_flush = False
        """The last one is that of `finish`, and answered by the end alone."""
        self._characters = 0

    def text(self, text: str) -> list[str | bytes]:
        self._unflushed = True
        self._characters += len(text)
        return [msgspec.json.encode({"type": "Speak", "text": text}).decode()]

    def flush(self) -> list[str | bytes]:
        self._flushes += 1
        self._unflushed = False
        return [FLUSH]

    def clear(self) -> list[str | bytes]:
        self._unflushed = False
        self._clears.append(self._flushes)
        return [CLEAR]

    def passed(self, frame: str) -> list[str | bytes]:
        try:
            told = _FRAME.decode(frame)
        except _BAD_JSON:
            return []
        match told.type:
            case "Speak":
                self._unflushed = True
                self._characters += len(told.text)
            case "Flush":
                return self.flush()
            case "Clear":
                return self.clear()
            case "Close":
                return self.finish()
        return [frame]

    def finish(self) -> list[str | bytes]:
        """What is left is spoken, and the socket closed when that has been answered: closing at once would cut it off."""
        self._finishing = True
        if self._unflushed:
            self._own_flush = True
            return self.flush()
        return [CLOSE] if not self._flushes else []

    def receive(self, frame: str | bytes) -> list[SpeakEvent]:
        """Raises ProviderError for an `Error` frame, UpstreamProtocolError for what is no frame of this dialect."""
        if isinstance(frame, bytes):
            return [AudioChunk(data=frame)] if frame else []
        try:
            told = _FRAME.decode(frame)
        except _BAD_JSON:
            raise UpstreamProtocolError(provider=self._provider, detail="a frame is not the JSON expected") from None
        raw = frame if self._keep_raw else None
        match told.type:
            case "Flushed":
                self._flushes = max(0, self._flushes - 1)
                self._clears = [max(0, due - 1) for due in self._clears]
                if not self._finishing or self._flushes:
                    return [Flushed(raw=raw)]
                return self._end() if self._own_flush else [Flushed(raw=raw), *self._end()]
            case "Cleared":
                return self._cleared(raw)
            case "Error":
                words = filtered(told.description, self._secrets)
                detail = "an error inside the session" + (f": {words}" if words else "")
                raise ProviderFailed(
                    provider=self._provider, detail=detail, upstream_status=101, upstream_code=safe_code(told.code, self._secrets)
                )
        return [VendorFrame(raw=frame)] if raw is not None else []

    def _cleared(self, raw: str | None) -> list[SpeakEvent]:
        """What was to be spoken before is not, so nobody need answer those flushes."""
        if self._clears:
            due = self._clears.pop(0)
            self._flushes -= due
            self._clears = [max(0, later - due) for later in self._clears]
        events: list[SpeakEvent] = [VendorFrame(raw=raw)] if raw is not None else []
        return [*events, *self._end()] if self._finishing and not self._flushes else events

    def closed(self) -> list[SpeakEvent]:
        return self._end() if self._finishing and not self._flushes else []

    def _end(self) -> list[SpeakEvent]:
        self.ended = True
        return [SpeakEnd(usage=Usage(characters=self._characters, source="measured"))]


# ---- the server's side


class Speak(msgspec.Struct, frozen=True, kw_only=True):
    text: str
    raw: str


class SpeakCommand(msgspec.Struct, frozen=True, kw_only=True):
    """`type` is Flush, Clear, Close or one that says nothing in common terms."""

    type: str
    raw: str


ClientFrame: TypeAlias = Speak | SpeakCommand


def parse_live_query(query: bytes) -> SpeakLiveRequest:
    """Raises ClientProtocolError, with `param`."""
    pairs = pairs_of(query)
    fields = dict(pairs)
    encoding = fields.get("encoding", "linear16")
    if encoding not in _USUAL_HZ:
        raise ClientProtocolError(what=f"encoding must be one of {', '.join(_USUAL_HZ)}", param="encoding")
    return SpeakLiveRequest(
        model=fields.get("model", ""),
        format=_raw_format(encoding, fields),
        speed=_speed(fields.get("speed")),
        dialect="deepgram",
        options=tuple(pairs),
    )


def parse_http(query: bytes, received: bytes) -> SpeakRequest:
    """`POST /v1/speak`. Raises ClientProtocolError, with `param`."""
    fields = dict(pairs_of(query))
    try:
        told = msgspec.json.decode(received, type=_Told)
    except _BAD_JSON:
        raise ClientProtocolError(what='the body must be JSON: {"text": "..."}') from None
    if not told.text:
        raise ClientProtocolError(what="text: nothing to speak", param="text")
    encoding = fields.get("encoding", "mp3")
    container = fields.get("container", "wav" if encoding == "linear16" else "none")
    if encoding in _USUAL_HZ:
        fmt = _raw_format(encoding, fields)
        if container == "wav" and encoding == "linear16":
            fmt = msgspec.structs.replace(fmt, encoding="wav")
    elif encoding in _CONTAINERS:
        fmt = AudioFormat(encoding=_CONTAINERS[encoding])
    else:
        known = ", ".join([*_USUAL_HZ, *_CONTAINERS])
        raise ClientProtocolError(what=f"encoding must be one of {known}", param="encoding")
    return SpeakRequest(
        model=fields.get("model", ""),
        text=told.text,
        format=fmt,
        speed=_speed(fields.get("speed")),
        dialect="deepgram",
        extra=_extra(query, received),
    )


def _extra(query: bytes, received: bytes) -> dict[str, msgspec.Raw]:
    """What we do not know of a request, which an upstream of this dialect is told."""
    try:
        members = msgspec.json.decode(received, type=dict[str, msgspec.Raw])
    except _BAD_JSON:   # a name that is not UTF-8
        raise ClientProtocolError(what="the body is not JSON") from None
    found = {name: raw for name, raw in members.items() if name != "text" and not name.startswith(_QUERY)}
    repeated: dict[str, list[str]] = {}
    for name, value in pairs_of(query):
        if name not in _OURS and name != "speed":
            repeated.setdefault(name, []).append(value)
    return found | {_QUERY + name: msgspec.Raw(msgspec.json.encode(values)) for name, values in repeated.items()}


def _raw_format(encoding: str, fields: dict[str, str]) -> AudioFormat:
    rate = whole(fields, "sample_rate", _USUAL_HZ[encoding])
    if rate not in _SERVED_HZ:
        raise ClientProtocolError(what="sample_rate must be between 4000 and 192000", param="sample_rate")
    ours: dict[str, Encoding] = {"linear16": "pcm_s16le", "mulaw": "mulaw", "alaw": "alaw"}
    return AudioFormat(encoding=ours[encoding], sample_rate_hz=rate)


def _speed(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        speed = float(value)
    except ValueError:
        speed = -1.0
    if not 0.25 <= speed <= 4:
        raise ClientProtocolError(what="speed must be a number between 0.25 and 4", param="speed")
    return speed


def receive(frame: str | bytes) -> ClientFrame:
    """What a client's frame says. Raises ClientProtocolError."""
    if isinstance(frame, bytes):
        raise ClientProtocolError(what="binary frames are not understood here: send text as JSON")
    try:
        told = _FRAME.decode(frame)
    except _BAD_JSON:
        raise ClientProtocolError(what="a frame must be a JSON object with a type") from None
    return Speak(text=told.text, raw=frame) if told.type == "Speak" else SpeakCommand(type=told.type, raw=frame)


class SpeakServer:
    """One session: events in, frames out."""

    def __init__(self, *, request_id: str, model: str) -> None:
        self._id = request_id
        self._model = model
        self._sequence = 0

    def opening(self) -> str:
        return _frame(
            "Metadata", request_id=self._id, model_name=self._model, model_version="1", model_uuid=self._id,
            additional_model_uuids=[],
        )  # fmt: skip

    def hears(self, said: ClientFrame) -> str | None:
        """What the client says, and the answer where it is one of this side's alone."""
        return None

    def closing(self) -> list[str]:
        """What is said before the socket is closed."""
        return []

    def cleared(self) -> str:
        self._sequence += 1
        return _frame("Cleared", sequence_id=self._sequence - 1)

    def encode(self, events: list[SpeakEvent]) -> list[str | bytes]:
        frames: list[str | bytes] = []
        for event in events:
            match event:
                case AudioChunk(data=data):
                    if data:
                        frames.append(data)
                case Flushed():
                    frames.append(_frame("Flushed", sequence_id=self._sequence))
                    self._sequence += 1
                case VendorFrame(raw=raw):
                    frames.append(raw)
        return frames


def warning(code: str, message: str) -> str:
    return _frame("Warning", code=code, description=message)


def error_frame(code: str, message: str) -> str:
    return _frame("Error", code=code, description=message)


def _frame(kind: str, **members: Any) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()
