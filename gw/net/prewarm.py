"""A WebSocket dialled ahead: the next utterance of a caller's session does not wait for a vendor's handshake.

One spare at most for each caller's session, dialled when the socket before it has done its work. It is closed with the
session, when the vendor closes it, when another address, key or setting is asked for, and after IDLE_S. While it waits it
answers pings. A provider uses it where its vendor lets a socket idle for free.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from gw.errors import ProviderError
from gw.net.connect import Connect
from gw.net.http1 import Headers, Origin
from gw.net.ws import WebSocket
from gw.net.ws_dial import dial_ws, hold_ws, open_ws

DIAL_S: Final = 5.0
IDLE_S: Final = 60.0
"""Of the vendors whose sockets are kept, ElevenLabs closes an idle one first: after the 180 s that it is asked for."""

Key = tuple[str, Origin, bytes, tuple[tuple[bytes, bytes], ...]]


class _Spare:
    def __init__(self, key: Key) -> None:
        self.key = key
        self.ws: WebSocket | None = None
        self.dialled = trio.Event()
        self.taken = False
        self.idling = trio.CancelScope()
        self.over = trio.Event()
        """Its task does nothing more with it."""


class PrewarmedSockets:
    """Of one caller's session, whose `nursery` owns the task of the spare."""

    def __init__(self, nursery: trio.Nursery) -> None:
        self._nursery = nursery
        self._spare: _Spare | None = None

    async def take(self, key: Key) -> WebSocket | None:
        """The spare, if there is one like this; one that is being dialled is waited for."""
        spare, self._spare = self._spare, None
        if spare is None:
            return None
        try:
            if spare.key == key:
                await spare.dialled.wait()
                spare.taken = True
            spare.idling.cancel()
            await spare.over.wait()
        except BaseException:  # the caller has left; whoever has the socket now drops it
            spare.idling.cancel()
            if spare.taken and spare.over.is_set() and spare.ws is not None:
                await spare.ws.leave()
            spare.taken = False
            raise
        return spare.ws if spare.taken and spare.ws is not None and spare.ws.is_open else None

    def dial(self, key: Key, connect: Connect) -> None:
        """Begin one like this, unless there is a spare."""
        if self._spare is None:
            self._spare = spare = _Spare(key)
            self._nursery.start_soon(self._keep, spare, connect)

    async def _keep(self, spare: _Spare, connect: Connect) -> None:
        """A vendor that cannot be reached now is met again when a socket is needed."""
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
            spare.over.set()
            if self._spare is spare:
                self._spare = None
            if spare.ws is not None and not (spare.taken and spare.ws.is_open):
                await spare.ws.leave()


@asynccontextmanager
async def open_warm(
    spares: PrewarmedSockets | None,
    provider: str,
    origin: Origin,
    path_and_query: bytes,
    *,
    headers: Headers,
    connect: Connect,
) -> AsyncIterator[WebSocket]:
    """As `open_ws`, with the session's spare where there is one. Another is dialled afterwards, unless this one failed."""
    if spares is None:
        async with open_ws(provider, origin, path_and_query, headers=headers, connect=connect) as ws:
            yield ws
        return
    key = (provider, origin, path_and_query, tuple(headers))
    taken = await spares.take(key)
    if taken is None:
        taken = await dial_ws(provider, origin, path_and_query, headers=headers, connect=connect)
    failed = False
    try:
        async with hold_ws(taken) as ws:
            yield ws
    except ProviderError:
        failed = True
        raise
    finally:
        if not failed:
            spares.dial(key, connect)
