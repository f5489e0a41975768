"""The data plane as one ASGI app: path → handler."""

from __future__ import annotations

from collections.abc import Awaitable

from gw.dialects import anthropic, exchange, ollama, openai
from gw.dialects.exchange import Dialect, Handler
from gw.dialects.keepalive import KeepAlive
from gw.gateway import Gateway
from gw.types.asgi import Receive, Scope, Send

_HTTP: tuple[tuple[Dialect, dict[tuple[bytes, bytes], Handler], tuple[bytes, ...]], ...] = (
    (openai.DIALECT, openai.ROUTES, (b"", b"/openai")),
    (anthropic.DIALECT, anthropic.ROUTES, (b"", b"/anthropic")),
    (ollama.DIALECT, ollama.ROUTES, (b"/ollama",)),
)
"""Dialect, its routes, and the roots it is served below. Below its own name each equals the vendor's own root."""


class DataPlane:
    """`is_hot` tells which requests are ours; calling it serves one. `run` must be running beside it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._keepalive = KeepAlive(gateway.settings.routing.keepalive_s)
        self._routes = {
            (method, prefix + path): (dialect, handler)
            for dialect, routes, prefixes in _HTTP
            for (method, path), handler in routes.items()
            for prefix in prefixes
        }

    def is_hot(self, method: bytes, path: bytes) -> bool:
        """`path` raw, without its query."""
        return (method, path) in self._routes

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Hands the handler's coroutine on instead of awaiting it: a hop less each time the request wakes up."""
        dialect, handler = self._routes[scope["method"].encode(), scope["path"].encode()]
        return exchange.serve(dialect, handler, self._gateway, self._keepalive, scope, receive, send)

    async def run(self) -> None:
        """Signs of life for waiting streams; ends only by cancellation."""
        await self._keepalive.run()
