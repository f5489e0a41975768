"""Chooses the app of each request to a daemon, and loads the control plane after the start, a tenth of which that would be.

    apps only ──first request to the control plane, or LOAD_AFTER_S after the start──▶ loading, in a thread ──▶ both planes

It is loaded soon even if nobody wants it, so that an upgrade of the installation finds a running gateway complete.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import trio

from gw.dialects.request_io import raw_path
from gw.gateway import Gateway
from gw.types.asgi import ASGIApp, Receive, Scope, Send
from gw.web.authorization import fenced
from gw.web.drain import Drain
from gw.web.http_server import Dispatch, HostedApp

if TYPE_CHECKING:
    from gw.web.route import Serves
    from gw.web.static_files import Frontend

LOAD_AFTER_S: Final = 1.0


def hosted_data_plane(data_plane: ASGIApp, gateway: Gateway) -> HostedApp:
    """Return the data plane as the HTTP host runs it."""
    return HostedApp(app=fenced(data_plane, gateway), counted=True, waits=True, websockets=True)


class Dispatcher:
    """`dispatch` of a daemon's HTTP host: that of `gw.web.app`, once it is loaded."""

    def __init__(self, gateway: Gateway, data_plane: ASGIApp, serves: Serves, drain: Drain) -> None:
        """`serves(method, raw path)` says whether a request is for `data_plane`."""
        self._gateway, self._data_plane, self._serves, self._drain = gateway, data_plane, serves, drain
        self._data = hosted_data_plane(data_plane, gateway)
        self._loading = HostedApp(app=self._load_and_answer)
        self._both: Dispatch | None = None

    def __call__(self, method: bytes, path: bytes) -> HostedApp:
        if self._both is not None:
            return self._both(method, path)
        return self._data if self._serves(method, path) else self._loading

    async def load_soon(self) -> None:
        """Load the control plane LOAD_AFTER_S from now, unless a request does so before."""
        await trio.sleep(LOAD_AFTER_S)
        await self._load()

    async def _load(self) -> Dispatch:
        if self._both is None:
            app, files = await trio.to_thread.run_sync(_import_control_plane)
            if self._both is None:  # else another request was faster
                self._both = app.make_dispatch(self._gateway, self._data_plane, self._serves, self._drain, files)
        return self._both

    async def _load_and_answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        dispatch = await self._load()
        await dispatch(scope["method"].encode("latin-1"), raw_path(scope)).app(scope, receive, send)


def _import_control_plane() -> tuple[Any, Frontend]:
    """Return the module `gw.web.app` and the dashboard's files. Blocks."""
    return import_module("gw.web.app"), import_module("gw.web.static_files").load()
