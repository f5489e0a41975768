"""The data plane as one ASGI app: path → handler."""

from __future__ import annotations

from collections.abc import Awaitable

from gw.dialects import openai
from gw.dialects.keepalive import KeepAlive
from gw.gateway import Gateway
from gw.types.asgi import Receive, Scope, Send


class DataPlane:
    """`is_hot` tells which requests are ours; calling it serves one. `run` must be running beside it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._keepalive = KeepAlive(gateway.settings.routing.keepalive_s)
        self._routes = {
            (method, prefix + path): handler
            for (method, path), handler in openai.ROUTES.items()
            for prefix in (b"", b"/openai")
        }

    def is_hot(self, method: bytes, path: bytes) -> bool:
        """`path` raw, without its query."""
        return (method, path) in self._routes

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Hands the handler's coroutine on instead of awaiting it: a hop less each time the request wakes up."""
        handler = self._routes[scope["method"].encode(), scope["path"].encode()]
        return openai.serve(handler, self._gateway, self._keepalive, scope, receive, send)

    async def run(self) -> None:
        """Signs of life for waiting streams; ends only by cancellation."""
        await self._keepalive.run()
