"""The control plane: the router for reads, Quart-Trio for changes, each an app of the HTTP host.

Quart takes 0.2 s to import and about 20 MB, so it is loaded at the first request that needs it, in a thread: audio goes on.
"""

from __future__ import annotations

from importlib import import_module

import trio

from gw.dialects.request_io import raw_path
from gw.errors import RequestError
from gw.gateway import Gateway
from gw.types.asgi import ASGIApp, Message, Receive, Scope, Send
from gw.web import static_files
from gw.web.authorization import fenced
from gw.web.dispatcher import hosted_data_plane
from gw.web.drain import Drain
from gw.web.http_server import Dispatch, HostedApp
from gw.web.live_feed import Feed
from gw.web.route import ControlPlane, Serves
from gw.web.router import Router
from gw.web.routes import TABLE


def make_dispatch(
    gateway: Gateway, data_plane: ASGIApp, serves: Serves, drain: Drain, files: static_files.Frontend | None = None
) -> Dispatch:
    """Return what chooses the app of a request. `serves(method, raw path)` says whether it is `data_plane`.

    `files`: the dashboard's; None = look for them.
    """
    feed = Feed(gateway.store)
    drain.at_begin(feed.end)
    plane = ControlPlane(gateway=gateway, drain=drain, files=files or static_files.load(), serves=serves, feed=feed)
    router = Router(plane, TABLE)
    data = hosted_data_plane(data_plane, gateway)
    reading = HostedApp(app=fenced(router, gateway))
    changing = HostedApp(app=fenced(QuartApp(router), gateway))

    def dispatch(method: bytes, path: bytes) -> HostedApp:
        if serves(method, path):
            return data
        return changing if router.changes(method, path) else reading

    return dispatch


def as_app(dispatch: Dispatch) -> ASGIApp:
    """Return one ASGI app for all, for calls inside the process and for another host, which must limit bodies itself."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # a coroutine function, as other hosts expect
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        hosted = dispatch(scope.get("method", "GET").encode("latin-1"), raw_path(scope))
        if scope["type"] == "websocket" and not hosted.websockets:
            await send({"type": "websocket.close", "code": 1008})  # before the accept: a refusal over HTTP
        else:
            await hosted.app(scope, receive, send)

    return app


async def _lifespan(receive: Receive, send: Send) -> None:
    """Acknowledge the host's start and end. Nothing begins or ends with them: the gateway outlives its server."""
    kind = ""
    while kind != "lifespan.shutdown":
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})


def make_app(gateway: Gateway, drain: Drain) -> ASGIApp:
    """Return the control plane alone as one ASGI app."""
    return as_app(make_dispatch(gateway, _no_data_plane, lambda method, path: False, drain))


async def _no_data_plane(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("the data plane is not mounted here")


class QuartApp:
    """The Quart app, loaded at its first request."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run the app. It reads the body beside its answer; once that has started, a faulty body no longer ends it."""
        if self._app is None:
            module = await trio.to_thread.run_sync(import_module, "gw.web.quart_app")
            self._app = self._app or module.make_quart(self._router)
        started = False

        async def send_answer(message: Message) -> None:
            nonlocal started
            started = True
            await send(message)

        async def receive_body() -> Message:
            try:
                return await receive()
            except RequestError:
                if started:
                    await trio.sleep_forever()  # Quart cancels this at the end of its answer
                raise  # the host answers

        await self._app(scope, receive_body, send_answer)
