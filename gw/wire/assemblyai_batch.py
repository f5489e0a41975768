"""AssemblyAI's transcription of recordings: upload, create a transcript, poll until it is done; both roles.

Source: assemblyai 1.8.2, `api` and `types` (November 2026). Times are milliseconds; `audio_duration` (seconds) is what is
billed. A failed job is a 200 with `status: "error"`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

import msgspec

from gw.errors import ProviderFailed, UpstreamProtocolError
from gw.types.stt import Final, TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire.bounds import seconds
from gw.wire.json_codec import decode_request, decode_upstream, present
from gw.wire.vendor_errors import filtered

_OURS = frozenset({"audio_url", "speech_model", "speech_models", "webhook_url"})
"""Members that the gateway sets or refuses."""
_REGIONS = frozenset({"en_au", "en_uk", "en_us", "de_ch"})  # languages whose region is accepted for recordings
_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")  # accepted id of a transcript, which becomes part of a path


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


_JOB = msgspec.json.Decoder(_Job)
_UPLOADED = msgspec.json.Decoder(_Uploaded)


def upload_url(body: bytes, provider: str) -> str:
    """Return the URL in the answer to `POST /v2/upload`. Raises UpstreamProtocolError."""
    return decode_upstream(_UPLOADED, body, provider, "the upload's answer").upload_url


def job_body(request: TranscribeRequest, model: str, url: str) -> bytes:
    """Return the body of `POST /v2/transcript`. The settings of a caller of this dialect are passed on."""
    body: dict[str, Any] = {"audio_url": url, "speech_models": [model]}
    if request.dialect == "assemblyai":
        body |= {name: msgspec.Raw(raw.encode()) for name, raw in request.fields if name not in _OURS}
        return msgspec.json.encode(body)
    language = spoken_language(request.language)
    body |= present(
        language_code=language, language_detection=None if language else True, speaker_labels=request.diarize or None,
        keyterms_prompt=request.keyterms or None,
    )
    return msgspec.json.encode(body)


def spoken_language(language: str | None, regions: Collection[str] = _REGIONS) -> str | None:
    """Return the vendor's code: `en-GB` is `en_uk` if that is one of `regions`, else `en`. None if it is not a language."""
    bare, _, region = (language or "").lower().replace("-", "_").partition("_")
    regional = f"{bare}_{'uk' if region == 'gb' else region}"
    if regional in regions:
        return regional
    return bare if len(bare) in (2, 3) and bare.isascii() and bare.isalpha() else None


def decode_job(body: bytes, provider: str, secrets: Iterable[str], *, keep_raw: bool) -> str | Transcript:
    """Return the id of a job that is not done yet, or its transcript. Raises ProviderError for one that failed."""
    job = decode_upstream(_JOB, body, provider, "the answer")
    match job.status:
        case "completed":
            return _transcript(job, body if keep_raw else None)
        case "error":
            reason = filtered(job.error or "", secrets)
            raise ProviderFailed(
                provider=provider, detail="the transcript failed" + (f": {reason}" if reason else ""), upstream_status=200
            )
        case "queued" | "processing" if _ID.fullmatch(job.id):
            return job.id
    raise UpstreamProtocolError(provider=provider, detail="the transcript's status or id is unknown")


def _transcript(job: _Job, raw: bytes | None) -> Transcript:
    billed = seconds(job.audio_duration)
    return Transcript(
        text=job.text or "",
        language=job.language_code,
        duration_s=billed,
        words=tuple(
            Word(text=w.text, start_s=w.start / 1000, end_s=w.end / 1000, confidence=w.confidence, speaker=w.speaker)
            for w in job.words or ()
        ),
        segments=tuple(
            Final(text=u.text, start_s=u.start / 1000, end_s=u.end / 1000, confidence=u.confidence)
            for u in job.utterances or ()
        ),
        usage=None if billed is None else Usage(audio_seconds=billed, source="vendor"),
        raw=raw,
    )


# ---- as a server


class TranscriptOptions(msgspec.Struct, gc=False):
    """Members of a request for a transcript that we know."""

    audio_url: str = ""
    speech_model: str | None = None
    speech_models: list[str] | None = None
    language_code: str | None = None
    speaker_labels: bool | None = None
    keyterms_prompt: list[str] | None = None


_OPTIONS = msgspec.json.Decoder(TranscriptOptions)
_MEMBERS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def parse_job(body: bytes) -> tuple[TranscriptOptions, tuple[tuple[str, str], ...]]:
    """Decode `POST /v2/transcript`: the members we know, and all of them but ours as JSON. Raises ClientProtocolError."""
    options = decode_request(_OPTIONS, body)
    members = decode_request(_MEMBERS, body)
    return options, tuple((name, bytes(raw).decode()) for name, raw in members.items() if name not in _OURS)


def encode_job(id_: str, status: str, *, audio_url: str, **members: object) -> bytes:
    return msgspec.json.encode({"id": id_, "status": status, "audio_url": audio_url, **members})


def encode_transcript(id_: str, transcript: Transcript, *, audio_url: str, model: str, duration_s: float) -> bytes:
    """Return a completed job with this transcript."""
    return encode_job(
        id_, "completed", audio_url=audio_url, text=transcript.text,
        words=[_word_object(word) for word in transcript.words], utterances=None,
        confidence=0.99 if transcript.text else 0.0, audio_duration=round(transcript.duration_s or duration_s),
        language_code=transcript.language or "en", speech_model=None, speech_models=[model], punctuate=True,
        format_text=True, webhook_auth=False, auto_highlights=False, redact_pii=False, summarization=False,
        language_model="gw", acoustic_model="gw",
    )


def _word_object(word: Word) -> dict[str, Any]:
    return {
        "text": word.text, "start": round(word.start_s * 1000), "end": round(word.end_s * 1000),
        "confidence": 0.99 if word.confidence is None else word.confidence, "speaker": word.speaker,
    }  # fmt: skip


def with_id(body: bytes, id_: str, audio_url: str) -> bytes:
    """Return a job's JSON with another id and URL, its other members unchanged."""
    return msgspec.json.encode({**_MEMBERS.decode(body), "id": id_, "audio_url": audio_url})


def encode_upload(url: str) -> bytes:
    return msgspec.json.encode({"upload_url": url})


def error_body(message: str, **facts: object) -> bytes:
    return msgspec.json.encode({**facts, "error": message})
