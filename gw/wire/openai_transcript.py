"""Transcripts of /audio/transcriptions: bodies in every response format, and the streamed form, both roles.

Source: openai-python 3.52.0 (November 2026); SubRip and WebVTT cues as that endpoint writes them. A transcript's
`raw` with content type `text/event-stream` is the vendor's closing event, any other `raw` is a whole body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gw.errors import ProviderError, UpstreamCut, UpstreamProtocolError
from gw.types.stt import Final, TextDelta, TranscribeEvent, Transcript, Word
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import seconds, tokens
from gw.wire.json_codec import BAD_JSON
from gw.wire.stream_decoder import StreamDecoder
from gw.wire.vendor_errors import error_within

RESPONSE_FORMATS = ("json", "text", "srt", "verbose_json", "vtt", "diarized_json")
_JSON_FORMATS = ("json", "verbose_json", "diarized_json")
_TEXT_TYPES = {"text": "text/plain; charset=utf-8", "srt": "application/x-subrip", "vtt": "text/vtt; charset=utf-8"}
_SSE = "text/event-stream"
_CLOCK = r"((?:\d+:)?\d\d:\d\d[.,]\d{3})"
_CUE = re.compile(_CLOCK + r"[ \t]+-->[ \t]+" + _CLOCK + r"[^\n]*\n(.*?)(?:\n\n|\Z)", re.DOTALL)


class _TokenDetails(msgspec.Struct):
    audio_tokens: int | None = None


class _Usage(msgspec.Struct):
    type: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    input_token_details: _TokenDetails | None = None
    seconds: float | None = None


class _Segment(msgspec.Struct):
    start: float = 0.0
    end: float = 0.0
    text: str = ""


class _Word(msgspec.Struct):
    word: str = ""
    start: float = 0.0
    end: float = 0.0


class _Body(msgspec.Struct):
    """A JSON body, or an event of the stream."""

    type: str = ""
    text: str | None = None
    delta: str | None = None
    language: str | None = None
    duration: float | str | None = None
    segments: list[_Segment] | None = None
    words: list[_Word] | None = None
    start: float | None = None
    end: float | None = None
    usage: Any = None
    error: Any = None


_BODY = msgspec.json.Decoder(_Body)


def decode_transcript(body: bytes, content_type: str, response_format: str, provider: str) -> Transcript:
    """A whole answer. An empty text is an answer (silence).

    Raises UpstreamProtocolError (malformed), ProviderFailed (an error object with status 200).
    """
    is_json = content_type.partition(";")[0].strip().lower() == "application/json"
    if response_format in _JSON_FORMATS or (is_json and body.lstrip().startswith(b"{")):
        found = _decoded(body, provider)
        if found.error is not None:
            raise error_within(provider, found.error)
        if found.text is None:
            raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
        same_form = response_format in _JSON_FORMATS
        return _transcript(found, found.text, raw=body if same_form else None, content_type="application/json")
    try:
        text = body.decode()
    except UnicodeDecodeError:
        raise UpstreamProtocolError(provider=provider, detail="the transcript is not UTF-8") from None
    type_ = content_type or _TEXT_TYPES[response_format]
    if response_format == "text":
        return Transcript(text=text.strip(), raw=body, content_type=type_)
    segments = tuple(
        Final(text=" ".join(cue.split()), start_s=_clock_s(start), end_s=_clock_s(end))
        for start, end, cue in _CUE.findall(text.replace("\r\n", "\n"))
    )
    whole = " ".join(segment.text for segment in segments)
    return Transcript(text=whole, segments=segments, raw=body, content_type=type_)


def _decoded(payload: bytes, provider: str) -> _Body:
    try:
        return _BODY.decode(payload)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None


def _transcript(found: _Body, text: str, raw: bytes | None, content_type: str) -> Transcript:
    return Transcript(
        text=text,
        language=found.language,
        duration_s=seconds(found.duration),
        segments=tuple(
            Final(text=s.text.strip(), start_s=_at(s.start), end_s=_at(s.end)) for s in found.segments or ()
        ),
        words=tuple(Word(text=w.word, start_s=_at(w.start), end_s=_at(w.end)) for w in found.words or ()),
        usage=_usage(found.usage),
        raw=raw,
        content_type=content_type,
    )


def _at(told_s: float) -> float:
    """A place in the audio; what cannot be one is its beginning."""
    return seconds(told_s) or 0.0


def _usage(told: object) -> Usage | None:
    """None where there is none, or none that can be read."""
    try:
        found = msgspec.convert(told, _Usage)
    except msgspec.ValidationError:
        return None
    heard_s = seconds(found.seconds)
    if heard_s is not None:
        return Usage(audio_seconds=heard_s, source="vendor")
    if found.input_tokens is None and found.output_tokens is None:
        return None
    details = found.input_token_details or _TokenDetails()
    return Usage(
        input_tokens=tokens(found.input_tokens),
        output_tokens=tokens(found.output_tokens),
        input_audio_tokens=tokens(details.audio_tokens),
        source="vendor",
    )


def _usage_object(usage: Usage | None) -> dict[str, Any] | None:
    if usage is None:
        return None
    if not (usage.input_tokens or usage.output_tokens):
        return {"type": "duration", "seconds": usage.audio_seconds}
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


def encode_transcript(t: Transcript, response_format: str) -> tuple[bytes, str]:
    """Body and content type: the upstream's own body where there is one, else made in `response_format`."""
    if t.raw is not None and t.content_type != _SSE:
        return t.raw, t.content_type
    if response_format == "text":
        return t.text.encode() + b"\n", _TEXT_TYPES["text"]
    if response_format in ("srt", "vtt"):
        return _cues(t, response_format).encode(), _TEXT_TYPES[response_format]
    body: dict[str, Any] = {"text": t.text}
    if response_format == "verbose_json":
        body = {"task": "transcribe", "language": t.language or "", "duration": _duration_s(t), **body}
        body["segments"] = [_segment_object(i, s) for i, s in enumerate(t.segments)]
        if t.words:
            body["words"] = [{"word": w.text, "start": w.start_s, "end": w.end_s} for w in t.words]
    elif response_format == "diarized_json":
        body = {"task": "transcribe", "duration": _duration_s(t), **body}
        body["segments"] = [_spoken(f"seg_{i}", s) for i, s in enumerate(t.segments)]
    usage = _usage_object(t.usage)
    if usage is not None:
        body["usage"] = usage
    return msgspec.json.encode(body), "application/json"


