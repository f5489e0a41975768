"""ElevenLabs' transcription, live (`WS /v1/speech-to-text/realtime`) and of recordings: client and server.

Source: `POST /v1/speech-to-text` and `ReceiveTranscription` of elevenlabs 2.78.0, and how LiveKit 1.8.9 and Pipecat 1.14.0 use
the latter (November 2026).

=========================  ===========================================================================
Client sends               Server answers
=========================  ===========================================================================
`input_audio_chunk`        `partial_transcript`; with `commit_strategy=vad` also committed transcripts
the same with `commit`     `committed_transcript`, even of silence
=========================  ===========================================================================

With timestamps or language detection a committed transcript comes a second time, with words: that one counts then. The client
always asks for timestamps, since only they show which audio a transcript covers. A commit of less than 0.3 s of audio closes
the session, and the client does not know what the vendor's voice activity detection (`vad`) has just committed. So it sends
silence before a commit of its own, which is subtracted from the times again.

Of a session with `entity_redaction`, only `redacted_transcript` is redacted, and it has both texts (`_RealtimeSharedOptions` and
`RedactedTranscript`, elevenlabs 2.78.0). So a client that redacts reads no other text, takes the times from the transcript that
it belongs to, and passes no such frame on; the server sends the redacted text in all of them.

There is no last frame, and answers to the vendor's own commits may follow that to the client's. The session has ended when a
commit of silence was answered, or when another one was and the vendor then stays silent (`may_end`; the caller has the clock).
"""

from __future__ import annotations

import math
from base64 import b64decode, b64encode
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from urllib.parse import urlencode

import msgspec
from msgspec.structs import replace

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types import stt
from gw.types.audio import AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenEvent, ListenPace, ListenRequest, UtteranceEnd
from gw.types.usage import Usage
from gw.wire import elevenlabs_settings
from gw.wire.added_silence import AddedSilence
from gw.wire.bounds import plausible, seconds
from gw.wire.elevenlabs_errors import session_error
from gw.wire.json_codec import BAD_JSON, decode_upstream, present
from gw.wire.json_frames import Frame, frame_text, json_frame
from gw.wire.listen_protocol import ListenProtocol
from gw.wire.live_messages import Audio, ClientMessage, Control, DelayedReply, Forward
from gw.wire.query import query_pairs
from gw.wire.transcripts import confidence_from, logprob_of, speaker_id, transcribed, unknown
from gw.wire.vendor_errors import as_rejection

TIMED = "committed_transcript_with_timestamps"
REDACTED = "redacted_transcript"
RATES_HZ = frozenset({8_000, 16_000, 22_050, 24_000, 44_100, 48_000})


# ---- client

_COMMON = frozenset({"model_id", "audio_format", "include_timestamps"})  # settings that a request has in common terms
_MIN_COMMIT_S = 0.3
_VAD_SILENCE_S = 1.5  # the vendor's default
_PREDICTED_TURN_S = 10.0  # no bound is documented for the vendor's prediction of the end of a turn
_MAX_CHUNK_S = 0.5  # the vendor may refuse larger frames
_ERRORS = {
    "auth_error": "invalid_api_key", "quota_exceeded": "quota_exceeded", "rate_limited": "rate_limited",
    "resource_exhausted": "resource_exhausted", "unaccepted_terms": "unaccepted_terms", "error": "", "transcriber_error": "",
    "queue_overflow": "", "session_time_limit_exceeded": "",
}  # fmt: skip
"""Messages that end a session → the error code that a request would get. `commit_throttled` does not end one."""
_REFUSALS = frozenset({"input_error", "invalid_request", "chunk_size_exceeded"})
_SILENCE = "insufficient_audio_activity"


class ScribeWord(msgspec.Struct, gc=False):
    """A word, a space between words or an audio event."""

    text: str | None = None
    start: float | None = None
    end: float | None = None
    type: str | None = None
    speaker_id: str | None = None
    logprob: float | None = None
    channel_index: int | None = None

    @property
    def is_word(self) -> bool:
        return bool(self.text) and self.type in (None, "word")


class _Message(msgspec.Struct, gc=False):
    message_type: str = ""
    text: str | None = None
    language_code: str | None = None
    words: list[ScribeWord] | None = None
    redacted_text: str | None = None
    error: str | None = None


_MESSAGE = msgspec.json.Decoder(_Message)


