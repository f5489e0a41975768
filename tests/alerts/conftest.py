"""A gateway with a real database on virtual time, whose receivers are in memory."""

from __future__ import annotations

from contextlib import asynccontextmanager

import attrs
import pytest
import trio

from gw.alerts import monitor
from gw.config.parse import parse
from gw.gateway import Gateway, open_gateway
from gw.net.http1 import Pool
from tests.fakes.alert_receiver import SECRET, AlertReceiver
from tests.fakes.net import FakeNet
from tests.fakes.stepped_time import SteppedTime

MODELS = """
providers:
  sim: {}
  openai: {api_key: sk-0123456789abcdef, enabled: true}
  deepgram: {api_key: dg-0123456789abcdef}
models:
  stt: {deepgram/nova-3: {}}
  llm: {sim/echo: {}, openai/gpt-4o: {}, openai/gpt-4o-mini: {}}
rate_limiting: {openai: {max_concurrent: 2}}
"""


@attrs.define
class Watched:
    """A gateway whose alerts run, and the receivers by name: `https://<name>.example/hook`."""

    gateway: Gateway
    net: FakeNet
    time: SteppedTime
    receivers: dict[str, AlertReceiver]


@pytest.fixture
def watch(tmp_path, mock_clock):
    """`async with watch(names, more) as watched`: the monitor runs inside the block."""
    time = SteppedTime(mock_clock)

    @asynccontextmanager
    async def open_watched(*names: str, text: str = "", alerts: str = "", receivers: dict[str, AlertReceiver] | None = None):
        receivers = receivers if receivers is not None else {name: AlertReceiver(time.now) for name in names}
        listed = "".join(f'\n    {name}: {{url: "https://{name}.example/hook", secret: {SECRET}}}' for name in names)
        settings = parse(f"{MODELS}{text}\nalerts:\n  receivers:{listed}\n{alerts}", file="gw.yaml", env={}, data_dir=tmp_path)
        settings = attrs.evolve(settings, secret_folder=tmp_path / "config")
        async with trio.open_nursery() as nursery:
            net = FakeNet(nursery)
            for name, receiver in receivers.items():
                net.hosts[f"{name}.example", 443] = receiver.serve
            async with open_gateway(settings, clock=time, make_pool=lambda: Pool(connect=net)) as gateway, trio.open_nursery() as running:
                running.start_soon(monitor.run, gateway)
                await time.settle()
                yield Watched(gateway, net, time, receivers)
                running.cancel_scope.cancel()
            nursery.cancel_scope.cancel()

    return open_watched
