"""Deepgram's transcription of recordings (`/v1/listen`): client and server.

Source: deepgram-sdk 7.17.0, `listen/v1/media` (November 2026). Settings are in the query, and the audio is the body; billed is
`metadata.duration` times the channels.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

import msgspec

from gw.errors import ClientProtocolError
from gw.types import stt
from gw.types.speech_settings import DETECT
from gw.types.stt import Final
from gw.types.usage import Usage
from gw.wire import deepgram_settings
from gw.wire.bounds import plausible, seconds
from gw.wire.deepgram_listen import audio_fields, default_language
from gw.wire.deepgram_listen_server import format_of, or_unknown, word_object
from gw.wire.deepgram_messages import AnswerChannel
from gw.wire.json_codec import decode_request, decode_upstream, present
from gw.wire.query import is_true, optional_pairs, query_pairs
from gw.wire.transcripts import confidence_of, segments_of, speaker_number

_NOT_PASSED_ON = frozenset({"model", "callback", "callback_method"})
_RAW_AUDIO_FIELDS = frozenset({"encoding", "sample_rate", "channels"})


class _Utterance(msgspec.Struct, gc=False):
    start: float = 0.0
    end: float = 0.0
    transcript: str = ""
    confidence: float | None = None
    speaker: int | None = None


class _Results(msgspec.Struct, gc=False):
    channels: list[AnswerChannel]
    utterances: list[_Utterance] = []


class _Metadata(msgspec.Struct, gc=False):
    duration: float | None = None
    channels: int = 1


class _Answer(msgspec.Struct, gc=False):
    results: _Results
    metadata: _Metadata = msgspec.field(default_factory=_Metadata)


_ANSWER = msgspec.json.Decoder(_Answer)


def recording_path(request: stt.TranscribeRequest, model: str) -> str:
    """Return path and query. The settings of a caller of this dialect are passed on."""
    pairs: list[tuple[str, str]] = [("model", model)]
    if request.dialect == "deepgram":
        own = [(name, value) for name, value in request.fields if name not in _NOT_PASSED_ON]
        pairs += deepgram_settings.for_model(own, model)
        pairs += default_language(request.language, pairs)
        return "/v1/listen?" + urlencode(pairs)
    pairs += optional_pairs(smart_format=True, punctuate=True)
    pairs += audio_fields(request.format) if request.format is not None else []
    language = None if request.language == DETECT else request.language
    pairs += optional_pairs(
        language=language, detect_language=not language, utterances="segment" in request.timestamps or request.diarize
    )
    pairs += deepgram_settings.from_common(request, model)
    return "/v1/listen?" + urlencode(pairs)


def url_body(url: str) -> bytes:
    """Return the body of a request for a recording that the vendor fetches."""
    return msgspec.json.encode({"url": url})


def decode_transcript(body: bytes, provider: str, *, keep_raw: bool) -> stt.Transcript:
    """Decode an answer; its channels follow one another in the transcript. Raises UpstreamProtocolError."""
    answer = decode_upstream(_ANSWER, body, provider, "the answer")
    best = [channel.alternatives[0] for channel in answer.results.channels if channel.alternatives]
    length_s = seconds(answer.metadata.duration)
    billed = None if length_s is None else length_s * max(1, answer.metadata.channels)
    languages = [channel.detected_language for channel in answer.results.channels if channel.detected_language]
    languages += [one.languages[0] for one in best if one.languages]
    return stt.Transcript(
        text="\n".join(one.transcript for one in best if one.transcript),
        language=languages[0] if languages else None,
        duration_s=length_s,
        words=tuple(word for one in best for word in one.common_words),
        confidence=best[0].confidence if len(best) == 1 else None,
        language_confidence=answer.results.channels[0].language_confidence if languages else None,
        segments=tuple(
            Final(
                text=u.transcript, start_s=u.start, end_s=u.end, confidence=u.confidence,
                speaker=None if u.speaker is None else str(u.speaker),
            )
            for u in answer.results.utterances
        ),
        usage=None if billed is None else plausible(Usage(audio_seconds=billed, source="vendor")),
        raw=body if keep_raw else None,
    )


# ---- recordings, as a server


def callback_of(query: bytes) -> tuple[str, bytes]:
    """Return where to send the transcript ("": into the response), and by which method. Raises ClientProtocolError."""
    fields = dict(query_pairs(query))
    method = fields.get("callback_method", "post").lower()
    if method not in ("post", "put"):
        raise ClientProtocolError(what="callback_method must be post or put", param="callback_method")
    return fields.get("callback", ""), method.upper().encode()


def accepted_body(request_id: str) -> bytes:
    """Return the answer to a request whose transcript is called back."""
    return msgspec.json.encode({"request_id": request_id})


def with_request_id(body: bytes, request_id: str) -> bytes:
    """Return a transcript of the vendor's under our request id, by which the caller knows it."""
    answer: dict[str, Any] = msgspec.json.decode(body)
    return msgspec.json.encode({**answer, "metadata": {**answer.get("metadata", {}), "request_id": request_id}})


