"""AssemblyAI's transcription, live (`WS /v3/ws`) and of recordings: client and server.

Source: assemblyai 1.8.2, `streaming/v3`, `api` and `types` (November 2026). Times are milliseconds since the session began.

===================  ==================================================================================
Client sends         Server answers
===================  ==================================================================================
(nothing yet)        `Begin`
binary frame: audio  `Turn`: the turn so far, until `end_of_turn`; with `format_turns` its formatted form
                     follows under the same `turn_order` and is the one that counts
`ForceEndpoint`      the end of the open turn
`Terminate`          the end of the open turn, then `Termination`
===================  ==================================================================================

A turn's `transcript` has its final words only; what is still a guess is in `words`. What is billed is the length of the session,
reported by `Termination`, silence included.

A recording is uploaded, a transcript of it created, and polled for until it is done; `audio_duration` (seconds) is what is
billed. A failed job is a 200 with `status: "error"`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

import msgspec

from gw import errors
from gw.types import stt
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, SpeechStarted, UtteranceEnd
from gw.types.usage import Usage
from gw.wire import assemblyai_settings
from gw.wire.bounds import plausible, seconds
from gw.wire.convert import CannotConvert, converter
from gw.wire.json_codec import MEMBERS, NO_TYPE, decode_client, decode_request, decode_upstream
from gw.wire.json_frames import Frame, frame_text, session_failure, typed_frame, vendor_frames
from gw.wire.live_messages import Audio, ClientMessage, Control, Forward
from gw.wire.query import encoding_field, is_true, query_pairs, sample_rate
from gw.wire.transcripts import (
    UNKNOWN_CONFIDENCE,
    Result,
    TurnEncoder,
    confidence_of,
    joined_text,
    segments_of,
    speaker_letter,
    transcribed,
    unknown,
)
from gw.wire.vendor_errors import as_rejection, filtered

TERMINATE, FORCE_ENDPOINT = '{"type":"Terminate"}', '{"type":"ForceEndpoint"}'
ENCODINGS: Mapping[Encoding, str] = {"pcm_s16le": "pcm_s16le", "mulaw": "pcm_mulaw"}
"""Raw encodings: the gateway's name → the vendor's."""
_SILENCE = {"pcm_s16le": b"\0", "mulaw": b"\xff"}
_SHORTEST_MS, _LONGEST_S = 50, 1
_TURN_SILENCE_MS = {False: (400, 1_280), True: (100, 1_000)}
"""Silence after which a turn may end, and ends at the latest; True: for Universal-3 models, which answer in pauses."""
_PARTIALS_S, _WITHOUT_PARTIALS_S = 4.5, 10.0  # those models send partial results every three seconds of speech, or never
_OFTEN_S = 2.5  # the others send them for every word
_COMMON = frozenset({"speech_model", "encoding", "sample_rate"})  # settings that a request has in common terms
NEXT_CODES = frozenset({1008, 1013, 3005, 3009, 4001, 4002, 4003, 4102})
"""Close codes after which another vendor may do better: keys, money, too many sessions, the vendor's own failure."""
REFUSED_CODES = frozenset({3006, 3007, 4029, 4032, 4033, 4034, 4100, 4101})
"""Close codes about what was sent: messages, the length of chunks, their pace (`streaming/v3/models.py`)."""
_TOO_MANY = frozenset({3009, 4102})
_DECODED = frozenset({"Begin", "Turn", "SpeechStarted", "Termination", "Error"})


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    word_is_final: bool = False
    speaker: str | None = None


class _Message(msgspec.Struct, gc=False):
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
    error: str = ""
    error_code: int | None = None


class _Typed(msgspec.Struct, gc=False):
    type: str = ""


_MESSAGE = msgspec.json.Decoder(_Message)
_TYPED = msgspec.json.Decoder(_Typed)


# ---- client


