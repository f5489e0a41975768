"""A gateway before vendors whose answers have everything that their bills depend on, for the tests of money."""

from __future__ import annotations

from contextlib import asynccontextmanager, suppress
from fractions import Fraction
from functools import partial
from typing import Any

import attrs
import trio

from gw.net.http1 import Origin
from gw.net.ws import WsClosed, open_ws
from gw.store.writer import GATHER_S
from tests.contract.money_cases import Case
from tests.fakes.running import Running, open_running
from tests.fakes.serve import serve_asgi
from tests.fakes.temporary_gateway import SetClock
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.billing import BillingVendor
from tests.fakes.vendors.deepgram import FakeDeepgram


@attrs.frozen
class Setup:
    running: Running
    bills: BillingVendor
    jump: Any
    """Advances trio's clock."""

    async def record(self, request_id: str) -> Any:
        self.jump(GATHER_S)
        answer = await self.running.get(f"/v1/requests/{request_id}")
        assert answer.status == 200, answer.body
        return answer.json

    async def send(self, case: Case) -> Any:
        if case.reply is not None:
            self.bills.reply = case.reply
        answer = await self.running.ask("POST", case.path, case.body, **case.headers)
        assert answer.status == 200, (case.path, case.body, answer.body)
        return answer

    async def listen(self, query: str, seconds: float, model: str = "live/nova-3") -> str:
        """Hold a live session over so much silence, and return its request id."""
        target = f"/v1/listen?model={model}&encoding=linear16&sample_rate=16000&{query}".encode()
        async with open_ws("client", Origin.parse(self.running.url), target, headers=[]) as ws:
            for _ in range(round(seconds * 10)):
                await ws.send(bytes(3_200))
            await ws.send('{"type":"CloseStream"}')
            with trio.fail_after(60):
                with suppress(WsClosed):
                    while True:
                        await ws.receive()
        return await self.newest(model)

    async def newest(self, model: str) -> str:
        self.jump(GATHER_S)
        [line] = (await self.running.get(f"/v1/logs?limit=1&model={model}")).json
        return str(line["id"])


@asynccontextmanager
async def open_setup(tmp_path: Any, mock_clock: Any, text: str) -> Any:
    bills, deepgram, assemblyai = BillingVendor(), FakeDeepgram(), FakeAssemblyAI()
    apps = {"bills": bills, "deepgram": deepgram, "assemblyai": assemblyai}
    async with trio.open_nursery() as nursery:
        places = {name: await nursery.start(partial(serve_asgi, app)) for name, app in apps.items()}
        async with open_running(tmp_path, text.format(**places), SetClock()) as running:
            yield Setup(running, bills, mock_clock.jump)
        nursery.cancel_scope.cancel()


def rounded(nano: Fraction | int) -> int:
    """Round half up, once."""
    return int(Fraction(nano) + Fraction(1, 2))
