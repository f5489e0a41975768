"""Speechmatics: transcription of recordings as jobs, and live over a WebSocket."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import quote

import attrs

from gw.errors import ProviderError
from gw.net.http1 import Origin
from gw.net.ws import WsClosed
from gw.providers import job_call
from gw.providers.recording_call import form
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, TranscribeStream, bearer, rejected
from gw.providers.ws_session import ListenSocket, open_socket, why_closed
from gw.types.pending import Pending
from gw.types.speech_settings import (
    DETECT,
    DIARIZE,
    KEYTERMS,
    LANGUAGE,
    NO_STORE,
    RESPONSE_FORMAT,
    SEGMENT_TIMESTAMPS,
    WORD_TIMESTAMPS,
)
from gw.types.stt import ListenEvent, ListenRequest, TranscribeEvent, TranscribeRequest
from gw.wire import speechmatics_jobs, speechmatics_listen, speechmatics_results, vendor_errors
from gw.wire.speechmatics_listen import SpeechmaticsListenClient

_BATCH_HOST = re.compile(r"([a-z]{2})1\.asr\.api\.speechmatics\.com")
_LIVE_REGIONS = ("eu", "us")
_classify = partial(vendor_errors.classify, dialect=speechmatics_results.ERRORS)


class _Job:
    """A recording whose job exists; `receive` waits for its transcript."""

    def __init__(self, account: Account, id_: str) -> None:
        self._account = account
        self._path = f"{speechmatics_jobs.JOBS}/{quote(id_, safe='')}".encode()

    async def receive(self) -> list[TranscribeEvent]:
        account, headers = self._account, bearer(self._account.api_key)
        await job_call.wait_done(account, self._look)
        path = self._path + b"/transcript?format=json-v2"
        body = await job_call.fetch(account, b"GET", path, headers, _classify)
        return [speechmatics_jobs.decode_transcript(body, account.provider_id)]

    async def _look(self) -> bool | None:
        account = self._account
        body = await job_call.fetch(account, b"GET", self._path, bearer(account.api_key), _classify)
        return speechmatics_jobs.is_done(body, account.provider_id) or None


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST /v2/jobs` with the recording; then `GET` the job until it is done, and its transcript."""
    fields = [("config", speechmatics_jobs.config(request, account.model))]
    content_type, body = form(fields, request.audio, file_field="data_file")
    headers = [content_type, *bearer(account.api_key)]
    created = await job_call.fetch(account, b"POST", speechmatics_jobs.JOBS.encode(), headers, _classify, body)
    yield _Job(account, speechmatics_jobs.job_id(created, account.provider_id))


def _live(account: Account) -> Account:
    """Return the account at the address of live sessions: the vendor has another host for them, a server of the user's own has not."""
    origin: Origin = account.origin
    if (named := _BATCH_HOST.fullmatch(origin.host)) is None:
        return account
    if named[1] not in _LIVE_REGIONS:
        raise rejected(account, f"the vendor has no live transcription in its region {named[1]}")
    return attrs.evolve(account, origin=attrs.evolve(origin, host=f"{named[1]}.rt.speechmatics.com"))


def _close_error(provider: str, closed: WsClosed) -> ProviderError:
    return speechmatics_listen.close_error(provider, closed.code) or why_closed(provider, closed)


class _Session(ListenSocket):
    """A `ListenSocket` that takes no notice of receipts: they are no sign that speech is heard."""

    _wire: SpeechmaticsListenClient

    async def receive(self) -> list[ListenEvent]:
        """Return the next events; a frame without one is skipped here anyway."""
        return await super().receive()

    async def for_each_batch(self, handle: Callable[[list[ListenEvent]], Pending]) -> None:
        await super().for_each_batch(lambda events: None if self._wire.is_notice and not events else handle(events))


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v2`. Audio may be sent once the vendor has started."""
    provider = account.provider_id
    wire = SpeechmaticsListenClient(provider, request, (account.api_key.reveal(),))
    pace = speechmatics_listen.pace_of(request)
    async with open_socket(_live(account), "/", bearer(account.api_key)) as ws:
        session = _Session(ws, wire, provider, pace, close_error=_close_error)
        await session.send_frames(speechmatics_listen.start(request, account.model))
        while not wire.started:
            try:
                wire.receive(await ws.receive())
            except WsClosed as closed:
                raise _close_error(provider, closed) from None
        yield session


def _takes_language(request: TranscribeRequest | ListenRequest, account: Account) -> bool:
    live, multilingual = isinstance(request, ListenRequest), account.model == speechmatics_results.MULTILINGUAL
    if request.language == DETECT:
        return multilingual or not live
    return not multilingual and speechmatics_results.language_of(request.language, account.model) is not None


_COMMON: Honours = {
    LANGUAGE: _takes_language, DIARIZE: True,
    KEYTERMS: lambda request, account: speechmatics_results.takes_keyterms(request.keyterms, account.model),
}  # fmt: skip

SPEC = ProviderSpec(
    type="speechmatics", base_url="https://eu1.asr.api.speechmatics.com/v2", dialect="speechmatics",
    transcribe=transcribe, listen=listen,
    honours={
        "transcribe": {**_COMMON, WORD_TIMESTAMPS: True, SEGMENT_TIMESTAMPS: True, RESPONSE_FORMAT: True},
        "listen": {**_COMMON, NO_STORE: True},  # "does not store audio files, transcripts, or configuration data" (docs, "Limits")
    },
    health_path="/jobs?limit=1",
    listen_formats=frozenset(speechmatics_listen.ENCODINGS),
    reported=frozenset({"transcribe"}),
)
