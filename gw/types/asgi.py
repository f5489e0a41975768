"""Names for the ASGI call shape (https://asgi.readthedocs.io, HTTP and WebSocket message format 2.5).

Additions of the gateway's own host: `"gw.cancels"` is a key of `scope["extensions"]` when the app is cancelled as soon as
its client leaves, so it need not watch `receive()` for a disconnect.
`"gw.websocket"` among the extensions is the WebSocket session itself, whose messages can be taken where they are read.
`scope["gw.known"]` is a dict of facts derived from the head, kept for all requests that have the same one, on any connection.
`scope["gw.link"]` is the `gw.types.ids.Link` of the connection.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from types import MappingProxyType
from typing import Any, Final, cast

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGIApp = Callable[[Scope, Receive, Send], Awaitable[None]]

LET_GO: Final = cast("Scope", MappingProxyType({}))
"""Stands in for the scope of a request or session that needs it no longer, and may go on for long."""
