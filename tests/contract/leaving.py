"""Callers that leave, over real sockets on loopback: at twelve points of a request's life, in three ways, from every endpoint.

A vendor behind a `Gate` stops where the point says. Where an answer is not streamed, nobody can leave it unread: "nobody reads" is
then a caller with a second request, or half a frame, on the wire behind the first. How long a vendor's connection lived on is read
from the kernel (TCP_INFO), so that a vendor that reads nothing sees it too.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import attrs
import trio
import trio.testing
from websockets.frames import Frame, Opcode

from gw.gateway import Gateway
from gw.net.tcp import TcpStream
from gw.net.transport import LOST
from gw.serve import serve
from gw.types.asgi import ASGIApp
from gw.types.usage import Intent, RequestRecord
from gw.web import connection
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from tests.contract.callers import Caller, SocketCaller
from tests.fakes.temporary_gateway import open_test_gateway
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.openai import FakeOpenAI

POINTS = (
    "connected", "half of the head", "half of the request", "vendor is dialled", "vendor is silent", "vendor has begun",
    "second vendor is silent", "first content", "third piece", "nobody reads", "before the end", "complete",
)  # fmt: skip
WAYS = ("FIN", "RST", "half-close")
RECV_BYTES = 4_096
"""The caller's receive buffer: a vendor that pours is soon held up."""
SETTLED_S = 0.002
"""Nothing has run for so long: the point is reached."""
_ESTABLISHED = 1
_VENDOR_TASKS = 3
"""Of a connection to a vendor of these, on the vendor's side."""
_HOLDS_START = ("vendor is silent", "second vendor is silent")
CONFIG = """
providers:
  up: {type: openai, api_key: k, base_url: "http://127.0.0.1:HTTP/v1"}
  live: {type: deepgram, api_key: k, base_url: "http://127.0.0.1:LIVE"}
  failing: {type: openai, api_key: k, base_url: "http://127.0.0.1:FAILING/v1"}
  failing_live: {type: deepgram, api_key: k, base_url: "http://127.0.0.1:FAILING"}
  dark: {type: openai, api_key: k, base_url: "http://127.0.0.1:DARK/v1"}
  dark_live: {type: deepgram, api_key: k, base_url: "http://127.0.0.1:DARK"}
models:
  llm: {LLM}
  stt: {STT}
  tts: {TTS}
stacks: {STACKS}
fallbacks: {llm: [up/m], stt: [up/m], tts: [up/m]}
projects: {sockets: {fallbacks: {stt: [live/m], tts: [live/m]}}}
routing: {breaker: {failures: 10000}, first_event_s: {llm: 60, stt: 60, tts: 60}, silence_ms: 60000, idle_s: 60}
serve: {port: 0}
"""
_PRICES = {"llm": "{unit: 1M_tokens, input: 1, output: 2}", "stt": "{unit: minute, usd: 0.006}", "tts": "{unit: 1M_characters, usd: 15}"}
_HTTP, _LIVE = ("up", "failing", "dark"), ("live", "failing_live", "dark_live")


def _config(ports: dict[str, int]) -> str:
    text = CONFIG
    for modality, price in _PRICES.items():
        providers = _HTTP if modality == "llm" else (*_HTTP, *_LIVE)
        models = ", ".join(f"{provider}/m: {{price: {price}, default_voice: v}}" for provider in providers)
        text = text.replace(modality.upper() + "}", models + "}")
    stacks = [f"talk_{name}: {{llm: {name}/m, stt: live/m, tts: live/m}}" for name in _HTTP]
    text = text.replace("STACKS", ", ".join(stacks))
    for name, port in ports.items():
        text = text.replace(name, str(port))
    return text


