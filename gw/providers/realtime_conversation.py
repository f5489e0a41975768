"""A conversation with a model that hears and speaks itself, over OpenAI's socket `{base}/realtime?model=…`. Not itself a provider.

Source: openai-python 3.52.0, `resources/realtime/realtime.py` (November 2026): address and headers.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import quote

from gw.net.ws import WebSocket, WsClosed
from gw.providers.spec import Account, bearer
from gw.providers.ws_session import NORMAL_CLOSES, open_socket, why_closed
from gw.types.conversation import ConverseRequest, ConverseSession
from gw.types.presets import SessionMember
from gw.wire.json_frames import Frame, frame_text
from gw.wire.openai_realtime_events import RealtimeReader, with_top_level

_MODEL = re.compile(r"realtime(?!-(whisper|translate|transcribe))")


def hears_and_speaks(model: str) -> bool:
    """Return whether the vendor's model of this name holds conversations by itself, such as `gpt-realtime`."""
    return _MODEL.search(model) is not None


class _ConversationSocket(ConverseSession):
    def __init__(self, ws: WebSocket, provider: str, top_level: frozenset[SessionMember]) -> None:
        self.reader = RealtimeReader(provider)
        self._ws = ws
        self._provider = provider
        self._top_level = top_level

    async def send(self, frame: Frame) -> None:
        if self._top_level:
            frame = with_top_level(frame_text(frame), self._top_level)
        try:
            await self._ws.send(frame)
        except WsClosed as closed:
            raise why_closed(self._provider, closed) from None

    async def receive(self) -> str | None:
        try:
            return frame_text(await self._ws.receive())
        except WsClosed as closed:
            if closed.code in NORMAL_CLOSES:
                return None
            raise why_closed(self._provider, closed) from None


@asynccontextmanager
async def converse(
    request: ConverseRequest, account: Account, *, top_level: frozenset[SessionMember] = frozenset()
) -> AsyncIterator[ConverseSession]:
    """Open the socket of a conversation. Raises ProviderError.

    `top_level`: settings that the vendor has at the top of a session, where OpenAI has them within `audio`.
    """
    path = "/realtime?model=" + quote(account.model, safe="")
    async with open_socket(account, path, [*bearer(account.api_key), *request.headers]) as ws:
        yield _ConversationSocket(ws, account.provider_id, top_level)
