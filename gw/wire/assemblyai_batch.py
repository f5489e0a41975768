"""AssemblyAI's transcription of recordings: upload, create a transcript, ask until it is done; both sides.

Source: assemblyai 1.8.2, `api` and `types` (November 2026). Times are milliseconds; `audio_duration` (seconds) is what is
billed. A failed job is a 200 with `status: "error"`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamProtocolError
from gw.types.stt import Final, TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.json_codec import BAD_JSON
from gw.wire.vendor_errors import filtered

_SET = frozenset({"audio_url", "speech_model", "speech_models", "webhook_url"})
_REGIONS = frozenset({"en_au", "en_uk", "en_us", "de_ch"})
"""Of recordings; every other language goes without its region."""
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""Of a transcript: it becomes part of a path."""


class _Word(msgspec.Struct, gc=False):
    text: str = ""
    start: float = 0.0
    end: float = 0.0
    confidence: float | None = None
    speaker: str | None = None


class _Job(msgspec.Struct, gc=False):
    id: str = ""
    status: str = ""
    text: str | None = None
    error: str | None = None
    words: list[_Word] | None = None
    utterances: list[_Word] | None = None
    audio_duration: float | None = None
    language_code: str | None = None


class _Uploaded(msgspec.Struct, gc=False):
    upload_url: str


class _Error(msgspec.Struct, gc=False):
    error: str = ""


_JOB = msgspec.json.Decoder(_Job)


def upload_url(body: bytes, provider: str) -> str:
    """Of the answer to `POST /v2/upload`. Raises UpstreamProtocolError."""
    try:
        return msgspec.json.decode(body, type=_Uploaded).upload_url
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the upload's answer is not the JSON expected") from None


def job_body(request: TranscribeRequest, model: str, url: str) -> bytes:
    """Of `POST /v2/transcript`. A caller who speaks this dialect has its own settings passed on."""
    asked: dict[str, Any] = {"audio_url": url, "speech_models": [model]}
    if request.dialect == "assemblyai":
        asked |= {name: msgspec.Raw(raw.encode()) for name, raw in request.fields if name not in _SET}
        return msgspec.json.encode(asked)
    if language := spoken_language(request.language):
        asked["language_code"] = language
    else:
        asked["language_detection"] = True
    if request.diarize:
        asked["speaker_labels"] = True
    if request.keyterms:
        asked["keyterms_prompt"] = list(request.keyterms)
    return msgspec.json.encode(asked)


def spoken_language(asked: str | None, regions: Collection[str] = _REGIONS) -> str | None:
    """In the vendor's words: `en-GB` is `en_uk` where regions are known, else `en`. None for what is no language."""
    bare, _, region = (asked or "").lower().replace("-", "_").partition("_")
    whole = f"{bare}_{'uk' if region == 'gb' else region}"
    if whole in regions:
        return whole
    return bare if len(bare) in (2, 3) and bare.isascii() and bare.isalpha() else None


def job_of(body: bytes, provider: str, secrets: Iterable[str], *, keep_raw: bool) -> str | Transcript:
    """The id of a job that is not done yet, or its transcript. Raises ProviderError for one that failed."""
    try:
        job = _JOB.decode(body)
    except BAD_JSON:
        raise UpstreamProtocolError(provider=provider, detail="the answer is not the JSON expected") from None
    match job.status:
        case "completed":
            return _transcript(job, body if keep_raw else None)
        case "error":
            words = filtered(job.error or "", secrets)
            raise ProviderFailed(
                provider=provider, detail="the transcript failed" + (f": {words}" if words else ""), upstream_status=200
            )
        case "queued" | "processing" if _ID.fullmatch(job.id):
            return job.id
    raise UpstreamProtocolError(provider=provider, detail="a transcript of unknown status or name")


def _transcript(job: _Job, raw: bytes | None) -> Transcript:
    billed = seconds(job.audio_duration)
    return Transcript(
        text=job.text or "",
        language=job.language_code,
        duration_s=billed,
        words=tuple(_word(word) for word in job.words or ()),
        segments=tuple(
            Final(text=u.text, start_s=u.start / 1000, end_s=u.end / 1000, confidence=u.confidence)
            for u in job.utterances or ()
        ),
        usage=None if billed is None else Usage(audio_seconds=billed, source="vendor"),
        raw=raw,
    )


def _word(word: _Word) -> Word:
    return Word(
        text=word.text, start_s=word.start / 1000, end_s=word.end / 1000, confidence=word.confidence, speaker=word.speaker
    )


# ---- the server's side


class TranscriptOptions(msgspec.Struct, gc=False):
    """A request for a transcript; members that we do not know are in `fields` of `parse_job`."""

    audio_url: str = ""
    speech_model: str | None = None
    speech_models: list[str] | None = None
    language_code: str | None = None
    speaker_labels: bool | None = None
    keyterms_prompt: list[str] | None = None


def parse_job(body: bytes) -> tuple[TranscriptOptions, tuple[tuple[str, str], ...]]:
    """`POST /v2/transcript`: what is asked, and its other members as JSON. Raises ClientProtocolError."""
    try:
        asked = msgspec.json.decode(body, type=TranscriptOptions)
        members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    except BAD_JSON as error:
        raise ClientProtocolError(what=f"the body is not of the expected form: {error}") from None
    others = tuple((name, bytes(raw).decode()) for name, raw in members.items() if name not in _SET)
    return asked, others


def encode_job(id_: str, status: str, *, audio_url: str, **members: object) -> bytes:
    return msgspec.json.encode({"id": id_, "status": status, "audio_url": audio_url, **members})


def encode_transcript(id_: str, transcript: Transcript, *, audio_url: str, model: str, duration_s: float) -> bytes:
    """A job that is done, built from common terms."""
    return encode_job(
        id_,
        "completed",
        audio_url=audio_url,
        text=transcript.text,
        words=[_told(word) for word in transcript.words],
        utterances=None,
        confidence=0.99 if transcript.text else 0.0,
        audio_duration=round(transcript.duration_s or duration_s),
        language_code=transcript.language or "en",
        speech_model=None,
        speech_models=[model],
        punctuate=True,
        format_text=True,
        webhook_auth=False,
        auto_highlights=False,
        redact_pii=False,
        summarization=False,
        language_model="gw",
        acoustic_model="gw",
    )


def _told(word: Word) -> dict[str, Any]:
    return {
        "text": word.text, "start": round(word.start_s * 1000), "end": round(word.end_s * 1000),
        "confidence": 0.99 if word.confidence is None else word.confidence, "speaker": word.speaker,
    }  # fmt: skip


def with_id(body: bytes, id_: str, audio_url: str) -> bytes:
    """A job's JSON under another id and address, its other members unchanged."""
    members = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**members, "id": id_, "audio_url": audio_url})


def encode_upload(url: str) -> bytes:
    return msgspec.json.encode({"upload_url": url})


def error_body(message: str, **facts: object) -> bytes:
    return msgspec.json.encode({**facts, "error": message})
