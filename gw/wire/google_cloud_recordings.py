"""Google Cloud's Speech-to-Text v2 for recordings, `POST /v2/RECOGNIZER:recognize`: both roles.

Source: google-cloud-speech 2.41.0 (`speech_v2/types/cloud_speech.py`, `transports/rest_base.py`), the vendor's pages "Quotas and limits"
and "Chirp 3 Transcription", November 2026. The recording goes in JSON, in base64. A duration is text: `"1.200s"`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types import stt
from gw.types.speech_settings import DETECT
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.query import bare_language, language_tag

LONGEST_S = 60.0
MOST_BYTES = 10_000_000
"""The limits of one recording (the page "Quotas and limits"). A longer one must lie in the vendor's storage."""
PATH = re.compile(r"/v2/(projects/[^/]+/locations/([^/]+)/recognizers/_):recognize")
USUAL_LOCALE = "en-US"
"""The language of a request that names none, for a model that does not detect it."""
_DETECTED = "auto"
_DETECTING = frozenset({"chirp_2", "chirp_3"})
"""Models that take `auto` for the language (the pages of both)."""
_WITHOUT_WORD_TIMES = frozenset({"chirp_3"})
"""Models without times of words, of audio that is not a batch (livekit-plugins-google 1.8.9; the page "Chirp 3 Transcription")."""
_DIARIZING = frozenset({"chirp_3"})
"""Models that tell speakers apart, in recordings alone (the same page)."""
_USUAL = {
    "ar": "ar-EG", "bg": "bg-BG", "bn": "bn-BD", "ca": "ca-ES", "cmn": "cmn-Hans-CN", "cs": "cs-CZ", "da": "da-DK", "de": "de-DE",
    "el": "el-GR", "en": "en-US", "es": "es-ES", "et": "et-EE", "fa": "fa-IR", "fi": "fi-FI", "fil": "fil-PH", "fr": "fr-FR",
    "he": "iw-IL", "hi": "hi-IN", "hr": "hr-HR", "hu": "hu-HU", "id": "id-ID", "it": "it-IT", "iw": "iw-IL", "ja": "ja-JP",
    "ko": "ko-KR", "lt": "lt-LT", "lv": "lv-LV", "mr": "mr-IN", "nb": "no-NO", "nl": "nl-NL", "no": "no-NO", "pl": "pl-PL",
    "pt": "pt-BR", "ro": "ro-RO", "ru": "ru-RU", "sk": "sk-SK", "sl": "sl-SI", "sr": "sr-RS", "sv": "sv-SE", "sw": "sw-KE",
    "ta": "ta-IN", "te": "te-IN", "th": "th-TH", "tr": "tr-TR", "uk": "uk-UA", "ur": "ur-PK", "vi": "vi-VN", "yue": "yue-Hant-HK",
    "zh": "cmn-Hans-CN",
}  # fmt: skip
"""Language without region → the vendor's code for where it is most likely spoken (Unicode CLDR, "Likely Subtags")."""
_OTHER_NAMES = {
    "he-IL": "iw-IL", "nb-NO": "no-NO", "yue-HK": "yue-Hant-HK", "zh-CN": "cmn-Hans-CN", "zh-HK": "yue-Hant-HK", "zh-TW": "cmn-Hant-TW",
}  # fmt: skip


def locale_of(request: TranscribeRequest | ListenRequest, model: str) -> str | None:
    """Return the vendor's code for the language of a request; None for one that this model does not take.

    Which regions a model knows changes, and depends on the location: the vendor refuses others.
    """
    if not request.language or request.language == DETECT:
        if model in _DETECTING:
            return _DETECTED
        return None if request.language else USUAL_LOCALE
    if (tag := language_tag(request.language)) is None:
        return None
    bare = bare_language(tag)
    if tag == bare:
        return _USUAL.get(bare)
    return _OTHER_NAMES.get(tag, tag) if bare is not None else None


