"""The data plane as one ASGI app: path → handler.

A dialect is served at the root, unless its paths collide with another's, and below its own name, which stands for the vendor's
own root.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from functools import cache, partial
from typing import Any
from urllib.parse import unquote

import trio

from gw.dialects import (
    anthropic,
    assemblyai,
    bidi_generate_content,
    callbacks,
    cartesia,
    deepgram,
    elevenlabs,
    http_handler,
    livekit,
    ollama,
    openai,
    openai_client_secrets,
    openai_realtime,
    openai_responses,
    vendor_metadata,
)
from gw.dialects.assemblyai_jobs import Jobs
from gw.dialects.exchange import Dialect, Routes
from gw.dialects.keepalive import KeepAlive
from gw.dialects.request_io import raw_path
from gw.dialects.websocket import SocketDialect, SocketHandler, serve_socket
from gw.errors import RequestError
from gw.gateway import Gateway
from gw.types.asgi import Receive, Scope, Send

_ROOT = ""

_HTTP: tuple[tuple[Dialect, Routes, tuple[str, ...]], ...] = (
    (openai.DIALECT, openai.ROUTES, (_ROOT, "/openai", "/livekit")),
    (openai.DIALECT, openai_client_secrets.ROUTES, (_ROOT, "/openai")),
    (anthropic.DIALECT, anthropic.ROUTES, (_ROOT, "/anthropic")),
    (deepgram.DIALECT, deepgram.ROUTES, (_ROOT, "/deepgram")),
    (cartesia.DIALECT, cartesia.ROUTES, (_ROOT, "/cartesia")),
    (elevenlabs.DIALECT, elevenlabs.ROUTES, (_ROOT, "/elevenlabs")),
    (ollama.DIALECT, ollama.ROUTES, ("/ollama",)),
    (ollama.COMPATIBLE, {("POST", "/v1/chat/completions"): openai.chat_completions}, ("/ollama",)),
    (ollama.COMPATIBLE, vendor_metadata.MODELS, ("/ollama",)),
    (openai.DIALECT, vendor_metadata.MODELS, ("/livekit",)),
    (openai.DIALECT, vendor_metadata.OPENAI_LIKE, (_ROOT, "/openai")),
    (anthropic.DIALECT, vendor_metadata.MODELS, ("/anthropic",)),
    (deepgram.DIALECT, vendor_metadata.MODELS, ("/deepgram",)),
    (deepgram.DIALECT, vendor_metadata.DEEPGRAM, (_ROOT, "/deepgram")),
    (elevenlabs.DIALECT, vendor_metadata.MODELS_BARE, ("/elevenlabs",)),
    (elevenlabs.DIALECT, vendor_metadata.ELEVENLABS, (_ROOT, "/elevenlabs")),
    (cartesia.DIALECT, vendor_metadata.CARTESIA, (_ROOT, "/cartesia")),
    (cartesia.DIALECT, vendor_metadata.CARTESIA_MOUNT, ("/cartesia",)),
    (assemblyai.DIALECT, vendor_metadata.ASSEMBLYAI, (_ROOT, "/assemblyai")),
)
_SOCKETS: tuple[tuple[SocketDialect, Mapping[str, SocketHandler], tuple[str, ...]], ...] = (
    (openai_realtime.DIALECT, openai_realtime.SOCKETS, (_ROOT, "/openai")),
    (openai_realtime.DIALECT, {"/realtime": openai_realtime.realtime}, ("/openai",)),
    (livekit.DIALECT, livekit.SOCKETS, ("/livekit",)),
    (deepgram.SOCKET_DIALECT, deepgram.SOCKETS, (_ROOT, "/deepgram")),
    (cartesia.SOCKET_DIALECT, cartesia.SOCKETS, (_ROOT, "/cartesia")),
    (elevenlabs.SPEECH, elevenlabs.SPEECH_SOCKETS, (_ROOT, "/elevenlabs")),
    (elevenlabs.TRANSCRIPTION, elevenlabs.TRANSCRIPTION_SOCKETS, (_ROOT, "/elevenlabs")),
    (bidi_generate_content.DIALECT, bidi_generate_content.SOCKETS, (_ROOT, "/gemini")),
    (assemblyai.SOCKET_DIALECT, assemblyai.SOCKETS, (_ROOT, "/assemblyai")),
)
"""Dialect, its routes, and the roots it is served below. `{name}` in a path is one segment, passed on in the scope's
`path_params`."""

_AZURE, _DEPLOYMENT = "/openai", "/openai/deployments/{deployment}"
"""Azure's clients send OpenAI's paths without `/v1`, and name the version of the API in the query, which changes nothing here."""


def _without_version(routes: Routes) -> Routes:
    return {(method, path.removeprefix("/v1")): handler for (method, path), handler in routes.items()}


_PARAMETER = re.compile(r"\{(\w+)\}")
_WITH_SLASHES = frozenset(("deployment", "model_id"))
"""Parameters that may be more than one segment: not every client escapes the slash of a model's id."""
_Run = Callable[[Scope, Receive, Send], Awaitable[None]]