def path_of(request: ListenRequest, model: str) -> str:
    """Return path and query of a session in a format of `ENCODINGS`. A caller of this dialect has its own settings passed on."""
    pairs = [("sample_rate", str(request.format.sample_rate_hz)), ("encoding", ENCODINGS[request.format.encoding])]
    pairs.append(("speech_model", model))
    if request.dialect == "assemblyai":
        pairs += [(name, value) for name, value in request.options if name not in _COMMON]
        return "/v3/ws?" + urlencode(pairs)
    pairs += assemblyai_settings.live_fields(request)
    return "/v3/ws?" + urlencode(pairs)


def pace_of(request: ListenRequest, model: str) -> ListenPace:
    """Return when events of a session are due, after the vendor's pages on turn detection and partials (November 2026)."""
    own = dict(request.options) if request.dialect == "assemblyai" else {}
    by_pauses = "universal-3" in model or model.startswith("u3-")
    shortest_ms, longest_ms = _TURN_SILENCE_MS[by_pauses]
    shortest_ms = _milliseconds(own, "min_end_of_turn_silence_when_confident", shortest_ms)
    shortest_ms = _milliseconds(own, "min_turn_silence", shortest_ms)
    if request.dialect != "assemblyai" and request.endpointing_ms is not None:
        longest_ms = request.endpointing_ms
    endpoint_s = max(shortest_ms, _milliseconds(own, "max_turn_silence", longest_ms)) / 1000
    if request.redact or own.get("redact_pii", "").lower() == "true":  # then it sends finished turns only
        return ListenPace(pause_s=endpoint_s, endpoint_s=endpoint_s, running_s=_WITHOUT_PARTIALS_S)
    rarely = request.diarize or own.get("continuous_partials", "").lower() == "false"
    seldom_s = _WITHOUT_PARTIALS_S if rarely else _PARTIALS_S
    return ListenPace(
        pause_s=shortest_ms / 1000 if by_pauses else 0.0, endpoint_s=endpoint_s,
        running_s=seldom_s if by_pauses else _OFTEN_S, ends_on_flush=True,
        flush_is_seen=request.dialect == "assemblyai", utterance_end_s=endpoint_s
    )  # fmt: skip


def _milliseconds(own: Mapping[str, str], name: str, default: int) -> int:
    value = own.get(name, "")
    return int(value) if value.isascii() and value.isdigit() and len(value) < 7 else default


