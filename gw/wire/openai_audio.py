"""POST /audio/speech and /audio/transcriptions, both roles: requests, streamed speech, and transcripts in every format.

Source: openai-python 3.52.0, groq-python 1.7.0, Kokoro-FastAPI of August 2026; SubRip and WebVTT cues as that endpoint writes
them. A transcript's `raw` with content type `text/event-stream` is the vendor's closing event, any other `raw` is a whole body.
"""

from __future__ import annotations

import re
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable
from functools import reduce
from math import ceil, isfinite
from typing import Any
from zlib import compress

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import AudioFormat, Encoding
from gw.types.stt import AudioSource, Final, TextDelta, TranscribeEvent, TranscribeRequest, Transcript, Word
from gw.types.tts import AudioChunk, SpeakEnd, SpeakEvent, SpeakRequest
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import plausible, seconds, tokens
from gw.wire.json_codec import BAD_JSON, convert_or_none, decode_answer, decode_request, present
from gw.wire.query import bare_language, own_settings
from gw.wire.sse_event import SseEvent
from gw.wire.stream_decoder import SseStreamDecoder
from gw.wire.transcripts import confidence_from, confidence_of, logprob_of, segments_of, speaker_letter
from gw.wire.vendor_errors import error_within

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ENCODINGS: dict[str, Encoding] = {
    "mp3": "mp3", "opus": "opus", "aac": "aac", "flac": "flac", "wav": "wav", "pcm": "pcm_s16le", "ogg": "ogg",
    "mulaw": "mulaw", "alaw": "alaw",
}
"""`response_format` → encoding; ogg and mulaw are Groq's."""
_WIRE_FORMATS = {encoding: name for name, encoding in _ENCODINGS.items()}
_RATES = {"pcm_s16le": 24_000, "wav": 24_000, "mulaw": 8_000, "alaw": 8_000}
_TRANSCRIPTION_FIELDS = frozenset({"model", "response_format", "language", "prompt", "temperature", "stream", "url"})
_KEYWORDS = frozenset({"keywords[]", "keywords"})
_OWN = frozenset({"include[]", "known_speaker_names[]", "known_speaker_references[]"})
"""Fields that ask for something which only some of OpenAI's models answer."""
_LISTS = _OWN | {"languages[]"}
_GRANULARITIES = frozenset({"timestamp_granularities", "timestamp_granularities[]"})
_SPEECH_MEMBERS = frozenset({"model", "input", "voice", "response_format", "speed", "instructions", "stream_format"})

VOICES = frozenset({
    "alloy", "ash", "ballad", "coral", "echo", "fable", "onyx", "nova", "sage", "shimmer", "verse", "marin", "cedar",
})  # fmt: skip
"""OpenAI's fixed voices (openai-python 3.52.0, `speech_create_params`). Custom ones are objects: `{"id": …}`."""


class _Voice(msgspec.Struct):
    id: str


class _Speech(msgspec.Struct):
    input: str
    model: str | None = None
    voice: str | _Voice | None = None
    response_format: str | None = None
    speed: float | None = None
    instructions: str | None = None
    stream_format: str | None = None
    sample_rate: int | None = None


_SPEECH = msgspec.json.Decoder(_Speech)


def parse_speech(body: bytes) -> SpeakRequest:
    """Decode a request body; unknown members are kept raw. Raises ClientProtocolError."""
    speech = decode_request(_SPEECH, body)
    fields = decode_request(_FIELDS, body)
    if not speech.input.strip():
        raise ClientProtocolError(what="'input' must not be empty", param="input")
    encoding = _ENCODINGS.get(speech.response_format or "mp3")
    if encoding is None:
        known = ", ".join(_ENCODINGS)
        raise ClientProtocolError(what=f"'response_format' must be one of {known}", param="response_format")
    if speech.speed is not None and not 0.25 <= speech.speed <= 4:
        raise ClientProtocolError(what="'speed' must be between 0.25 and 4", param="speed")
    if speech.stream_format not in (None, "audio", "sse"):
        raise ClientProtocolError(what="'stream_format' must be audio or sse", param="stream_format")
    rate = speech.sample_rate
    if rate is not None and not 4_000 <= rate <= 192_000:
        raise ClientProtocolError(what="'sample_rate' is out of range", param="sample_rate")
    return SpeakRequest(
        model=speech.model or "", text=speech.input,
        voice=speech.voice.id if isinstance(speech.voice, _Voice) else speech.voice or "",
        custom_voice=isinstance(speech.voice, _Voice),
        format=AudioFormat(encoding=encoding, sample_rate_hz=rate or _RATES.get(encoding, 0)), speed=speech.speed,
        instructions=speech.instructions, want_events=speech.stream_format == "sse",
        extra=(extra := {name: raw for name, raw in fields.items() if name not in _SPEECH_MEMBERS}),
        ignorable=tuple(name for name in extra if name != "sample_rate"),
    )


