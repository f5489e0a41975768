"""Deepgram's speech over HTTP and WebSocket (`/v1/speak`, for Flux models `/v2/speak`): client and server.

Source: deepgram-sdk 7.17.0, `speak/v1` and `speak/v2`, and livekit-plugins-deepgram 1.8.9, `tts_v2` (November 2026). Audio
comes in binary frames without a container.

============  ==========================================================================
Client sends  Server answers
============  ==========================================================================
`Speak`       audio, when it sees fit
`Flush`       the audio of all text so far, then `Flushed`
`Clear`       `Cleared`; text and audio before it are dropped, and their flushes not answered
`Close`       closes the socket at once
============  ==========================================================================

At `/v2/speak` the text between two `Flush` is a speech: `SpeechStarted`, audio, `SpeechMetadata` with the characters billed,
then `Flushed`. `Interrupt` replaces `Clear` and is answered by `SpeechInterrupted`, which splits the text of the speech in
what was heard and what was not, if the client says how far it has played. Both accept the same over HTTP.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError
from gw.types.audio import AudioFormat
from gw.types.stt import VendorFrame
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage, VendorFigure
from gw.wire.bounds import tokens
from gw.wire.deepgram_errors import session_error
from gw.wire.deepgram_listen import ENCODINGS
from gw.wire.deepgram_speak_formats import check_no_container, http_format, raw_format
from gw.wire.deepgram_speak_markers import counted
from gw.wire.deepgram_speak_speed import flux_refusal, nearest_speed, takes_speed
from gw.wire.json_codec import BAD_JSON, MEMBERS, NO_TYPE, decode_client, decode_or, decode_upstream
from gw.wire.json_frames import Frame, json_frame, typed_frame
from gw.wire.live_messages import DirectReply, SpeakMessage, Text, TtsCommand
from gw.wire.query import is_true, optional_pairs, own_settings, query_pairs
from gw.wire.vendor_errors import safe_code

INTERRUPT = '{"type":"Interrupt"}'  # in place of CLEAR for Flux
_FLUX = "flux"
_FAMILIES = frozenset({"aura", "aura-2", _FLUX})
_QUERY = "query:"  # prefix of the name of an `extra` member that came in the query; the others were in the body
_COMMON = frozenset({"model", "encoding", "sample_rate", "container"})
"""Query fields that a request has in common terms."""
RATES_HZ = frozenset({8_000, 16_000, 24_000, 32_000, 48_000})
FLUSH, CLEAR, CLOSE = '{"type":"Flush"}', '{"type":"Clear"}', '{"type":"Close"}'


# ---- client


def http_path(request: SpeakRequest, model: str) -> str:
    """Return path and query of a request; raw audio comes without a container.

    A caller of this dialect has its own settings passed on.
    """
    voice = voice_model(model, request.voice)
    pairs = [("model", voice), *_audio_fields(request.format), *_speed_field(request, voice)]
    own = ((name, raw) for name, raw in _own(request).items() if name.startswith(_QUERY))
    if request.format.kbit_per_s or request.format.bytes_per_second:  # the format has the bit rate, or samples that have none
        own = ((name, raw) for name, raw in own if name != _QUERY + "bit_rate")
    pairs += [(name[len(_QUERY) :], value) for name, raw in own for value in msgspec.json.decode(raw, type=list[str])]
    if request.no_store and request.dialect != "deepgram":
        pairs.append(("mip_opt_out", "true"))
    return _path(model, pairs)


def is_flux(model: str) -> bool:
    """Return whether a speech model is of the family served at `/v2/speak`: `flux-alexis-en`."""
    return model.partition("-")[0] == _FLUX


def voice_model(model: str, voice: str) -> str:
    """Return the model's name, of which the voice is a part: `aura-2-thalia-en`. A bare voice is combined with the family.

    Voices of the other families are ignored.
    """
    if not voice or voice == model:
        return model
    if voice.startswith(f"{_FLUX}-" if is_flux(model) else "aura"):
        return voice
    return f"{model}-{voice}-en" if model in _FAMILIES else model


def speaks(language: str | None, model: str, voice: str) -> bool:
    """Return whether a voice is of this language, which the end of its name says: `aura-2-celeste-es`."""
    last = voice_model(model, voice).rpartition("-")[2]
    return (language or "").partition("-")[0].lower() == (last if len(last) == 2 else "en")


def default_voice(model: str) -> str | None:
    """Return "" for a model whose name has a voice, None for a bare family."""
    return None if model in _FAMILIES else ""


def _path(model: str, pairs: list[tuple[str, str]]) -> str:
    return f"/{'v2' if is_flux(model) else 'v1'}/speak?" + urlencode(pairs)


def _audio_fields(fmt: AudioFormat) -> list[tuple[str, str]]:
    raw = ENCODINGS.get(fmt.encoding)
    if raw is not None:
        return [("encoding", raw), ("sample_rate", str(fmt.sample_rate_hz)), ("container", "none")]
    match fmt.encoding:
        case "wav":
            return [("encoding", "linear16"), ("sample_rate", str(fmt.sample_rate_hz or 24_000)), ("container", "wav")]
        case "ogg" | "opus":
            return [("encoding", "opus"), ("container", "ogg")]
        case "flac" if fmt.sample_rate_hz:
            return [("encoding", "flac"), ("sample_rate", str(fmt.sample_rate_hz))]
        case "mp3" if fmt.kbit_per_s:
            return [("encoding", "mp3"), ("bit_rate", str(1_000 * fmt.kbit_per_s))]
    return [("encoding", fmt.encoding)]


def body(request: SpeakRequest) -> bytes:
    own = {name: raw for name, raw in _own(request).items() if not name.startswith(_QUERY)}
    return msgspec.json.encode({"text": request.text, **own})


def _own(request: SpeakRequest) -> Mapping[str, msgspec.Raw]:
    return request.extra if request.dialect == "deepgram" else {}


def live_path(request: SpeakLiveRequest, model: str) -> str:
    """Return path and query of the socket. A caller of this dialect has its own settings passed on."""
    encoding = ENCODINGS.get(request.format.encoding, "linear16")
    voice = voice_model(model, request.voice)
    pairs = [("model", voice), ("encoding", encoding)]
    pairs.append(("sample_rate", str(request.format.sample_rate_hz)))
    if request.dialect == "deepgram":
        pairs += [(name, value) for name, value in request.options if name not in _COMMON]
    else:
        pairs += [*_speed_field(request, voice), *optional_pairs(mip_opt_out=request.no_store)]
    return _path(model, pairs)


def _speed_field(request: SpeakRequest | SpeakLiveRequest, voice: str) -> list[tuple[str, str]]:
    """Return the speed of a caller of this dialect as it is, and that of others as the voice takes it."""
    speed = request.speed
    if speed is None or (request.dialect != "deepgram" and not takes_speed(voice)):
        return []
    return [("speed", f"{speed if request.dialect == 'deepgram' else nearest_speed(speed, voice):g}")]


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    text: str = ""
    description: str = ""
    code: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


class DeepgramSpeakClient:
    """One session: text and commands to frames, frames to events. With `keep_raw` events carry their frame."""

    def __init__(self, provider: str, *, keep_raw: bool = False, secrets: Iterable[str] = ()) -> None:
        self.ended = False
        self._provider = provider
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._flushes = 0  # flushes not answered yet
        self._clears: list[int] = []
        """For each clear not answered yet, the flushes that were unanswered when it was sent."""
        self._unflushed = False
        self._finishing = False
        self._own_flush = False  # whether the last flush is that of `finish`, which only the end answers
        self._characters = 0

    def text(self, text: str) -> list[str]:
        self._unflushed = True
        self._characters += counted(text)
        return [json_frame({"type": "Speak", "text": text})]

    def flush(self) -> list[str]:
        self._flushes += 1
        self._unflushed = False
        return [FLUSH]

    def clear(self) -> list[str]:
        self._unflushed = False
        self._clears.append(self._flushes)
        return [CLEAR]

    def forward(self, frame: str) -> list[str]:
        try:
            message = _MESSAGE.decode(frame)
        except BAD_JSON:
            return []
        match message.type:
            case "Speak":
                self._unflushed = True
                self._characters += len(message.text)
            case "Flush":
                return self.flush()
            case "Clear":
                return self.clear()
            case "Close":
                return self.finish()
        return [frame]

    def finish(self) -> list[str]:
        """Flush the remaining text. The socket is closed when that was answered: closing at once would cut the audio."""
        self._finishing = True
        if self._unflushed:
            self._own_flush = True
            return self.flush()
        return [] if self._flushes else [CLOSE]

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame. Raises ProviderError for `Error`, UpstreamProtocolError for a malformed frame."""
        if isinstance(frame, bytes):
            return [AudioChunk(data=frame)] if frame else []
        message = decode_upstream(_MESSAGE, frame, self._provider)
        raw = frame if self._keep_raw else None
        match message.type:
            case "Flushed":
                self._flushes = max(0, self._flushes - 1)
                if self._clears:  # it crossed the clear on its way, and answers a flush that was dropped
                    self._clears = [max(0, due - 1) for due in self._clears]
                    return [VendorFrame(raw=raw)] if raw is not None else []
                if not self._finishing or self._flushes:
                    return [Flushed(raw=raw)]
                return self._end() if self._own_flush else [Flushed(raw=raw), *self._end()]
            case "Cleared":
                return self._cleared(raw)
            case "Error":
                raise session_error(
                    self._provider, message.description, safe_code(message.code, self._secrets), self._secrets
                )
        return [VendorFrame(raw=frame)] if raw is not None else []

    def _cleared(self, raw: str | None) -> list[SpeakEvent]:
        """Stop waiting for the flushes before the clear: what they would have spoken was dropped."""
        if self._clears:
            due = self._clears.pop(0)
            self._flushes -= due
            self._clears = [max(0, later - due) for later in self._clears]
        events: list[SpeakEvent] = [VendorFrame(raw=raw)] if raw is not None else []
        return events + self.closed()

    def closed(self) -> list[SpeakEvent]:
        """Return the last events after the vendor closed the socket normally; none if flushes are unanswered."""
        return self._end() if self._finishing and not self._flushes else []

    def _end(self) -> list[SpeakEvent]:
        self.ended = True
        return [SpeakEnd(usage=Usage(characters=self._characters, source="measured"))]


