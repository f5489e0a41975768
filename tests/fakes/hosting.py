"""ASGI apps on memory streams: fake vendors behind a network in memory, and a whole data plane with a client before it.

Everything stands on trio's clock, so under `autojump_clock` nothing is waited for. The hosts are the gateway's own
(`gw.web.http_server`) and the client its own HTTP pool: both have tests of their own. Only the record sink is in memory,
because threads and a virtual clock do not go together.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
import trio.testing
from structlog.testing import capture_logs

from gw.admin.registrar import Registrar
from gw.config.parse import parse
from gw.config.settings import Serve
from gw.dialects.data_plane import DataPlane
from gw.errors import ProviderError, one_error
from gw.gateway import Gateway
from gw.net.http1 import Origin, Pool
from gw.net.http_response import FINISH_S
from gw.net.transport import Transport
from gw.pricing.rate_tables import load_book
from gw.registry.catalog import CurrentCatalog
from gw.registry.credentials import Credentials
from gw.registry.merge import build
from gw.relay.accounting import Accounting, CaptureSink
from gw.relay.admission import Ledger
from gw.relay.candidates import CandidatePlanner
from gw.relay.limits import ProviderLimits
from gw.relay.relay import Relay
from gw.store.entity_rows import Change, StoredCallback, StoredTranscript
from gw.telemetry.metrics import Metrics
from gw.types.asgi import ASGIApp
from gw.types.usage import Intent, RequestRecord
from gw.web import connection
from gw.web.drain import Drain
from gw.web.http_server import HostedApp, HttpServer
from tests.fakes import grpc_host
from tests.fakes.net import FakeNet, Handler, MemoryTransport, StreamTransport

NOON = 20_000 * 86_400 + 43_200
GATEWAY = Origin.parse("http://gateway.test")


def hosted(app: ASGIApp, serve: Serve | None = None) -> Handler:
    """A host for FakeNet that serves `app`; its sockets also by gRPC, to a client that begins with HTTP/2."""
    server = http_server(app, serve)

    async def run(stream: trio.abc.Stream) -> None:
        first = bytes(await stream.receive_some(65_536))
        if first.startswith(grpc_host.PREFACE):
            await grpc_host.run_grpc(app, stream, first)
        elif first:
            await server.run_connection(BegunTransport(stream, first))

    return run


class BegunTransport(StreamTransport):
    """A stream whose first bytes were read."""

    def __init__(self, stream: trio.abc.Stream, first: bytes) -> None:
        super().__init__(stream)
        self._first = first

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        if first := self._first:
            self._first = b""
            await trio.lowlevel.checkpoint()
            return first
        return await super().receive_some(max_bytes)


def http_server(app: ASGIApp, serve: Serve | None = None) -> HttpServer:
    mounted = HostedApp(app=app, counted=True, websockets=True)
    limits, max_body_bytes = connection.ServerLimits(idle_s=3_600), (serve or Serve()).max_body_bytes
    return HttpServer(lambda method, path: mounted, Drain(), limits=limits, max_body_bytes=max_body_bytes)


class ResettingTransport(Transport):
    """The other side's close arrives as a reset."""

    def __init__(self, inner: MemoryTransport) -> None:
        self._inner = inner

    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        await self._inner.send_all(data)

    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        data = await self._inner.receive_some(max_bytes)
        if not data:
            raise trio.BrokenResourceError from ConnectionResetError(104, "Connection reset by peer")
        return data

    def is_stale(self) -> bool:
        return self._inner.is_stale()

    def abort(self) -> None:
        self._inner.abort()

    async def aclose(self) -> None:
        await self._inner.aclose()


class FaultyNet(FakeNet):
    """A FakeNet some of whose hosts never take a connection (`dark`) or end every one with a reset (`resetting`)."""

    def __init__(self, nursery: trio.Nursery) -> None:
        super().__init__(nursery)
        self.dark: set[str] = set()
        self.resetting: set[str] = set()

    async def __call__(self, origin: Origin) -> Transport:  # type: ignore[override]  # a wider result
        if origin.host in self.dark:
            await trio.sleep_forever()
        transport = await super().__call__(origin)
        return ResettingTransport(transport) if origin.host in self.resetting else transport


class Kept:
    """The relay's record sink, in memory."""

    commits_first = False

    def __init__(self) -> None:
        self.accepting = True
        self.intents: list[Intent] = []
        self.records: list[RequestRecord] = []
        self.stored: dict[str, StoredTranscript] = {}
        self.due: dict[str, StoredCallback] = {}
        self.finished = trio.Event()
        """Set by the first record."""

    def intent(self, intent: Intent) -> None:
        self.intents.append(intent)

    def finish(self, record: RequestRecord) -> None:
        self.records.append(record)
        self.finished.set()

    async def transcripts(self, now: float) -> Sequence[StoredTranscript]:
        return [row for row in self.stored.values() if row.expires_at >= now]

    async def change(self, change: Change) -> None:
        self.stored |= {row.id: row for row in change.transcripts}
        self.due |= {row.id: row for row in change.callbacks}
        for id_ in change.callbacks_done:
            self.due.pop(id_, None)

    async def callbacks(self) -> Sequence[StoredCallback]:
        return list(self.due.values())

    async def wait_committed(self, record_id: str) -> None:
        pass

    @property
    def record(self) -> RequestRecord:
        """The only one."""
        (record,) = self.records
        return record


@attrs.define
class VirtualWallClock:
    """Wall time that follows trio's clock. `step_s`: by how much more it advances whenever it is read."""

    step_s: float = 0.0
    steps: int = 0

    def now(self) -> float:
        self.steps += 1
        return NOON + trio.current_time() + self.steps * self.step_s