def speech_body(request: SpeakRequest, model: str, voice: str) -> bytes:
    """Return the body for an upstream of this dialect; with unknown members only if the caller speaks it too."""
    encoding = request.format.encoding
    body = present(
        model=model, input=request.text, voice={"id": voice} if request.custom_voice else voice,
        response_format=_WIRE_FORMATS.get(encoding, encoding),
        speed=request.speed, instructions=request.instructions, stream_format="sse" if request.want_events else None,
    )
    extra = request.extra if request.dialect == "openai" else {}
    return msgspec.json.encode({**extra, **body})


class _SpeechEvent(msgspec.Struct, gc=False):
    type: str = ""
    audio: str | None = None
    usage: Any = None
    error: Any = None


_SPEECH_EVENT = msgspec.json.Decoder(_SpeechEvent)


class SpeechDecoder(SseStreamDecoder[SpeakEvent]):
    """The event form of speech: bytes in, audio out."""

    CLOSING_EVENT = "speech.audio.done"

    def _decode(self, event: SseEvent, events: list[SpeakEvent]) -> None:
        if event.data == b"[DONE]":
            return
        try:
            decoded = _SPEECH_EVENT.decode(event.data)
            if decoded.type == "speech.audio.delta" and decoded.audio is not None:
                events.append(AudioChunk(data=b64decode(decoded.audio, validate=True)))
                return
        except (*BAD_JSON, ValueError):
            raise self._malformed("an event is not the JSON expected") from None
        if decoded.error is not None or decoded.type == "error":
            raise error_within(self._provider, event.data if decoded.error is None else decoded.error)
        if decoded.type == "speech.audio.done":
            self._ended = True
            usage = _usage(decoded.usage)
            if usage is not None:  # a speech model's output is audio
                usage = msgspec.structs.replace(usage, output_audio_tokens=usage.output_tokens)
            events.append(SpeakEnd(usage=usage))


def encode_speech(events: Iterable[SpeakEvent]) -> bytes:
    """Return the event form. Clients require usage at the end: zeros if it is unknown. Word timings are left out."""
    parts: list[bytes] = []
    for event in events:
        if isinstance(event, AudioChunk):
            parts.append(b'data: {"type":"speech.audio.delta","audio":"' + b64encode(event.data) + b'"}\n\n')
        elif isinstance(event, SpeakEnd):
            used = event.usage or Usage()
            total = used.input_tokens + used.output_tokens
            usage = {"input_tokens": used.input_tokens, "output_tokens": used.output_tokens, "total_tokens": total}
            parts.append(sse.encode(msgspec.json.encode({"type": "speech.audio.done", "usage": usage})))
    return b"".join(parts)


