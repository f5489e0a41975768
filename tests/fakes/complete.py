"""A complete gateway in memory: both planes behind its own HTTP host, vendors on a network in memory, and a real database.

Everything stands on trio's clock. Reports are read in threads, so they can be asked for, but nothing may be timed by them.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio
from prometheus_client.parser import text_string_to_metric_families

from gw.config.parse import parse
from gw.dialects.data_plane import DataPlane
from gw.gateway import Gateway, open_gateway
from gw.net.http1 import Pool
from gw.types.asgi import ASGIApp
from gw.web import connection
from gw.web.app import make_dispatch
from gw.web.drain import Drain
from gw.web.http_server import HttpServer
from tests.fakes.hosting import GATEWAY, FaultyNet, hosted
from tests.fakes.net import FakeNet, StreamTransport
from tests.fakes.records import HandClock

LARGEST = 1_000_000


@attrs.frozen(kw_only=True)
class Complete:
    """`client` reaches both planes at `GATEWAY`."""

    gateway: Gateway
    client: Pool

    async def request(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes]:
        data = b"" if body is None else msgspec.json.encode(body)
        fields = {"content-type": "application/json", **{name.replace("_", "-"): value for name, value in headers.items()}}
        pairs = [(name.encode(), value.encode()) for name, value in fields.items()]
        async with self.client.open("client", method.encode(), GATEWAY, path.encode(), pairs, data) as response:
            return response.status, await response.read(LARGEST)

    async def json(self, path: str) -> Any:
        """Return a report, after everything recorded was written to the database."""
        await self.gateway.store.flush()
        status, body = await self.request("GET", path)
        assert status == 200, body
        return msgspec.json.decode(body)

    async def metrics(self) -> Mapping[tuple[str, tuple[tuple[str, str], ...]], float]:
        _, body = await self.request("GET", "/v1/metrics")
        return {
            (sample.name, tuple(sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(body.decode())
            for sample in family.samples
        }


@asynccontextmanager
async def open_complete(
    text: str, folder: Path, vendors: Mapping[str, ASGIApp], clock: HandClock | None = None, *, dark: Collection[str] = ()
) -> AsyncIterator[Complete]:
    """`vendors`: host → app, at port 80. The `dark` ones never take a connection."""
    async with trio.open_nursery() as nursery:
        net, front = FaultyNet(nursery), FakeNet(nursery)
        net.dark.update(dark)
        for host, vendor in vendors.items():
            net.hosts[host, 80] = hosted(vendor)
        settings = parse(text + "\nserve: {allowed_hosts: [gateway.test]}\n", file="gw.yaml", env={}, data_dir=folder)
        async with open_gateway(settings, clock=clock or HandClock(), make_pool=lambda: Pool(connect=net)) as gateway:
            plane, drain = DataPlane(gateway), Drain()
            nursery.start_soon(plane.run)
            server = HttpServer(
                make_dispatch(gateway, plane, plane.serves, drain), drain, limits=connection.ServerLimits(idle_s=3_600)
            )

            async def serve(stream: trio.abc.Stream) -> None:
                await server.run_connection(StreamTransport(stream))

            front.hosts["gateway.test", 80] = serve
            client = Pool(connect=front)
            yield Complete(gateway=gateway, client=client)
            await client.aclose()
            nursery.cancel_scope.cancel()
