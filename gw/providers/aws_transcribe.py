"""Amazon Transcribe: live transcription over a WebSocket whose address is signed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import attrs

from gw.errors import UpstreamCut
from gw.net.http1 import Origin
from gw.providers import aws_request
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, rejected
from gw.providers.ws_session import ListenSocket, open_listen_socket
from gw.types.audio import PCM_16K
from gw.types.speech_settings import DIARIZE, LANGUAGE
from gw.types.stt import ListenEnd, ListenRequest
from gw.wire import aws_sigv4, aws_transcribe_listen
from gw.wire.aws_transcribe_listen import AwsTranscribeListenClient

_VENDOR, _SOCKETS_PORT = "transcribestreaming.", 8443


def _at_sockets(account: Account) -> Account:
    """Return the account at the port of sockets: the vendor's host has HTTP/2 at the usual one."""
    origin: Origin = account.origin
    if not origin.host.startswith(_VENDOR) or origin.port != 443:
        return account
    return attrs.evolve(account, origin=attrs.evolve(origin, port=_SOCKETS_PORT))


def _open(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSocket]:
    key = account.api_key.reveal()
    wire = AwsTranscribeListenClient(account.provider_id, request, aws_sigv4.key_parts(key))
    live = _at_sockets(account)
    path = aws_request.signed_path(live, "transcribe", aws_transcribe_listen.PATH, aws_transcribe_listen.settings(request))
    return open_listen_socket(
        live, path, (), wire, aws_transcribe_listen.pace_of(request), on_close=wire.closed,
        idle_s=aws_transcribe_listen.IDLE_S, idle_frames=wire.keep_alive,
    )  # fmt: skip


@asynccontextmanager
async def listen(request: ListenRequest, account: Account) -> AsyncIterator[ListenSession]:
    """`WS /stream-transcription-websocket`."""
    if account.model != aws_transcribe_listen.MODEL:
        raise rejected(account, f"speech is transcribed by the model {aws_transcribe_listen.MODEL} only", status=404)
    async with _open(request, account) as session:
        session.flush_padding_s = aws_transcribe_listen.FLUSH_S
        session.idle_padding_s = aws_transcribe_listen.KEEP_ALIVE_S
        yield session


async def check(account: Account) -> None:
    """Raise ProviderError unless a session without audio begins and ends; the vendor checks the signature after the handshake."""
    async with _open(ListenRequest(model=account.model, format=PCM_16K), account) as session:
        await session.finish()
        if not any(isinstance(event, ListenEnd) for event in await session.receive()):
            raise UpstreamCut(provider=account.provider_id, detail="answered a session without audio with a transcript")


_LISTEN: Honours = {
    LANGUAGE: lambda request, account: aws_transcribe_listen.locale_of(request) is not None, DIARIZE: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="aws_transcribe", base_url="", dialect="aws_transcribe", check=check, listen=listen, honours={"listen": _LISTEN},
    listen_rates_hz=aws_transcribe_listen.RATES_HZ, reported=frozenset(),
)