@attrs.define
class Gate:
    """An ASGI vendor that stops at `point`."""

    app: ASGIApp
    point: str = ""
    reached: trio.Event = attrs.field(factory=trio.Event)
    poured: int = 0
    _sent: int = 0

    def arm(self, point: str) -> None:
        self.point, self.reached, self._sent, self.poured = point, trio.Event(), 0, 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def gated(message: Any) -> None:
            if message["type"].startswith("http"):
                await self._http(message, send)
            else:
                await self._socket(message, send)

        await self.app(scope, receive, gated)

    async def _hold(self) -> None:
        self.reached.set()
        await trio.sleep_forever()

    async def _http(self, message: Any, send: Any) -> None:
        if message["type"] == "http.response.start":
            if self.point in _HOLDS_START:
                await self._hold()
            await send(message)
            if self.point == "vendor has begun":
                await send({"type": "http.response.body", "body": b"", "more_body": True})
                await self._hold()
            return
        data = message.get("body", b"")
        self._sent += bool(data)
        last = not message.get("more_body")
        held = {"first content": 1, "third piece": 3}.get(self.point, 0)
        if held and (self._sent == held or last):
            await send({**message, "body": data if not last else data[: len(data) // 2], "more_body": True})
            await self._hold()
        if self.point == "before the end" and last:
            await send({**message, "body": data[:-1], "more_body": True})
            await self._hold()
        if self.point == "nobody reads" and self._sent == 2:
            await self._pour({**message, "more_body": True}, send)
        await send(message)
        if last:
            self.reached.set()

    async def _socket(self, message: Any, send: Any) -> None:
        text = message.get("text") or ""
        ends = '"Flushed"' in text or ('"Metadata"' in text and '"duration"' in text)
        if message["type"] == "websocket.accept" and self.point in _HOLDS_START:
            await self._hold()
        if message["type"] == "websocket.send":
            if self.point == "vendor has begun":
                await self._hold()
            content = bool(message.get("bytes")) or '"Results"' in text
            self._sent += content
            if self.point == "before the end" and ends:
                await self._hold()
            if self.point == "nobody reads" and self._sent == 2 and message.get("bytes"):
                await self._pour(message, send)
        await send(message)
        if self._sent >= {"first content": 1, "third piece": 3}.get(self.point, 10_000):
            await self._hold()
        if (self.point == "complete" and ends) or (self.point == "all heard" and self._sent >= 3):
            self.reached.set()

    async def _pour(self, message: Any, send: Any) -> None:
        """Say the same for as long as it is taken."""
        self.reached.set()
        while True:
            await send(message)
            self.poured += 1


@attrs.define
class Vendor:
    """A vendor on loopback. `served` keeps its connections."""

    gate: Gate
    port: int = 0
    served: list[socket.socket] = attrs.field(factory=list)

    async def run(self, task_status: trio.TaskStatus[None]) -> None:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        self.port = listener.socket.getsockname()[1]
        mounted = HostedApp(app=self.gate, websockets=True)
        server = HttpServer(lambda method, path: mounted, Drain(), limits=connection.ServerLimits(idle_s=3_600))

        async def handle(stream: trio.SocketStream) -> None:
            raw = socket.socket(fileno=stream.socket.detach())
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.served.append(raw)
            transport = TcpStream(raw)
            async with trio.open_nursery() as nursery:
                nursery.start_soon(_until_left, raw, nursery.cancel_scope)
                with suppress(*LOST, BaseExceptionGroup):  # the gateway left while it was sent something
                    await server.run_connection(transport)
                nursery.cancel_scope.cancel()
            transport.abort()

        task_status.started()
        await trio.serve_listeners(handle, [listener])


def _is_open(sock: socket.socket) -> bool:
    return sock.fileno() >= 0 and sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] == _ESTABLISHED


async def _until_left(sock: socket.socket, scope: trio.CancelScope) -> None:
    """End a vendor that is held and so reads nothing."""
    while _is_open(sock):  # noqa: ASYNC110  # the kernel has no event for it
        await trio.sleep(10 * SETTLED_S)
    scope.cancel()


def _dark_port() -> tuple[int, list[socket.socket]]:
    """Return a port of this machine that answers no connection: its queue is full."""
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(0)
    held = [listener]
    for _ in range(4):
        one = socket.socket()
        one.setblocking(False)
        one.connect_ex(listener.getsockname())
        held.append(one)
    return listener.getsockname()[1], held


@attrs.define
class Finished:
    """The store's watcher: every record, with trio's time."""

    seen: list[tuple[float, RequestRecord]] = attrs.field(factory=list)

    def began(self, intent: Intent) -> None:
        """Ignore it."""

    def finished(self, record: RequestRecord) -> None:
        self.seen.append((trio.current_time(), record))


@attrs.frozen
class Left:
    """What a cell came to. Seconds after the caller had left; None = it did not end within a second."""

    vendor_s: float | None
    """Until the last vendor connection that had a request was closed; 0 = there was none, or it was closed before."""
    recorded_s: float | None
    ended_s: float | None
    """Until no task of the request was left."""
    records: Sequence[RequestRecord]
    vendors: int
    """Connections of vendors that were open when the caller left."""


@attrs.frozen
class Rig:
    gateway: Gateway
    port: int
    http: Vendor
    live: Vendor
    finished: Finished

    def model(self, caller: Caller | SocketCaller, point: str) -> str:
        name = {"vendor is dialled": "dark", "second vendor is silent": "failing"}.get(point, "")
        if isinstance(caller, Caller):
            return f"{name or 'up'}/m"
        if caller.modality == "llm":
            return f"talk_{name or 'up'}"
        return f"{name + '_live' if name else 'live'}/m"

    async def leave(self, caller: Caller | SocketCaller, point: str, how: str) -> Left:
        """Run one cell."""
        for vendor in (self.http, self.live):
            vendor.gate.arm(point)
            vendor.served.clear()
        before, tasks = len(self.finished.seen), trio.lowlevel.current_statistics().tasks_living
        sock = trio.socket.socket()
        if point == "nobody reads":
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECV_BYTES)
        await sock.connect(("127.0.0.1", self.port))
        client = Client(sock, caller, self.model(caller, point), self)
        with trio.fail_after(60):
            await client.until(point)
        serving, pooled = list(filter(_is_open, self.live.served)), list(filter(_is_open, self.http.served))
        if point != "complete":  # of a complete answer over HTTP the pool keeps the connection
            serving, pooled = serving + pooled, []
        left_at = trio.current_time()
        await client.leave(how)
        result = await self._watch(serving, before, tasks + _VENDOR_TASKS * len(pooled), left_at)
        sock.close()
        for vendor in (self.http, self.live):  # what the pool keeps is no longer good, and its tasks here end
            for one in vendor.served:
                if one.fileno() >= 0:
                    with suppress(OSError):
                        one.shutdown(socket.SHUT_RDWR)
        return result

    async def _watch(self, serving: list[socket.socket], before: int, tasks: int, left_at: float) -> Left:
        vendor_s = recorded_s = ended_s = None
        with trio.move_on_after(1):
            while vendor_s is None or recorded_s is None or ended_s is None:
                now = trio.current_time() - left_at
                if vendor_s is None and not any(map(_is_open, serving)):
                    vendor_s = now if serving else 0.0
                if recorded_s is None and self.gateway.relay.in_flight.requests == 0:
                    recorded_s = self.finished.seen[-1][0] - left_at if len(self.finished.seen) > before else 0.0
                if ended_s is None and trio.lowlevel.current_statistics().tasks_living <= tasks:
                    ended_s = now
                await trio.sleep(0.001)
        records = [record for _, record in self.finished.seen[before:]]
        return Left(vendor_s, recorded_s, ended_s, records, len(serving))

    def check_nothing_in_use(self) -> None:
        gateway = self.gateway
        assert gateway.relay.in_flight.requests == 0
        assert [view.in_flight for view in gateway.limits.view(0).values() if view.in_flight] == []
        assert [p for p in gateway.current.catalog.projects if gateway.ledger.reserved(p)] == []
        assert gateway.pool.in_use == {}


@attrs.define
class Client:
    """A caller by hand, on a bare socket."""

    sock: Any
    caller: Caller | SocketCaller
    model: str
    rig: Rig

    async def until(self, point: str) -> None:
        if isinstance(self.caller, Caller):
            await self._request(self.caller, point)
        else:
            await self._session(self.caller, point)

    async def _settle(self) -> None:
        await trio.testing.wait_all_tasks_blocked(SETTLED_S)

    async def _reached(self, gate: Gate, point: str) -> None:
        if point in ("connected", "half of the head", "half of the request", "vendor is dialled"):
            await self._settle()
            return
        await gate.reached.wait()
        poured = -1
        while point == "nobody reads" and gate.poured > poured:
            poured = gate.poured
            await trio.sleep(0.03)
        if point != "nobody reads":
            await self._settle()

    async def _request(self, caller: Caller, point: str) -> None:
        target, body, content_type = caller.request(self.model)
        head = f"POST {target} HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n\r\n"
        data = head.encode() + body
        if point == "connected":
            data = b""
        elif point == "half of the head":
            data = data[: len(head) // 2]
        elif point == "half of the request":
            data = data[: -len(body) // 2]
        elif point == "nobody reads" and not caller.streams:
            data += data
            self.rig.http.gate.arm("vendor is silent")
        await _send_all(self.sock, data)
        await self._reached(self.rig.http.gate, point if caller.streams or point != "nobody reads" else "vendor is silent")

    async def _session(self, caller: SocketCaller, point: str) -> None:
        target = caller.path(self.model)
        target += ("&" if "?" in target else "?") + "gw_project=sockets"
        head = f"GET {target} HTTP/1.1\r\nhost: 127.0.0.1\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
        head += "sec-websocket-version: 13\r\nsec-websocket-key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
        gate = (self.rig.http if caller.modality == "llm" else self.rig.live).gate
        if point == "connected":
            return
        if point == "half of the head":
            await _send_all(self.sock, head[: len(head) // 2].encode())
            await self._settle()
            return
        await _send_all(self.sock, head.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += await self.sock.recv(65_536)
        assert answer.startswith(b"HTTP/1.1 101 "), answer
        if point == "half of the request":
            await self._settle()
            return
        frames = [*caller.begin(self.model), *caller.say(self.model)]
        unread = point == "nobody reads" and caller.modality != "tts"
        ends = point in ("before the end", "complete") or caller.modality != "stt"
        data = b"".join(_frame(frame) for frame in [*frames, *(caller.end(self.model) if ends else ())])
        if ends and not caller.end(self.model) and caller.modality == "stt":  # it has no word for the end but its leaving
            point = {"before the end": "third piece", "complete": "all heard"}.get(point, point)
            gate.arm(point)
        if unread:
            data += _frame("x" * 100)[:50]
            gate.arm("vendor has begun")
        await _send_all(self.sock, data)
        await self._reached(gate, "vendor has begun" if unread else point)

    async def leave(self, how: str) -> None:
        if how == "half-close":
            self.sock.shutdown(socket.SHUT_WR)
            return
        if how == "RST":
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.sock.close()


def _frame(data: str | bytes) -> bytes:
    kind = Opcode.BINARY if isinstance(data, bytes) else Opcode.TEXT
    return Frame(kind, data if isinstance(data, bytes) else data.encode()).serialize(mask=True)


async def _send_all(sock: Any, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[await sock.send(view) :]


def _failing(status: int) -> ASGIApp:
    async def app(scope: Any, receive: Callable[[], Any], send: Callable[[Any], Any]) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close", "code": 1011})
            return
        while (await receive()).get("more_body"):
            pass
        await send({"type": "http.response.start", "status": status, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": b'{"error":{"message":"no","type":"t","code":"c"}}'})

    return app


_LONG = b"\1\2" * 24_000


@asynccontextmanager
async def open_rig(folder: Path) -> AsyncIterator[Rig]:
    fake = FakeOpenAI(prefix="/v1", speech_pcm=_LONG * 4, speech_chunk_bytes=48_000, tokens=["one ", "two " * 5_000, "three ", "four "])
    live = FakeDeepgram()
    http, socket_vendor, failing = Vendor(Gate(fake)), Vendor(Gate(live)), Vendor(Gate(_failing(503)))
    dark, held = _dark_port()
    async with trio.open_nursery() as nursery:
        for vendor in (http, socket_vendor, failing):
            await nursery.start(vendor.run)
        ports = {"HTTP": http.port, "LIVE": socket_vendor.port, "FAILING": failing.port, "DARK": dark}
        async with open_test_gateway(folder, _config(ports)) as gateway, trio.open_nursery() as serving:
            (url,) = await serving.start(serve, gateway, Drain(), serving.cancel_scope)
            gateway.store.watcher = finished = Finished()
            yield Rig(gateway, int(url.rpartition(":")[2]), http, socket_vendor, finished)
            serving.cancel_scope.cancel()
        nursery.cancel_scope.cancel()
    for one in held:
        one.close()
