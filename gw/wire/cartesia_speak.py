"""Cartesia's speech (`/tts/bytes`, `/tts/sse`, `/tts/websocket`): client and server.

Source: cartesia 4.2.0, the vendor's pages on contexts and flushing, livekit-plugins-cartesia 1.8.9 (November 2026). Voices come
in three forms: `{"mode":"id","id":…}`, `{"id":…}` and a string.

On the socket every frame names its context and repeats its settings:

===================================  ====================================================================
Client sends for a context           Server answers
===================================  ====================================================================
text, `continue: true`               `chunk`, `timestamps`; pieces of text are joined without separators
`flush: true`                        the audio of all text so far, then `flush_done`
text, `continue: false`              the remaining audio, then `done`: the context is over
`cancel: true`                       nothing more
===================================  ====================================================================

The vendor forgets a context a second after its last audio; more text for it is an error, and so is a context whose first text
has nothing to pronounce. A session of the gateway may pause for as long as it likes. So the client leaves a context as soon as
all its text has been spoken, and starts the next one with the next word; text is kept back until there is one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest, WordTiming
from gw.wire import sse
from gw.wire.json_codec import BAD_JSON, MEMBERS, decode_client, decode_or, decode_upstream
from gw.wire.json_frames import Frame, json_frame, typed_frame
from gw.wire.live_messages import CancelContext, ContextText
from gw.wire.query import SAMPLE_RATES_HZ, bare_language, own_settings
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.vendor_errors import CARTESIA, ErrorFacts, error_of

ENCODINGS = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "mulaw": "pcm_mulaw", "alaw": "pcm_alaw"}
"""Raw encodings: the gateway's name → Cartesia's."""
SERVED: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_f32le": "pcm_f32le", "pcm_mulaw": "mulaw", "pcm_alaw": "alaw"}
"""Raw encodings: Cartesia's name → the gateway's."""
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})
_MP3_KBIT = (32, 64, 96, 128, 192)
"""Bit rates of MP3: `bit_rate` of the output format in the vendor's API reference and in cartesia 3.3.0."""
_COMMON = frozenset({"context_id", "model_id", "transcript", "voice", "output_format", "continue", "flush", "cancel"})
"""Members that a request has in common terms; the others are passed on to an upstream of this dialect."""

_SERVED_MEMBERS = _COMMON | {
    "language", "locale", "add_timestamps", "max_buffer_delay_ms", "use_normalized_timestamps", "cartesia_version",
}  # fmt: skip
"""Members that a request has in common terms, or that the gateway obeys."""
_ANY = msgspec.json.Decoder()


# ---- client


def _output_format(fmt: AudioFormat) -> dict[str, Any]:
    """Return a format in Cartesia's terms. Compressed audio is always mp3."""
    if fmt.encoding == "wav":
        return {"container": "wav", "encoding": "pcm_s16le", "sample_rate": fmt.sample_rate_hz or 24_000}
    encoding = ENCODINGS.get(fmt.encoding)
    if encoding is None:
        bit_rate = 1_000 * (fmt.kbit_per_s or 128)
        return {"container": "mp3", "sample_rate": fmt.sample_rate_hz or 44_100, "bit_rate": bit_rate}
    return {"container": "raw", "encoding": encoding, "sample_rate": fmt.sample_rate_hz}


def takes_speed(model: str) -> bool:
    """Return whether a model obeys `generation_config`: those before Sonic 3 ignore it (docs.cartesia.ai, "Older TTS Models")."""
    return model != "sonic" and not model.startswith(("sonic-2", "sonic-turbo", "sonic-english", "sonic-multilingual"))


def makes_mp3(fmt: AudioFormat) -> bool:
    """Return whether the vendor has MP3 of this sample rate and bit rate."""
    return fmt.channels == 1 and (fmt.sample_rate_hz or 44_100) in RATES_HZ and (fmt.kbit_per_s or 128) in _MP3_KBIT


