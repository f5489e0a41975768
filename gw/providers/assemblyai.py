"""AssemblyAI: transcription of recordings and live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from urllib.parse import quote

import attrs
import msgspec

from gw.net.http1 import Origin, RequestBody
from gw.providers import job_call
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, TranscribeStream, rejected
from gw.providers.ws_session import open_listen_socket, why_closed
from gw.types.audio import PCM_16K
from gw.types.secret import Secret
from gw.types.speech_settings import (
    DETECT,
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    PROFANITY_FILTER,
    PROMPT,
    REDACT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest, Transcript
from gw.wire import assemblyai_settings, assemblyai_stream, billing, redaction, vendor_errors
from gw.wire.convert import CannotConvert

_DOMAIN = ".assemblyai.com"
_TAKE_PROMPT = ("slam", "u3", "universal-3")
"""Prefixes of the models that take a prompt (the SDK's description of the field, LiveKit's of its options)."""
_VERSION = (b"assemblyai-version", b"2025-05-12")


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """Return the bare key, without a scheme."""
    return [(b"authorization", key.reveal().encode())] if key else []


class _Job:
    """A recording that has been uploaded; `receive` polls for its transcript."""

    def __init__(self, request: TranscribeRequest, account: Account, url: str) -> None:
        self._request = request
        self._account = account
        self._url = url

    async def receive(self) -> list[TranscribeEvent]:
        body = assemblyai_stream.job_body(self._request, self._account.model, self._url)
        job = await self._fetch(b"POST", b"/v2/transcript", body)
        if isinstance(job, Transcript):
            return [job]
        path = b"/v2/transcript/" + quote(job, safe="").encode()

        async def look() -> Transcript | None:
            looked = await self._fetch(b"GET", path, b"")
            return looked if isinstance(looked, Transcript) else None

        return [await job_call.wait_done(self._account, look)]

    async def _fetch(self, method: bytes, path: bytes, body: bytes) -> str | Transcript:
        """Return the finished transcript, or the id of the job."""
        account, secret = self._account, self._account.api_key.reveal()
        answer = await _fetch(account, method, path, body, [(b"content-type", b"application/json")] if body else [])
        keep_raw = self._request.dialect == "assemblyai"
        return assemblyai_stream.decode_job(answer, account.provider_id, (secret,), keep_raw=keep_raw, redacted=bool(self._request.redact))


async def _fetch(
    account: Account, method: bytes, path: bytes, body: bytes | RequestBody, headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    return await job_call.fetch(account, method, path, [*headers, *key_headers(account.api_key)], vendor_errors.classify, body)


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST /v2/upload`, unless the caller gave an address; `POST /v2/transcript`, then `GET` it until it is ready."""
    if request.url:
        yield _Job(request, account, request.url)
        return
    headers = [(b"content-type", b"application/octet-stream")]
    uploaded = await _fetch(account, b"POST", b"/v2/upload", request.audio, headers)
    yield _Job(request, account, assemblyai_stream.upload_url(uploaded, account.provider_id))


def _streaming(origin: Origin) -> Origin:
    """Return the address of live sessions: the vendor has another host for them, a server of the user's own has not."""
    if not origin.host.endswith(_DOMAIN) or not origin.host.startswith("api."):
        return origin
    return attrs.evolve(origin, host="streaming." + origin.host.removeprefix("api."))


def listen(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    """`WS /v3/ws`. Takes the samples of `listen_formats`; several channels are mixed into one."""
    provider, secrets = account.provider_id, (account.api_key.reveal(),)
    keep_raw = request.dialect == "assemblyai"
    try:
        wire = assemblyai_stream.AssemblyListenClient(provider, request, keep_raw=keep_raw, secrets=secrets)
    except CannotConvert as error:
        raise rejected(account, str(error)) from None
    path = assemblyai_stream.path_of(request, account.model)
    headers = [_VERSION, *key_headers(account.api_key)]
    account = attrs.evolve(account, origin=_streaming(account.origin))
    close_error = partial(why_closed, next_codes=assemblyai_stream.NEXT_CODES, refused_codes=assemblyai_stream.REFUSED_CODES)
    pace = assemblyai_stream.pace_of(request, account.model)
    return open_listen_socket(account, path, headers, wire, pace, close_error=close_error)


def _takes_language(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    if account.model.endswith("-english"):
        return assemblyai_settings.spoken_language(request.language, ()) == "en"
    return request.language == DETECT or assemblyai_settings.spoken_language(request.language) is not None


_HONOURS: Honours = {
    REDACT: lambda request, account: redaction.to_assemblyai(request.redact) is not None,
    PROFANITY_FILTER: True, DIARIZE: True, LANGUAGE: _takes_language,
    KEYTERMS: lambda request, account: not request.prompt,  # the vendor takes one of the two
    PROMPT: lambda request, account: not request.keyterms and account.model.startswith(_TAKE_PROMPT),
}  # fmt: skip


_BILLED_ON_TOP = {
    "keyterms_prompt": "keyterm", "speaker_labels": "diarize", "redact_pii": "redact", "entity_detection": "detect_entities",
    "sentiment_analysis": "sentiment", "iab_categories": "topics", "content_safety": "content_safety",
    "summarization": "summarize", "auto_highlights": "highlights", "auto_chapters": "summarize", "domain": "domain",
}  # fmt: skip
"""Source: the add-ons that the vendor's pricing page and its page on billing list (October 2026)."""


def billed_options(request: TranscribeRequest | ListenRequest, model: str) -> tuple[str, ...]:
    """Return what is billed on top, by the body or the query that is sent."""
    if isinstance(request, TranscribeRequest):
        members = msgspec.json.decode(assemblyai_stream.job_body(request, model, ""))
        return billing.billed_options(members.items(), _BILLED_ON_TOP)
    path = assemblyai_stream.path_of(attrs.evolve(request, format=PCM_16K), model)  # the format does not matter here
    return billing.billed_options(billing.query_of(path), _BILLED_ON_TOP)


SPEC = ProviderSpec(
    type="assemblyai", base_url="https://api.assemblyai.com", dialect="assemblyai",
    fetches=frozenset({"assemblyai"}), transcribe=transcribe, listen=listen,
    honours={
        "transcribe": {**_HONOURS, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True},
        "listen": _HONOURS,
    },
    health_path="/v2/transcript?limit=1", key_headers=key_headers,
    listen_formats=frozenset(assemblyai_stream.ENCODINGS),
    reported=frozenset({"transcribe", "listen"}), billed_options=billed_options,
)
