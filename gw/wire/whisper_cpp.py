"""whisper.cpp's server, both roles: a form with a WAV, answered by JSON.

Source: whisper.cpp of August 2026, `examples/server/server.cpp`: POST /inference. `verbose_json` is asked for always: it is
the answer with times, and every other form can be made of it. A `model` is not looked at.
"""

from __future__ import annotations

import msgspec

from gw.errors import UpstreamProtocolError
from gw.types.stt import Final, TranscribeRequest, Transcript, Word
from gw.wire.bounds import seconds
from gw.wire.json_codec import BAD_JSON
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


def bare_language(language: str | None) -> str | None:
    """`en-US` → `en`; what is no language (`multi`) → None: it is found out."""
    bare = (language or "").partition("-")[0].lower()
    return bare if len(bare) in (2, 3) and bare.isalpha() else None


def fields(request: TranscribeRequest) -> list[tuple[str, str]]:
    """Form fields without the file. Only what a caller of OpenAI's dialect adds itself goes along as it is."""
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
    """Raises UpstreamProtocolError, and ProviderFailed for an error told with status 200. Texts are stripped: they begin with
    a space and end with a line."""
    try:
        found = _ANSWER.decode(body)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the transcript is not what was expected") from None
    if found.error is not None:
        raise error_within(provider, found.error)
    if found.text is None:
        raise UpstreamProtocolError(provider=provider, detail="an answer without a text")
    segments = tuple(
        Final(text=s.text.strip(), start_s=s.start, end_s=s.end, words=tuple(_word(w) for w in s.words))
        for s in found.segments
    )
    return Transcript(
        text=found.text.strip(),
        language=found.language,
        duration_s=seconds(found.duration),
        segments=segments,
        words=tuple(word for segment in segments for word in segment.words),
    )


def _word(heard: _Word) -> Word:
    return Word(text=heard.word.strip(), start_s=heard.start, end_s=heard.end, confidence=heard.probability)


def encode(transcript: Transcript) -> bytes:
    """The server's answer."""
    told = [
        {
            "id": number,
            "text": f" {segment.text}",
            "start": segment.start_s,
            "end": segment.end_s,
            "words": [
                {"word": f" {w.text}", "start": w.start_s, "end": w.end_s, "probability": w.confidence or 0.0}
                for w in segment.words
            ],
        }
        for number, segment in enumerate(transcript.segments)
    ]
    return msgspec.json.encode(
        {
            "task": "transcribe",
            "language": transcript.language or "english",
            "duration": transcript.duration_s or 0.0,
            "text": f" {transcript.text}\n",
            "segments": told,
        }
    )
