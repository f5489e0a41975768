"""Deepgram's live transcription (`/v1/listen`): the server. Its protocol is described in `deepgram_listen`."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenRequest, SpeechStarted, UtteranceEnd
from gw.wire import deepgram_settings
from gw.wire.deepgram_listen import ENCODINGS
from gw.wire.deepgram_messages import ListenOptions
from gw.wire.json_frames import Frame, frame_type, typed_frame, vendor_frames
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.query import SAMPLE_RATES_HZ, encoding_field, int_field, is_true, query_pairs
from gw.wire.transcripts import UNKNOWN_CONFIDENCE, confidence_of, speaker_number

_SERVED: dict[str, Encoding] = {
    "linear16": "pcm_s16le", "linear32": "pcm_f32le", "mulaw": "mulaw", "alaw": "alaw", "flac": "flac", "opus": "opus",
    "ogg-opus": "ogg",
}  # fmt: skip
_MODEL_INFO = {"name": "gw", "version": "1", "arch": "gw"}


def parse_query(query: bytes) -> ListenOptions:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    endpointing = fields.get("endpointing", "")
    request = ListenRequest(
        model=fields.get("model", ""),
        format=format_of(fields),
        language=deepgram_settings.language_of(fields),
        interim_results=is_true(fields.get("interim_results")),
        endpointing_ms=int(endpointing) if endpointing.isascii() and endpointing.isdigit() and len(endpointing) < 7 else None,
        **deepgram_settings.to_common(pairs),
        dialect="deepgram",
        options=tuple(pairs),
    )
    vad_events = is_true(fields.get("vad_events"))
    return ListenOptions(request=request, vad_events=vad_events, utterance_end="utterance_end_ms" in fields)


def format_of(fields: dict[str, str]) -> AudioFormat:
    """Return the format in `encoding`, `sample_rate` and `channels`. Without an encoding the audio's container says it."""
    if "encoding" not in fields:
        return AudioFormat(encoding="unknown")
    encoding = encoding_field(fields["encoding"], _SERVED)
    rate = int_field(fields, "sample_rate", 0)
    if encoding in ENCODINGS and rate not in SAMPLE_RATES_HZ:
        raise ClientProtocolError(what="raw audio needs a sample_rate between 4000 and 192000", param="sample_rate")
    channels = int_field(fields, "channels", 1)
    if channels not in range(1, 33):
        raise ClientProtocolError(what="channels must be between 1 and 32", param="channels")
    return AudioFormat(encoding=encoding, sample_rate_hz=rate, channels=channels)


class DeepgramListenServer(ListenProtocol):
    binary_is_audio = True

    def __init__(self, options: ListenOptions, *, request_id: str, created: str = "") -> None:
        self._options = options
        self._id = request_id
        self._created = created
        self._final_until_s = 0.0
        self._finalizing = False

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        """Decode a client's frame. An empty binary frame means CloseStream. Raises ClientProtocolError."""
        if isinstance(frame, bytes):
            self.audio_bytes += len(frame)
            return (Audio(frame),) if frame else (Control.FINISH,)
        match frame_type(frame):
            case "KeepAlive":
                return ()
            case "Finalize":
                self._finalizing = True
                return (Control.FLUSH,)
            case "CloseStream":
                return (Control.FINISH,)
        return (Forward(frame),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        if passed := vendor_frames(events):
            return passed
        options = self._options
        frames: list[str] = []
        for n, event in enumerate(events):
            match event:
                case SpeechStarted(at_s=at_s) if options.vad_events:
                    frames.append(typed_frame("SpeechStarted", channel=[0, 1], timestamp=round(at_s, 3)))
                case Interim() if options.request.interim_results and event.text:
                    frames.append(self._results(event))
                case Final():
                    ends = n + 1 < len(events) and isinstance(events[n + 1], UtteranceEnd)
                    frames.append(self._results(event, speech_final=ends))
                    self._final_until_s = event.end_s
                case UtteranceEnd(at_s=at_s):
                    if n == 0 or not isinstance(events[n - 1], Final):  # else the final has said so
                        empty = Final(text="", start_s=self._final_until_s, end_s=at_s)
                        frames.append(self._results(empty, speech_final=True))
                    if options.utterance_end:
                        frames.append(typed_frame("UtteranceEnd", channel=[0, 1], last_word_end=round(at_s, 3)))
                case ListenEnd():
                    frames.append(self._metadata())
        return frames

    def _results(self, result: Interim | Final, *, speech_final: bool = False) -> str:
        is_final = isinstance(result, Final)
        start_s = min(self._final_until_s, result.start_s)
        from_finalize, self._finalizing = self._finalizing and is_final, self._finalizing and not is_final
        alternative: dict[str, Any] = {
            "transcript": result.text,
            "confidence": or_unknown(confidence_of(result)),
            "words": [{"confidence": UNKNOWN_CONFIDENCE, **word_object(word)} for word in result.words],
        }
        if result.language:
            alternative["languages"] = [result.language]
        return typed_frame(
            "Results",
            channel_index=[0, 1],
            duration=round(max(0.0, result.end_s - start_s), 3),
            start=round(start_s, 3),
            is_final=is_final,
            speech_final=speech_final,
            channel={"alternatives": [alternative]},
            metadata={"request_id": self._id, "model_info": _MODEL_INFO, "model_uuid": self._id},
            from_finalize=from_finalize,
        )

    def _metadata(self) -> str:
        fmt = self._options.request.format
        return typed_frame(
            "Metadata", transaction_key="deprecated", request_id=self._id,
            sha256=sha256(self._id.encode()).hexdigest(), created=self._created,
            duration=round(fmt.seconds(self.audio_bytes), 3), channels=fmt.channels
        )  # fmt: skip


def or_unknown(confidence: float | None) -> float:
    """Return a number where clients require one: the type of a live result, and LiveKit of every transcript."""
    return UNKNOWN_CONFIDENCE if confidence is None else confidence


def word_object(word: stt.Word) -> dict[str, Any]:
    """Return the JSON object of a word. In answers to recordings an unknown confidence may be absent."""
    members: dict[str, Any] = {
        "word": word.text.strip(".,!?;:").lower(),
        "start": round(word.start_s, 3),
        "end": round(word.end_s, 3),
        "punctuated_word": word.text,
    }
    if word.confidence is not None:
        members["confidence"] = word.confidence
    if word.speaker is not None:
        members["speaker"] = speaker_number(word.speaker)
    return members


def error_frame(code: str, message: str) -> str:
    """Return the frame sent before a session is closed."""
    return typed_frame("Error", variant=code, code=code, description=message, message=message)


def error_body(code: str, message: str, request_id: str, **facts: object) -> bytes:
    """Return the body of a refused handshake or a failed request, in both shapes that Deepgram's clients read."""
    error = {"err_code": code, "err_msg": message, "request_id": request_id, "category": code, "message": message}
    return msgspec.json.encode({**error, **facts, **error})