def parse_transcription(
    fields: list[tuple[str, str]], audio: AudioSource, fmt: AudioFormat | None, audio_seconds: float, task: str = "transcribe"
) -> TranscribeRequest:
    """Build a request from form fields and the file; the last of a repeated field counts. Raises ClientProtocolError."""
    known = {name: value for name, value in fields if name in _TRANSCRIPTION_FIELDS}
    timestamps = {value for name, value in fields if name in _GRANULARITIES}
    others = [field for field in fields if field[0] not in _TRANSCRIPTION_FIELDS | _GRANULARITIES | _KEYWORDS]
    languages = [value for name, value in others if _listed(name) == "languages[]"]
    served = {"languages[]"} if len(languages) < 2 else set[str]()
    needs_own, ignorable = own_settings([(_listed(n), v) for n, v in others], served, _OWN)
    response_format = known.get("response_format") or "json"
    if response_format not in RESPONSE_FORMATS:
        expected = ", ".join(RESPONSE_FORMATS)
        raise ClientProtocolError(what=f"'response_format' must be one of {expected}", param="response_format")
    if not timestamps <= {"word", "segment"}:
        raise ClientProtocolError(what="'timestamp_granularities' must be word or segment", param="timestamp_granularities[]")
    if timestamps and response_format != "verbose_json":  # the vendor refuses this too
        raise ClientProtocolError(
            what="'timestamp_granularities' needs response_format=verbose_json", param="timestamp_granularities[]"
        )
    return TranscribeRequest(
        model=known.get("model", ""), audio=audio, format=fmt, audio_seconds=audio_seconds,
        response_format=response_format, prompt=known.get("prompt") or None,
        language=known.get("language") or (languages[0] if len(languages) == 1 else None),
        keyterms=tuple(value for name, value in fields if name in _KEYWORDS), diarize=response_format == "diarized_json",
        temperature=_temperature(known.get("temperature")),
        timestamps=frozenset(timestamps | ({"segment"} if response_format in (*_TIMED, "diarized_json") else set())),
        timestamps_required=frozenset(timestamps), stream=_truth(known.get("stream")), fields=tuple(others), task=task,
        needs_own=needs_own, ignorable=ignorable,
    )


def url_in(fields: list[tuple[str, str]]) -> str:
    """Return the address of the recording, which Groq's clients may send instead of a file (groq 1.7.0)."""
    return next((value for name, value in reversed(fields) if name == "url"), "")


def _listed(name: str) -> str:
    """Return the name of a field that may be repeated as the SDK writes it."""
    return f"{name}[]" if f"{name}[]" in _LISTS else name


def _temperature(text: str | None) -> float | None:
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not (isfinite(value) and value >= 0):
        raise ClientProtocolError(what="'temperature' must be a number of at least 0", param="temperature")
    return value


def _truth(text: str | None) -> bool:
    """Parse a flag; SDKs write `true`, command lines also `1` and `True`."""
    word = (text or "false").lower()
    if word not in ("true", "false", "1", "0"):
        raise ClientProtocolError(what="'stream' must be true or false", param="stream")
    return word in ("true", "1")


# ---- formats, by model

_JSON_ONLY = ("gpt-transcribe", "gpt-4o-transcribe", "gpt-4o-mini-transcribe")
"""Prefixes of the models that answer `json` alone and report no times (`TranscriptionCreateParams` of the SDK)."""
_DIARIZING = "gpt-4o-transcribe-diarize"
"""Answers `json`, `text` and, with speakers, `diarized_json`; takes no prompt and no timestamps."""
_OPENAIS_OWN = (*_JSON_ONLY, "whisper-")
_TAKES_KEYWORDS = "gpt-transcribe"
_TAKES_LOGPROBS = ("gpt-4o-transcribe", "gpt-4o-mini-transcribe")
_TIMED = frozenset({"srt", "vtt", "verbose_json"})


def diarizes(model: str) -> bool:
    return model.startswith(_DIARIZING)


def reports_times(model: str) -> bool:
    """Return whether a model of this dialect has `verbose_json`, with the times of words and segments."""
    return not model.startswith(_JSON_ONLY)


def reports_segments(request: TranscribeRequest, model: str) -> bool:
    """Return whether the answer to this request has the times of segments."""
    return reports_times(model) or (diarizes(model) and sent_format(request, model, ()) == "diarized_json")


def takes_keyterms(request: TranscribeRequest, model: str) -> bool:
    """Return whether a model takes key terms: as keywords, or in the prompt, unless that is in use."""
    return model.startswith(_TAKES_KEYWORDS) or not (diarizes(model) or request.prompt)


def takes_format(request: TranscribeRequest, model: str) -> bool:
    """Return whether the caller's format can be asked of this model, or made here of what it answers."""
    wanted = request.response_format
    if wanted == "diarized_json":
        return diarizes(model)
    if diarizes(model):
        return wanted != "verbose_json"  # it does not report the language
    return wanted not in _TIMED or reports_times(model)


def sent_format(request: TranscribeRequest, model: str, native: Collection[str]) -> str:
    """Return the format to ask for; `native` are those that the vendor knows. Another one is made here of its answer."""
    wanted = request.response_format
    if diarizes(model):
        return "diarized_json" if request.diarize or wanted in ("srt", "vtt") else "json"
    if not reports_times(model) or request.stream:
        return "json"
    if request.url:  # the only format that shows the duration, which is what is billed
        return "verbose_json"
    if _granularities(request) or (wanted not in native and wanted in _TIMED):
        return "verbose_json"
    return wanted if wanted in native else "json"