class UpgradeRequired(RequestError):
    """A plain request to a path that accepts WebSockets only."""

    status = 426


@cache
def _pattern(path: str) -> re.Pattern[bytes]:
    """Return what matches the paths of a route: compiled when the first one of them may have come."""
    parts = _PARAMETER.split(path)
    values = {part: ".+" if part in _WITH_SLASHES else "[^/]+" for part in parts[1::2]}
    pattern = "".join(f"(?P<{part}>{values[part]})" if n % 2 else re.escape(part) for n, part in enumerate(parts))
    return re.compile(pattern.encode())


class _Routes:
    """Method and raw path → the handler to run. WebSockets are under the method `WS`."""

    def __init__(self) -> None:
        self._fixed: dict[tuple[bytes, bytes], tuple[_Run, dict[str, str]]] = {}
        self._patterns: list[tuple[bytes, bytes, str, _Run]] = []
        """Method, the path as far as it is fixed, the path, what to run."""

    def add(self, method: str, path: str, run: _Run) -> None:
        fixed, brace, _ = path.partition("{")
        if brace:
            self._patterns.append((method.encode(), fixed.encode(), path, run))
        else:
            self._fixed[method.encode(), path.encode()] = run, {}

    def find(self, method: bytes, path: bytes) -> tuple[_Run, dict[str, str]] | None:
        fixed_route = self._fixed.get((method, path))
        if fixed_route is not None:
            return fixed_route
        for pattern_method, fixed, template, run in self._patterns:
            if pattern_method == method and path.startswith(fixed) and (match := _pattern(template).fullmatch(path)):
                return run, {name: unquote(value.decode("latin-1")) for name, value in match.groupdict().items()}
        return None


class DataPlane:
    """The app: `serves` tells which requests belong to it; a call serves one. `run` must run beside it."""

    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway
        self._keepalive = KeepAlive(gateway.settings.routing.keepalive_s)
        self._jobs = Jobs(gateway)
        self._routes = _Routes()
        self._central: set[_Run] = set()
        self._stored = stored = openai_responses.StoredResponses(gateway)
        self._responses: set[_Run] = set()
        recordings = (assemblyai.DIALECT, assemblyai.routes(self._jobs), (_ROOT, "/assemblyai"))
        responses = (openai_responses.DIALECT, openai_responses.routes(stored), (_ROOT, "/openai", "/livekit"))
        azure = (openai_responses.DIALECT, _without_version(openai_responses.routes(stored)), (_AZURE,))
        deployments = (openai.DIALECT, _without_version(openai.ROUTES), (_AZURE, _DEPLOYMENT))
        for dialect, routes, roots in (*_HTTP, recordings, responses, azure, deployments):
            for (method, path), handler in routes.items():
                for root in roots:
                    run = partial(http_handler.serve, dialect, handler, gateway, self._keepalive)
                    self._routes.add(method, root + path, run)
                    if routes is recordings[1] or routes is openai_client_secrets.ROUTES or (method, path) in vendor_metadata.TOKENS:
                        self._central.add(run)
                    elif routes is responses[1] or routes is azure[1]:
                        self._responses.add(run)
        for socket_dialect, sockets, roots in _SOCKETS:
            for path, socket_handler in sockets.items():
                for root in roots:
                    self._routes.add("WS", root + path, partial(serve_socket, socket_dialect, socket_handler, gateway))

    def serves(self, method: bytes, path: bytes) -> bool:
        """Return whether a request belongs here; `path` is raw, without its query. WebSockets start as a GET."""
        find = self._routes.find
        return find(method, path) is not None or (method == b"GET" and find(b"WS", path) is not None)

    def is_central(self, method: bytes, path: bytes) -> bool:
        """Return whether a request needs what one process keeps for all: tokens, transcripts that are polled for, stored responses."""
        route = self._routes.find(method, path)
        return route is not None and (route[0] in self._central or (self._stored.on and route[0] in self._responses))

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Return the handler's coroutine instead of awaiting it, which saves a frame each time the request wakes up."""
        known: dict[str, Any] = scope.get("gw.known") or {}
        route = known.get("route")
        if route is None:
            method = b"WS" if scope["type"] == "websocket" else scope["method"].encode()
            route = self._routes.find(method, raw_path(scope))
            if route is None:
                return self._needs_upgrade(scope, receive, send)
            known["route"] = route
        run, scope["path_params"] = route
        return run(scope, receive, send)

    async def run(self) -> None:
        """Send keep-alive comments and keep the transcripts that are polled for, until cancelled."""
        async with trio.open_nursery() as nursery:
            nursery.start_soon(self._keepalive.run)
            nursery.start_soon(self._jobs.run)
            nursery.start_soon(callbacks.resume, self._gateway)

    async def run_keepalive(self) -> None:
        """Do only what a process needs that serves nothing central: send keep-alive comments, until cancelled."""
        await self._keepalive.run()

    def _needs_upgrade(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        async def refuse(_: Any) -> None:
            raise UpgradeRequired(what="this path accepts WebSockets only: connect with ws:// or wss://")

        return http_handler.serve(openai.DIALECT, refuse, self._gateway, self._keepalive, scope, receive, send)