def path_of(request: ListenRequest, model: str) -> str:
    """Return path and query of a session. A caller of this dialect has its own settings passed on."""
    pairs = [("model_id", model), ("audio_format", f"pcm_{request.format.sample_rate_hz}")]
    if request.dialect == "elevenlabs":
        pairs += [(name, value) for name, value in request.options if name not in _COMMON]
    else:
        pairs += elevenlabs_settings.live_fields(request)
    if _wants_times(request):
        pairs.append(("include_timestamps", "true"))
    return "/v1/speech-to-text/realtime?" + urlencode(pairs)


def pace_of(request: ListenRequest) -> ListenPace:
    """Return when events of a session are due: partial results come while one speaks, finals by `commit_strategy`."""
    own = _own(request)
    match own.get("commit_strategy", "manual") if request.dialect == "elevenlabs" else "vad":
        case "vad":
            silence_s = _VAD_SILENCE_S if request.endpointing_ms is None else max(0.3, request.endpointing_ms / 1000)
            with suppress(ValueError):
                silence_s = seconds(float(own.get("vad_silence_threshold_secs", ""))) or silence_s
            silence_s = min(3.0, silence_s)
            return ListenPace(
                endpoint_s=silence_s, has_times=_wants_times(request), ends_on_flush=True,
                flush_is_seen=request.dialect == "elevenlabs", utterance_end_s=silence_s
            )  # fmt: skip
        case "manual":
            return ListenPace(endpoint_s=math.inf, has_times=_wants_times(request))
    return ListenPace(endpoint_s=_PREDICTED_TURN_S, has_times=_wants_times(request))


def _own(request: ListenRequest) -> dict[str, str]:
    return dict(request.options) if request.dialect == "elevenlabs" else {}


def _wants_times(request: ListenRequest) -> bool:
    """Return whether to ask for timestamps: the vendor cannot combine them with a filter that a caller may set."""
    return _own(request).get("filter_background_audio", "").lower() != "true"


