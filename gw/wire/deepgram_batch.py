"""Deepgram's transcription of recordings (`POST /v1/listen`), both roles.

Source: deepgram-sdk 7.17.0, `listen/v1/media` (November 2026). Settings are in the query, the audio is the body; the vendor
bills `metadata.duration` times the channels.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.types.stt import AudioSource, Final, TranscribeRequest, Transcript
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.deepgram_listen import Alternative, audio_fields, default_language, format_of, keyterms_of, word_object
from gw.wire.json_codec import decode_upstream, present
from gw.wire.query import is_true, optional_pairs, query_pairs

_OURS = frozenset({"model", "callback", "callback_method"})
_RAW_AUDIO_FIELDS = frozenset({"encoding", "sample_rate", "channels"})


class _Channel(msgspec.Struct, gc=False):
    alternatives: list[Alternative] = []
    detected_language: str | None = None


class _Utterance(msgspec.Struct, gc=False):
    start: float = 0.0
    end: float = 0.0
    transcript: str = ""
    confidence: float | None = None


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


def path_of(request: TranscribeRequest, model: str) -> str:
    """Return path and query. The settings of a caller of this dialect are passed on."""
    pairs: list[tuple[str, str]] = [("model", model)]
    if request.dialect == "deepgram":
        pairs += [(name, value) for name, value in request.fields if name not in _OURS]
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += optional_pairs(smart_format=True, punctuate=True)
    pairs += audio_fields(request.format) if request.format is not None else []
    pairs += optional_pairs(
        language=request.language, detect_language=not request.language, utterances="segment" in request.timestamps,
        diarize=request.diarize,
    )
    pairs += [("keyterm", term) for term in request.keyterms]
    return "/v1/listen?" + urlencode(pairs)


def decode(body: bytes, provider: str, *, keep_raw: bool) -> Transcript:
    """Decode an answer; its channels follow one another in the transcript. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    best = [channel.alternatives[0] for channel in answer.results.channels if channel.alternatives]
    length_s = seconds(answer.metadata.duration)
    billed = None if length_s is None else length_s * max(1, answer.metadata.channels)
    languages = [channel.detected_language for channel in answer.results.channels if channel.detected_language]
    languages += [one.languages[0] for one in best if one.languages]
    return Transcript(
        text="\n".join(one.transcript for one in best if one.transcript),
        language=languages[0] if languages else None,
        duration_s=length_s,
        words=tuple(word for one in best for word in one.common_words),
        segments=tuple(
            Final(text=u.transcript, start_s=u.start, end_s=u.end, confidence=u.confidence)
            for u in answer.results.utterances
        ),
        usage=None if billed is None else Usage(audio_seconds=billed, source="vendor"),
        raw=body if keep_raw else None,
    )


# ---- as a server


def parse(query: bytes, audio: AudioSource, measured_s: float, sniffed: Any) -> TranscribeRequest:
    """Build a request; `sniffed` is the format recognised from the audio itself. Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    declared = format_of(fields) if "encoding" in fields else None
    raw = declared is not None and declared.bytes_per_second and sniffed is None
    return TranscribeRequest(
        model=fields.get("model", ""),
        audio=audio,
        format=declared if raw else sniffed,
        audio_seconds=declared.seconds(audio.size) if raw and declared is not None else measured_s,
        language=fields.get("language") or None,
        timestamps=frozenset({"word", *(["segment"] if is_true(fields.get("utterances")) else [])}),
        fields=tuple((name, value) for name, value in pairs if raw or name not in _RAW_AUDIO_FIELDS),
        dialect="deepgram",
        diarize=is_true(fields.get("diarize")),
        keyterms=keyterms_of(pairs),
    )


def encode(transcript: Transcript, *, request_id: str, created: str, duration_s: float, sha256: str) -> bytes:
    """Return the body of an answer. `duration_s` is our own measure, exact where vendors round; 0.0 = unknown."""
    alternative: dict[str, Any] = {
        "transcript": transcript.text,
        "confidence": 0.99 if transcript.text else 0.0,
        "words": [word_object(word) | {"start": word.start_s, "end": word.end_s} for word in transcript.words],
    }
    channel = present(alternatives=[alternative], detected_language=transcript.language or None)
    results: dict[str, Any] = {"channels": [channel]}
    if transcript.segments:
        results["utterances"] = [
            {
                "start": s.start_s, "end": s.end_s, "confidence": 0.99 if s.confidence is None else s.confidence,
                "channel": 0, "transcript": s.text, "words": [], "id": f"{request_id}-{n}",
            }
            for n, s in enumerate(transcript.segments)
        ]  # fmt: skip
    info = {request_id: {"name": "gw", "version": "1", "arch": "gw"}}
    metadata = {
        "transaction_key": "deprecated", "request_id": request_id, "sha256": sha256, "created": created,
        "duration": duration_s or transcript.duration_s or 0.0, "channels": 1, "models": [request_id], "model_info": info,
    }  # fmt: skip
    return msgspec.json.encode({"metadata": metadata, "results": results})
