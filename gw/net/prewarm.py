"""A WebSocket dialled ahead: the next utterance of a caller's session does not wait for a vendor's handshake.

One spare at most for each caller's session, dialled when the socket before it is finished. It is closed with the session,
when the vendor closes it, when another address, key or setting is needed, and after IDLE_S. While it waits it answers pings.
A provider uses it where its vendor does not charge for idle sockets.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Final

import trio

from gw.errors import ProviderError
from gw.net.connect import Connect
from gw.net.http1 import Headers, Origin
from gw.net.ws import HeldWebSocket, WebSocket, dial_ws, open_ws

DIAL_S: Final = 5.0
IDLE_S: Final = 60.0
"""ElevenLabs is the first of these vendors to close an idle socket: after the 180 s requested of it."""

Key = tuple[str, Origin, bytes, tuple[tuple[bytes, bytes], ...]]


class _Spare:
    def __init__(self, key: Key) -> None:
        self.key = key
        self.ws: WebSocket | None = None
        self.dialled = trio.Event()
        self.taken = False
        self.idling = trio.CancelScope()
        self.finished = trio.Event()  # the task of the spare no longer uses it


class PrewarmedSockets:
    """The spare socket of one caller's session, whose `nursery` owns its task.

    `replaces`: when a socket is finished, the next is dialled.
    """

    def __init__(self, nursery: trio.Nursery, *, replaces: bool = True) -> None:
        self._nursery = nursery
        self.replaces = replaces
        self._spare: _Spare | None = None

    async def take(self, key: Key) -> WebSocket | None:
        """Return the spare if its key is this one; wait for it while it is being dialled."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        try:
            if spare.key == key:
                await spare.dialled.wait()
                spare.taken = True
            spare.idling.cancel()
            await spare.finished.wait()
        except BaseException:  # the caller has left; the socket is dropped
            spare.idling.cancel()
            if spare.taken and spare.finished.is_set() and spare.ws is not None:
                await spare.ws.leave()
            spare.taken = False
            raise
        return spare.ws if spare.taken and spare.ws is not None and spare.ws.is_open else None

    def dial(self, key: Key, connect: Connect) -> None:
        """Begin to dial a spare, unless there is one."""
        if self._spare is None:
            self._spare = spare = _Spare(key)
            self._nursery.start_soon(self._keep, spare, connect)

    async def _keep(self, spare: _Spare, connect: Connect) -> None:
        """Dial and hold the spare. Errors are left out: the next socket that is needed reports them."""
        provider, origin, path, headers = spare.key
        try:
            with spare.idling:
                try:
                    with trio.move_on_after(DIAL_S):
                        spare.ws = await dial_ws(provider, origin, path, headers=headers, connect=connect)
                except ProviderError:
                    pass
                finally:
                    spare.dialled.set()
                if spare.ws is not None:
                    with trio.move_on_after(IDLE_S):
                        await spare.ws.idle()
        finally:
            spare.finished.set()
            if self._spare is spare:
                self._spare = None
            if spare.ws is not None and not (spare.taken and spare.ws.is_open):
                await spare.ws.leave()


class WarmSocket(AbstractAsyncContextManager[WebSocket]):
    """A session like that of `open_ws`, with the spare if there is one. The next is dialled afterwards, unless this one failed."""

    __slots__ = ("_connect", "_held", "_key", "_spares")

    def __init__(
        self, spares: PrewarmedSockets, provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers, connect: Connect
    ) -> None:
        self._spares, self._connect = spares, connect
        self._key: Key = (provider, origin, path_and_query, tuple(headers))
        self._held = HeldWebSocket(self._dial)

    async def _dial(self) -> WebSocket:
        if (spare := await self._spares.take(self._key)) is not None:
            return spare
        provider, origin, path_and_query, headers = self._key
        return await dial_ws(provider, origin, path_and_query, headers=headers, connect=self._connect)

    async def __aenter__(self) -> WebSocket:
        return await self._held.__aenter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._held.__aexit__(kind, error, traceback)
        finally:
            if self._spares.replaces and not isinstance(error, ProviderError):
                self._spares.dial(self._key, self._connect)


def open_warm(
    spares: PrewarmedSockets | None, provider: str, origin: Origin, path_and_query: bytes, *, headers: Headers, connect: Connect
) -> AbstractAsyncContextManager[WebSocket]:
    """Return what opens a session and closes it; `spares` keeps others ready."""
    if spares is None:
        return open_ws(provider, origin, path_and_query, headers=headers, connect=connect)
    return WarmSocket(spares, provider, origin, path_and_query, headers=headers, connect=connect)
