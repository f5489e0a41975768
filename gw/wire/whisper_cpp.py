"""whisper.cpp's server, as its client: a form with a WAV, answered by JSON.

Source: whisper.cpp of August 2026, `examples/server/server.cpp`: POST /inference. We always request `verbose_json`, the form
with times, from which every other form can be built. The server ignores `model`.
"""

from __future__ import annotations

import msgspec

from gw.errors import UpstreamProtocolError
from gw.types.stt import Final, TranscribeRequest, Transcript, Word
from gw.wire.bounds import seconds
from gw.wire.json_codec import decode_upstream
from gw.wire.query import bare_language
from gw.wire.vendor_errors import error_within


class _Word(msgspec.Struct):
    word: str = ""
    start: float = 0.0
    end: float = 0.0
    probability: float | None = None


class _Segment(msgspec.Struct):
    text: str = ""
    start: float = 0.0
    end: float = 0.0
    words: list[_Word] = []


class _Answer(msgspec.Struct):
    text: str | None = None
    language: str | None = None
    duration: float | None = None
    segments: list[_Segment] = []
    error: object = None


_ANSWER = msgspec.json.Decoder(_Answer)


def fields(request: TranscribeRequest) -> list[tuple[str, str]]:
    """Return the form fields without the file; further fields of a caller of OpenAI's dialect are passed on."""
    known = [("response_format", "verbose_json"), ("language", bare_language(request.language) or "auto")]
    if request.task == "translate":
        known.append(("translate", "true"))
    if prompt := request.prompt or ", ".join(request.keyterms):
        known.append(("prompt", prompt))
    if request.temperature is not None:
        known.append(("temperature", f"{request.temperature:g}"))
    names = {name for name, _ in known}
    own = request.fields if request.dialect == "openai" else ()
    return known + [(name, value) for name, value in own if name not in names]


def decode(body: bytes, provider: str) -> Transcript:
    """Decode an answer; its texts begin with a space and end with LF. Raises UpstreamProtocolError, ProviderFailed."""
    answer = decode_upstream(_ANSWER, body, provider, "the transcript")
    if answer.error is not None:
        raise error_within(provider, answer.error)
    if answer.text is None:
        raise UpstreamProtocolError(provider=provider, detail="the answer has no text")
    segments = []
    for s in answer.segments:
        words = (Word(text=w.word.strip(), start_s=w.start, end_s=w.end, confidence=w.probability) for w in s.words)
        segments.append(Final(text=s.text.strip(), start_s=s.start, end_s=s.end, words=tuple(words)))
    return Transcript(
        text=answer.text.strip(), language=answer.language, duration_s=seconds(answer.duration), segments=tuple(segments),
        words=tuple(word for segment in segments for word in segment.words),
    )