class AssemblyListenClient:
    """One session: audio and commands to frames, frames to events.

    Raises CannotConvert for a format that the vendor does not accept.
    """

    def __init__(
        self, provider: str, request: ListenRequest, *, keep_raw: bool = False, secrets: Iterable[str] = ()
    ) -> None:
        self.ended = False
        self._provider = provider
        self._secrets = tuple(secrets)
        self._keep_raw = keep_raw
        self._cutter = FrameCutter(request.format)
        self._interims = request.interim_results and (not request.redact or keep_raw)  # the vendor redacts final turns only
        own = dict(request.options).get("format_turns", "false").lower() == "true"
        self._formatted = own or request.dialect != "assemblyai"
        self._unformatted: _Message | None = None  # the end of a turn whose formatted form has not come yet
        self._last_turn = -1  # `turn_order` of the last final turn: its end may be repeated

    def audio(self, data: bytes) -> list[bytes]:
        return self._cutter.feed(data)

    def flush(self) -> list[Frame]:
        return [*self._cutter.end(), FORCE_ENDPOINT]

    def forward(self, frame: str) -> str:
        return frame

    def finish(self) -> list[Frame]:
        return [*self._cutter.end(), TERMINATE]

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an `Error`, UpstreamProtocolError for a malformed frame."""
        kind = decode_upstream(_TYPED, frame, self._provider).type
        raw = frame_text(frame) if self._keep_raw else None
        if kind not in _DECODED:  # may have members of the same names and other types
            return unknown(raw)
        message = decode_upstream(_MESSAGE, frame, self._provider)
        match kind:
            case "Turn":
                return self._turn(message, raw)
            case "SpeechStarted":
                return [SpeechStarted(at_s=message.timestamp / 1000, raw=raw)]
            case "Termination":
                return self._termination(message, raw)
            case "Error":
                raise self._error(message)
        return []  # Begin: a caller of this dialect has been sent one by the gateway

    def _turn(self, message: _Message, raw: str | None) -> list[ListenEvent]:
        events: list[ListenEvent] = []
        before, self._unformatted = self._unformatted, None
        if before is not None and before.turn_order != message.turn_order:
            events += self._final(before, None)
        if message.turn_order == self._last_turn:
            return events + unknown(raw)
        if message.end_of_turn and (message.turn_is_formatted or not self._formatted):
            return events + self._final(message, raw)
        if message.end_of_turn:
            self._unformatted = message
        words = message.words
        text = message.transcript if all(w.word_is_final for w in words) else " ".join(w.text for w in words)
        if text and self._interims:
            return [*events, _transcript(Interim, message, text, raw)]
        return events + unknown(raw)

    def _final(self, message: _Message, raw: str | None) -> list[ListenEvent]:
        self._last_turn = message.turn_order
        if not message.transcript:
            return unknown(raw)
        final = _transcript(Final, message, message.transcript, raw)
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _termination(self, message: _Message, raw: str | None) -> list[ListenEvent]:
        self.ended = True
        events = self._final(self._unformatted, None) if self._unformatted is not None else []
        billed_s = seconds(message.session_duration_seconds)
        usage = None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor"))
        return [*events, ListenEnd(usage=usage, raw=raw)]

    def _error(self, message: _Message) -> errors.ProviderError:
        code = message.error_code or 0
        error = session_failure(self._provider, message.error, "", self._secrets)
        if code in _TOO_MANY:
            return errors.RateLimitError(provider=self._provider, detail=error.detail, limit_source="upstream")
        error.upstream_code = str(code or "")
        if not code or code in NEXT_CODES:
            return error
        return as_rejection(error, str(code))


def _transcript(kind: type[Result], message: _Message, text: str, raw: str | None) -> Result:
    speaker = message.speaker_label if message.speaker_label != "UNKNOWN" else None
    words = tuple(_word(word, speaker) for word in message.words)
    return transcribed(kind, text, words, language=message.language_code, raw=raw)


def _word(word: _Word, speaker: str | None = None) -> stt.Word:
    return stt.Word(
        text=word.text, start_s=word.start / 1000, end_s=word.end / 1000, confidence=word.confidence,
        speaker=word.speaker or speaker
    )  # fmt: skip


# ---- server

_SERVED: dict[str, Encoding] = {"pcm_s16le": "pcm_s16le", "pcm_mulaw": "mulaw", "opus": "opus", "ogg_opus": "ogg", "aac": "aac"}
_COMMANDS = {"Terminate": Control.FINISH, "ForceEndpoint": Control.FLUSH}


class StreamOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The request in a query. `formatted`: the client expects the end of each turn twice."""

    request: ListenRequest
    formatted: bool


def parse_query(query: bytes) -> StreamOptions:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    encoding = encoding_field(fields.get("encoding", "pcm_s16le"), _SERVED)
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=sample_rate(fields.get("sample_rate"), 16_000))
    settings = assemblyai_settings.of_session(pairs)
    request = ListenRequest(
        model=fields.get("speech_model", ""), format=fmt, dialect="assemblyai", options=tuple(pairs), **settings
    )
    return StreamOptions(request=request, formatted=is_true(fields.get("format_turns")))


