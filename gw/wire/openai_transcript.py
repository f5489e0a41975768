"""Transcripts of /audio/transcriptions: bodies in every response format, and the streamed form, both roles.

Source: openai-python 3.52.0 (November 2026); SubRip and WebVTT cues as that endpoint writes them. A transcript's
`raw` with content type `text/event-stream` is the vendor's closing event, any other `raw` is a whole body.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from gw.errors import UpstreamCut, UpstreamProtocolError
from gw.types.stt import Final, TextDelta, TranscribeEvent, Transcript, Word
from gw.types.usage import Usage
from gw.wire import sse
from gw.wire.bounds import seconds, tokens
from gw.wire.json_codec import decode_upstream
from gw.wire.stream_decoder import SseStreamDecoder
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
    """Decode an unstreamed answer. An empty text is an answer (silence).

    Raises UpstreamProtocolError (malformed), ProviderFailed (an error object with status 200).
    """
    is_json = content_type.partition(";")[0].strip().lower() == "application/json"
    if response_format in _JSON_FORMATS or (is_json and body.lstrip().startswith(b"{")):
        decoded = decode_upstream(_BODY, body, provider, "the answer")
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
    type_ = content_type or _TEXT_TYPES[response_format]
    if response_format == "text":
        return Transcript(text=text.strip(), raw=body, content_type=type_)
    segments = tuple(
        Final(text=" ".join(cue.split()), start_s=_clock_s(start), end_s=_clock_s(end))
        for start, end, cue in _CUE.findall(text.replace("\r\n", "\n"))
    )
    joined = " ".join(segment.text for segment in segments)
    return Transcript(text=joined, segments=segments, raw=body, content_type=type_)


def _transcript(decoded: _Body, text: str, raw: bytes | None, content_type: str) -> Transcript:
    return Transcript(
        text=text,
        language=decoded.language,
        duration_s=seconds(decoded.duration),
        segments=tuple(
            Final(text=s.text.strip(), start_s=_time_s(s.start), end_s=_time_s(s.end)) for s in decoded.segments or ()
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
    """Return usage; None if it is missing or unreadable."""
    try:
        usage = msgspec.convert(value, _Usage)
    except msgspec.ValidationError:
        return None
    audio_seconds = seconds(usage.seconds)
    if audio_seconds is not None:
        return Usage(audio_seconds=audio_seconds, source="vendor")
    if usage.input_tokens is None and usage.output_tokens is None:
        return None
    details = usage.input_token_details or _TokenDetails()
    return Usage(
        input_tokens=tokens(usage.input_tokens),
        output_tokens=tokens(usage.output_tokens),
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
    """Return body and content type: the upstream's own body if there is one, else one in `response_format`."""
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
        body["segments"] = [_diarized_segment(f"seg_{i}", s) for i, s in enumerate(t.segments)]
    usage = _usage_object(t.usage)
    if usage is not None:
        body["usage"] = usage
    return msgspec.json.encode(body), "application/json"


def _duration_s(t: Transcript) -> float:
    return t.duration_s if t.duration_s is not None else max((s.end_s for s in t.segments), default=0.0)


def _segment_object(index: int, segment: Final) -> dict[str, Any]:
    """Return a segment with every member that clients' types require; those only Whisper's decoder knows are 0."""
    return {
        "id": index, "seek": 0, "start": segment.start_s, "end": segment.end_s, "text": segment.text, "tokens": [],
        "temperature": 0.0, "avg_logprob": 0.0, "compression_ratio": 0.0, "no_speech_prob": 0.0,
    }


def _diarized_segment(segment_id: str, segment: Final) -> dict[str, Any]:
    """Return a segment of the first speaker: our events do not tell speakers apart."""
    return {
        "id": segment_id, "type": "transcript.text.segment", "speaker": "A", "start": segment.start_s,
        "end": segment.end_s, "text": segment.text,
    }


def _cues(t: Transcript, form: str) -> str:
    cues = t.segments or ((Final(text=t.text, end_s=_duration_s(t)),) if t.text else ())
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
    at_s = 0.0
    for piece in text.replace(",", ".").split(":"):
        at_s = at_s * 60 + float(piece)
    return _time_s(at_s)


class TranscriptDecoder(SseStreamDecoder[TranscribeEvent]):
    """The streamed form: bytes in, events out; the last is the `Transcript`."""

    def __init__(self, provider: str) -> None:
        super().__init__(provider)
        self._segments: list[_Segment] = []

    def end(self) -> list[TranscribeEvent]:
        """Return [] after the connection ended cleanly. Raises UpstreamCut unless the closing event has come."""
        if not self._ended:
            raise UpstreamCut(provider=self._provider, detail="the stream ended without transcript.text.done")
        return []

    def _decode(self, event: sse.SseEvent, events: list[TranscribeEvent]) -> None:
        data = event.data
        if data == b"[DONE]":
            return
        decoded = decode_upstream(_BODY, data, self._provider, "an event")
        if decoded.error is not None or decoded.type == "error":
            raise error_within(self._provider, data if decoded.error is None else decoded.error)
        match decoded.type:
            case "transcript.text.delta":
                events.append(TextDelta(text=decoded.delta or "", raw=data))
            case "transcript.text.segment":
                start, end = decoded.start or 0.0, decoded.end or 0.0
                self._segments.append(_Segment(start=start, end=end, text=decoded.text or ""))
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
            usage = _usage_object(event.usage)
            done = {"type": "transcript.text.done", "text": event.text}
            parts.append(sse.encode(msgspec.json.encode({**done, "usage": usage} if usage else done)))
    return b"".join(parts)