class ElevenListenClient:
    """One session: 16-bit samples and commands to frames, frames to events."""

    def __init__(self, provider: str, request: ListenRequest, secrets: Iterable[str] = ()) -> None:
        own = _own(request)
        self.ended = False
        self.may_end = False
        """Whether the last commit may have been answered: the session has ended if nothing more comes."""
        self._provider = provider
        self._secrets = tuple(secrets)
        self._format = request.format
        self._redactor = _Redactor() if request.redact else None
        self._keep_raw = request.dialect == "elevenlabs" and self._redactor is None
        self._vad = own.get("commit_strategy", "manual") != "manual" or request.dialect != "elevenlabs"
        self._timed = _wants_times(request) or own.get("include_language_detection", "").lower() == "true"
        self._half_sample = b""
        self._sent_s = self._committed_s = 0.0
        """Audio sent, with the client's own silence; and how much of it before the client's last commit."""
        self._final_s = 0.0  # session time up to which transcripts are final
        self._times = AddedSilence()
        self._finishing = False

    def audio(self, data: bytes) -> list[str]:
        data = self._half_sample + data
        size = len(data) // 2 * 2
        self._half_sample = data[size:]
        step = int(_MAX_CHUNK_S * self._format.sample_rate_hz) * 2
        return [self._chunk(data[at : min(at + step, size)]) for at in range(0, size, step)]

    def flush(self) -> list[str]:
        """Commit the audio so far; do nothing if there is none since the last commit."""
        return self._commit() if self._sent_s > self._committed_s else []

    def forward(self, frame: str) -> str:
        return frame

    def finish(self) -> list[str]:
        self._finishing = True
        return self._commit()

    def keep_alive(self) -> str:
        return self._chunk(b"")

    def _commit(self) -> list[str]:
        missing_s = _MIN_COMMIT_S if self._vad else _MIN_COMMIT_S - (self._sent_s - self._committed_s)
        frames = []
        if missing_s > 1e-6:
            samples = round(missing_s * self._format.sample_rate_hz)
            self._times.add(self._sent_s, samples / self._format.sample_rate_hz)
            frames.append(self._chunk(bytes(2 * samples)))
        self._committed_s = self._sent_s
        return [*frames, self._chunk(b"", commit=True)]

    def _chunk(self, data: bytes, *, commit: bool = False) -> str:
        self._sent_s += self._format.seconds(len(data))
        audio = b64encode(data).decode()
        return _frame("input_audio_chunk", audio_base_64=audio, commit=commit, sample_rate=self._format.sample_rate_hz)

    def receive(self, frame: Frame) -> list[ListenEvent]:
        """Decode a frame. Raises ProviderError for an error message, UpstreamProtocolError for a malformed frame."""
        message = decode_upstream(_MESSAGE, frame, self._provider)
        kind = message.message_type
        if kind in _ERRORS or kind in _REFUSALS or (kind == _SILENCE and not self._finishing):
            error = session_error(self._provider, _ERRORS.get(kind) or kind, message.error or "", self._secrets)
            raise as_rejection(error, kind) if kind in _REFUSALS else error
        raw = frame_text(frame) if self._keep_raw else None
        text = (message.text or "").strip()
        if self._redactor is not None and text:
            return self._redacted(self._redactor, message, text)
        if kind == "partial_transcript" and text:
            end_s = self._times.own_s(self._sent_s)
            return [Interim(text=text, start_s=self._final_s, end_s=end_s, raw=raw)]
        if kind == "committed_transcript" and self._timed:
            self.may_end = self.may_end or (self._finishing and not text)
        elif kind in ("committed_transcript", TIMED):
            return self._committed(message, text, raw)
        elif kind == _SILENCE and self._finishing:
            return self.quiet()
        elif kind == "session_started":
            return []  # a caller of this dialect has been sent one by the gateway
        return unknown(raw)

    def _committed(self, message: _Message, text: str, raw: str | None) -> list[ListenEvent]:
        if not text:
            return unknown(raw) + (self.quiet() if self._finishing else [])
        self.may_end = self._finishing
        words = tuple(self._word(word) for word in message.words or () if word.is_word)
        start_s, end_s = self._final_s, self._times.own_s(self._sent_s)
        final = transcribed(Final, text, words, start_s=start_s, end_s=end_s, language=message.language_code, raw=raw)
        self._times.answered(message.words[-1].end if message.words else None if self._timed else self._sent_s)
        self._final_s = max(self._final_s, final.end_s)
        return [final, UtteranceEnd(at_s=final.end_s)]

    def _redacted(self, redactor: _Redactor, message: _Message, text: str) -> list[ListenEvent]:
        """Return a transcript when both its redacted text and its times are known."""
        if message.message_type == REDACTED:
            redactor.redacted.append((message.redacted_text or "").strip())
        elif message.message_type == (TIMED if self._timed else "committed_transcript"):
            redactor.committed += [event for event in self._committed(message, text, None) if isinstance(event, Final)]
            self.may_end = False  # its redacted text is to come
        events: list[ListenEvent] = list(redactor.complete())
        if events and not redactor.committed:
            self.may_end = self._finishing
        return events

    def _word(self, word: ScribeWord) -> stt.Word:
        start_s = self._times.own_s(word.start)
        end_s = max(start_s, self._times.own_s(word.end))
        confidence = confidence_from(word.logprob)
        return stt.Word(text=word.text or "", start_s=start_s, end_s=end_s, confidence=confidence, speaker=word.speaker_id)

    def quiet(self) -> list[ListenEvent]:
        """Return the end of the session, when nothing more comes."""
        self.ended = True
        return [ListenEnd()]


class _Redactor:
    """Joins redacted texts, which come without times, with the transcripts that they replace, in their order."""

    def __init__(self) -> None:
        self.redacted: deque[str] = deque()
        self.committed: deque[Final] = deque()

    def complete(self) -> Iterator[Final | UtteranceEnd]:
        """Yield the transcripts of which both are known. Their words are left out: they are not redacted."""
        while self.redacted and self.committed:
            committed, text = self.committed.popleft(), self.redacted.popleft()
            yield replace(committed, text=text, words=())
            yield UtteranceEnd(at_s=committed.end_s)


# ---- server


class ScribeOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The request in a query. `timed`: the client wants each committed transcript a second time, with its words."""

    request: ListenRequest
    timed: bool


class _ClientFrame(msgspec.Struct, gc=False):
    message_type: str = ""
    audio_base_64: str = ""
    commit: bool = False


_CLIENT_FRAME = msgspec.json.Decoder(_ClientFrame)


def parse_query(query: bytes) -> ScribeOptions:
    """Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    kind, _, rate = fields.get("audio_format", "pcm_16000").partition("_")
    if kind not in ("pcm", "ulaw") or not (rate.isascii() and rate.isdigit() and 4 <= len(rate) < 7):
        raise ClientProtocolError(what="audio_format must be one such as pcm_16000 or ulaw_8000", param="audio_format")
    request = ListenRequest(
        model=fields.get("model_id", ""),
        format=AudioFormat(encoding="mulaw" if kind == "ulaw" else "pcm_s16le", sample_rate_hz=int(rate)),
        **elevenlabs_settings.to_common(pairs),
        dialect="elevenlabs",
        options=tuple(pairs),
    )
    timed = "true" in (fields.get("include_timestamps"), fields.get("include_language_detection"))
    return ScribeOptions(request=request, timed=timed)


