"""AssemblyAI: transcription of recordings and live."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import attrs
import trio

from gw.errors import ProviderFailed, ProviderRejected
from gw.net.http1 import Origin, RequestBody
from gw.net.ws_dial import open_ws
from gw.providers.http_call import rejection
from gw.providers.spec import Account, ListenSession, ProviderSpec, TranscribeStream
from gw.providers.ws_session import ListenSocket
from gw.types.secret import Secret
from gw.types.stt import ListenRequest, TranscribeEvent, TranscribeRequest, Transcript
from gw.wire import assemblyai_audio, assemblyai_batch, assemblyai_stream, vendor_errors
from gw.wire.convert import CannotConvert

_DOMAIN = ".assemblyai.com"
_ANSWER_LIMIT = 25 * 1024 * 1024
_ASK_AGAIN_S = (0.5, 0.5, 1.0, 1.0, 2.0)
"""Between questions whether a transcript is done; the last one from then on."""
_PATIENCE_S = 3_600.0
_VERSION = (b"assemblyai-version", b"2025-05-12")


def key_headers(key: Secret) -> list[tuple[bytes, bytes]]:
    """The bare key, without a scheme."""
    return [(b"authorization", key.reveal().encode())] if key else []


class _Job:
    """A recording that has been uploaded; `receive` asks until its transcript is there."""

    def __init__(self, request: TranscribeRequest, account: Account, url: str) -> None:
        self._request = request
        self._account = account
        self._url = url

    async def receive(self) -> list[TranscribeEvent]:
        body = assemblyai_batch.job_body(self._request, self._account.model, self._url)
        found = await self._ask(b"POST", b"/v2/transcript", body)
        with trio.move_on_after(_PATIENCE_S):
            asked = 0
            while not isinstance(found, Transcript):
                await trio.sleep(_ASK_AGAIN_S[min(asked, len(_ASK_AGAIN_S) - 1)])
                asked += 1
                found = await self._ask(b"GET", b"/v2/transcript/" + found.encode(), b"")
            return [found]
        raise ProviderFailed(
            provider=self._account.provider_id, detail="the transcript was not done within an hour", upstream_status=200
        )

    async def _ask(self, method: bytes, path: bytes, body: bytes) -> str | Transcript:
        account, secret = self._account, self._account.api_key.reveal()
        answer = await _answer(account, method, path, body, [(b"content-type", b"application/json")] if body else [])
        keep_raw = self._request.dialect == "assemblyai"
        return assemblyai_batch.job_of(answer, account.provider_id, (secret,), keep_raw=keep_raw)


async def _answer(
    account: Account, method: bytes, path: bytes, body: bytes | RequestBody, headers: Sequence[tuple[bytes, bytes]]
) -> bytes:
    all_headers = [*headers, *key_headers(account.api_key)]
    async with account.pool.open(account.provider_id, method, account.origin, path, all_headers, body) as response:
        if response.status != 200:
            raise await rejection(response, account, vendor_errors.classify)
        return await response.read(_ANSWER_LIMIT)


@asynccontextmanager
async def transcribe(request: TranscribeRequest, account: Account) -> AsyncIterator[TranscribeStream]:
    """`POST /v2/upload`, `POST /v2/transcript`, then `GET` it until it is done."""
    headers = [(b"content-type", b"application/octet-stream")]
    uploaded = await _answer(account, b"POST", b"/v2/upload", request.audio, headers)
    yield _Job(request, account, assemblyai_batch.upload_url(uploaded, account.provider_id))


def _streaming(origin: Origin) -> Origin:
    """The vendor has another host for live sessions; one of your own has both."""
    if not origin.host.endswith(_DOMAIN) or not origin.host.startswith("api."):
        return origin
    return attrs.evolve(origin, host="streaming." + origin.host.removeprefix("api."))


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /v3/ws`. Takes the samples of `listen_formats`, of several channels as one."""
    provider, secret = account.provider_id, account.api_key.reveal()
    try:
        wire = assemblyai_stream.AssemblyListener(
            provider, request, keep_raw=request.dialect == "assemblyai", secrets=(secret,)
        )
    except CannotConvert as error:
        raise ProviderRejected(provider=provider, upstream_status=400, fault="candidate", detail=str(error)) from None
    path = assemblyai_stream.path_of(request, account.model).encode()
    headers = [_VERSION, *key_headers(account.api_key)]
    origin = _streaming(account.origin)
    async with open_ws(provider, origin, path, headers=headers, connect=account.pool.connect) as ws:
        yield ListenSocket(ws, wire, provider, next_codes=assemblyai_stream.NEXT_CODES)


SPEC = ProviderSpec(
    type="assemblyai",
    base_url="https://api.assemblyai.com",
    dialect="assemblyai",
    transcribe=transcribe,
    listen=listen,
    health_path="/v2/transcript?limit=1",
    key_headers=key_headers,
    listen_formats=frozenset(assemblyai_audio.ENCODINGS),
    reported=frozenset({"transcribe", "listen"}),
)