def _granularities(request: TranscribeRequest) -> frozenset[str]:
    """Return the times to ask for: a caller of this dialect names them, and its formats imply no others."""
    return request.timestamps_required if request.dialect == "openai" else request.timestamps


def transcription_fields(request: TranscribeRequest, model: str, response_format: str) -> list[tuple[str, str]]:
    """Return the form's fields but the file. Key terms of a caller of another dialect are the prompt, or keywords."""
    keywords = request.keyterms if model.startswith(_TAKES_KEYWORDS) else ()
    prompt = request.prompt or (", ".join(request.keyterms) if not keywords else "")
    fields = [("model", model), ("response_format", response_format)]
    fields += present(
        url=request.url or None,
        language=request.language if request.dialect == "openai" else bare_language(request.language),
        prompt=prompt or None,
        temperature=f"{request.temperature:g}" if request.temperature is not None else None,
    ).items()
    fields += [("keywords[]", term) for term in keywords]
    if response_format == "verbose_json":
        fields += [("timestamp_granularities[]", kind) for kind in sorted(_granularities(request))]
    own = request.fields if request.dialect == "openai" else ()
    if diarizes(model) and all(name != "chunking_strategy" for name, _ in own):
        fields.append(("chunking_strategy", "auto"))  # the model requires one for audio of more than 30 seconds
    if request.stream:
        fields.append(("stream", "true"))
    return fields + [(name, value) for name, value in own if takes_own(_listed(name), model)]


def takes_own(name: str, model: str) -> bool:
    """Return whether to send a model a setting of a caller of this dialect. A server decides about those not known here."""
    if not model.startswith(_OPENAIS_OWN):
        return True
    match name:
        case "include[]":
            return model.startswith(_TAKES_LOGPROBS) and not diarizes(model)
        case "known_speaker_names[]" | "known_speaker_references[]":
            return diarizes(model)
        case "languages[]":
            return model.startswith(_TAKES_KEYWORDS)
        case "chunking_strategy":
            return not reports_times(model)
    return True


# ---- transcripts


RESPONSE_FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_JSON_FORMATS = ("json", "verbose_json", "diarized_json")
_TEXT_TYPES = {"text": "text/plain; charset=utf-8", "srt": "application/x-subrip", "vtt": "text/vtt; charset=utf-8"}
_SSE = "text/event-stream"
_CLOCK = r"((?:\d+:)?\d\d:\d\d[.,]\d{3})"
_CUE = re.compile(_CLOCK + r"[ \t]+-->[ \t]+" + _CLOCK + r"[^\n]*\n(.*?)(?:\n\n|\Z)", re.DOTALL)


class _TokenDetails(msgspec.Struct):
    audio_tokens: int | None = None


class _Usage(msgspec.Struct):
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_token_details: _TokenDetails | None = None
    seconds: float | None = None


class _Segment(msgspec.Struct):
    """A segment (`text`) or a word (`word`)."""

    start: float = 0.0
    end: float = 0.0
    text: str = ""
    word: str = ""
    speaker: str | None = None
    avg_logprob: float | None = None


class _Body(msgspec.Struct):
    """A JSON body, or an event of the stream."""

    type: str = ""
    text: str | None = None
    delta: str | None = None
    language: str | None = None
    duration: float | str | None = None
    segments: list[_Segment] | None = None
    words: list[_Segment] | None = None
    start: float | None = None
    end: float | None = None
    speaker: str | None = None
    usage: Any = None
    error: Any = None


_BODY = msgspec.json.Decoder(_Body)


