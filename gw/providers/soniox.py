"""Soniox: transcription of recordings as jobs, and live over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import attrs
import trio

from gw.errors import ProviderError
from gw.net.http1 import Origin, RequestBody
from gw.providers import job_call
from gw.providers.background import background
from gw.providers.http_call import check_get
from gw.providers.recording_call import form
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, TranscribeStream, bearer
from gw.providers.ws_session import ListenSocket, open_listen_socket
from gw.types.speech_settings import (
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    PROMPT,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest
from gw.wire import soniox_jobs, soniox_listen, vendor_errors
from gw.wire.soniox_jobs import CompletedJob
from gw.wire.soniox_listen import SonioxListenClient

_DOMAIN = ".soniox.com"
_WATCH_S = 1.0
_IDLE_S = 5.0  # the vendor closes a session that gets neither audio nor a keepalive for twenty seconds
_CLEAN_UP_S = 2.0
_classify = partial(vendor_errors.classify, dialect=soniox_listen.ERRORS)


def _streaming(origin: Origin) -> Origin:
    """Return the address of live sessions: the vendor has another host for them, a server of the user's own has not."""
    if not origin.host.endswith(_DOMAIN) or not origin.host.startswith("api."):
        return origin
    return attrs.evolve(origin, host="stt-rt." + origin.host.removeprefix("api."), prefix=b"")


async def _keep_alive(session: ListenSocket, wire: SonioxListenClient) -> None:
    """Send keepalives while no audio is sent. The vendor bills the duration of the stream, so the pause counts as audio."""
    while not wire.finishing:
        await trio.sleep(_WATCH_S)
        idle_s = trio.current_time() - session.sent_at
        if not wire.finishing and idle_s >= _IDLE_S:
            session.sent_at = trio.current_time()
            session.padding_s += idle_s
            await session.send_frames(soniox_listen.KEEPALIVE)


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /transcribe-websocket`."""
    wire = SonioxListenClient(account.provider_id, request, (account.api_key.reveal(),))
    opening, pace = soniox_listen.configuration(request, account.model), soniox_listen.pace_of(request)
    headers = bearer(account.api_key)
    live = attrs.evolve(account, origin=_streaming(account.origin))
    async with (
        open_listen_socket(live, soniox_listen.PATH, headers, wire, pace, opening=opening) as session,
        background(_keep_alive, session, wire),
    ):
        yield session


class _Transcription:
    """A recording that has been uploaded; `receive` has it transcribed and waits for the transcript."""

    def __init__(self, request: TranscribeRequest, account: Account, file_id: str) -> None:
        self._request = request
        self._account = account
        self._file_id = file_id
        self._path = b""  # of the transcription, once it exists

    async def receive(self) -> list[TranscribeEvent]:
        account, provider = self._account, self._account.provider_id
        body = soniox_jobs.job_body(self._request, account.model, self._file_id)
        created = await _fetch(account, b"POST", soniox_jobs.TRANSCRIPTIONS, body, (b"content-type", b"application/json"))
        path = f"{soniox_jobs.TRANSCRIPTIONS}/{soniox_jobs.created_id(created, provider)}"
        self._path = path.encode()

        async def look() -> CompletedJob | None:
            return soniox_jobs.completed(await _fetch(account, b"GET", path), provider)

        job = await job_call.wait_done(account, look)
        transcript = await _fetch(account, b"GET", path + "/transcript")
        return [soniox_jobs.decode_transcript(transcript, provider, job)]

    async def clean_up(self) -> None:
        """Delete the transcription and the file, which count against the account's limits. The vendor deletes what is left later."""
        with trio.move_on_after(_CLEAN_UP_S, shield=True):
            for path in filter(None, (self._path.decode(), f"{soniox_jobs.FILES}/{self._file_id}")):
                with suppress(ProviderError):
                    await _fetch(self._account, b"DELETE", path)


async def _fetch(
    account: Account, method: bytes, path: str, body: bytes | RequestBody = b"", *headers: tuple[bytes, bytes]
) -> bytes:
    return await job_call.fetch(account, method, path.encode(), [*headers, *bearer(account.api_key)], _classify, body)


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST /files`, `POST /transcriptions`, then `GET` it until it is completed; both are deleted at the end."""
    content_type, body = form((), request.audio)
    uploaded = await _fetch(account, b"POST", soniox_jobs.FILES, body, content_type)
    transcription = _Transcription(request, account, soniox_jobs.created_id(uploaded, account.provider_id))
    try:
        yield transcription
    finally:
        await transcription.clean_up()


async def check(account: Account) -> None:
    """Raise ProviderError unless `GET /models` answers, which needs the key."""
    await check_get(account, b"/models", b"application/json", _classify, bearer(account.api_key))


_COMMON: Honours = {
    LANGUAGE: lambda request, account: soniox_listen.takes_language(request.language),
    KEYTERMS: True, PROMPT: True, DIARIZE: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="soniox", base_url="https://api.soniox.com/v1", dialect="soniox",
    transcribe=transcribe, listen=listen, check=check,
    honours={
        "transcribe": {**_COMMON, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True}, "listen": _COMMON,
    },
    listen_formats=frozenset(soniox_listen.ENCODINGS),
    reported=frozenset({"transcribe"}),
)
