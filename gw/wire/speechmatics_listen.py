"""Speechmatics' live transcription, `WS /v2`: both roles.

Source: github.com/speechmatics/docs at 2026-08-13 (`spec/realtime.yaml`, "Realtime API Reference", "Turn detection", "Output",
"Limits") and speechmatics-rt 1.2.1.

=========================  =======================================================================================
Client sends               Server answers
=========================  =======================================================================================
`StartRecognition`         `RecognitionStarted`, before which no audio may be sent; `Error`, if it refuses it
binary frame: audio        `AudioAdded` with its number; `AddPartialTranscript` of what is not final, `AddTranscript`
`ForceEndOfUtterance`      `AddTranscript` of the audio so far, then `EndOfUtterance`, each with `forced`
`EndOfStream`              the last `AddTranscript`, then `EndOfTranscript`
=========================  =======================================================================================

After a silence of `end_of_utterance_silence_trigger` the rest becomes final and `EndOfUtterance` follows. `Info` and `Warning`
end nothing. After an `Error` the vendor closes the socket, with a code of its own for some types.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderError
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, UtteranceEnd
from gw.wire.bounds import seconds
from gw.wire.json_codec import decode_client, decode_upstream
from gw.wire.json_frames import Frame, json_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.speechmatics_results import ERRORS, ResultItem, encode_words, language_in, transcription_config, words_of
from gw.wire.transcripts import Result, transcribed
from gw.wire.vendor_errors import ErrorFacts, error_of

ENCODINGS: frozenset[Encoding] = frozenset({"pcm_s16le", "pcm_f32le", "mulaw"})
_SILENCE_MS = (100, 2_000)
"""Shortest `end_of_utterance_silence_trigger` that is of use, since 0 switches it off, and the longest."""
_USUAL_SILENCE_MS = 800
"""The vendor has none; it recommends 500 to 800 for voice agents."""
_STATUSES = {
    **dict.fromkeys(
        ("invalid_message", "invalid_model", "invalid_language", "invalid_config", "invalid_audio_type", "invalid_output_format",
         "protocol_error", "policy_violation"), 400,
    ),
    "not_authorised": 401, "timelimit_exceeded": 402, "not_allowed": 403, "idle_timeout": 408, "session_timeout": 408,
    "quota_exceeded": 429,
}  # fmt: skip
"""Type of an error → the HTTP status that it would have; any other is 500."""
_CLOSE_TYPES = {
    1003: "protocol_error", 1008: "policy_violation", 1011: "internal_error", 4001: "not_authorised", 4003: "not_allowed",
    4004: "invalid_model", 4005: "quota_exceeded", 4006: "timelimit_exceeded", 4013: "job_error",
}  # fmt: skip


class _Metadata(msgspec.Struct, gc=False):
    start_time: float | None = None
    end_time: float | None = None
    transcript: str = ""


class _Message(msgspec.Struct, gc=False):
    message: str
    type: str | None = None
    reason: str | None = None
    metadata: _Metadata | None = None
    results: list[ResultItem] | None = None
    forced: bool = False


_MESSAGE = msgspec.json.Decoder(_Message)
_NOTICES = frozenset({"AudioAdded", "Info", "Warning"})


# ---- client


def start(request: ListenRequest, model: str) -> str:
    """Return the first frame of a session."""
    config = transcription_config(request, model)
    config["enable_partials"] = request.interim_results
    config["conversation_config"] = {"end_of_utterance_silence_trigger": _silence_ms(request) / 1000}
    fmt = request.format
    audio = {"type": "raw", "encoding": fmt.encoding, "sample_rate": fmt.sample_rate_hz}
    return json_frame({"message": "StartRecognition", "audio_format": audio, "transcription_config": config})


def _silence_ms(request: ListenRequest) -> int:
    shortest_ms, longest_ms = _SILENCE_MS
    return _USUAL_SILENCE_MS if request.endpointing_ms is None else min(longest_ms, max(shortest_ms, request.endpointing_ms))


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due. Without partial results, words become final after four seconds at most."""
    silence_s = _silence_ms(request) / 1000
    running_s = 2.5 if request.interim_results else 10.0
    return ListenPace(endpoint_s=silence_s, running_s=running_s, ends_on_flush=True, utterance_end_s=silence_s)


def error_for(provider: str, kind: str, message: str = "", secrets: Iterable[str] = ()) -> ProviderError:
    """Return the error for the vendor's type of one."""
    return error_of(provider, _STATUSES.get(kind, 500), ErrorFacts(code=kind, message=message), secrets, dialect=ERRORS)


def close_error(provider: str, code: int) -> ProviderError | None:
    """Return the error that a close code stands for; None for any other code."""
    return error_for(provider, _CLOSE_TYPES[code]) if code in _CLOSE_TYPES else None


