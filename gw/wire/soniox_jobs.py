"""Soniox's transcription of recordings, `/v1/files` and `/v1/transcriptions`: both roles.

Source: soniox 2.10.0 (`types/api.py`, `api/stt.py`, `api/files.py`, November 2026). A recording is uploaded, a transcription of it
created and looked up until it is `completed`; its transcript has the text and the tokens of a live session. Files and
transcriptions count against limits of the account, and stay for thirty days unless they are deleted.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types import stt
from gw.types.stt import TranscribeRequest
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds
from gw.wire.json_codec import decode_request, decode_upstream
from gw.wire.soniox_listen import SonioxToken, encode_tokens, settings_of, words_of

FILES, TRANSCRIPTIONS = "/files", "/transcriptions"
_ID = re.compile(r"[\w-]{1,64}")
_REFUSED = re.compile(r"invalid|unsupported|audio", re.IGNORECASE)
"""In the type of an error that is about the recording, and not about the vendor."""


class _Created(msgspec.Struct, gc=False):
    id: str


class _Job(msgspec.Struct, gc=False):
    status: str
    audio_duration_ms: float | None = None
    error_type: str | None = None


class CompletedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A transcription that can be fetched. `duration_s`: the seconds that are billed, where the vendor reports them."""

    duration_s: float | None


class _Transcript(msgspec.Struct, gc=False):
    text: str
    tokens: list[SonioxToken]


_CREATED, _JOB = msgspec.json.Decoder(_Created), msgspec.json.Decoder(_Job)
_TRANSCRIPT = msgspec.json.Decoder(_Transcript)


# ---- client


def job_body(request: TranscribeRequest, model: str, file_id: str) -> bytes:
    return msgspec.json.encode({"model": model, "file_id": file_id, **settings_of(request)})


def created_id(body: bytes, provider: str) -> str:
    """Return the id of a new file or transcription. Raises UpstreamProtocolError."""
    created = decode_upstream(_CREATED, body, provider, "the job").id
    if not _ID.fullmatch(created):
        raise UpstreamProtocolError(provider=provider, detail="the job's id is unknown")
    return created


def completed(body: bytes, provider: str) -> CompletedJob | None:
    """Return a completed job; None for one that still runs.

    Raises ProviderRejected or ProviderFailed for one that failed; another vendor may do better.
    """
    job = decode_upstream(_JOB, body, provider, "the job")
    if job.status == "error":
        kind = job.error_type or ""
        code = kind if _ID.fullmatch(kind) else ""
        detail = "the transcription failed" + (f": {code}" if code else "")
        if _REFUSED.search(kind):
            raise ProviderRejected(provider=provider, detail=detail, upstream_status=400, upstream_code=code, fault="request")
        raise ProviderFailed(provider=provider, detail=detail, upstream_status=200, upstream_code=code)
    if job.status not in ("queued", "processing", "completed"):
        raise UpstreamProtocolError(provider=provider, detail="the job's status is unknown")
    if job.status != "completed":
        return None
    return CompletedJob(duration_s=None if job.audio_duration_ms is None else seconds(job.audio_duration_ms / 1000))


def decode_transcript(body: bytes, provider: str, job: CompletedJob) -> stt.Transcript:
    """Decode the transcript of a job. Raises UpstreamProtocolError."""
    answer = decode_upstream(_TRANSCRIPT, body, provider, "the transcript")
    tokens = [token for token in answer.tokens if token.translation_status != "translation"]
    language = next((token.language for token in tokens if token.language), None)
    billed_s = job.duration_s
    return stt.Transcript(
        text=answer.text.strip(), language=language, duration_s=billed_s, words=words_of(tokens),
        usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
    )  # fmt: skip


# ---- server


class _Context(msgspec.Struct, gc=False):
    terms: list[str] | None = None
    text: str | None = None


class _Request(msgspec.Struct, gc=False):
    model: str
    file_id: str
    language_hints: list[str] | None = None
    context: _Context | None = None
    enable_speaker_diarization: bool | None = None


_REQUEST = msgspec.json.Decoder(_Request)


def parse_job(body: bytes) -> dict[str, Any]:
    """Decode the settings of a new transcription. Raises ClientProtocolError."""
    return msgspec.structs.asdict(decode_request(_REQUEST, body))


def encode_file(id_: str, size: int) -> bytes:
    return msgspec.json.encode({"id": id_, "filename": "a.wav", "size": size, "created_at": "2026-11-26T10:00:00Z"})


def encode_job(id_: str, status: str, duration_s: float, settings: dict[str, Any], error_type: str = "") -> bytes:
    members = {
        "id": id_, "status": status, "created_at": "2026-11-26T10:00:00Z", "model": settings["model"], "file_id": settings["file_id"],
        "filename": "a.wav", "enable_speaker_diarization": bool(settings["enable_speaker_diarization"]),
        "enable_language_identification": False, "audio_duration_ms": round(duration_s * 1000) if status == "completed" else None,
        "error_type": error_type or None, "error_message": "scripted failure" if error_type else None,
    }  # fmt: skip
    return msgspec.json.encode(members)


def encode_transcript(id_: str, transcript: stt.Transcript) -> bytes:
    return msgspec.json.encode({"id": id_, "text": transcript.text, "tokens": encode_tokens(transcript.words)})