class ElevenListenServer(ListenProtocol):
    """One session of a client. Every commit is answered, that of silence after a pause."""

    def __init__(self, options: ScribeOptions, *, session_id: str) -> None:
        self._options = options
        self._id = session_id
        self._commits = 0
        self._open = 0  # number of the first commit that is not answered yet; 0 = there is none

    def opening(self) -> Sequence[Frame]:
        request = self._options.request
        config = {"sample_rate": request.format.sample_rate_hz, **dict(request.options)}
        return (_frame("session_started", session_id=self._id, config=config),)

    def receive(self, frame: Frame) -> Sequence[ClientMessage]:
        try:
            message = _CLIENT_FRAME.decode(frame)
            if message.message_type != "input_audio_chunk":
                return (Forward(frame_text(frame)),)
            data = b64decode(message.audio_base_64, validate=True)
        except (*BAD_JSON, ValueError):
            raise ClientProtocolError(what="a frame is not the JSON expected, or its audio is not base64") from None
        if not message.commit:
            return (Audio(data),) if data else ()
        messages: list[ClientMessage] = [Audio(data)] if data else []
        messages.append(Control.FLUSH)
        self._commits += 1
        if not self._open:
            self._open = self._commits
            messages.append(DelayedReply(partial(self._silence, self._commits)))
        return messages

    def encode(self, events: list[ListenEvent]) -> Sequence[Frame]:
        """Encode events. Frames of an upstream of this dialect are passed on, unless the client did not ask for them."""
        timed = self._options.timed
        if passed := [frame_text(event.raw) for event in events if event.raw is not None]:
            frames = [frame for frame in passed if timed or TIMED not in frame]
        else:
            frames = []
            for event in events:
                match event:
                    case Interim(text=text) if text:
                        frames.append(_frame("partial_transcript", text=text))
                    case Final() if event.text:
                        frames += self.committed(event)
        if self._open and any('"committed_transcript' in frame for frame in frames):
            self._open = 0
        return frames

    def committed(self, final: Final) -> list[str]:
        """Return the answer to a commit."""
        frames = [_frame("committed_transcript", text=final.text)]
        if self._options.timed:
            whole = stt.Word(text=final.text, start_s=final.start_s, end_s=final.end_s, confidence=final.confidence)
            words = final.words or ((whole,) if final.text else ())
            language = final.language or self._options.request.language or "und"
            words_json = [word_object(word) for word in words]
            frames.append(_frame(TIMED, text=final.text, language_code=language, words=words_json))
        if self._options.request.redact and final.text:
            frames.append(_frame(REDACTED, text=final.text, redacted_text=final.text))
        return frames

    def _silence(self, number: int) -> Sequence[Frame]:
        """Return the answer to a commit for which no transcript came; none if one has come, whatever was committed since."""
        if self._open != number:
            return []
        self._open = 0
        return self.committed(Final(text=""))


def error_frame(kind: str, message: str) -> str:
    return _frame(kind, error=message)


def _frame(kind: str, **members: Any) -> str:
    return json_frame({"message_type": kind, **members})


# ---- recordings


class _Channel(msgspec.Struct, gc=False):
    text: str = ""
    language_code: str | None = None
    language_probability: float | None = None
    words: list[ScribeWord] | None = None


class _Answer(msgspec.Struct, gc=False):
    """`transcripts`: one per channel, where the caller asked for that."""

    text: str | None = None
    language_code: str | None = None
    language_probability: float | None = None
    words: list[ScribeWord] | None = None
    audio_duration_secs: float | None = None
    transcripts: list[_Channel] | None = None


_ANSWER = msgspec.json.Decoder(_Answer)


