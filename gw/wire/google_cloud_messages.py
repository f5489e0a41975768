"""Messages of Google Cloud's live transcription, in protobuf: those that both roles write and read.

Source: google-cloud-speech 2.41.0, `speech_v2/types/cloud_speech.py`, which has the numbers of the fields.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from gw.types.audio import Encoding
from gw.wire import protobuf
from gw.wire.bounds import seconds

ENCODINGS: dict[Encoding, int] = {"pcm_s16le": 1, "mulaw": 2, "alaw": 3}
"""`ExplicitDecodingConfig.AudioEncoding`."""
_PHRASES = 3  # of a `PhraseSet`
_NAMES = {number: encoding for encoding, number in ENCODINGS.items()}


class RecognizeSettings(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """The first message of a session, with its settings."""

    recognizer: str
    model: str
    languages: tuple[str, ...]
    encoding: Encoding
    sample_rate_hz: int
    channels: int = 1
    interim_results: bool = False
    profanity_filter: bool = False
    word_times: bool = False
    punctuation: bool = False
    terms: tuple[str, ...] = ()


class RecognizedWord(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    text: str = ""
    start_s: float = 0.0
    end_s: float = 0.0
    confidence: float = 0.0


class Result(msgspec.Struct, frozen=True, gc=False, kw_only=True):
    """A part of the transcript. `end_s` counts from the first audio of the session; 0.0 where it is unknown."""

    text: str = ""
    is_final: bool = False
    end_s: float = 0.0
    confidence: float = 0.0
    words: tuple[RecognizedWord, ...] = ()
    language: str = ""


class RecognizeAnswer(msgspec.Struct, frozen=True, gc=False):
    results: tuple[Result, ...] = ()


# ---- requests


def encode_settings(settings: RecognizeSettings) -> bytes:
    """Encode the first `StreamingRecognizeRequest`."""
    decoding = (
        protobuf.number_field(1, ENCODINGS[settings.encoding]) + protobuf.number_field(2, settings.sample_rate_hz)
        + protobuf.number_field(3, settings.channels)
    )  # fmt: skip
    features = (
        protobuf.number_field(1, settings.profanity_filter) + protobuf.number_field(2, settings.word_times)
        + protobuf.number_field(3, settings.word_times) + protobuf.number_field(4, settings.punctuation)
    )  # fmt: skip
    phrases = b"".join(protobuf.bytes_field(_PHRASES, protobuf.text_field(1, term)) for term in settings.terms)
    config = b"".join((
        protobuf.bytes_field(2, features), _adaptation(phrases), protobuf.bytes_field(8, decoding), protobuf.text_field(9, settings.model),
        *(protobuf.text_field(10, language) for language in settings.languages),
    ))  # fmt: skip
    streaming = protobuf.bytes_field(1, config) + protobuf.bytes_field(2, protobuf.number_field(2, settings.interim_results))
    return protobuf.text_field(3, settings.recognizer) + protobuf.bytes_field(6, streaming)


def _adaptation(phrases: bytes) -> bytes:
    """Return the field `adaptation` with one inline `PhraseSet`; b"" without phrases."""
    return protobuf.bytes_field(6, protobuf.bytes_field(1, protobuf.bytes_field(2, phrases))) if phrases else b""


def encode_audio(data: bytes) -> bytes:
    """Encode a `StreamingRecognizeRequest` with audio."""
    return protobuf.bytes_field(5, data)


def decode_request(message: bytes) -> RecognizeSettings | bytes:
    """Return the settings of a first request, or the audio of another. Raises ValueError."""
    recognizer, streaming, audio = "", None, None
    for number, value in protobuf.fields(message):
        if number == 3:
            recognizer = protobuf.text(value)
        elif number == 6:
            streaming = protobuf.data(value)
        elif number == 5:
            audio = protobuf.data(value)
    if streaming is not None and audio is None:
        return _settings(recognizer, streaming)
    if audio is not None and streaming is None:
        return audio
    raise ValueError("a request has either settings or audio")


def _settings(recognizer: str, streaming: bytes) -> RecognizeSettings:
    parts = dict(protobuf.fields(streaming))
    config = protobuf.data(parts.get(1, b""))
    one = dict(protobuf.fields(config))
    features = dict(protobuf.fields(protobuf.data(one.get(2, b""))))
    decoding = dict(protobuf.fields(protobuf.data(one.get(8, b""))))
    number = protobuf.whole_number
    if (encoding := _NAMES.get(number(decoding.get(1, 0)))) is None:
        raise ValueError("an unknown encoding")
    return RecognizeSettings(
        recognizer=recognizer, model=protobuf.text(one.get(9, b"")), terms=tuple(_terms(protobuf.data(one.get(6, b"")))),
        languages=tuple(protobuf.text(value) for field, value in protobuf.fields(config) if field == 10),
        encoding=encoding, sample_rate_hz=number(decoding.get(2, 0)), channels=number(decoding.get(3, 0)),
        interim_results=bool(dict(protobuf.fields(protobuf.data(parts.get(2, b"")))).get(2, 0)),
        profanity_filter=bool(features.get(1, 0)), word_times=bool(features.get(2, 0)), punctuation=bool(features.get(4, 0)),
    )  # fmt: skip


def _terms(adaptation: bytes) -> Iterable[str]:
    for phrase_set in _repeated(adaptation, 1):
        for inline in _repeated(phrase_set, 2):
            for phrase in _repeated(inline, _PHRASES):
                yield from map(protobuf.text, _repeated(phrase, 1))


def _repeated(message: bytes, number: int) -> list[bytes]:
    return [protobuf.data(value) for field, value in protobuf.fields(message) if field == number]


# ---- answers


def encode_answer(results: Sequence[Result]) -> bytes:
    """Encode a `StreamingRecognizeResponse`."""
    return b"".join(protobuf.bytes_field(6, _encoded_result(result)) for result in results)


def _encoded_result(result: Result) -> bytes:
    words = b"".join(protobuf.bytes_field(3, _encoded_word(word)) for word in result.words)
    best = protobuf.text_field(1, result.text) + protobuf.float_field(2, result.confidence) + words
    return b"".join((
        protobuf.bytes_field(1, best), protobuf.number_field(2, result.is_final), protobuf.bytes_field(4, _duration(result.end_s)),
        protobuf.text_field(6, result.language),
    ))  # fmt: skip


def _encoded_word(word: RecognizedWord) -> bytes:
    return b"".join((
        protobuf.bytes_field(1, _duration(word.start_s)), protobuf.bytes_field(2, _duration(word.end_s)), protobuf.text_field(3, word.text),
        protobuf.float_field(4, word.confidence),
    ))  # fmt: skip


def _duration(length_s: float) -> bytes:
    nanos = round(max(0.0, length_s) * 10**9)
    return protobuf.number_field(1, nanos // 10**9) + protobuf.number_field(2, nanos % 10**9)


def decode_answer(message: bytes) -> RecognizeAnswer:
    """Decode a `StreamingRecognizeResponse`. Raises ValueError."""
    return RecognizeAnswer(tuple(_result(protobuf.data(value)) for number, value in protobuf.fields(message) if number == 6))


def _result(message: bytes) -> Result:
    best: bytes | None = None
    is_final, end_s, language = False, 0.0, ""
    for number, value in protobuf.fields(message):
        if number == 1 and best is None:   # the first alternative is the most probable
            best = protobuf.data(value)
        elif number == 2:
            is_final = bool(value)
        elif number == 4:
            end_s = _seconds(value)
        elif number == 6:
            language = protobuf.text(value)
    text, confidence, words = "", 0.0, []
    for number, value in protobuf.fields(best or b""):
        if number == 1:
            text = protobuf.text(value)
        elif number == 2:
            confidence = protobuf.float_number(value)
        elif number == 3:
            words.append(_word(protobuf.data(value)))
    return Result(text=text, is_final=is_final, end_s=end_s, confidence=confidence, words=tuple(words), language=language)


def _word(message: bytes) -> RecognizedWord:
    text, start_s, end_s, confidence = "", 0.0, 0.0, 0.0
    for number, value in protobuf.fields(message):
        if number == 1:
            start_s = _seconds(value)
        elif number == 2:
            end_s = _seconds(value)
        elif number == 3:
            text = protobuf.text(value)
        elif number == 4:
            confidence = protobuf.float_number(value)
    return RecognizedWord(text=text, start_s=start_s, end_s=end_s, confidence=confidence)


def _seconds(value: protobuf.Value) -> float:
    """Return a `Duration`, bounded; 0.0 for a negative one, which is a huge number here."""
    parts = dict(protobuf.fields(protobuf.data(value)))
    whole, nanos = protobuf.whole_number(parts.get(1, 0)), protobuf.whole_number(parts.get(2, 0))
    return 0.0 if max(whole, nanos) >= 2**62 else seconds(whole + nanos / 10**9) or 0.0
