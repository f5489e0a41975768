"""A whole gateway on a loopback port, both planes, and a client that sends what it is told."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import trio

from gw.gateway import FrontBank, Gateway
from gw.net.http1 import Origin, Pool
from gw.serve import serve
from gw.web.drain import Drain
from tests.fakes.temporary_gateway import YAML, Response, SetClock, open_test_gateway

LARGEST = 10_000_000


@attrs.frozen(kw_only=True)
class Running:
    gateway: Gateway
    url: str
    client: Pool

    @property
    def clock(self) -> SetClock:
        fields_ = self.gateway.clock
        assert isinstance(fields_, SetClock)
        return fields_

    def open(self, method: str, target: str, body: bytes = b"", **headers: str) -> Any:
        """`async with` gives the response as it comes. `target` goes out as it is."""
        fields = [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in headers.items()]
        return self.client.open("client", method.encode(), Origin.parse(self.url), target.encode(), fields, body)

    async def ask(self, method: str, target: str, body: object = None, **headers: str) -> Response:
        """`body`: bytes as they are, anything else as JSON; None = none."""
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        if body is not None:
            headers = {"content_type": "application/json", **headers}
        with trio.fail_after(60):
            async with self.open(method, target, data, **headers) as response:
                received = await response.read(LARGEST)
                fields_: Mapping[str, str] = {k.decode().lower(): v.decode("latin-1") for k, v in response.headers}
                return Response(response.status, fields_, received)

    async def get(self, target: str, **headers: str) -> Response:
        return await self.ask("GET", target, **headers)


@asynccontextmanager
async def open_running(
    folder: Path, text: str = YAML, clock: SetClock | None = None, *, secret: str = "", spares: int = 0,
    bank: FrontBank | None = None,
) -> AsyncIterator[Running]:  # fmt: skip
    """Run a gateway behind its HTTP host. `text` may hold a `serve` section, with `port: 0`. `bank`: as for `open_test_gateway`."""
    serving = "" if "\nserve:" in text else "\nserve: {port: 0}\n"
    async with open_test_gateway(folder, text + serving, clock, secret=secret, spares=spares, bank=bank) as gateway:
        drain, client = Drain(), Pool()
        async with trio.open_nursery() as nursery:
            (url,) = await nursery.start(serve, gateway, drain, nursery.cancel_scope)
            try:
                yield Running(gateway=gateway, url=url, client=client)
            finally:
                with trio.move_on_after(2, shield=True):
                    await client.aclose()
                drain.halt()
                nursery.cancel_scope.cancel()