def recording_path(request: stt.TranscribeRequest) -> str:
    """Return path and query, in which the vendor expects the setting about what it keeps."""
    own = [value for name, value in request.fields if name == "enable_logging"] if request.dialect == "elevenlabs" else []
    logging = own[-1] if own else "false" if request.no_store else None
    return "/v1/speech-to-text" + ("" if logging is None else "?" + urlencode({"enable_logging": logging}))


def form_fields(request: stt.TranscribeRequest, model: str) -> list[tuple[str, str]]:
    """Return the fields of the form besides the file. A caller of this dialect has its own passed on."""
    fields = [("model_id", model)]
    if request.dialect == "elevenlabs":
        left_out = ("model_id", "enable_logging", *(() if request.url else elevenlabs_settings.URLS))
        return fields + [(name, value) for name, value in request.fields if name not in left_out]
    return fields + elevenlabs_settings.form_fields(request)


def _same_text(channels: list[_Channel]) -> bool:
    """Return whether the words are those of the text, which is what the vendor promises to redact."""
    return all(c.text.split() == [x for w in c.words or () if w.is_word for x in (w.text or "").split()] for c in channels)


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool, redacted: bool = False) -> stt.Transcript:
    """Decode an answer; channels follow each other. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    channels = answer.transcripts
    if channels is None:
        if answer.text is None:
            raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
        channels = [_Channel(answer.text, answer.language_code, answer.language_probability, answer.words)]
    length_s = seconds(answer.audio_duration_secs)
    billed_s = None if length_s is None else length_s * _billed_channels(answer)
    return stt.Transcript(
        text="\n".join(channel.text for channel in channels if channel.text),
        language=next((channel.language_code for channel in channels if channel.language_code), None),
        duration_s=length_s,
        words=() if redacted and not keep_raw and not _same_text(channels) else tuple(
            stt.Word(
                text=w.text or "", start_s=w.start or 0.0, end_s=w.end or 0.0, confidence=confidence_from(w.logprob),
                speaker=w.speaker_id,
            )
            for channel in channels for w in channel.words or () if w.is_word
        ),
        language_confidence=channels[0].language_probability if channels else None,
        usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
        raw=body if keep_raw else None,
    )


def _billed_channels(answer: _Answer) -> int:
    """Return how many channels were transcribed one by one: each is billed for the whole duration (elevenlabs 2.78.0).

    They come as transcripts of their own, or as words of one transcript with the index of their channel.
    """
    if answer.transcripts is not None:
        return max(1, len(answer.transcripts))
    return 1 + max((word.channel_index or 0 for word in answer.words or ()), default=0)


# ---- recordings, as a server


def url_in(fields: list[tuple[str, str]]) -> tuple[str, str]:
    """Return the field with the address of the recording, and the address; "" if the form has none."""
    named = dict(fields)
    return next(((name, named[name]) for name in elevenlabs_settings.URLS if named.get(name) not in (None, "", "null")), ("", ""))


def parse_form(fields: list[tuple[str, str]], audio: stt.AudioSource, fmt: AudioFormat | None, length_s: float) -> stt.TranscribeRequest:
    """Build a request from a form. A value "null" counts as absent: the vendor's SDK writes it for unset fields."""
    pairs = [(name, value) for name, value in fields if value != "null"]
    named = dict(pairs)
    raw = named.get("file_format") == "pcm_s16le_16"
    fmt = AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000) if raw and fmt is None else fmt
    return stt.TranscribeRequest(
        model=named.get("model_id", ""), audio=audio, format=fmt,
        audio_seconds=fmt.seconds(audio.size) if raw and fmt is not None and not length_s else length_s,
        fields=tuple(pairs), dialect="elevenlabs", **elevenlabs_settings.of_recording(pairs),
    )


def encode_transcript(transcript: stt.Transcript, *, request_id: str, duration_s: float) -> bytes:
    answer = {
        "language_code": transcript.language or "und",
        "language_probability": transcript.language_confidence or 0.0,  # its SDK for npm refuses an answer without it
        "text": transcript.text,
        "words": [word_object(word) for word in transcript.words], "transcription_id": request_id,
        "audio_duration_secs": duration_s or transcript.duration_s or 0.0,
    }
    return msgspec.json.encode(answer)


def word_object(word: stt.Word) -> dict[str, Any]:
    return {
        "text": word.text, "start": round(word.start_s, 3), "end": round(word.end_s, 3), "type": "word",
        "speaker_id": None if word.speaker is None else speaker_id(word.speaker),
        **present(logprob=logprob_of(word.confidence)),
    }