def decode_transcript(body: bytes, content_type: str, response_format: str, provider: str) -> Transcript:
    """Decode an unstreamed answer; its text may be empty (silence). Raises UpstreamProtocolError, ProviderFailed."""
    is_json = content_type.partition(";")[0].strip().lower() == "application/json"
    if response_format in _JSON_FORMATS or (is_json and body.lstrip().startswith(b"{")):
        decoded, body = decode_answer(_BODY, body, provider)
        if decoded.error is not None:
            raise error_within(provider, decoded.error)
        if decoded.text is None:
            raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
        same_form = response_format in _JSON_FORMATS
        return _transcript(decoded, decoded.text, raw=body if same_form else None, content_type="application/json")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise UpstreamProtocolError(provider=provider, detail="the transcript is not UTF-8") from None
    content_type = content_type or _TEXT_TYPES[response_format]
    if response_format == "text":
        return Transcript(text=text.strip(), raw=body, content_type=content_type)
    segments = tuple(
        Final(text=" ".join(cue.split()), start_s=_clock_s(start), end_s=_clock_s(end))
        for start, end, cue in _CUE.findall(text.replace("\r\n", "\n"))
    )
    joined = " ".join(segment.text for segment in segments)
    return Transcript(text=joined, segments=segments, raw=body, content_type=content_type)


def _transcript(decoded: _Body, text: str, raw: bytes | None, content_type: str) -> Transcript:
    return Transcript(
        text=text,
        language=decoded.language,
        duration_s=seconds(decoded.duration),
        segments=tuple(
            Final(
                text=s.text.strip(), start_s=_time_s(s.start), end_s=_time_s(s.end),
                confidence=confidence_from(s.avg_logprob), speaker=s.speaker,
            )
            for s in decoded.segments or ()
        ),
        words=tuple(Word(text=w.word, start_s=_time_s(w.start), end_s=_time_s(w.end)) for w in decoded.words or ()),
        usage=_usage(decoded.usage),
        raw=raw,
        content_type=content_type,
    )


def _time_s(value: float) -> float:
    """Return a time within the audio; 0.0 for an impossible value."""
    return seconds(value) or 0.0


def _usage(value: object) -> Usage | None:
    """Return usage; None if it is missing or unreadable, which is no reason to lose the answer."""
    usage = convert_or_none(value, _Usage)
    if usage is None:
        return None
    audio_seconds = seconds(usage.seconds)
    if audio_seconds is not None:
        return plausible(Usage(audio_seconds=audio_seconds, source="vendor"))
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    details = usage.input_token_details or _TokenDetails()
    counted = Usage(
        input_tokens=tokens(usage.input_tokens), output_tokens=tokens(usage.output_tokens),
        input_audio_tokens=tokens(details.audio_tokens), source="vendor",
    )
    return plausible(counted)


def _whole_seconds(audio_s: float) -> dict[str, Any]:
    """Return a duration as usage: rounded up, as OpenAI bills it. LiteLLM's type is int (1.109, `TranscriptionUsageDurationObject`)."""
    return {"type": "duration", "seconds": ceil(audio_s)}


def _usage_object(usage: Usage) -> dict[str, Any]:
    if not (usage.input_tokens or usage.output_tokens):
        return _whole_seconds(usage.audio_seconds)
    return {
        "type": "tokens",
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        "input_token_details": {
            "audio_tokens": usage.input_audio_tokens,
            "text_tokens": max(0, usage.input_tokens - usage.input_audio_tokens),
        },
    }


def encode_transcript(
    t: Transcript, response_format: str, timestamps: Collection[str] = (), language: str | None = None, audio_s: float = 0.0
) -> tuple[bytes, str]:
    """Return body and content type: the upstream's own body if there is one, else one in `response_format`.

    `language` and `audio_s` are the caller's and our own measure, where the upstream reports none; `timestamps` has `word` if the
    caller named words.
    """
    if t.raw is not None and t.content_type != _SSE:
        return t.raw, t.content_type
    if response_format == "text":
        return t.text.encode() + b"\n", _TEXT_TYPES["text"]
    if response_format in ("srt", "vtt"):
        return _cues(t, response_format).encode(), _TEXT_TYPES[response_format]
    body: dict[str, Any] = {"text": t.text}
    if response_format == "verbose_json":
        body = {"task": "transcribe", "language": t.language or language or "", "duration": _duration_s(t), **body}
        body["segments"] = [_segment_object(i, s) for i, s in enumerate(segments_of(t))]
        if "word" in timestamps:
            body["words"] = [{"word": w.text, "start": w.start_s, "end": w.end_s} for w in t.words]
    elif response_format == "diarized_json":
        body = {"task": "transcribe", "duration": _duration_s(t), **body}
        body["segments"] = [_diarized_segment(f"seg_{i}", s) for i, s in enumerate(segments_of(t))]
    if t.usage is not None:
        body["usage"] = _usage_object(t.usage)
    elif duration_s := t.duration_s or audio_s:
        body["usage"] = _whole_seconds(duration_s)
    return msgspec.json.encode(body), "application/json"