def has_word_times(model: str) -> bool:
    return model not in _WITHOUT_WORD_TIMES


def tells_speakers(model: str) -> bool:
    return model in _DIARIZING


# ---- client


def path_of(recognizer: str) -> str:
    return f"/v2/{recognizer}:recognize"


def recognizer_of(project: str, location: str) -> str:
    """Return the name of the recogniser that has no settings of its own."""
    return f"projects/{project}/locations/{location}/recognizers/_"


def body_around_audio(request: TranscribeRequest, model: str) -> tuple[bytes, bytes]:
    """Return what goes before and after the recording in base64."""
    return b'{"config":' + msgspec.json.encode(_config(request, model)) + b',"content":"', b'"}'


def _config(request: TranscribeRequest, model: str) -> dict[str, Any]:
    features: dict[str, Any] = {"enableAutomaticPunctuation": True}
    timed = bool(request.timestamps) or request.response_format not in ("json", "text")
    if timed and has_word_times(model):
        features["enableWordTimeOffsets"] = features["enableWordConfidence"] = True
    if request.profanity_filter:
        features["profanityFilter"] = True
    if request.diarize:
        features["diarizationConfig"] = {}
    if channels_of(request) > 1:
        features["multiChannelMode"] = "SEPARATE_RECOGNITION_PER_CHANNEL"
    config = {
        "autoDecodingConfig": {}, "model": model, "languageCodes": [locale_of(request, model) or USUAL_LOCALE], "features": features,
    }  # fmt: skip
    if request.keyterms:
        phrases = [{"value": term} for term in request.keyterms]
        config["adaptation"] = {"phraseSets": [{"inlinePhraseSet": {"phrases": phrases}}]}
    return config


def channels_of(request: TranscribeRequest | ListenRequest) -> int:
    """Return the channels that are transcribed each by itself, and billed. Live, channels are mixed into one."""
    if isinstance(request, ListenRequest) or request.format is None:
        return 1
    return request.format.channels