# ---- server


def parse_live_query(query: bytes) -> SpeakLiveRequest:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    check_no_container(fields)
    return SpeakLiveRequest(
        model=fields.get("model", ""), format=raw_format(fields.get("encoding", "linear16"), fields),
        speed=_speed(fields.get("speed")), dialect="deepgram", options=tuple(pairs), **_settings(pairs)
    )  # fmt: skip


def _settings(pairs: list[tuple[str, str]]) -> dict[str, Any]:
    """Return the setting about what the vendor keeps, and the names of those that others do without."""
    if any(name == "callback" for name, _ in pairs):
        raise ClientProtocolError(what="callback is not supported: the response has the audio", param="callback")
    _, ignorable = own_settings(pairs, _COMMON | {"speed", "mip_opt_out"}, ())
    return {"no_store": is_true(dict(pairs).get("mip_opt_out")), "ignorable": ignorable}


def parse_http(query: bytes, received: bytes) -> SpeakRequest:
    """Parse a `POST /v1/speak`. Raises ClientProtocolError, with `param`."""
    fields = dict(query_pairs(query))
    text = decode_client(_MESSAGE, received, 'the body must be JSON: {"text": "..."}').text
    if not text:
        raise ClientProtocolError(what="text: nothing to speak", param="text")
    fmt, in_wav = http_format(fields)
    return SpeakRequest(
        model=fields.get("model", ""), text=text, format=fmt, in_wav=in_wav, speed=_speed(fields.get("speed")), dialect="deepgram",
        extra=_extra(query, received),
        **_settings([pair for pair in query_pairs(query) if pair[0] != "bit_rate" or not fmt.kbit_per_s]),
    )  # fmt: skip


