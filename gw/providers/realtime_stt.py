"""Live transcription by a server of OpenAI's dialect: over its socket `/realtime` (speaches), else utterance by utterance.

Not itself a provider.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

from gw.errors import ProviderRejected, UpstreamProtocolError
from gw.providers import utterance_stt
from gw.providers.spec import Account, ListenSession, TranscribeCall, bearer
from gw.providers.ws_session import open_listen_socket
from gw.types.stt import ListenRequest
from gw.wire import openai_realtime_beta

_NO_SOCKET = frozenset({400, 403, 404, 405, 426})
"""Statuses of servers without such a socket for its handshake; 403 is Starlette's for a path it does not know."""


@asynccontextmanager
async def by_socket_or_utterance(
    transcribe: TranscribeCall, request: ListenRequest, account: Account
) -> AsyncIterator[ListenSession]:
    """Open a session over the socket; where the server has none, or it has no place for key terms, by utterance."""
    if not (request.keyterms or request.prompt):
        opened = False
        try:
            async with _over_socket(request, account) as live:
                opened = True
                yield live
            return
        except (ProviderRejected, UpstreamProtocolError) as error:
            if opened or getattr(error, "upstream_status", 404) not in _NO_SOCKET:
                raise
    send = utterance_stt.as_recordings(transcribe, request, account)
    async with utterance_stt.by_utterance(send, request, account) as session:
        yield session


def _over_socket(request: ListenRequest, account: Account) -> AbstractAsyncContextManager[ListenSession]:
    wire = openai_realtime_beta.BetaListenClient(account.provider_id, request, (account.api_key.reveal(),))
    path = "/realtime?" + openai_realtime_beta.query(request, account.model)
    return open_listen_socket(account, path, bearer(account.api_key), wire, wire.pace, opening=wire.opening())