class SpeechmaticsListenClient:
    """One session: audio and commands to frames, frames to events."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        self.started = self.ended = False
        self.is_notice = False
        """Whether the last frame answers no speech: a receipt of audio comes from a recogniser that hears nothing, too."""
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._frames = 0  # of audio
        self._sent_s = self._final_s = 0.0
        self._finals: list[Final] = []  # those of a flush, until the end of the utterance that follows

    def audio(self, data: bytes) -> bytes:
        self._frames += 1
        self._sent_s += self._format.seconds(len(data))
        return data

    def flush(self) -> str:
        return json_frame({"message": "ForceEndOfUtterance", "timestamp": round(self._sent_s, 3)})

    def forward(self, frame: str) -> None:
        """Drop a caller's control frame: no caller speaks this protocol."""

    def finish(self) -> str:
        return json_frame({"message": "EndOfStream", "last_seq_no": self._frames})

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        about, self.is_notice = message.metadata or _Metadata(), message.message in _NOTICES
        match message.message:
            case "RecognitionStarted":
                self.started = True
            case "AddPartialTranscript":
                return [*self._transcript(Interim, about, message.results or [])]
            case "AddTranscript":
                self._finals += self._transcript(Final, about, message.results or [])
                self.is_notice = message.forced
                return [] if message.forced else self._take_finals()
            case "EndOfUtterance":
                return [*self._take_finals(), UtteranceEnd(at_s=self._final_s or seconds(about.end_time) or 0.0)]
            case "EndOfTranscript":
                self.ended = True
                return [*self._take_finals(), ListenEnd()]
            case "Error":
                raise error_for(self._provider, message.type or "", message.reason or "", self._secrets)
        return []

    def _take_finals(self) -> list[ListenEvent]:
        finals, self._finals = self._finals, []
        return [*finals]

    def _transcript(self, kind: type[Result], about: _Metadata, items: Sequence[ResultItem]) -> list[Result]:
        text, final = about.transcript.strip(), kind is Final
        if not text:
            return []
        words, start_s = words_of(items, confidence=final), seconds(about.start_time) or 0.0
        end_s = max(start_s, seconds(about.end_time) or 0.0)
        result = transcribed(kind, text, words, start_s=start_s, end_s=end_s, language=language_in(items))
        if final:
            self._final_s = result.end_s
        return [result]


# ---- server


class _Audio(msgspec.Struct, gc=False, tag_field="type", tag="raw"):
    encoding: Encoding
    sample_rate: int


class _Term(msgspec.Struct, gc=False):
    content: str


class _Conversation(msgspec.Struct, gc=False):
    end_of_utterance_silence_trigger: float | None = None


class _Config(msgspec.Struct, gc=False):
    language: str
    model: str = "standard"
    additional_vocab: list[str | _Term] | None = None
    diarization: str | None = None
    enable_partials: bool | None = None
    conversation_config: _Conversation | None = None


class _Start(msgspec.Struct, gc=False):
    message: str
    audio_format: _Audio
    transcription_config: _Config


_START = msgspec.json.Decoder(_Start)
_NAMED = msgspec.json.Decoder(_Message)


def parse_start(frame: Frame) -> ListenRequest:
    """Decode the first frame of a client. Raises ClientProtocolError."""
    first = decode_client(_START, frame, "the first frame must be StartRecognition with raw audio", "audio_format")
    config, audio = first.transcription_config, first.audio_format
    trigger_s = (config.conversation_config or _Conversation()).end_of_utterance_silence_trigger
    if audio.encoding not in ENCODINGS or not audio.sample_rate > 0:
        raise ClientProtocolError(what="the encoding is not supported", param="audio_format")
    if trigger_s is not None and not 0 <= trigger_s <= 2:
        raise ClientProtocolError(what="end_of_utterance_silence_trigger must be 0 to 2", param="conversation_config")
    return ListenRequest(
        model=config.model, format=AudioFormat(encoding=audio.encoding, sample_rate_hz=audio.sample_rate), language=config.language,
        keyterms=tuple(term if isinstance(term, str) else term.content for term in config.additional_vocab or ()),
        diarize=config.diarization == "speaker", interim_results=bool(config.enable_partials),
        endpointing_ms=round(trigger_s * 1000) if trigger_s else None, dialect="speechmatics",
    )  # fmt: skip


class SpeechmaticsListenServer(ListenProtocol):
    """One session of a client, after its first frame."""

    binary_is_audio = True

    def __init__(self, request: ListenRequest) -> None:
        self._request = request
        self._frames = 0
        self._forced = False

    def opening(self) -> Sequence[Frame]:
        info = {"language_description": "English", "word_delimiter": " ", "writing_direction": "left-to-right"}
        return (json_frame({"message": "RecognitionStarted", "id": "s", "language_pack_info": info}),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            return (Audio(frame),) if frame else ()
        match decode_client(_NAMED, frame, "a text frame must be a JSON object with a message").message:
            case "ForceEndOfUtterance":
                self._forced = True
                return (Control.FLUSH,)
            case "EndOfStream":
                return (Control.FINISH,)
        return (Forward(frame),)

    def added(self) -> Frame:
        """Return the receipt of a frame of audio."""
        self._frames += 1
        return json_frame({"message": "AudioAdded", "seq_no": self._frames})

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        frames: list[Frame] = []
        for event in events:
            if isinstance(event, Interim) and self._request.interim_results:
                frames.append(self._result("AddPartialTranscript", event))
            elif isinstance(event, Final):
                frames.append(self._result("AddTranscript", event))
            elif isinstance(event, UtteranceEnd):
                times = {"start_time": round(event.at_s, 3), "end_time": round(event.at_s, 3)}
                frames.append(json_frame({"message": "EndOfUtterance", "metadata": times, **self._mark()}))
                self._forced = False
            elif isinstance(event, ListenEnd):
                frames.append(json_frame({"message": "EndOfTranscript"}))
        return frames

    def _mark(self) -> dict[str, Any]:
        return {"forced": True} if self._forced else {}

    def _result(self, name: str, result: Interim | Final) -> str:
        words = result.words or (stt.Word(text=result.text, start_s=result.start_s, end_s=result.end_s),)
        text = result.text + ("" if not result.text or isinstance(result, Interim) else " ")
        about = {"start_time": round(result.start_s, 3), "end_time": round(result.end_s, 3), "transcript": text}
        results = encode_words(words, self._request.language or "en") if result.text else []
        return json_frame({"message": name, "format": "2.1", "metadata": about, "results": results, **self._mark()})


def error_frame(kind: str, reason: str) -> str:
    return json_frame({"message": "Error", "type": kind, "reason": reason})