@attrs.frozen(kw_only=True)
class Reply:
    """An answer of the gateway as its client saw it. `cut`: the connection broke before the body's end."""

    status: int
    headers: Mapping[str, str]
    pieces: Sequence[tuple[float, bytes]]
    """As they came, each with trio's time."""
    cut: bool
    took_s: float

    @property
    def body(self) -> bytes:
        return b"".join(data for _, data in self.pieces)

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)

    @property
    def error(self) -> dict[str, Any]:
        error: dict[str, Any] = self.json["error"]
        return error

    @property
    def events(self) -> list[bytes]:
        """The data of server-sent events; comments left out."""
        blocks = self.body.split(b"\n\n")
        return [block.removeprefix(b"data: ") for block in blocks if block.startswith(b"data: ")]


@attrs.frozen(kw_only=True)
class Plane:
    """A data plane in memory. `net` has its upstreams; `client` reaches it at `GATEWAY`."""

    gateway: Gateway
    kept: Kept
    net: FaultyNet
    client: Pool
    drain: Drain

    def open(self, path: str, body: bytes, content_type: str = "application/json", **headers: str) -> Any:
        """Send a POST; `async with` gives the response. Leaving it early is a client that leaves."""
        fields = {"content-type": content_type, **{name.replace("_", "-"): value for name, value in headers.items()}}
        pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
        return self.client.open("client", b"POST", GATEWAY, path.encode(), pairs, body)

    async def post(self, path: str, body: bytes, content_type: str = "application/json", **headers: str) -> Reply:
        began = trio.current_time()
        pieces: list[tuple[float, bytes]] = []
        cut = False
        async with self.open(path, body, content_type, **headers) as response:
            try:
                while data := await response.receive_some():
                    pieces.append((trio.current_time(), data))
            except ProviderError:
                cut = True
            return Reply(
                status=response.status,
                headers={name.decode(): value.decode("latin-1") for name, value in response.headers},
                pieces=pieces,
                cut=cut,
                took_s=trio.current_time() - began,
            )

    async def check_nothing_left(self) -> None:
        """No task, connection, reservation or place in use once the clients are gone."""
        await self.client.aclose()
        await trio.sleep(FINISH_S)  # an upstream may be late with the end of an answer that was complete
        await trio.testing.wait_all_tasks_blocked()
        assert self.gateway.pool.in_use == {}
        assert self.gateway.relay.in_flight.requests == 0
        assert [view.in_flight for view in self.gateway.limits.view(0).values() if view.in_flight] == []
        assert [p for p in self.gateway.current.catalog.projects if self.gateway.ledger.reserved(p)] == []
        await self.gateway.pool.aclose()
        await trio.testing.wait_all_tasks_blocked()
        assert (self.net.open, self.net.live) == (0, 0)


def _gateway(
    text: str, folder: Path, kept: Kept, pool: Pool, spent: Mapping[str, int], captures: CaptureSink | None,
    clock: VirtualWallClock,
) -> Gateway:  # fmt: skip
    settings = parse(text, file="gw.yaml", env={} if captures is None else {"GW_SECRET": "a secret"}, data_dir=folder)
    book, metrics = load_book(), Metrics()
    current, ledger, limits = CurrentCatalog(build(settings)), Ledger(clock, spent), ProviderLimits(settings.routing.breaker)
    accounting = Accounting(clock=clock, book=book, ledger=ledger, records=kept, observer=metrics, captures=captures)
    planner = CandidatePlanner(current, pool, limits, accounting, settings.routing, settings.cost_tracking)
    relay = Relay(planner, shadow=settings.shadow)
    return Gateway(
        settings=settings,
        current=current,
        store=kept,  # type: ignore[arg-type]  # the data plane only puts records
        relay=relay,
        ledger=ledger,
        limits=limits,
        metrics=metrics,
        clock=clock,
        book=book,
        pool=pool,
        started_at=clock.now(),
        registrar=Registrar(settings, current=current, store=kept, clock=clock, learn=lambda secrets: None, follow=lambda catalog: None),  # type: ignore[arg-type]  # as above
        credentials=Credentials(clock),
        request_ids=accounting.request_ids,
    )


@asynccontextmanager
async def open_plane(
    text: str, folder: Path, spent: Mapping[str, int] | None = None, captures: CaptureSink | None = None, kept: Kept | None = None,
    clock: VirtualWallClock | None = None,
) -> AsyncIterator[Plane]:
    """A data plane over the gw.yaml `text`; at its end nothing may be left of what ran. Bounded by an hour of trio's time."""
    with one_error(), capture_logs() as logs, trio.fail_after(3_600):
        async with trio.open_nursery() as nursery:
            net, front, kept = FaultyNet(nursery), FakeNet(nursery), kept or Kept()
            gateway = _gateway(text, folder, kept, Pool(connect=net), spent or {}, captures, clock or VirtualWallClock())
            app = DataPlane(gateway)
            nursery.start_soon(app.run)
            nursery.start_soon(gateway.background.run)
            nursery.start_soon(gateway.relay.run)
            await trio.testing.wait_all_tasks_blocked()  # the keeper hedges requests once it runs
            server = http_server(app, gateway.settings.serve)
            nursery.start_soon(server.close_sockets)

            async def front_door(stream: trio.abc.Stream) -> None:
                await server.run_connection(StreamTransport(stream))

            front.hosts["gateway.test", 80] = front_door
            plane = Plane(gateway=gateway, kept=kept, net=net, client=Pool(connect=front), drain=server.drain)
            yield plane
            await plane.check_nothing_left()
            assert (front.open, front.live) == (0, 0)
            nursery.cancel_scope.cancel()
        assert [entry for entry in logs if entry["log_level"] in ("error", "critical")] == []
