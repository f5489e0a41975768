"""Cartesia's speech: whole (`/tts/bytes`, `/tts/sse`), both sides, and the server's of the socket (`/tts/websocket`).

Source: cartesia 4.2.0 (November 2026); flush ids from the vendor's page on context flushing. On the socket every frame names
its context and repeats its settings; `continue: false` ends the text of a context, whose audio ends with `done`. Pieces of
text are joined as they are. Voices come in three forms: `{"mode":"id","id":…}`, `{"id":…}` and a plain text. The client's
side of the socket: `cartesia_context`.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from typing import Any, TypeAlias

import msgspec

from gw.errors import ClientProtocolError, ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire import sse
from gw.wire.stream_decoder import StreamDecoder
from gw.wire.vendor_errors import CARTESIA, ErrorFacts, error_of

_BAD_JSON = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
ENCODINGS: dict[str, str] = {
    "pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"
}  # fmt: skip
"""Of raw audio, ours → theirs."""
_OURS: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "pcm_mulaw": "mulaw", "pcm_alaw": "alaw"}
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_SERVED_HZ = range(4_000, 192_001)
_KNOWN = frozenset({"context_id", "model_id", "transcript", "voice", "output_format", "continue", "flush", "cancel"})
"""Members of a request that are said in common terms; the others are passed on where the upstream is Cartesia too."""


def output_format(fmt: AudioFormat) -> dict[str, Any]:
    """Ours as theirs. Compressed audio is mp3 here, whatever was asked."""
    if fmt.encoding == "wav":
        return {"container": "wav", "encoding": "pcm_s16le", "sample_rate": fmt.sample_rate_hz or 24_000}
    raw = ENCODINGS.get(fmt.encoding)
    if raw is None:
        return {"container": "mp3", "sample_rate": 44_100, "bit_rate": 128_000}
    return {"container": "raw", "encoding": raw, "sample_rate": fmt.sample_rate_hz}


# ---- the client's side


def wants_events(request: SpeakRequest) -> bool:
    """Only events (`/tts/sse`) tell when a word is heard, and they hold nothing but raw samples."""
    phonemes = request.extra.get("add_phoneme_timestamps") if request.dialect == "cartesia" else None
    wanted = request.want_timings or (phonemes is not None and bytes(phonemes) == b"true")
    return wanted and request.format.encoding in ENCODINGS


def settings(request: SpeakRequest | SpeakLiveRequest, model: str) -> dict[str, Any]:
    """What every request says beside its text."""
    asked: dict[str, Any] = {
        "model_id": model,
        "voice": {"mode": "id", "id": request.voice},
        "output_format": output_format(request.format),
    }
    if request.language:
        asked["language"] = request.language
    if request.speed is not None:
        asked["generation_config"] = {"speed": min(1.5, max(0.6, request.speed))}
    return asked


def body(request: SpeakRequest, model: str) -> bytes:
    """Of `POST /tts/bytes`, and of `/tts/sse` where `wants_events` says so."""
    asked = settings(request, model) | {"transcript": request.text}
    if request.want_timings:
        asked["add_timestamps"] = True
    if request.dialect == "cartesia":
        asked |= {name: raw for name, raw in request.extra.items() if name not in _KNOWN}
    return msgspec.json.encode(asked)


class _Words(msgspec.Struct, gc=False):
    words: list[str] = []
    start: list[float] = []
    end: list[float] = []


class VendorMessage(msgspec.Struct, gc=False):
    """A message of the vendor, of speech or transcription."""

    type: str = ""
    context_id: str | None = None
    data: str | None = None
    word_timestamps: _Words | None = None
    status_code: int | None = None
    error_code: str | None = None
    title: str | None = None
    message: str | None = None
    error: str | None = None


_TOLD = msgspec.json.Decoder(VendorMessage)


def decode(frame: str | bytes, provider: str) -> VendorMessage:
    """Raises UpstreamProtocolError."""
    try:
        return _TOLD.decode(frame)
    except _BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="a frame is not the JSON expected") from None


def fault(told: VendorMessage, provider: str, secrets: Iterable[str]) -> ProviderError:
    """An `error` message: the answer of HTTP it would have been."""
    facts = ErrorFacts(code=told.error_code or "", message=told.message or told.title or told.error or "")
    status = told.status_code or 500
    return error_of(provider, status if status >= 400 else 500, facts, secrets, dialect=CARTESIA)


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    """Return the body of a failed HTTP answer."""
    return msgspec.json.encode({**facts, "error_code": code, "title": code, "message": message, "request_id": request_id})


def events_of(told: VendorMessage, provider: str) -> list[SpeakEvent]:
    """Audio and word times; what else a message may say depends on where it came."""
    match told.type:
        case "chunk":
            try:
                return [AudioChunk(data=b64decode(told.data, validate=True))] if told.data else []
            except ValueError:
                raise UpstreamProtocolError(provider=provider, detail="a chunk is not base64") from None
        case "timestamps":
            timed = told.word_timestamps or _Words()
            return [
                WordTiming(word=word, start_s=start_s, end_s=end_s)
                for word, start_s, end_s in zip(timed.words, timed.start, timed.end, strict=False)
            ]
    return []


class SpeechDecoder(StreamDecoder[SpeakEvent]):
    """The body of `/tts/sse`. With `keep_raw` what says nothing in common terms (phonemes) comes as it is."""

    def __init__(self, provider: str, *, keep_raw: bool = False, secrets: Iterable[str] = ()) -> None:
        self._provider = provider
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._sse = sse.SseDecoder()

    def feed(self, data: bytes) -> list[SpeakEvent]:
        """Raises ProviderError for an `error`, UpstreamProtocolError for what is no event of this dialect."""
        try:
            found = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
        events: list[SpeakEvent] = []
        try:
            for event in found:
                events += self._read(event.data)
        except ProviderError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[SpeakEvent]:
        """The connection has ended cleanly, which is no end. Raises UpstreamCut."""
        raise UpstreamCut(provider=self._provider, detail="the stream ended without done")

    def _read(self, data: bytes) -> list[SpeakEvent]:
        told = decode(data, self._provider)
        match told.type:
            case "error":
                raise fault(told, self._provider, self._secrets)
            case "done":
                return [SpeakEnd()]
            case "chunk" | "timestamps":
                return events_of(told, self._provider)
        return [VendorFrame(raw=data.decode())] if self._keep_raw else []


# ---- the server's side


class _Voice(msgspec.Struct, gc=False):
    id: str = ""


class _Output(msgspec.Struct, gc=False):
    container: str = "raw"
    encoding: str = "pcm_s16le"
    sample_rate: int = 24_000


class _Config(msgspec.Struct, gc=False):
    speed: float | None = None


class _Asked(msgspec.Struct, gc=False, rename={"more": "continue"}):
    context_id: str | None = None
    model_id: str = ""
    transcript: str = ""
    voice: _Voice | str | None = None
    output_format: _Output | None = None
    language: str | None = None
    locale: str | None = None
    generation_config: _Config | None = None
    add_timestamps: bool = False
    more: bool = False
    flush: bool = False
    cancel: bool = False


_ASKED = msgspec.json.Decoder(_Asked)


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """`ends`: no more text of this context follows."""

    context: str
    request: SpeakLiveRequest
    text: str
    ends: bool
    flush: bool


class Cancel(msgspec.Struct, frozen=True, kw_only=True):
    context: str


ClientFrame: TypeAlias = Generate | Cancel


def parse_frame(frame: str | bytes) -> ClientFrame:
    """A frame of the socket. Raises ClientProtocolError, with `param`."""
    asked = _parse(frame)
    context = asked.context_id or ""
    if asked.cancel:
        return Cancel(context=context)
    request = SpeakLiveRequest(
        model=asked.model_id,
        voice=_voice(asked),
        format=_format(asked.output_format, raw_only=True),
        language=asked.language or asked.locale,
        speed=asked.generation_config.speed if asked.generation_config is not None else None,
        want_timings=asked.add_timestamps,
        dialect="cartesia",
        options=tuple((name, bytes(raw).decode()) for name, raw in _others(frame).items()),
    )
    return Generate(context=context, request=request, text=asked.transcript, ends=not asked.more, flush=asked.flush)


def parse_body(received: bytes, *, events: bool) -> SpeakRequest:
    """Of `POST /tts/bytes`, or with `events` of `/tts/sse`. Raises ClientProtocolError, with `param`."""
    asked = _parse(received)
    if not asked.transcript:
        raise ClientProtocolError(what="transcript: nothing to speak", param="transcript")
    return SpeakRequest(
        model=asked.model_id,
        text=asked.transcript,
        voice=_voice(asked),
        format=_format(asked.output_format, raw_only=events),
        speed=asked.generation_config.speed if asked.generation_config is not None else None,
        language=asked.language or asked.locale,
        want_timings=asked.add_timestamps,
        dialect="cartesia",
        extra=_others(received),
    )


def _parse(received: str | bytes) -> _Asked:
    try:
        return _ASKED.decode(received)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the request is not of the expected form: {error}") from None
    except _BAD_JSON:
        raise ClientProtocolError(what="the request is not JSON") from None


def _others(received: str | bytes) -> Mapping[str, msgspec.Raw]:
    try:
        found = msgspec.json.decode(received, type=dict[str, msgspec.Raw])
    except _BAD_JSON:   # a name that is not UTF-8
        raise ClientProtocolError(what="the request is not JSON") from None
    return {name: raw for name, raw in found.items() if name not in _KNOWN}


def _voice(asked: _Asked) -> str:
    return asked.voice.id if isinstance(asked.voice, _Voice) else asked.voice or ""


def _format(told: _Output | None, *, raw_only: bool) -> AudioFormat:
    told = told or _Output()
    if told.container == "mp3" and not raw_only:
        return AudioFormat(encoding="mp3")
    encoding = _OURS.get(told.encoding)
    if told.container not in ("raw", "wav") or (raw_only and told.container != "raw"):
        raise ClientProtocolError(what="output_format.container must be raw" + ("" if raw_only else ", wav or mp3"), param="output_format")
    if encoding is None:
        raise ClientProtocolError(what=f"output_format.encoding must be one of {', '.join(_OURS)}", param="output_format")
    if told.sample_rate not in _SERVED_HZ:
        raise ClientProtocolError(what="output_format.sample_rate must be between 4000 and 192000", param="output_format")
    return AudioFormat(encoding="wav" if told.container == "wav" else encoding, sample_rate_hz=told.sample_rate)


class SpeakServer:
    """One context: events in, frames out."""

    def __init__(self, context: str, *, timestamps: bool) -> None:
        self._context = context
        self._timestamps = timestamps
        self._flush_id = 1
        """Of the text until the next flush: its chunks and the answer to that flush bear it."""

    def encode(self, events: list[SpeakEvent]) -> list[str]:
        frames: list[str] = []
        words: list[WordTiming] = []
        for event in events:
            match event:
                case AudioChunk(data=data):
                    if data:
                        chunk = {"data": b64encode(data).decode(), "step_time": 0.0, "flush_id": self._flush_id}
                        frames.append(self._frame("chunk", done=False, status_code=206, **chunk))
                case WordTiming():
                    words.append(event)
                case Flushed():
                    flush = {"flush_done": True, "flush_id": self._flush_id}
                    self._flush_id += 1
                    frames.append(self._frame("flush_done", done=False, status_code=206, **flush))
                case VendorFrame(raw=raw):
                    frames += self._passed(raw)
                case SpeakEnd():
                    frames.append(self._frame("done", done=True, status_code=200))
        if words and self._timestamps:
            timed = {
                "words": [w.word for w in words],
                "start": [round(w.start_s, 3) for w in words],
                "end": [round(w.end_s, 3) for w in words],
            }
            at = len(frames) - 1 if frames and isinstance(events[-1], (Flushed, SpeakEnd)) else len(frames)
            frames.insert(at, self._frame("timestamps", done=False, status_code=206, word_timestamps=timed))
        return frames

    def _passed(self, raw: str | bytes) -> list[str]:
        """A message of an upstream of this dialect, which has a context of its own."""
        told = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        told["context_id"] = msgspec.Raw(msgspec.json.encode(self._context))
        return [msgspec.json.encode(told).decode()]

    def _frame(self, kind: str, **members: Any) -> str:
        return msgspec.json.encode({"type": kind, **members, "context_id": self._context}).decode()


def as_sse(frames: list[str]) -> bytes:
    """The same messages as server-sent events, each named by its type."""
    return b"".join(sse.encode(frame.encode(), event=_TOLD.decode(frame).type) for frame in frames)


def error_frame(status: int, code: str, message: str, context: str | None, request_id: str) -> str:
    told = {
        "type": "error", "done": True, "status_code": status, "error_code": code, "title": code, "message": message,
        "request_id": request_id, "context_id": context,
    }  # fmt: skip
    return msgspec.json.encode(told).decode()