def _extra(query: bytes, received: bytes) -> dict[str, msgspec.Raw]:
    """Return the members and query fields unknown here, which an upstream of this dialect is sent."""
    members = decode_client(MEMBERS, received, "the body is not JSON")  # such as a name that is not UTF-8
    extra = {name: raw for name, raw in members.items() if name != "text" and not name.startswith(_QUERY)}
    repeated: dict[str, list[str]] = {}
    for name, value in query_pairs(query):
        if name not in _COMMON and name != "speed":
            repeated.setdefault(name, []).append(value)
    return extra | {_QUERY + name: msgspec.Raw(msgspec.json.encode(values)) for name, values in repeated.items()}


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


_COMMANDS = {
    "Flush": TtsCommand.FINISH, "Clear": TtsCommand.CLEAR, "Interrupt": TtsCommand.CLEAR, "Close": TtsCommand.CLOSE
}  # fmt: skip


class DeepgramSpeakServer:
    """One session of a client. The text between two flushes is one utterance."""

    def __init__(self, *, request_id: str, model: str) -> None:
        self._id = request_id
        self._model = model
        self._sequence = 0

    def opening(self) -> str:
        """Return the frame sent right after the handshake."""
        about = {"model_name": self._model, "model_version": "1", "model_uuid": self._id, "additional_model_uuids": []}
        return typed_frame("Metadata", request_id=self._id, **about)

    def receive(self, frame: Frame) -> Sequence[SpeakMessage]:
        """Decode a client's frame. Raises ClientProtocolError."""
        if isinstance(frame, bytes):
            raise ClientProtocolError(what="binary frames are not accepted here: send JSON in text frames")
        message = decode_client(_MESSAGE, frame, NO_TYPE)
        return self._messages(message.type, message.text, frame)

    def _messages(self, kind: str, text: str, frame: str) -> Sequence[SpeakMessage]:
        if kind == "Speak":
            return (Text(text),) if text else ()
        return (_COMMANDS[kind],) if kind in _COMMANDS else ()

    def closing(self) -> Sequence[str]:
        """Return the frames sent before the socket is closed."""
        return ()

    def cleared(self) -> str:
        """Return the answer to `Clear`."""
        self._sequence += 1
        return typed_frame("Cleared", sequence_id=self._sequence - 1)

    def encode(self, events: list[SpeakEvent]) -> list[Frame]:
        frames: list[Frame] = []
        for event in events:
            match event:
                case AudioChunk(data=data) if data:
                    frames.append(data)
                case Flushed():
                    frames.append(typed_frame("Flushed", sequence_id=self._sequence))
                    self._sequence += 1
                case VendorFrame(raw=raw):
                    frames.append(raw)
        return frames


