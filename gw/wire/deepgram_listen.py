"""Deepgram's transcription (`/v1/listen`), live and of recordings: client and server.

Source: deepgram-sdk 7.17.0, `listen/v1` and `listen/v1/media` (November 2026). Times count from the first audio.

===================  =====================================================================================
Client sends         Server answers
===================  =====================================================================================
binary frame: audio  `Results` (`is_final`: will not change, `speech_final`: the speaker paused),
                     `SpeechStarted`, `UtteranceEnd`; nothing before the first audio
`Finalize`           `Results` for the audio so far, the final one with `from_finalize`
`KeepAlive`          nothing
`CloseStream`        the remaining `Results`, then `Metadata` with the seconds billed: the session has ended
===================  =====================================================================================

Of the server, LiveKit reads `metadata.request_id`, `is_final`, `speech_final` and the first alternative; Pipecat `from_finalize`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.speech_settings import DETECT
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, SpeechStarted, UtteranceEnd
from gw.types.usage import Usage
from gw.wire import deepgram_settings
from gw.wire.bounds import plausible, seconds
from gw.wire.deepgram_errors import session_error
from gw.wire.json_codec import decode_request, decode_upstream, present
from gw.wire.json_frames import Frame, frame_text, frame_type, typed_frame, vendor_frames
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward, ListenProtocol
from gw.wire.query import SAMPLE_RATES_HZ, encoding_field, int_field, is_true, optional_pairs, query_pairs
from gw.wire.transcripts import UNKNOWN_CONFIDENCE, confidence_of, segments_of, speaker_number, unknown
from gw.wire.vendor_errors import safe_code

FINALIZE, CLOSE_STREAM, KEEP_ALIVE = '{"type":"Finalize"}', '{"type":"CloseStream"}', '{"type":"KeepAlive"}'
ENCODINGS = {"pcm_s16le": "linear16", "pcm_f32le": "linear32", "mulaw": "mulaw", "alaw": "alaw"}
"""Raw encodings: the gateway's name → Deepgram's. Audio in a container has none."""
BY_TURNS = ("/v2/listen", "")
"""Option of a request whose caller speaks the protocol of that path, which has other frames and settings."""
_COMMON = frozenset({"model", "encoding", "sample_rate", "channels", BY_TURNS[0]})
"""Options that a request has in common terms."""
_SHARED = frozenset({"tag", "mip_opt_out", "numerals", "profanity_filter", "redact"})
"""Settings with the same meaning at `/v1/listen` and `/v2/listen`."""
_ENDPOINT_S, _ENTITY_S = 0.01, 3.0
"""Silence that ends an utterance by default, and after which a number that may go on becomes final (vendor's pages on
endpointing, and on smart formatting, April 2025)."""
_MAY_WAIT_S = 0.2  # for the interim result of such a number: most of them come within the time for a final
_SOON_S = 0.3  # a pause that a flush of ours never makes shorter
_INTERIM_S = 1.0  # interim results come about every second of audio (vendor's page on them)
_RUNNING_S, _WITHOUT_INTERIMS_S = 2.5, 10.0


class _Word(msgspec.Struct, gc=False):
    word: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    punctuated_word: str | None = None
    speaker: int | None = None


class Alternative(msgspec.Struct, gc=False):
    """A transcript, live or of a recording."""

    transcript: str = ""
    confidence: float | None = None
    words: list[_Word] = []
    languages: list[str] | None = None

    @property
    def common_words(self) -> tuple[stt.Word, ...]:
        return tuple(map(_word, self.words))


_NOTHING = Alternative()


class _Channel(msgspec.Struct, gc=False):
    alternatives: list[Alternative] = []
    detected_language: str | None = None
    language_confidence: float | None = None


class _Message(msgspec.Struct, gc=False):
    type: str = ""
    channel: _Channel | list[int] | None = None
    start: float = 0.0
    duration: float | None = None
    is_final: bool = False
    speech_final: bool = False
    timestamp: float = 0.0
    last_word_end: float = 0.0
    channels: int = 1
    description: str = ""
    message: str = ""
    code: str | None = None
    variant: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


# ---- client


def path_of(request: ListenRequest, model: str) -> str:
    """Return path and query of a session. A caller of this dialect has its own settings passed on.

    Interim results are always requested for others: they show that the vendor hears.
    """
    pairs: list[tuple[str, str]] = [("model", model), *audio_fields(request.format)]
    if request.dialect == "deepgram" and not by_turns(request):
        pairs += deepgram_settings.for_model(settings(request, turns=False), model)
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += settings(request, turns=False)
    pairs += optional_pairs(
        smart_format=True, punctuate=True, vad_events=True, interim_results=True, utterance_end_ms=1000,
        language=request.language, endpointing=request.endpointing_ms
    )  # fmt: skip
    pairs += deepgram_settings.from_common(request, model)
    return "/v1/listen?" + urlencode(pairs)


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due: the next interim result is, if the final is not before it."""
    own = dict(request.options) if request.dialect == "deepgram" and not by_turns(request) else None
    endpoint_s = _ENDPOINT_S if request.endpointing_ms is None else request.endpointing_ms / 1000
    if own is not None and own.get("endpointing") == "false":
        endpoint_s = math.inf
    formatted = own is None or is_true(own.get("smart_format")) or is_true(own.get("numerals"))
    may_wait = formatted and not (own is not None and is_true(own.get("no_delay")))
    final_s = endpoint_s + _ENTITY_S if may_wait else endpoint_s
    if own is not None and not request.interim_results:
        return ListenPace(pause_s=final_s, endpoint_s=final_s, running_s=_WITHOUT_INTERIMS_S)
    pause_s = min(endpoint_s, _INTERIM_S) + (_MAY_WAIT_S if may_wait else 0.0)
    seen = own is not None and endpoint_s > _SOON_S
    return ListenPace(
        pause_s=pause_s, endpoint_s=final_s, running_s=_RUNNING_S, ends_on_flush=True, flush_is_seen=seen,
        utterance_end_s=endpoint_s
    )  # fmt: skip


