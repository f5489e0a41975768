"""A conversation with one of Gemini's Live models, in Google's own protocol. Not itself a provider: the rest of the vendor is a file.

Sources: google-genai 3.6.1, `live.py` (address, key, first frame); pydantic-ai 2.68.0, `realtime/google.py` (what is at `v1alpha` only).
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import attrs

from gw.net.ws import WebSocket, WsClosed
from gw.providers.gemini_speech import key_headers
from gw.providers.spec import Account
from gw.providers.ws_session import NORMAL_CLOSES, open_socket
from gw.types.conversation import ConverseRequest, ConverseSession
from gw.wire import gemini_live
from gw.wire.json_frames import Frame

_COMPATIBLE = b"/v1beta/openai"  # end of the address that speaks OpenAI's dialect


class _LiveSocket(ConverseSession):
    def __init__(self, ws: WebSocket, account: Account, setup: Frame) -> None:
        self.reader = gemini_live.GeminiReader(account.provider_id, setup)
        self._ws = ws
        self._account = account

    async def send(self, frame: Frame) -> None:
        try:
            await self._ws.send(frame)
        except WsClosed as closed:
            raise self._why(closed) from None

    async def receive(self) -> Frame | None:
        try:
            return await self._ws.receive()
        except WsClosed as closed:
            if closed.code in NORMAL_CLOSES:
                return None
            raise self._why(closed) from None

    def _why(self, closed: WsClosed) -> Exception:
        key = self._account.api_key.reveal()
        return gemini_live.error_of_close(self._account.provider_id, closed.code, closed.reason, (key,))


@asynccontextmanager
async def converse(request: ConverseRequest, account: Account) -> AsyncIterator[ConverseSession]:
    """Open the socket at the root of the vendor's address, and send the caller's settings. Raises ProviderError."""
    origin = attrs.evolve(account.origin, prefix=account.origin.prefix.removesuffix(_COMPATIBLE))
    account = attrs.evolve(account, origin=origin)
    async with open_socket(account, gemini_live.path(request.version), key_headers(account.api_key)) as ws:
        session = _LiveSocket(ws, account, request.setup)
        await session.send(gemini_live.setup_for_vendor(request.setup, account.model))
        yield session