def error_frame(code: str, message: str) -> str:
    return typed_frame("Error", code=code, description=message)


# ---- Flux, client


class _Billed(msgspec.Struct, gc=False):
    billable_character_count: int | None = None


class _FluxMessage(msgspec.Struct, gc=False):
    type: str = ""
    billable_character_count: int | None = None
    metadata: _Billed | None = None


_FLUX_MESSAGE = msgspec.json.Decoder(_FluxMessage)


class FluxSpeakClient(DeepgramSpeakClient):
    """One session. Commands of a caller, who speaks `/v1/speak` to the gateway, are translated."""

    _billed: int | None = None

    def clear(self) -> list[str]:
        super().clear()
        return [INTERRUPT]

    def receive(self, frame: Frame) -> list[SpeakEvent]:
        """Decode a frame; raises like that of `/v1/speak`."""
        if isinstance(frame, str):
            message = decode_or(_FLUX_MESSAGE, frame, _FluxMessage())
            if message.type == "SpeechMetadata":
                self._add_billed(message.billable_character_count)
            elif message.type == "SpeechInterrupted":
                self._add_billed(message.metadata.billable_character_count if message.metadata is not None else None)
                return self._cleared(None)
        return super().receive(frame)

    def _add_billed(self, characters: int | None) -> None:
        if characters is not None:
            self._billed = (self._billed or 0) + tokens(characters)

    def _end(self) -> list[SpeakEvent]:
        events = super()._end()
        if self._billed is None:
            return events
        figure = VendorFigure(amount=self._billed, unit="characters")
        return [SpeakEnd(usage=Usage(characters=self._billed, source="vendor", vendor_figure=figure))]


# ---- Flux, server


class _Offset(msgspec.Struct, gc=False):
    value: int
    type: Literal["time_ms"] = "time_ms"


class _Interrupt(msgspec.Struct, gc=False):
    playback_offset: _Offset | None = None


class _Settings(msgspec.Struct, gc=False):
    speed: float | None = None


_INTERRUPT = msgspec.json.Decoder(_Interrupt)
_SETTINGS = msgspec.json.Decoder(_Settings)


