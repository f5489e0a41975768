"""Gladia: transcription of recordings as jobs, and live over a WebSocket whose address a request creates."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

from gw.errors import ProviderError
from gw.net.http1 import RequestBody
from gw.net.ws import WsClosed
from gw.providers import job_call
from gw.providers.created_session import open_created_socket
from gw.providers.recording_call import form
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, TranscribeStream
from gw.providers.ws_session import ListenSocket, why_closed
from gw.types.secret import Secret
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest, Transcript
from gw.wire import gladia_jobs, gladia_listen, gladia_results, vendor_errors
from gw.wire.gladia_listen import GladiaListenClient

_DOMAIN = "gladia.io"
_IDLE_S = 15.0  # pipecat-ai keeps a session alive after 20 s without audio
_classify = partial(vendor_errors.classify, dialect=gladia_results.ERRORS)


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    return [(b"x-gladia-key", key.reveal().encode())] if key else []


def _close_error(provider: str, closed: WsClosed) -> ProviderError:
    return gladia_listen.close_error(provider, closed.code) or why_closed(provider, closed)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`POST /v2/live`, then the socket of the session. Takes the samples of `listen_formats`; channels are mixed into one."""
    provider = account.provider_id
    wire = GladiaListenClient(provider, request, (account.api_key.reveal(),))
    url_of = partial(gladia_listen.session_url, provider=provider)
    body, headers = gladia_listen.settings(request, account.model), key_headers(account.api_key)
    async with open_created_socket(account, gladia_listen.PATH.encode(), headers, body, _classify, url_of, _DOMAIN) as ws:
        session = ListenSocket(
            ws, wire, provider, gladia_listen.pace_of(request), on_close=wire.closed, close_error=_close_error,
            idle_s=_IDLE_S, idle_frames=wire.keep_alive,
        )  # fmt: skip
        session.flush_padding_s = wire.flush_s
        yield session


class _Transcription:
    """A recording whose job exists; `receive` waits for its transcript."""

    def __init__(self, account: Account, id_: str) -> None:
        self._account = account
        self._path = f"{gladia_jobs.JOBS}/{id_}"

    async def receive(self) -> list[TranscribeEvent]:
        return [await job_call.wait_done(self._account, self._look)]

    async def _look(self) -> Transcript | None:
        return gladia_jobs.completed(await _fetch(self._account, b"GET", self._path), self._account.provider_id)


async def _fetch(
    account: Account, method: bytes, path: str, body: bytes | RequestBody = b"", *headers: tuple[bytes, bytes]
) -> bytes:
    return await job_call.fetch(account, method, path.encode(), [*headers, *key_headers(account.api_key)], _classify, body)


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST /v2/upload` and `POST /v2/pre-recorded`, then `GET` the job until it is done."""
    provider = account.provider_id
    content_type, form_body = form((), request.audio, file_field="audio")
    uploaded = await _fetch(account, b"POST", gladia_jobs.UPLOAD, form_body, content_type)
    body = gladia_jobs.job_body(request, account.model, gladia_jobs.uploaded_url(uploaded, provider))
    created = await _fetch(account, b"POST", gladia_jobs.JOBS, body, (b"content-type", b"application/json"))
    yield _Transcription(account, gladia_jobs.created_id(created, provider))


_COMMON: Honours = {LANGUAGE: lambda request, account: gladia_results.takes_language(request.language), KEYTERMS: True}

SPEC = ProviderSpec(
    type="gladia", base_url="https://api.gladia.io", dialect="gladia",
    transcribe=transcribe, listen=listen,
    honours={
        "transcribe": {**_COMMON, DIARIZE: True, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True},
        "listen": _COMMON,
    },
    health_path=f"{gladia_jobs.JOBS}?limit=1", key_headers=key_headers,
    listen_formats=frozenset(gladia_listen.ENCODINGS), listen_rates_hz=gladia_listen.RATES_HZ,
    transports={"listen": "HTTP, then WebSocket"}, reported=frozenset({"transcribe"}),
)