def wants_events(request: SpeakRequest) -> bool:
    """Return whether to use `/tts/sse`: only events have word times, and they carry only raw samples."""
    phonemes = request.extra.get("add_phoneme_timestamps") if request.dialect == "cartesia" else None
    wanted = request.want_timings or (phonemes is not None and bytes(phonemes) == b"true")
    return wanted and request.format.encoding in ENCODINGS


def _settings(request: SpeakRequest | SpeakLiveRequest, model: str) -> dict[str, Any]:
    """Return the members of every request besides its text."""
    members: dict[str, Any] = {
        "model_id": model,
        "voice": {"mode": "id", "id": request.voice},
        "output_format": _output_format(request.format),
    }
    if request.language:
        members["language"] = request.language if request.dialect == "cartesia" else bare_language(request.language)
    if request.speed is not None and (request.dialect == "cartesia" or takes_speed(model)):
        members["generation_config"] = {"speed": min(1.5, max(0.6, request.speed))}
    return members


def body(request: SpeakRequest, model: str) -> bytes:
    """Return the body of `POST /tts/bytes`, or of `/tts/sse` where `wants_events` says so."""
    members = _settings(request, model) | {"transcript": request.text}
    if request.want_timings:
        members["add_timestamps"] = True
    if request.dialect == "cartesia":
        members |= {name: raw for name, raw in request.extra.items() if name not in _COMMON}
    return msgspec.json.encode(members)


class _Words(msgspec.Struct, gc=False):
    words: list[str] = []
    start: list[float] = []
    end: list[float] = []


class VendorMessage(msgspec.Struct, gc=False):
    """A message of the vendor about speech; an `error` about transcription has the same members."""

    type: str = ""
    context_id: str | None = None
    data: str | None = None
    word_timestamps: _Words | None = None
    status_code: int | None = None
    error_code: str | None = None
    title: str | None = None
    message: str | None = None
    error: str | None = None

    def error_for(self, provider: str, secrets: Iterable[str]) -> ProviderError:
        """Return the error of an `error` message: that of the HTTP answer it stands for."""
        facts = ErrorFacts(code=self.error_code or "", message=self.message or self.title or self.error or "")
        status = self.status_code or 500
        return error_of(provider, status if status >= 400 else 500, facts, secrets, dialect=CARTESIA)


VENDOR_MESSAGE = msgspec.json.Decoder(VendorMessage)


def _events_of(message: VendorMessage, provider: str) -> list[SpeakEvent]:
    """Return the audio or word times of a message."""
    if message.type == "chunk":
        try:
            return [AudioChunk(data=b64decode(message.data, validate=True))] if message.data else []
        except ValueError:
            raise UpstreamProtocolError(provider=provider, detail="the audio of a chunk is not base64") from None
    times = message.word_timestamps or _Words()
    spans = zip(times.words, times.start, times.end, strict=False)
    return [WordTiming(word=word, start_s=start_s, end_s=end_s) for word, start_s, end_s in spans]


class CartesiaSpeechDecoder(SseStreamDecoder[SpeakEvent]):
    """Decoder of the body of `/tts/sse`. With `keep_raw` messages without common meaning (phonemes) are passed on."""

    def __init__(self, provider: str, *, keep_raw: bool = False, secrets: Iterable[str] = ()) -> None:
        super().__init__(provider)
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)

    def end(self) -> list[SpeakEvent]:
        """Raise UpstreamCut: a connection that ends without `done` was cut."""
        raise UpstreamCut(provider=self._provider, detail="the stream ended without done")

    def _decode(self, event: SseEvent, events: list[SpeakEvent]) -> None:
        message = decode_upstream(VENDOR_MESSAGE, event.data, self._provider)
        match message.type:
            case "error":
                raise message.error_for(self._provider, self._secrets)
            case "done":
                events.append(SpeakEnd())
            case "chunk" | "timestamps":
                events += _events_of(message, self._provider)
            case _ if self._keep_raw:
                events.append(VendorFrame(raw=event.data.decode()))