class _Word(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    word: str = ""
    start_offset: str = "0s"
    end_offset: str = "0s"
    confidence: float = 0.0
    speaker_label: str = ""


class _Alternative(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    transcript: str = ""
    confidence: float = 0.0
    words: list[_Word] = []


class _Result(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    alternatives: list[_Alternative] = []
    result_end_offset: str = "0s"
    language_code: str = ""


class _Metadata(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    total_billed_duration: str | None = None


class _Answer(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    results: list[_Result] = []
    metadata: _Metadata | None = None


_ANSWER = msgspec.json.Decoder(_Answer)
_NOTHING = b"{}"
"""All members have their defaults."""


def decode(body: bytes, provider: str) -> stt.Transcript:
    """Decode an answer. Raises UpstreamProtocolError. An answer without results is that of a recording without speech."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    if not answer.results and answer.metadata is None and body.strip() != _NOTHING:
        raise UpstreamProtocolError(provider=provider, detail="the answer has neither results nor metadata")
    segments: list[stt.Final] = []
    for result in sorted(answer.results, key=lambda one: _seconds(one.result_end_offset)):   # those of each channel follow each other
        if (segment := _segment(result, segments[-1].end_s if segments else 0.0)) is not None:
            segments.append(segment)
    billed = answer.metadata.total_billed_duration if answer.metadata is not None else None
    billed_s = None if billed is None else _seconds(billed)
    words = _words_once(segments)
    return stt.Transcript(
        text=" ".join(segment.text for segment in segments), words=words,
        segments=() if any(word.speaker for word in words) else tuple(segments),
        language=next((result.language_code for result in answer.results if result.language_code), None),
        usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
    )  # fmt: skip


def _segment(result: _Result, after_s: float) -> stt.Final | None:
    best = result.alternatives[0] if result.alternatives else _Alternative()
    if not (text := best.transcript.strip()):
        return None
    words = tuple(map(_word, best.words))
    end_s = max(after_s, _seconds(result.result_end_offset))
    start_s = words[0].start_s if words else min(after_s, end_s)
    return stt.Final(text=text, start_s=start_s, end_s=end_s, words=words, confidence=best.confidence or None)


def _word(word: _Word) -> stt.Word:
    start_s = _seconds(word.start_offset)
    return stt.Word(
        text=word.word, start_s=start_s, end_s=max(start_s, _seconds(word.end_offset)), confidence=word.confidence or None,
        speaker=word.speaker_label or None,
    )  # fmt: skip


def _words_once(segments: Sequence[stt.Final]) -> tuple[stt.Word, ...]:
    """Return all words. With speakers the last result may repeat those of the recording from its beginning."""
    last = segments[-1].words if segments else ()
    if len(segments) > 1 and any(word.speaker for word in last) and len(last) >= sum(len(s.words) for s in segments[:-1]):
        first = next((s.words[0] for s in segments[:-1] if s.words), None)
        if first is not None and (last[0].text, last[0].start_s) == (first.text, first.start_s):
            return last
    return tuple(word for segment in segments for word in segment.words)


def _seconds(duration: str | None) -> float:
    """Return a duration in protobuf's JSON; 0.0 for an impossible one."""
    return seconds((duration or "0").removesuffix("s")) or 0.0


# ---- server


class _Explicit(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    encoding: str | int = 0


class _Features(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    profanity_filter: bool = False
    enable_word_time_offsets: bool = False
    diarization_config: dict[str, Any] | None = None
    multi_channel_mode: str | int = 0


class _Phrase(msgspec.Struct, frozen=True, gc=False):
    value: str = ""


class _Phrases(msgspec.Struct, frozen=True, gc=False):
    phrases: list[_Phrase] = []


class _PhraseSet(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    inline_phrase_set: _Phrases = _Phrases()


class _Adaptation(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    phrase_sets: list[_PhraseSet] = []


class Config(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    auto_decoding_config: dict[str, Any] | None = None
    explicit_decoding_config: _Explicit | None = None
    model: str = ""
    language_codes: list[str] = []
    features: _Features = _Features()
    adaptation: _Adaptation = _Adaptation()

    @property
    def terms(self) -> list[str]:
        return [phrase.value for phrases in self.adaptation.phrase_sets for phrase in phrases.inline_phrase_set.phrases]


class _Request(msgspec.Struct, frozen=True, gc=False):
    config: Config
    content: bytes


_REQUEST = msgspec.json.Decoder(_Request)


def parse(body: bytes) -> tuple[Config, bytes]:
    """Decode the settings and the recording of a client. Raises ClientProtocolError for what the vendor refuses."""
    request = decode_request(_REQUEST, body)
    config = request.config
    if (config.auto_decoding_config is None) == (config.explicit_decoding_config is None):
        raise ClientProtocolError(what="Exactly one decoding config is required", param="config")
    for param, value in (("model", config.model), ("languageCodes", config.language_codes), ("content", request.content)):
        if not value:
            raise ClientProtocolError(what=f"{param} is empty", param=param)
    return config, request.content


def encode(transcript: stt.Transcript, segments: Sequence[stt.Final], locale: str, billed_s: float) -> bytes:
    results = [
        {
            "alternatives": [
                {"transcript": segment.text, "confidence": segment.confidence or 0.9, "words": list(map(_encoded, segment.words))}
            ],
            "resultEndOffset": _duration(segment.end_s), "languageCode": locale,
        }
        for segment in segments
    ]  # fmt: skip
    return msgspec.json.encode({**({"results": results} if results else {}), "metadata": {"totalBilledDuration": _duration(billed_s)}})


def _encoded(word: stt.Word) -> dict[str, Any]:
    times = {"startOffset": _duration(word.start_s), "endOffset": _duration(word.end_s)}
    return {**times, "word": word.text, "confidence": word.confidence or 0.9, **({"speakerLabel": word.speaker} if word.speaker else {})}


def _duration(length_s: float) -> str:
    return f"{length_s:.3f}s"