class AssemblyListenServer(TurnEncoder):
    """One session of a client. `elapsed_s` returns the seconds since the session began; `expires_at` is in Unix seconds."""

    def __init__(
        self, options: StreamOptions, *, session_id: str, expires_at: int, elapsed_s: Callable[[], float]
    ) -> None:
        super().__init__()
        self._options = options
        self._id = session_id
        self._expires_at = expires_at
        self._elapsed_s = elapsed_s
        self._turn = 0
        self._audio_s = 0.0

    def opening(self) -> Sequence[Frame]:
        return (typed_frame("Begin", id=self._id, expires_at=self._expires_at),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        if isinstance(frame, bytes):
            self._audio_s += self._options.request.format.seconds(len(frame))
            return (Audio(frame),) if frame else ()
        kind = decode_client(_TYPED, frame, NO_TYPE).type
        return (_COMMANDS.get(kind) or Forward(frame),)

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        return vendor_frames(events) or super().encode(events)

    def _start_turn(self, at_s: float) -> list[str]:
        return []

    def _update(self, results: Sequence[Interim | Final]) -> str:
        return self._frame(results, end=False, formatted=False)

    def _end_turn(self, at_s: float | None) -> list[str]:
        if not self._finals:
            return []
        formatted = self._options.formatted
        frames = [self._frame(self._finals, end=True, formatted=not formatted)]
        if formatted:
            frames.append(self._frame(self._finals, end=True, formatted=True))
        self._finals = []
        self._turn += 1
        return frames

    def _end_session(self) -> list[str]:
        lengths = {"audio_duration_seconds": round(self._audio_s), "session_duration_seconds": round(self._elapsed_s())}
        return [*self._end_turn(None), typed_frame("Termination", **lengths)]

    def _frame(self, results: Sequence[Interim | Final], *, end: bool, formatted: bool) -> str:
        text = joined_text(results)
        members: dict[str, Any] = {
            "turn_order": self._turn,
            "turn_is_formatted": formatted,
            "end_of_turn": end,
            "transcript": text,
            "end_of_turn_confidence": 1.0 if end else 0.0,
            "words": [word for result in results for word in _words(result)],
            "utterance": text if end else "",
        }
        if results[-1].language:
            members["language_code"] = results[-1].language
        if speaker := next((word.speaker for word in results[-1].words), None):
            members["speaker_label"] = speaker_letter(speaker)
        return typed_frame("Turn", **members)


def _words(result: Interim | Final) -> list[dict[str, Any]]:
    """Return the words; one for the whole text if the provider reports none, since clients read the first and the last."""
    words = result.words or (
        stt.Word(text=result.text, start_s=result.start_s, end_s=result.end_s, confidence=result.confidence),
    )
    final = isinstance(result, Final)
    objects = [_word_object(word) | {"word_is_final": final} for word in words]
    return [{name: value for name, value in one.items() if value is not None} for one in objects]


def error_frame(code: int, message: str) -> str:
    """Return the frame sent before the session is closed."""
    return typed_frame("Error", error_code=code, error=message)


# ---- audio


class FrameCutter:
    """Joins frames that are too short and cuts those that are too long: a session with others is closed (3007).

    One channel, in frames of 50 to 1000 ms (the vendor's specification of `/v3/ws`, sendAudio and close codes, November 2026).
    """

    def __init__(self, fmt: AudioFormat) -> None:
        """Raises CannotConvert for a format that is not in `ENCODINGS`."""
        rate = fmt.sample_rate_hz
        if fmt.encoding not in ENCODINGS or rate <= 0:
            raise CannotConvert(f"{fmt.encoding} is not accepted in a live session")
        mono = msgspec.structs.replace(fmt, channels=1)
        self._mono = converter(fmt, mono)
        sample_bytes = mono.bytes_per_second // rate
        self._shortest = -(-rate * _SHORTEST_MS // 1000) * sample_bytes
        self._longest = rate * _LONGEST_S * sample_bytes
        self._silence = _SILENCE[fmt.encoding]
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Return the frames that are long enough; less than 50 ms stay in the buffer."""
        if self._mono is not None:
            data = self._mono.feed(data)
        if not self._buffer and self._shortest <= len(data) <= self._longest:
            return [data]
        self._buffer += data
        frames = []
        while len(self._buffer) >= self._shortest:
            frames.append(bytes(self._buffer[: self._longest]))
            del self._buffer[: self._longest]
        return frames

    def end(self) -> list[bytes]:
        """Return the rest of the buffer, filled up with silence to the shortest frame."""
        data = bytes(self._buffer)
        self._buffer.clear()
        return [data + self._silence * (self._shortest - len(data))] if data else []


# ---- recordings


_OURS = frozenset({
    "audio_url", "speech_model", "speech_models", "webhook_url", "webhook_auth_header_name", "webhook_auth_header_value",
})  # fmt: skip
"""Members that the gateway sets, or obeys itself."""
_HEADER_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]{1,128}")
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")  # accepted id of a transcript, which becomes part of a path


class _Utterance(_Word, gc=False):
    words: list[_Word] = []


class _Job(msgspec.Struct, gc=False):
    id: str = ""
    status: str = ""
    text: str | None = None
    error: str | None = None
    words: list[_Word] | None = None
    utterances: list[_Utterance] | None = None
    audio_duration: float | None = None
    confidence: float | None = None
    language_code: str | None = None
    language_confidence: float | None = None


class _Uploaded(msgspec.Struct, gc=False):
    upload_url: str


_JOB = msgspec.json.Decoder(_Job)
_UPLOADED = msgspec.json.Decoder(_Uploaded)


def upload_url(body: bytes, provider: str) -> str:
    """Return the URL in the answer to `POST /v2/upload`. Raises UpstreamProtocolError."""
    return decode_upstream(_UPLOADED, body, provider, "the upload's answer").upload_url


def job_body(request: stt.TranscribeRequest, model: str, url: str) -> bytes:
    """Return the body of `POST /v2/transcript`. The settings of a caller of this dialect are passed on."""
    body: dict[str, Any] = {"audio_url": url, "speech_models": assemblyai_settings.models(request, model)}
    if request.dialect == "assemblyai":
        body |= {name: msgspec.Raw(raw.encode()) for name, raw in request.fields if name not in _OURS}
        return msgspec.json.encode(body)
    body |= assemblyai_settings.job_members(request)
    return msgspec.json.encode(body)


def decode_job(
    body: bytes, provider: str, secrets: Iterable[str], *, keep_raw: bool, redacted: bool = False
) -> str | stt.Transcript:
    """Return the id of a job that is not done yet, or its transcript. Raises ProviderError for one that failed.

    Of a transcript that was to be redacted, words are kept only if they are those of its text: the vendor promises to
    redact the text alone (docs "PII redaction", November 2026).
    """
    job = decode_upstream(_JOB, body, provider, "the answer")
    match job.status:
        case "completed":
            return _job_transcript(job, body if keep_raw else None, redacted=redacted)
        case "error":
            reason = filtered(job.error or "", secrets)
            raise errors.ProviderFailed(
                provider=provider, detail="the transcript failed" + (f": {reason}" if reason else ""), upstream_status=200
            )
        case "queued" | "processing" if _ID.fullmatch(job.id):
            return job.id
    raise errors.UpstreamProtocolError(provider=provider, detail="the transcript's status or id is unknown")


def _same_text(text: str | None, pieces: Sequence[_Word] | None) -> bool:
    return (text or "").split() == [word for piece in pieces or () for word in piece.text.split()]


def _job_transcript(job: _Job, raw: bytes | None, *, redacted: bool) -> stt.Transcript:
    billed = seconds(job.audio_duration)
    if redacted and not raw:
        job.words = job.words if _same_text(job.text, job.words) else None
        job.utterances = job.utterances if job.words and _same_text(job.text, job.utterances) else None
    return stt.Transcript(
        text=job.text or "",
        language=job.language_code,
        duration_s=billed,
        words=tuple(map(_word, job.words or ())),
        confidence=job.confidence,
        language_confidence=job.language_confidence,
        segments=tuple(
            Final(
                text=u.text, start_s=u.start / 1000, end_s=u.end / 1000, confidence=u.confidence, speaker=u.speaker,
                words=tuple(map(_word, u.words)),
            )
            for u in job.utterances or ()
        ),
        usage=None if billed is None else plausible(Usage(audio_seconds=billed, source="vendor")),
        raw=raw,
    )


# ---- recordings, as a server


class TranscriptOptions(assemblyai_settings.JobSettings, gc=False):
    """Members of a request for a transcript that we know."""

    audio_url: str = ""
    speech_model: str | None = None
    speech_models: list[str] | None = None
    webhook_url: str | None = None
    webhook_auth_header_name: str | None = None
    webhook_auth_header_value: str | None = None


_OPTIONS = msgspec.json.Decoder(TranscriptOptions)


def parse_job(body: bytes) -> tuple[TranscriptOptions, tuple[tuple[str, str], ...]]:
    """Decode `POST /v2/transcript`: the members we know, and all of them but ours as JSON. Raises ClientProtocolError."""
    options = decode_request(_OPTIONS, body)
    members = decode_request(MEMBERS, body)
    return options, tuple((name, bytes(raw).decode()) for name, raw in members.items() if name not in _OURS)


def webhook_headers(options: TranscriptOptions) -> list[tuple[bytes, bytes]]:
    """Return the header that authenticates the call of a webhook. Raises ClientProtocolError for one that is no header."""
    name, value = options.webhook_auth_header_name, options.webhook_auth_header_value
    if name is None and value is None:
        return []
    if not name or not value or not _HEADER_NAME.fullmatch(name) or not (value.isascii() and value.isprintable()):
        what = "webhook_auth_header_name and webhook_auth_header_value must be the name and the value of a header"
        raise errors.ClientProtocolError(what=what, param="webhook_auth_header_name")
    return [(name.lower().encode(), value.encode())]


def webhook_body(id_: str, status: str) -> bytes:
    """Return what a webhook receives (docs "Webhooks for pre-recorded audio", November 2026)."""
    return msgspec.json.encode({"transcript_id": id_, "status": status})


def encode_job(id_: str, status: str, *, audio_url: str, **members: object) -> bytes:
    return msgspec.json.encode({"id": id_, "status": status, "audio_url": audio_url, **members})


def encode_transcript(
    id_: str, transcript: stt.Transcript, *, audio_url: str, model: str, duration_s: float, utterances: bool = False
) -> bytes:
    """Return a completed job with this transcript; with `utterances`, those of each speaker.

    A language that nobody has found is null (assemblyai 1.8.2: `TranscriptResponse.language_code` is optional).
    """
    spoken = [_utterance_object(segment) for segment in segments_of(transcript)] if utterances else None
    return encode_job(
        id_, "completed", audio_url=audio_url, text=transcript.text,
        words=[_word_object(word) for word in transcript.words], utterances=spoken,
        confidence=confidence_of(transcript), audio_duration=round(transcript.duration_s or duration_s),
        language_code=transcript.language, language_confidence=transcript.language_confidence,
        speech_model=None, speech_models=[model], punctuate=True,
        format_text=True, webhook_auth=False, auto_highlights=False, redact_pii=False, summarization=False,
        language_model="gw", acoustic_model="gw",
    )


def _word_object(word: stt.Word) -> dict[str, Any]:
    return {
        "text": word.text, "start": round(word.start_s * 1000), "end": round(word.end_s * 1000),
        "confidence": UNKNOWN_CONFIDENCE if word.confidence is None else word.confidence,
        "speaker": None if word.speaker is None else speaker_letter(word.speaker),
    }  # fmt: skip


def _utterance_object(segment: Final) -> dict[str, Any]:
    whole = stt.Word(
        text=segment.text, start_s=segment.start_s, end_s=segment.end_s, confidence=confidence_of(segment), speaker=segment.speaker
    )
    return _word_object(whole) | {"words": [_word_object(word) for word in segment.words]}


def with_id(body: bytes, id_: str, audio_url: str) -> bytes:
    """Return a job's JSON with another id and URL, its other members unchanged."""
    return msgspec.json.encode({**MEMBERS.decode(body), "id": id_, "audio_url": audio_url})


def encode_upload(url: str) -> bytes:
    return msgspec.json.encode({"upload_url": url})


def error_body(message: str, **facts: object) -> bytes:
    return msgspec.json.encode({"error": message, **facts})