def _duration_s(t: Transcript) -> float:
    return t.duration_s if t.duration_s is not None else max((s.end_s for s in t.segments), default=0.0)


def _segment_object(index: int, segment: Final) -> dict[str, Any]:
    """Clients' types require every member; what only Whisper's decoder knows is 0."""
    return {
        "id": index, "seek": 0, "start": segment.start_s, "end": segment.end_s, "text": segment.text, "tokens": [],
        "temperature": 0.0, "avg_logprob": 0.0, "compression_ratio": 0.0, "no_speech_prob": 0.0,
    }


def _spoken(segment_id: str, segment: Final) -> dict[str, Any]:
    """Who spoke is not told by our events: everything is one speaker, named as the first one is."""
    return {
        "id": segment_id, "type": "transcript.text.segment", "speaker": "A", "start": segment.start_s,
        "end": segment.end_s, "text": segment.text,
    }


def _cues(t: Transcript, form: str) -> str:
    cues = t.segments or ((Final(text=t.text, end_s=_duration_s(t)),) if t.text else ())
    mark = "," if form == "srt" else "."
    lines = ["WEBVTT\n"] if form == "vtt" else []
    for number, cue in enumerate(cues, 1):
        head = f"{number}\n" if form == "srt" else ""
        lines.append(f"{head}{_clock(cue.start_s, mark)} --> {_clock(cue.end_s, mark)}\n{cue.text}\n")
    return "\n".join(lines) + "\n"


def _clock(at_s: float, mark: str) -> str:
    whole, ms = divmod(round(at_s * 1000), 1000)
    return f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}{mark}{ms:03}"


def _clock_s(text: str) -> float:
    at_s = 0.0
    for piece in text.replace(",", ".").split(":"):
        at_s = at_s * 60 + float(piece)
    return _at(at_s)


class TranscriptDecoder(StreamDecoder[TranscribeEvent]):
    """The streamed form: bytes in, events out; the last is the `Transcript`."""

    def __init__(self, provider: str) -> None:
        self._provider = provider
        self._sse = sse.SseDecoder()
        self._segments: list[_Segment] = []
        self._ended = False

    def feed(self, data: bytes) -> list[TranscribeEvent]:
        """Raises UpstreamProtocolError, and ProviderFailed for an error event."""
        try:
            pieces = self._sse.feed(data)
        except sse.SseTooLong as error:
            raise UpstreamProtocolError(provider=self._provider, detail=str(error)) from None
        events: list[TranscribeEvent] = []
        try:
            for piece in pieces:
                event = None if self._ended else self._event(piece.data)
                if event is not None:
                    events.append(event)
        except ProviderError as error:
            return self.failed(error, events)
        return events

    def end(self) -> list[TranscribeEvent]:
        """The connection has ended cleanly. Raises UpstreamCut unless the closing event has come."""
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without transcript.text.done")
        return []

    def _event(self, payload: bytes) -> TranscribeEvent | None:
        if payload in (b"", b"[DONE]"):
            return None
        found = _decoded(payload, self._provider)
        if found.error is not None or found.type == "error":
            raise error_within(self._provider, payload if found.error is None else found.error)
        if found.type == "transcript.text.delta":
            return TextDelta(text=found.delta or "", raw=payload)
        if found.type == "transcript.text.segment":
            self._segments.append(_Segment(start=found.start or 0.0, end=found.end or 0.0, text=found.text or ""))
            return TextDelta(text="", raw=payload)
        if found.type != "transcript.text.done":
            return None
        self._ended = True
        found.segments = self._segments
        return _transcript(found, found.text or "", raw=payload, content_type=_SSE)


def encode_transcript_events(events: Iterable[TranscribeEvent]) -> bytes:
    """The streamed form; a transcript becomes the closing event also when the upstream could not stream."""
    parts: list[bytes] = []
    for event in events:
        if isinstance(event, TextDelta):
            delta = {"type": "transcript.text.delta", "delta": event.text}
            parts.append(sse.encode(event.raw if event.raw is not None else msgspec.json.encode(delta)))
        elif event.raw is not None and event.content_type == _SSE:
            parts.append(sse.encode(event.raw))
        else:
            usage = _usage_object(event.usage)
            done = {"type": "transcript.text.done", "text": event.text}
            parts.append(sse.encode(msgspec.json.encode({**done, "usage": usage} if usage else done)))
    return b"".join(parts)