class _Remote(msgspec.Struct, gc=False):
    url: str


_REMOTE = msgspec.json.Decoder(_Remote)


def parse_url(body: bytes) -> str:
    """Return the address in a JSON body (deepgram 5, `ListenV1RequestUrl`). Raises ClientProtocolError."""
    return decode_request(_REMOTE, body).url


def parse_recording(query: bytes, audio: stt.AudioSource, measured_s: float, sniffed: Any) -> stt.TranscribeRequest:
    """Build a request; `sniffed` is the format recognised from the audio itself. Raises ClientProtocolError, with `param`."""
    pairs = query_pairs(query)
    fields = dict(pairs)
    declared = format_of(fields) if "encoding" in fields else None
    utterances = frozenset({"segment"} if is_true(fields.get("utterances")) else ())
    raw = declared is not None and declared.bytes_per_second and sniffed is None
    return stt.TranscribeRequest(
        model=fields.get("model", ""),
        audio=audio,
        format=declared if raw else sniffed,
        audio_seconds=declared.seconds(audio.size) if raw and declared is not None else measured_s,
        language=deepgram_settings.language_of(fields),
        timestamps=frozenset({"word", *utterances}),
        timestamps_required=utterances,
        fields=tuple((name, value) for name, value in pairs if raw or name not in _RAW_AUDIO_FIELDS),
        dialect="deepgram",
        **deepgram_settings.to_common(pairs),
    )


def encode_transcript(
    transcript: stt.Transcript, *, request_id: str, created: str, duration_s: float, sha256: str, utterances: bool = False
) -> bytes:
    """Return the body of an answer. `duration_s` is our own measure, exact where vendors round; 0.0 = unknown."""
    alternative: dict[str, Any] = {
        "transcript": transcript.text,
        "confidence": or_unknown(confidence_of(transcript)),
        "words": [word_object(word) | {"start": word.start_s, "end": word.end_s} for word in transcript.words],
    }
    channel = present(
        alternatives=[alternative], detected_language=transcript.language or None,
        language_confidence=transcript.language_confidence,
    )  # fmt: skip
    results: dict[str, Any] = {"channels": [channel]}
    if utterances:
        results["utterances"] = [
            {
                "start": s.start_s, "end": s.end_s, **present(confidence=confidence_of(s)),
                "channel": 0, "transcript": s.text, "words": [word_object(word) for word in s.words], "id": f"{request_id}-{n}",
                **({} if s.speaker is None else {"speaker": speaker_number(s.speaker)}),
            }
            for n, s in enumerate(segments_of(transcript))
        ]  # fmt: skip
    info = {request_id: {"name": "gw", "version": "1", "arch": "gw"}}
    metadata = {
        "transaction_key": "deprecated", "request_id": request_id, "sha256": sha256, "created": created,
        "duration": duration_s or transcript.duration_s or 0.0, "channels": 1, "models": [request_id], "model_info": info,
    }  # fmt: skip
    return msgspec.json.encode({"metadata": metadata, "results": results})
