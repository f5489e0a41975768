"""A stand-in for toxiproxy, which some vendors' suites drive over its HTTP API: it passes connections on, drops answers, or refuses.

Source: "HTTP API" and "Toxics" in the README of Shopify/toxiproxy, version 2. Only what those suites use is here: proxies, and the
toxic `timeout` with 0, which drops what the server sends and keeps the connection open until the toxic is removed. The ports that
a test names need privileges, so each listens on a free one, and every upstream is the gateway.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import attrs
import msgspec
import trio

from gw.net.transport import LOST
from tests.clients.gateway_pair import hosted
from tests.fakes.serve import serve_asgi

API_PORT = 8474
Receive = Any
Send = Any


@attrs.define
class _Proxy:
    spec: dict[str, Any]
    toxics: dict[str, dict[str, Any]] = attrs.field(factory=dict)
    deleted: trio.Event = attrs.field(factory=trio.Event)

    @property
    def is_silent(self) -> bool:
        return any(toxic["type"] == "timeout" for toxic in self.toxics.values())


@attrs.define
class Toxiproxy:
    """`ports` has the free port for each one that a test may name. An ASGI app."""

    gateway_port: int
    named: Sequence[int]
    ports: dict[int, int] = attrs.field(factory=dict)
    _proxies: dict[str, _Proxy] = attrs.field(factory=dict)

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        body = b""
        more = True
        while more:
            message = await receive()
            body += message.get("body", b"")
            more = message.get("more_body", False)
        status, answer = self._answer(scope["method"], scope["path"], body)
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"" if status == 204 else msgspec.json.encode(answer)})

    def _answer(self, method: str, path: str, body: bytes) -> tuple[int, Any]:
        match method, path.strip("/").split("/"):
            case "GET", ["proxies"]:
                return 200, {name: proxy.spec for name, proxy in self._proxies.items()}
            case "POST", ["proxies"]:
                spec = {"enabled": True, **msgspec.json.decode(body)}
                self._proxies[spec["name"]] = _Proxy(spec)
                return 201, spec
            case "DELETE", ["proxies", name] if name in self._proxies:
                self._proxies.pop(name).deleted.set()
                return 204, None
            case "POST", ["proxies", name, "toxics"] if name in self._proxies:
                toxic = msgspec.json.decode(body)
                if toxic["type"] != "timeout" or toxic["attributes"]["timeout"] != 0:
                    return 400, {"error": "This stand-in has the toxic timeout 0 only."}
                self._proxies[name].toxics[toxic["name"]] = toxic
                return 200, toxic
        return 404, {"error": "This stand-in has no such proxy or path."}

    async def serve(self, app: Toxiproxy, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
        """Serve the API and the ports until cancelled."""
        async with trio.open_nursery() as nursery:
            for port in self.named:
                (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
                self.ports[port] = listener.socket.getsockname()[1]
                nursery.start_soon(self._serve_port, port, listener)
            task_status.started(await nursery.start(serve_asgi, app))

    async def _serve_port(self, port: int, listener: trio.SocketListener) -> None:
        async def serve_connection(client: trio.SocketStream) -> None:
            try:
                await self._connect(port, client)
            except* LOST:
                pass

        await trio.serve_listeners(serve_connection, [listener])

    async def _connect(self, port: int, client: trio.SocketStream) -> None:
        """Pass one connection on. Without an enabled proxy on its port it is closed, which the real one would refuse."""
        proxies = [p for p in self._proxies.values() if p.spec["enabled"] and p.spec["listen"].endswith(f":{port}")]
        async with client:
            if not proxies:
                return
            async with await trio.open_tcp_stream("127.0.0.1", self.gateway_port) as server, trio.open_nursery() as nursery:
                nursery.start_soon(self._until_deleted, proxies[0], nursery.cancel_scope)
                nursery.start_soon(self._copy, client, server, None)
                await self._copy(server, client, proxies[0])
                nursery.cancel_scope.cancel()

    async def _until_deleted(self, proxy: _Proxy, connection: trio.CancelScope) -> None:
        await proxy.deleted.wait()
        connection.cancel()

    async def _copy(self, source: trio.SocketStream, sink: trio.SocketStream, proxy: _Proxy | None) -> None:
        async for data in source:
            if proxy is None or not proxy.is_silent:
                await sink.send_all(data)
        if proxy is None:
            await sink.send_eof()


@contextmanager
def open_toxiproxy(gateway_port: int, named: Sequence[int]) -> Iterator[Mapping[int, int]]:
    """Serve the stand-in; yields the free port for each named one, and for the API's own."""
    stand_in = Toxiproxy(gateway_port, named)
    with hosted(stand_in, stand_in.serve) as address:
        yield {**stand_in.ports, API_PORT: urlsplit(address).port or 0}