def _duration_s(t: Transcript) -> float:
    return t.duration_s if t.duration_s is not None else max((s.end_s for s in segments_of(t)), default=0.0)


def _segment_object(index: int, segment: Final) -> dict[str, Any]:
    """Return a segment with every member that clients' types require.

    Probabilities that are not known are null; the compression ratio is that of the text.
    """
    text = segment.text.encode()
    return {
        "id": index, "seek": 0, "start": segment.start_s, "end": segment.end_s, "text": segment.text, "tokens": [],
        "temperature": 0.0, "avg_logprob": logprob_of(confidence_of(segment)),
        "compression_ratio": round(len(text) / len(compress(text)), 3),
        "no_speech_prob": None,
    }


def _diarized_segment(segment_id: str, segment: Final) -> dict[str, Any]:
    speaker = "" if segment.speaker is None else speaker_letter(segment.speaker)
    return {
        "id": segment_id, "type": "transcript.text.segment", "speaker": speaker, "start": segment.start_s,
        "end": segment.end_s, "text": segment.text,
    }


def _cues(t: Transcript, form: str) -> str:
    cues = segments_of(t) or ((Final(text=t.text, end_s=_duration_s(t)),) if t.text else ())
    point = "," if form == "srt" else "."
    lines = ["WEBVTT\n"] if form == "vtt" else []
    for number, cue in enumerate(cues, 1):
        head = f"{number}\n" if form == "srt" else ""
        lines.append(f"{head}{_clock(cue.start_s, point)} --> {_clock(cue.end_s, point)}\n{cue.text}\n")
    return "\n".join(lines) + "\n"


def _clock(at_s: float, point: str) -> str:
    s, ms = divmod(round(at_s * 1000), 1000)
    return f"{s // 3600:02}:{s // 60 % 60:02}:{s % 60:02}{point}{ms:03}"


def _clock_s(text: str) -> float:
    pieces = map(float, text.replace(",", ".").split(":"))
    return _time_s(reduce(lambda at_s, piece: at_s * 60 + piece, pieces, 0.0))


class TranscriptDecoder(SseStreamDecoder[TranscribeEvent]):
    """The streamed form: bytes in, events out; the last is the `Transcript`."""

    CLOSING_EVENT = "transcript.text.done"

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._segments: list[_Segment] = []

    def _decode(self, event: SseEvent, events: list[TranscribeEvent]) -> None:
        data = event.data
        if data == b"[DONE]":
            return
        decoded, data = decode_answer(_BODY, data, self._provider, "an event")
        if decoded.error is not None or decoded.type == "error":
            raise error_within(self._provider, data if decoded.error is None else decoded.error)
        match decoded.type:
            case "transcript.text.delta":
                events.append(TextDelta(text=decoded.delta or "", raw=data))
            case "transcript.text.segment":
                start, end = decoded.start or 0.0, decoded.end or 0.0
                self._segments.append(_Segment(start=start, end=end, text=decoded.text or "", speaker=decoded.speaker))
                events.append(TextDelta(text="", raw=data))
            case "transcript.text.done":
                self._ended = True
                decoded.segments = self._segments
                events.append(_transcript(decoded, decoded.text or "", raw=data, content_type=_SSE))


def encode_transcript_events(events: Iterable[TranscribeEvent]) -> bytes:
    """Return the streamed form; a transcript becomes the closing event also if the upstream could not stream."""
    parts: list[bytes] = []
    for event in events:
        if isinstance(event, TextDelta):
            delta = {"type": "transcript.text.delta", "delta": event.text}
            parts.append(sse.encode(event.raw if event.raw is not None else msgspec.json.encode(delta)))
        elif event.raw is not None and event.content_type == _SSE:
            parts.append(sse.encode(event.raw))
        else:
            done: dict[str, Any] = {"type": "transcript.text.done", "text": event.text}
            if event.usage is not None:
                done["usage"] = _usage_object(event.usage)
            parts.append(sse.encode(msgspec.json.encode(done)))
    return b"".join(parts)