class FluxSpeakServer(DeepgramSpeakServer):
    """One session of a client. The characters billed are those of the text sent."""

    def __init__(self, *, request_id: str, model: str, fmt: AudioFormat) -> None:
        super().__init__(request_id=request_id, model=model)
        self.speed: float | None = None  # speed the client has configured in the session; None if it has not
        self.offset_ms: int | None = None  # position at which the client says it was interrupted
        self._format = fmt
        self._interrupted_ms = -1  # position of the last interruption
        self._skipped_ms = 0  # audio that clients dropped when they interrupted, as they said
        self._pending = [0]  # characters of each speech not answered yet; last those since the last `Flush`
        self._characters = self._speeches = 0
        self._started = False
        self._bytes = self._speech_bytes = 0

    def opening(self) -> str:
        about = {"model_name": self._model, "model_version": "1", "model_uuids": [self._id]}
        return typed_frame("Connected", request_id=self._id, **about)

    def _messages(self, kind: str, text: str, frame: str) -> Sequence[SpeakMessage]:
        match kind:
            case "Speak":
                self._pending[-1] += len(text)
                self._characters += len(text)
            case "Flush":
                self._pending.append(0)
            case "Interrupt":
                offset = decode_or(_INTERRUPT, frame, _Interrupt()).playback_offset
                if offset is not None and offset.value <= self._interrupted_ms:
                    what = f"playback_offset must be greater than {self._interrupted_ms}, where the last interruption was"
                    return (DirectReply(typed_frame("Warning", code="INVALID_INTERRUPT_OFFSET", description=what)),)
                self.offset_ms = None if offset is None else min(offset.value, self.position_ms)
            case "Configure":
                return (DirectReply(self._configured(frame)),)
        return super()._messages(kind, text, frame)

    @property
    def position_ms(self) -> int:
        """End of the audio in the session's time, which an interruption sets back to where it was played."""
        return self._ms(self._bytes) - self._skipped_ms

    def cleared(self) -> str:
        return self.interrupted()

    def interrupted(self, **texts: str) -> str:
        """Return the answer to `Interrupt`. `texts`: `text_spoken` and `text_remaining`, where the client sent its position."""
        metadata = self._metadata(sum(self._pending))
        self._pending = [0]
        self._end_speech()
        played_ms = self.position_ms if self.offset_ms is None else self.offset_ms
        self._skipped_ms += self.position_ms - played_ms
        self._interrupted_ms = played_ms
        return typed_frame("SpeechInterrupted", audio_played_ms=played_ms, **texts, metadata=metadata)

    def closing(self) -> Sequence[str]:
        counts = {"total_input_character_count": self._characters, "total_billable_character_count": self._characters}
        return (typed_frame("SessionMetadata", total_audio_duration_ms=self._ms(self._bytes), **counts),)

    def encode(self, events: list[SpeakEvent]) -> list[Frame]:
        frames: list[Frame] = []
        for event in events:
            match event:
                case AudioChunk(data=data) if data:
                    if not self._started:
                        self._started = True
                        frames.append(typed_frame("SpeechStarted", speech_id=self._speech_id))
                    self._bytes += len(data)
                    self._speech_bytes += len(data)
                    frames.append(data)
                case Flushed():
                    count = self._pending.pop(0) if len(self._pending) > 1 else 0
                    if self._started:
                        frames.append(typed_frame("SpeechMetadata", **self._metadata(count)))
                    frames.append(typed_frame("Flushed", speech_id=self._speech_id))
                    self._end_speech()
        return frames

    @property
    def _speech_id(self) -> str:
        return f"dg_sp_{self._speeches:012x}"

    def _end_speech(self) -> None:
        self._speeches += 1
        self._started, self._speech_bytes = False, 0

    def _metadata(self, characters: int) -> dict[str, Any]:
        return {
            "speech_id": self._speech_id,
            "audio_duration_ms": self._ms(self._speech_bytes),
            "input_character_count": characters,
            "billable_character_count": characters,
            "controls_applied": {"pronunciations_applied": 0, "breaks_applied": 0, "pronunciation_warnings": 0},
        }

    def _ms(self, n_bytes: int) -> int:
        return round(self._format.seconds(n_bytes) * 1000)

    def _configured(self, frame: str) -> str:
        """Set the speed of the text to come; return the answer."""
        speed = decode_or(_SETTINGS, frame, _Settings()).speed
        if (refusal := flux_refusal(speed)) is not None:
            return typed_frame("ConfigureFailure", code=refusal[0], field="speed", description=refusal[1])
        self.speed = speed
        return typed_frame("ConfigureSuccess", applied={"speed": speed})