def by_turns(request: ListenRequest) -> bool:
    """Return whether the caller speaks the protocol of `/v2/listen`."""
    return request.dialect == "deepgram" and BY_TURNS in request.options


def settings(request: ListenRequest, *, turns: bool) -> list[tuple[str, str]]:
    """Return the settings of a caller of this dialect that a session (with `turns`, one of `/v2/listen`) understands."""
    if request.dialect != "deepgram":
        return []
    same = by_turns(request) == turns
    return [(name, value) for name, value in request.options if name in _SHARED or (same and name not in _COMMON)]


def default_language(language: str | None, pairs: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return the language configured for a model as a setting, unless the caller's own settings name one."""
    named = any(name in ("language", "detect_language") for name, _ in pairs)
    return [("language", language)] if language and not named else []


def audio_fields(fmt: AudioFormat) -> list[tuple[str, str]]:
    """Return the query fields of raw audio; none for audio in a container."""
    encoding = ENCODINGS.get(fmt.encoding)
    if encoding is None:
        return []
    fields = [("encoding", encoding), ("sample_rate", str(fmt.sample_rate_hz))]
    return fields if fmt.channels == 1 else [*fields, ("channels", str(fmt.channels))]


class DeepgramListenClient:
    """One session: audio and commands to frames, frames to events. With `keep_raw` events carry their frame."""

    def __init__(
        self, provider: str, *, keep_raw: bool = False, interims: bool = True, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._interims = interims or keep_raw  # a caller of this dialect gets exactly what it asked the vendor for
        self._keep_raw = keep_raw
        self._secrets = tuple(secrets)
        self._finishing = False
        self._speaking = False  # whether there were words since the last end of an utterance

    def audio(self, data: bytes) -> bytes:
        return data

    def flush(self) -> list[str]:
        return [FINALIZE]

    def forward(self, frame: str) -> list[str]:
        return [frame]

    def keep_alive(self) -> list[str]:
        return [] if self._finishing else [KEEP_ALIVE]

    def finish(self) -> list[str]:
        self._finishing = True
        return [CLOSE_STREAM]

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for `Error`, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        raw = None if not self._keep_raw else frame if isinstance(frame, str) else frame_text(frame)
        match message.type:
            case "Results":
                return self._results(message, raw)
            case "SpeechStarted":
                return [SpeechStarted(at_s=message.timestamp, raw=raw)]
            case "UtteranceEnd" if self._speaking:
                self._speaking = False
                return [UtteranceEnd(at_s=message.last_word_end, raw=raw)]
            case "Metadata" if self._finishing:  # some servers send one at the beginning as well
                self.ended = True
                length_s = seconds(message.duration)
                billed_s = None if length_s is None else length_s * max(1, message.channels)
                billed = None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor"))
                return [ListenEnd(usage=billed, raw=raw)]
            case "Error":
                code = safe_code(message.code, self._secrets) or safe_code(message.variant, self._secrets)
                raise session_error(self._provider, message.description or message.message, code, self._secrets)
        return unknown(raw)

    def _results(self, message: _Message, raw: str | None) -> list[ListenEvent]:
        channel, is_final, start_s = message.channel, message.is_final, message.start
        best = channel.alternatives[0] if isinstance(channel, _Channel) and channel.alternatives else _NOTHING
        end_s = start_s + (message.duration or 0.0)
        if not (text := best.transcript):
            events = unknown(raw)
        elif is_final or self._interims:
            self._speaking, words, languages = True, best.words, best.languages
            events = [
                (Final if is_final else Interim)(
                    text=text,
                    start_s=words[0].start if words else start_s,
                    end_s=words[-1].end if words and not is_final else end_s,
                    words=best.common_words if words else (),
                    language=languages[0] if languages else None,
                    confidence=best.confidence,
                    raw=raw,
                )
            ]
        else:
            self._speaking = True
            events = []
        if message.speech_final and self._speaking:
            self._speaking = False
            events.append(UtteranceEnd(at_s=end_s))
        return events


def _word(word: _Word) -> stt.Word:
    return stt.Word(
        text=word.punctuated_word or word.word, start_s=word.start, end_s=word.end, confidence=word.confidence,
        speaker=None if word.speaker is None else str(word.speaker)
    )  # fmt: skip


# ---- server

_SERVED: dict[str, Encoding] = {
    "linear16": "pcm_s16le", "linear32": "pcm_f32le", "mulaw": "mulaw", "alaw": "alaw", "flac": "flac", "opus": "opus",
    "ogg-opus": "ogg",
}  # fmt: skip
_MODEL_INFO = {"name": "gw", "version": "1", "arch": "gw"}


class ListenOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The request in a query, and which frames the client wants besides `Results`."""

    request: ListenRequest
    vad_events: bool
    utterance_end: bool


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
            "confidence": _or_unknown(confidence_of(result)),
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


def _or_unknown(confidence: float | None) -> float:
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


# ---- recordings: settings are in the query, the audio is the body; billed is `metadata.duration` times the channels


_NOT_PASSED_ON = frozenset({"model", "callback", "callback_method"})
_RAW_AUDIO_FIELDS = frozenset({"encoding", "sample_rate", "channels"})


class _Utterance(msgspec.Struct, gc=False):
    start: float = 0.0
    end: float = 0.0
    transcript: str = ""
    confidence: float | None = None
    speaker: int | None = None


class _Results(msgspec.Struct, gc=False):
    channels: list[_Channel]
    utterances: list[_Utterance] = []


class _Metadata(msgspec.Struct, gc=False):
    duration: float | None = None
    channels: int = 1


class _Answer(msgspec.Struct, gc=False):
    results: _Results
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_ANSWER = msgspec.json.Decoder(_Answer)


def recording_path(request: stt.TranscribeRequest, model: str) -> str:
    """Return path and query. The settings of a caller of this dialect are passed on."""
    pairs: list[tuple[str, str]] = [("model", model)]
    if request.dialect == "deepgram":
        own = [(name, value) for name, value in request.fields if name not in _NOT_PASSED_ON]
        pairs += deepgram_settings.for_model(own, model)
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += optional_pairs(smart_format=True, punctuate=True)
    pairs += audio_fields(request.format) if request.format is not None else []
    language = None if request.language == DETECT else request.language
    pairs += optional_pairs(
        language=language, detect_language=not language, utterances="segment" in request.timestamps or request.diarize
    )
    pairs += deepgram_settings.from_common(request, model)
    return "/v1/listen?" + urlencode(pairs)


def url_body(url: str) -> bytes:
    """Return the body of a request for a recording that the vendor fetches."""
    return msgspec.json.encode({"url": url})


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> stt.Transcript:
    """Decode an answer; its channels follow one another in the transcript. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    best = [channel.alternatives[0] for channel in answer.results.channels if channel.alternatives]
    length_s = seconds(answer.metadata.duration)
    billed = None if length_s is None else length_s * max(1, answer.metadata.channels)
    languages = [channel.detected_language for channel in answer.results.channels if channel.detected_language]
    languages += [one.languages[0] for one in best if one.languages]
    return stt.Transcript(
        text="\n".join(one.transcript for one in best if one.transcript),
        language=languages[0] if languages else None,
        duration_s=length_s,
        words=tuple(word for one in best for word in one.common_words),
        confidence=best[0].confidence if len(best) == 1 else None,
        language_confidence=answer.results.channels[0].language_confidence if languages else None,
        segments=tuple(
            Final(
                text=u.transcript, start_s=u.start, end_s=u.end, confidence=u.confidence,
                speaker=None if u.speaker is None else str(u.speaker),
            )
            for u in answer.results.utterances
        ),
        usage=None if billed is None else plausible(Usage(audio_seconds=billed, source="vendor")),
        raw=body if keep_raw else None,
    )


# ---- recordings, as a server


def callback_of(query: bytes) -> tuple[str, bytes]:
    """Return where to send the transcript ("": into the response), and by which method. Raises ClientProtocolError."""
    fields = dict(query_pairs(query))
    method = fields.get("callback_method", "post").lower()
    if method not in ("post", "put"):
        raise ClientProtocolError(what="callback_method must be post or put", param="callback_method")
    return fields.get("callback", ""), method.upper().encode()


def accepted_body(request_id: str) -> bytes:
    """Return the answer to a request whose transcript is called back."""
    return msgspec.json.encode({"request_id": request_id})


def with_request_id(body: bytes, request_id: str) -> bytes:
    """Return a transcript of the vendor's under our request id, by which the caller knows it."""
    answer: dict[str, Any] = msgspec.json.decode(body)
    return msgspec.json.encode({**answer, "metadata": {**answer.get("metadata", {}), "request_id": request_id}})


class _Remote(msgspec.Struct, gc=False):
    url: str


_REMOTE = msgspec.json.Decoder(_Remote)


def parse_url(body: bytes) -> str:
    """Return the address in a JSON body (deepgram 5, `ListenV1RequestUrl`). Raises ClientProtocolError."""
    return decode_request(_REMOTE, body).url


def parse_recording(query: bytes, audio: stt.AudioSource, measured_s: float, sniffed: Any) -> stt.TranscribeRequest:
    """Build a request; `sniffed` is the format recognised from the audio itself. Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    declared = format_of(fields) if "encoding" in fields else None
    utterances = frozenset({"segment"} if is_true(fields.get("utterances")) else ())
    raw = declared is not None and declared.bytes_per_second and sniffed is None
    return stt.TranscribeRequest(
        model=fields.get("model", ""),
        audio=audio,
        format=declared if raw else sniffed,
        audio_seconds=declared.seconds(audio.size) if raw and declared is not None else measured_s,
        language=deepgram_settings.language_of(fields),
        timestamps=frozenset({"word", *utterances}),
        timestamps_required=utterances,
        fields=tuple((name, value) for name, value in pairs if raw or name not in _RAW_AUDIO_FIELDS),
        dialect="deepgram",
        **deepgram_settings.to_common(pairs),
    )


def encode_transcript(
    transcript: stt.Transcript, *, request_id: str, created: str, duration_s: float, sha256: str, utterances: bool = False
) -> bytes:
    """Return the body of an answer. `duration_s` is our own measure, exact where vendors round; 0.0 = unknown."""
    alternative: dict[str, Any] = {
        "transcript": transcript.text,
        "confidence": _or_unknown(confidence_of(transcript)),
        "words": [word_object(word) | {"start": word.start_s, "end": word.end_s} for word in transcript.words],
    }
    channel = present(
        alternatives=[alternative], detected_language=transcript.language or None,
        language_confidence=transcript.language_confidence,
    )  # fmt: skip
    results: dict[str, Any] = {"channels": [channel]}
    if utterances:
        results["utterances"] = [
            {
                "start": s.start_s, "end": s.end_s, **present(confidence=confidence_of(s)),
                "channel": 0, "transcript": s.text, "words": [word_object(word) for word in s.words], "id": f"{request_id}-{n}",
                **({} if s.speaker is None else {"speaker": speaker_number(s.speaker)}),
            }
            for n, s in enumerate(segments_of(transcript))
        ]  # fmt: skip
    info = {request_id: {"name": "gw", "version": "1", "arch": "gw"}}
    metadata = {
        "transaction_key": "deprecated", "request_id": request_id, "sha256": sha256, "created": created,
        "duration": duration_s or transcript.duration_s or 0.0, "channels": 1, "models": [request_id], "model_info": info,
    }  # fmt: skip
    return msgspec.json.encode({"metadata": metadata, "results": results})
