"""A gateway with traffic behind it, shared by the tests of this folder."""

from __future__ import annotations

import pytest

from gw.config.parse import parse
from gw.gateway import open_gateway
from gw.net.http1 import Pool
from tests.fakes.hosting import hosted
from tests.fakes.net import FakeNet
from tests.fakes.records import HandClock
from tests.reconcile.traffic import CASES, REQUESTS, Traffic


@pytest.fixture
def vendor():
    return "openai"


@pytest.fixture
async def traffic(vendor, tmp_path, nursery):
    """A gateway that has asked the vendor under two entries, and the vendor's ledger of it."""
    case = CASES[vendor]
    fake, net = case.fake(), FakeNet(nursery)
    net.hosts["vendor.test", 80] = hosted(fake)
    settings = parse(case.config(vendor), file="gw.yaml", env={}, data_dir=tmp_path)
    async with open_gateway(settings, clock=HandClock(), make_pool=lambda: Pool(connect=net)) as gateway:
        for n in range(REQUESTS):
            await case.asked(gateway.relay, (vendor, "second")[n // 2 % 2], n)
        if case.beside is not None:
            await case.beside(gateway.relay, vendor, 1)
        await gateway.store.flush()
        yield Traffic(gateway=gateway, vendor=vendor, ledger=fake.ledger)
