"""A conversation with one of Gemini's Live models, in Google's own protocol. Not itself a provider: the rest of the vendor is a file.

Sources: google-genai 3.6.1, `live.py` (address, key, first frame); pydantic-ai 2.68.0, `realtime/google.py` (what is at `v1alpha` only).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager

import attrs
import trio

from gw.errors import UpstreamCut, UpstreamSlow
from gw.net.ws import WebSocket, WsClosed
from gw.providers.gemini_speech import key_headers
from gw.providers.spec import Account
from gw.providers.ws_session import NORMAL_CLOSES, open_socket
from gw.types.conversation import ConverseRequest, ConverseSession, ResumableSession
from gw.wire import gemini_live
from gw.wire.json_frames import Frame

_COMPATIBLE = b"/v1beta/openai"  # end of the address that speaks OpenAI's dialect
_REOPEN_S = 10.0  # time for the session that follows another one


class _LiveSocket(ResumableSession):
    """One session after another, each over a socket of its own; `receive` opens the next one."""

    def __init__(self, stack: AsyncExitStack, ws: WebSocket, account: Account, request: ConverseRequest) -> None:
        self.reader = gemini_live.GeminiReader(account.provider_id, account.model, request.setup)
        self._stack = stack
        self._ws = ws
        self._account = account
        self._version = request.version
        self._next: Sequence[Frame] = ()
        """The first frames of the session that follows."""
        self._opened = trio.Event()
        self._opened.set()

    async def send(self, frame: Frame) -> None:
        while not self._opened.is_set():
            await self._opened.wait()
        await self._send(frame)

    async def _send(self, frame: Frame) -> None:
        try:
            await self._ws.send(frame)
        except WsClosed as closed:
            raise self._why(closed) from None

    async def receive(self) -> Frame | None:
        while not self._next:
            try:
                return await self._ws.receive()
            except WsClosed as closed:
                if not self._next:
                    if closed.code in NORMAL_CLOSES:
                        return None
                    raise self._why(closed) from None
            except (UpstreamCut, trio.ClosedResourceError):
                if not self._next:
                    raise
        return await self._open_next(self._next)

    async def reopen(self, first: Sequence[Frame]) -> None:
        self._next, self._opened = first, trio.Event()
        await self._ws.leave()

    async def _open_next(self, first: Sequence[Frame]) -> Frame:
        """Open the next session and return the answer to its first frame. Raise ProviderError."""
        setup, *others = first
        await self._stack.aclose()
        self._next = ()
        with trio.move_on_after(_REOPEN_S):
            self._ws = await self._stack.enter_async_context(_socket(self._account, self._version))
            await self._send(gemini_live.setup_for_vendor(setup, self._account.model))
            self.reader.reopened(setup)
            try:
                answer = await self._ws.receive()
            except WsClosed as closed:
                raise self._why(closed) from None
            for frame in others:
                self.reader.sent(frame)
                await self._send(frame)
            self._opened.set()
            return answer
        raise UpstreamSlow(provider=self._account.provider_id, after_s=_REOPEN_S, detail="opened no session with other settings")

    def _why(self, closed: WsClosed) -> Exception:
        key = self._account.api_key.reveal()
        return gemini_live.error_of_close(self._account.provider_id, closed.code, closed.reason, (key,))


def _socket(account: Account, version: str) -> AbstractAsyncContextManager[WebSocket]:
    return open_socket(account, gemini_live.path(version), key_headers(account.api_key))


@asynccontextmanager
async def converse(request: ConverseRequest, account: Account) -> AsyncIterator[ConverseSession]:
    """Open the socket at the root of the vendor's address, and send the caller's settings. Raises ProviderError."""
    origin = attrs.evolve(account.origin, prefix=account.origin.prefix.removesuffix(_COMPATIBLE))
    account = attrs.evolve(account, origin=origin)
    async with AsyncExitStack() as stack:
        ws = await stack.enter_async_context(_socket(account, request.version))
        session = _LiveSocket(stack, ws, account, request)
        await session.send(gemini_live.setup_for_vendor(request.setup, account.model))
        yield session
