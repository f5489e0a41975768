"""Soniox: live transcription over a WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial

import attrs
import trio

from gw.net.http1 import Origin
from gw.providers.background import background
from gw.providers.http_call import check_get
from gw.providers.spec import Account, Honours, ListenSession, ProviderSpec, bearer
from gw.providers.ws_session import ListenSocket, open_listen_socket
from gw.types.speech_settings import DIARIZE, KEYTERMS, LANGUAGE, PROMPT
from gw.types.stt import ListenRequest
from gw.wire import soniox_listen, vendor_errors
from gw.wire.soniox_listen import SonioxListenClient

_DOMAIN = ".soniox.com"
_WATCH_S = 1.0
_IDLE_S = 5.0  # the vendor closes a session that gets neither audio nor a keepalive for twenty seconds
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


async def check(account: Account) -> None:
    """Raise ProviderError unless `GET /models` answers, which needs the key."""
    await check_get(account, b"/models", b"application/json", _classify, bearer(account.api_key))


_LISTEN: Honours = {
    LANGUAGE: lambda request, account: soniox_listen.takes_language(request.language),
    KEYTERMS: True, PROMPT: True, DIARIZE: True,
}  # fmt: skip

SPEC = ProviderSpec(
    type="soniox", base_url="https://api.soniox.com/v1", dialect="soniox",
    listen=listen, honours={"listen": _LISTEN}, check=check,
    listen_formats=frozenset(soniox_listen.ENCODINGS),
    reported=frozenset(),
)
