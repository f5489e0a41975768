"""Gladia's transcription of recordings, `/v2/upload` and `/v2/pre-recorded`: both roles.

Source: gladiaio-sdk 2.2.1 (`v2/prerecorded`, November 2026). A recording is uploaded, a job created for its address, and looked up
until it is `done`: then it has the transcript and the seconds that are billed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types import stt
from gw.types.stt import TranscribeRequest
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds
from gw.wire.gladia_results import (
    ID,
    GladiaLanguages,
    GladiaUtterance,
    GladiaVocabulary,
    encode_utterance,
    language_config,
    language_of,
    vocabulary,
    words_of,
)
from gw.wire.json_codec import decode_request, decode_upstream

UPLOAD, JOBS = "/v2/upload", "/v2/pre-recorded"


class _Uploaded(msgspec.Struct, gc=False):
    audio_url: str


class _Created(msgspec.Struct, gc=False):
    id: str


class _Metadata(msgspec.Struct, gc=False):
    audio_duration: float | None = None
    billing_time: float | None = None


class _Transcription(msgspec.Struct, gc=False):
    full_transcript: str
    languages: list[str] = []
    utterances: list[GladiaUtterance] = []


class _Result(msgspec.Struct, gc=False):
    metadata: _Metadata | None = None
    transcription: _Transcription | None = None


class _Job(msgspec.Struct, gc=False):
    status: str
    error_code: int | None = None
    result: _Result | None = None


_UPLOADED, _CREATED, _JOB = msgspec.json.Decoder(_Uploaded), msgspec.json.Decoder(_Created), msgspec.json.Decoder(_Job)


# ---- client


def job_body(request: TranscribeRequest, model: str, audio_url: str) -> bytes:
    members: dict[str, Any] = {"audio_url": audio_url, "model": model, **language_config(request), **vocabulary(request.keyterms)}
    if request.diarize:
        members["diarization"] = True
    return msgspec.json.encode(members)


def uploaded_url(body: bytes, provider: str) -> str:
    """Return the address of an uploaded recording, which goes back to the vendor only. Raises UpstreamProtocolError."""
    return decode_upstream(_UPLOADED, body, provider, "the upload").audio_url


def created_id(body: bytes, provider: str) -> str:
    """Return the id of a new job. Raises UpstreamProtocolError."""
    created = decode_upstream(_CREATED, body, provider, "the job").id
    if not ID.fullmatch(created):
        raise UpstreamProtocolError(provider=provider, detail="the job's id is unknown")
    return created


def completed(body: bytes, provider: str) -> stt.Transcript | None:
    """Return the transcript of a job; None while it runs.

    Raises ProviderRejected or ProviderFailed for one that failed, by its HTTP status; another vendor may do better.
    """
    job = decode_upstream(_JOB, body, provider, "the job")
    if job.status in ("queued", "processing"):
        return None
    if job.status == "error":
        code = job.error_code or 500
        detail = f"the transcription failed with {code}"
        if 400 <= code < 500:
            raise ProviderRejected(provider=provider, detail=detail, upstream_status=code, fault="request")
        raise ProviderFailed(provider=provider, detail=detail, upstream_status=200)
    if job.status != "done" or job.result is None or job.result.transcription is None:
        raise UpstreamProtocolError(provider=provider, detail="the job has neither a known status nor a transcript")
    return _transcript(job.result.transcription, job.result.metadata or _Metadata())


def _transcript(found: _Transcription, about: _Metadata) -> stt.Transcript:
    billed_s = seconds(about.billing_time)
    segments = tuple(_segment(utterance) for utterance in found.utterances if utterance.text.strip())
    return stt.Transcript(
        text=found.full_transcript.strip(), language=found.languages[0] if found.languages else None,
        duration_s=seconds(about.audio_duration), segments=segments, words=tuple(word for one in segments for word in one.words),
        usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
    )  # fmt: skip


def _segment(utterance: GladiaUtterance) -> stt.Final:
    start_s = seconds(utterance.start) or 0.0
    return stt.Final(
        text=utterance.text.strip(), start_s=start_s, end_s=max(start_s, seconds(utterance.end) or 0.0), words=words_of(utterance),
        language=utterance.language, confidence=utterance.confidence,
        speaker=None if utterance.speaker is None else str(utterance.speaker),
    )  # fmt: skip


# ---- server


class _Request(msgspec.Struct, gc=False):
    audio_url: str
    model: str = "solaria-1"
    language_config: GladiaLanguages | None = None
    custom_vocabulary_config: GladiaVocabulary | None = None
    diarization: bool | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse_job(body: bytes) -> dict[str, Any]:
    """Decode the settings of a new job. Raises ClientProtocolError."""
    request = decode_request(_REQUEST, body)
    return {
        "audio_url": request.audio_url, "model": request.model, "language": language_of(request.language_config),
        "diarization": bool(request.diarization),
    }  # fmt: skip


def encode_uploaded(url: str, size: int, duration_s: float) -> bytes:
    about = {
        "id": "u1", "filename": "a.wav", "extension": "wav", "size": size, "audio_duration": duration_s, "number_of_channels": 1,
    }  # fmt: skip
    return msgspec.json.encode({"audio_url": url, "audio_metadata": about})


def encode_created(id_: str, url: str) -> bytes:
    return msgspec.json.encode({"id": id_, "result_url": url})


def encode_job(id_: str, status: str, error_code: int | None = None, result: dict[str, Any] | None = None) -> bytes:
    members = {
        "id": id_, "request_id": "G-1", "version": 2, "kind": "pre-recorded", "status": status,
        "created_at": "2026-11-26T10:00:00.000Z", "error_code": error_code, "result": result,
    }  # fmt: skip
    return msgspec.json.encode(members)


def encode_result(transcript: stt.Transcript, duration_s: float, language: str | None) -> dict[str, Any]:
    """Return the result of a job: each speaker's words in a row are an utterance."""
    utterances: list[dict[str, Any]] = []
    words: list[stt.Word] = []
    for n, word in enumerate(transcript.words):
        words.append(word)
        if n + 1 == len(transcript.words) or transcript.words[n + 1].speaker != word.speaker:
            text = " ".join(one.text for one in words)
            said = stt.Final(text=text, start_s=words[0].start_s, end_s=word.end_s, words=tuple(words))
            utterances.append(encode_utterance(said, language, word.speaker))
            words = []
    metadata = {
        "audio_duration": duration_s, "number_of_distinct_channels": 1, "billing_time": duration_s, "transcription_time": 0.5,
    }  # fmt: skip
    languages = [language or "en"]
    transcription = {"full_transcript": transcript.text, "languages": languages, "utterances": utterances}
    return {"metadata": metadata, "transcription": transcription}
