"""Speechmatics' transcription of recordings, `/v2/jobs`: both roles.

Source: github.com/speechmatics/docs at 2026-08-13 (`spec/batch.yaml`, "Synchronous transcription", "Limits"), speechmatics-batch
1.1.0. A job is a form with `config` (JSON) and `data_file`; it is looked up until it is `done`, and its transcript fetched then.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from gw.errors import ProviderRejected, UpstreamProtocolError
from gw.types import stt
from gw.types.stt import TranscribeRequest
from gw.types.usage import Usage
from gw.wire.bounds import plausible, seconds
from gw.wire.json_codec import decode_client, decode_upstream
from gw.wire.speechmatics_results import ResultItem, encode_words, language_in, transcription_config, words_of

JOBS = "/jobs"
_ID = re.compile(r"[\w-]{1,64}")
_REJECTED = frozenset({"rejected", "deleted", "expired"})


class _Created(msgspec.Struct, gc=False):
    id: str


class _Job(msgspec.Struct, gc=False):
    status: str


class _Looked(msgspec.Struct, gc=False):
    job: _Job


class _Info(msgspec.Struct, gc=False):
    duration: float | None = None


class _Languages(msgspec.Struct, gc=False):
    word_delimiter: str = " "


class _Metadata(msgspec.Struct, gc=False):
    language_pack_info: _Languages | None = None


class _Transcript(msgspec.Struct, gc=False):
    results: list[ResultItem]
    job: _Info | None = None
    metadata: _Metadata | None = None


_CREATED, _LOOKED = msgspec.json.Decoder(_Created), msgspec.json.Decoder(_Looked)
_TRANSCRIPT = msgspec.json.Decoder(_Transcript)


# ---- client


def config(request: TranscribeRequest, model: str) -> str:
    """Return the field `config` of the form."""
    return msgspec.json.encode({"type": "transcription", "transcription_config": transcription_config(request, model)}).decode()


def job_id(body: bytes, provider: str) -> str:
    """Return the id of a new job. Raises UpstreamProtocolError."""
    created = decode_upstream(_CREATED, body, provider, "the job").id
    if not _ID.fullmatch(created):
        raise UpstreamProtocolError(provider=provider, detail="the job's id is unknown")
    return created


def is_done(body: bytes, provider: str) -> bool:
    """Return whether a job is done. Raises ProviderRejected for one that will not be; another vendor may take the recording."""
    status = decode_upstream(_LOOKED, body, provider, "the job").job.status
    if status in _REJECTED:
        detail = f"the job was {status}"
        raise ProviderRejected(provider=provider, detail=detail, upstream_status=400, upstream_code=status, fault="request")
    if status not in ("running", "created", "done"):
        raise UpstreamProtocolError(provider=provider, detail="the job's status is unknown")
    return status == "done"


def decode_transcript(body: bytes, provider: str) -> stt.Transcript:
    """Decode a transcript in the format `json-v2`; the duration, in whole seconds, is what is billed. Raises UpstreamProtocolError."""
    answer = decode_upstream(_TRANSCRIPT, body, provider, "the transcript")
    words = words_of(answer.results)
    pack = (answer.metadata or _Metadata()).language_pack_info or _Languages()
    billed_s = seconds(answer.job.duration) if answer.job is not None else None
    return stt.Transcript(
        text=pack.word_delimiter.join(word.text for word in words), language=language_in(answer.results), duration_s=billed_s,
        words=words, usage=None if billed_s is None else plausible(Usage(audio_seconds=billed_s, source="vendor")),
    )  # fmt: skip


# ---- server


class _Settings(msgspec.Struct, gc=False):
    language: str
    model: str = "standard"
    additional_vocab: list[Any] | None = None
    diarization: str | None = None


class _Config(msgspec.Struct, gc=False):
    type: str
    transcription_config: _Settings


_CONFIG = msgspec.json.Decoder(_Config)


def parse_config(field: str) -> dict[str, Any]:
    """Decode the field `config` of a client. Raises ClientProtocolError."""
    settings = decode_client(_CONFIG, field, "Job config JSON is invalid", "config").transcription_config
    return msgspec.structs.asdict(settings)


def encode_created(id_: str) -> bytes:
    return msgspec.json.encode({"id": id_})


def encode_job(id_: str, status: str, duration_s: float) -> bytes:
    about = {"created_at": "2026-08-13T10:00:00.000Z", "data_name": "a.wav", "id": id_, "duration": round(duration_s)}
    return msgspec.json.encode({"job": {**about, "status": status}})


def encode_transcript(id_: str, transcript: stt.Transcript, duration_s: float, settings: dict[str, Any]) -> bytes:
    job = {"created_at": "2026-08-13T10:00:00.000Z", "data_name": "a.wav", "duration": round(duration_s), "id": id_}
    metadata = {
        "created_at": job["created_at"], "type": "transcription", "transcription_config": {"language": settings["language"]},
        "language_pack_info": {"word_delimiter": " ", "writing_direction": "left-to-right"},
    }  # fmt: skip
    language = settings["language"] if settings["language"] not in ("auto", "multi") else "en"
    results = encode_words(transcript.words, language)
    return msgspec.json.encode({"format": "2.9", "job": job, "metadata": metadata, "results": results})