class CartesiaSpeakClient:
    """One session over one socket: one context after the other."""

    def __init__(self, provider: str, request: SpeakLiveRequest, model: str, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self.due: list[SpeakEvent] = []
        """Answers to commands for which there was nothing to speak: no frame will bring them."""
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._same_dialect = request.dialect == "cartesia"
        self._settings = _settings(request, model)
        if self._same_dialect:
            self._settings |= {name: msgspec.Raw(raw.encode()) for name, raw in request.options}
        self._settings["add_timestamps"] = True  # they show where another provider has to continue
        self._contexts = 0
        self._early_text = ""  # text before the first word of a context
        self._open = False  # whether the context has text
        self._unflushed = False
        self._flushes: deque[int] = deque()
        """Number of commands behind each flush not answered yet; several if no text came between them."""
        self._finishing = False
        self._audio_s = self._context_start_s = 0.0  # audio received, and how much of it before this context

    @property
    def _context(self) -> str:
        return f"gw-{self._contexts}"

    def text(self, text: str) -> str | None:
        if not self._open:
            text = self._early_text + text
            if not any(map(str.isalnum, text)):
                self._early_text = text
                return None
            self._early_text, self._open = "", True
        self._unflushed = True
        return self._frame(text, more=True)

    def flush(self) -> str | None:
        self._early_text = ""
        if not self._open:
            self.due.append(Flushed())
            return None
        if self._flushes and not self._unflushed:
            self._flushes[-1] += 1
            return None
        self._flushes.append(1)
        self._unflushed = False
        return self._frame("", more=True, flush=True)

    def clear(self) -> str | None:
        self._early_text = ""
        self._flushes.clear()
        self.due = [event for event in self.due if isinstance(event, SpeakEnd)]
        frame = json_frame({"context_id": self._context, "cancel": True}) if self._open else None
        self._leave_context()
        if self._finishing and not self.ended:
            self._end()
        return frame

    def forward(self, frame: str) -> None:
        """Drop a caller's frame: it names contexts of the caller's own socket."""

    def finish(self) -> str | None:
        if self._finishing:
            return None
        self._finishing = True
        if self._open:
            return self._frame("", more=False)
        self._end()
        return None

    def _frame(self, transcript: str, *, more: bool, **members: Any) -> str:
        return json_frame(
            {"context_id": self._context, **self._settings, "transcript": transcript, "continue": more, **members}
        )

    def _leave_context(self) -> None:
        if self._open:
            self._contexts += 1
        self._open = self._unflushed = False
        self._context_start_s = self._audio_s

    def _end(self) -> None:
        self.ended = True
        self.due.append(SpeakEnd())

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame. Raises ProviderError for an `error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(VENDOR_MESSAGE, frame, self._provider)
        if message.context_id is not None and message.context_id != self._context:
            return []  # of a context that was cancelled, or is over
        match message.type:
            case "error":
                raise message.error_for(self._provider, self._secrets)
            case "chunk" | "timestamps":
                return self._session_times(_events_of(message, self._provider))
            case "flush_done":
                return self._flushed()
            case "done":
                return self._done()
        return [VendorFrame(raw=frame)] if self._same_dialect else []

    def _session_times(self, events: list[SpeakEvent]) -> list[SpeakEvent]:
        for n, event in enumerate(events):
            if isinstance(event, AudioChunk):
                self._audio_s += self._format.seconds(len(event.data))
            elif isinstance(event, WordTiming) and self._context_start_s:
                start_s, end_s = event.start_s + self._context_start_s, event.end_s + self._context_start_s
                events[n] = WordTiming(word=event.word, start_s=start_s, end_s=end_s)
        return events

    def _flushed(self) -> list[SpeakEvent]:
        """Answer the oldest flush. Without one it is the vendor's own mark between two pieces of text."""
        if not self._flushes:
            return []
        answered = self._flushes.popleft()
        if not (self._same_dialect or self._flushes or self._unflushed or self._finishing):
            self._leave_context()
        return [Flushed()] * answered

    def _done(self) -> list[SpeakEvent]:
        events: list[SpeakEvent] = [Flushed()] * sum(self._flushes)
        self._flushes.clear()
        if self._finishing:
            self.ended = True
            return [*events, SpeakEnd()]
        self._leave_context()
        return events


# ---- server


class _Voice(msgspec.Struct, gc=False):
    id: str = ""


class _Output(msgspec.Struct, gc=False):
    container: str = "raw"
    encoding: str = "pcm_s16le"
    sample_rate: int = 0
    bit_rate: int = 0

    @property
    def in_wav(self) -> bool:
        """Return whether samples that are not 16-bit PCM follow the header of a WAV."""
        return self.container == "wav" and self.encoding != "pcm_s16le"


class _Config(msgspec.Struct, gc=False):
    speed: float | None = None


class _Request(msgspec.Struct, gc=False, rename={"more": "continue"}):
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

    def common(self, *, raw_only: bool) -> dict[str, Any]:
        """Return the fields that requests over HTTP and over the socket share."""
        return {
            "model": self.model_id,
            "voice": self.voice.id if isinstance(self.voice, _Voice) else self.voice or "",
            "format": _format(self.output_format or _Output(), raw_only=raw_only),
            "language": self.language or self.locale,
            "speed": self.generation_config.speed if self.generation_config is not None else None,
            "want_timings": self.add_timestamps,
            "dialect": "cartesia",
        }


_REQUEST = msgspec.json.Decoder(_Request)


def parse_frame(frame: Frame) -> ContextText | CancelContext:
    """Decode a frame of the socket. Raises ClientProtocolError, with `param`."""
    received = _parse(frame)
    context = received.context_id or ""
    if received.cancel:
        return CancelContext(context)
    options = tuple((name, bytes(raw).decode()) for name, raw in _others(frame).items())
    text, more = received.transcript, received.more
    return ContextText(
        context=context,
        text=text if more or text.strip() else "",
        flush=received.flush,
        finish=not more,
        request=SpeakLiveRequest(**received.common(raw_only=True), options=options, ignorable=_ignorable(options)),
    )


def parse_body(received: bytes, *, events: bool) -> SpeakRequest:
    """Decode a `POST /tts/bytes`, or with `events` a `POST /tts/sse`. Raises ClientProtocolError, with `param`."""
    request = _parse(received)
    if not request.transcript:
        raise ClientProtocolError(what="transcript: nothing to speak", param="transcript")
    extra = _others(received)
    ignorable = _ignorable((name, bytes(raw).decode()) for name, raw in extra.items())
    in_wav = request.output_format is not None and request.output_format.in_wav
    return SpeakRequest(text=request.transcript, **request.common(raw_only=events), in_wav=in_wav, extra=extra, ignorable=ignorable)


def _ignorable(members: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Return the names of the members that another vendor does without; a configuration may hold no more than the speed."""
    beside = [m for m in members if m[0] != "generation_config" or _has_more(m[1])]
    return own_settings(beside, _SERVED_MEMBERS, ())[1]


def _has_more(config: str) -> bool:
    members: object = decode_or(_ANY, config.encode(), None)
    return isinstance(members, dict) and any(value is not None for name, value in members.items() if name != "speed")


def _parse(received: Frame) -> _Request:
    try:
        return _REQUEST.decode(received)
    except msgspec.ValidationError as error:
        raise ClientProtocolError(what=f"the request does not have the expected form: {error}") from None
    except BAD_JSON:
        raise ClientProtocolError(what="the request is not JSON") from None


def _others(received: Frame) -> Mapping[str, msgspec.Raw]:
    members = decode_client(MEMBERS, received, "the request is not JSON")  # such as a name that is not UTF-8
    return {name: raw for name, raw in members.items() if name not in _COMMON}


def _format(output: _Output, *, raw_only: bool) -> AudioFormat:
    rate = output.sample_rate or 24_000
    if output.container == "mp3" and not raw_only:
        return _mp3_format(output)
    encoding = SERVED.get(output.encoding)
    if output.container not in ("raw", "wav") or (raw_only and output.container != "raw"):
        what = "container must be raw" + ("" if raw_only else ", wav or mp3")
    elif encoding is None:
        what = f"encoding must be one of {', '.join(SERVED)}"
    elif rate not in SAMPLE_RATES_HZ:
        what = "sample_rate must be between 4000 and 192000"
    else:
        return AudioFormat(encoding="wav" if output.container == "wav" and not output.in_wav else encoding, sample_rate_hz=rate)
    raise ClientProtocolError(what=f"output_format.{what}", param="output_format")


def _mp3_format(output: _Output) -> AudioFormat:
    if output.sample_rate and output.sample_rate not in SAMPLE_RATES_HZ:
        raise ClientProtocolError(
            what="output_format.sample_rate must be between 4000 and 192000", param="output_format"
        )
    if not 0 <= output.bit_rate <= 320_000 or output.bit_rate % 1_000:
        raise ClientProtocolError(what="output_format.bit_rate must be one such as 128000", param="output_format")
    return AudioFormat(encoding="mp3", sample_rate_hz=output.sample_rate, kbit_per_s=output.bit_rate // 1_000)


class CartesiaSpeakServer:
    """One context of a client: events to frames."""

    def __init__(self, context: str, *, timestamps: bool) -> None:
        self._context = context
        self._timestamps = timestamps
        self._flush_id = 1
        """Id of the text until the next flush, repeated by its chunks and by the answer to that flush."""

    def encode(self, events: list[SpeakEvent]) -> list[str]:
        frames: list[str] = []
        words: list[WordTiming] = []
        for event in events:
            match event:
                case AudioChunk(data=data) if data:
                    chunk = {"data": b64encode(data).decode(), "step_time": 0.0, "flush_id": self._flush_id}
                    frames.append(self._frame("chunk", done=False, status_code=206, **chunk))
                case WordTiming():
                    words.append(event)
                case Flushed():
                    flush = {"flush_done": True, "flush_id": self._flush_id}
                    self._flush_id += 1
                    frames.append(self._frame("flush_done", done=False, status_code=206, **flush))
                case VendorFrame(raw=raw):  # of an upstream of this dialect, which has a context of its own
                    members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
                    frames.append(json_frame({**members, "context_id": self._context}))
                case SpeakEnd():
                    frames.append(self._frame("done", done=True, status_code=200))
        if words and self._timestamps:
            times = {
                "words": [w.word for w in words],
                "start": [round(w.start_s, 3) for w in words],
                "end": [round(w.end_s, 3) for w in words],
            }
            at = len(frames) - 1 if frames and isinstance(events[-1], (Flushed, SpeakEnd)) else len(frames)
            frames.insert(at, self._frame("timestamps", done=False, status_code=206, word_timestamps=times))
        return frames

    def _frame(self, kind: str, **members: Any) -> str:
        return typed_frame(kind, **members, context_id=self._context)


def as_sse(frames: list[str]) -> bytes:
    """Return the same messages as server-sent events, each named by its type."""
    return b"".join(sse.encode(frame.encode(), event=VENDOR_MESSAGE.decode(frame).type) for frame in frames)


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    """Return the body of a failed HTTP answer."""
    about = {"error_code": code, "title": _title(code), "message": message, "request_id": request_id}
    return msgspec.json.encode({**about, **facts, **about})


def error_frame(status: int, code: str, message: str, context: str | None, request_id: str) -> str:
    about = {"error_code": code, "title": _title(code), "message": message, "request_id": request_id, "context_id": context}
    return typed_frame("error", done=True, status_code=status, **about)


def _title(code: str) -> str:
    return code.replace("_", " ").capitalize()
