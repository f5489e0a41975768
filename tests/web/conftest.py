from __future__ import annotations

from pathlib import Path

import pytest

from gw.types.asgi import ASGIApp
from gw.web.app import as_app, make_dispatch
from gw.web.drain import Drain
from gw.web.static_files import Frontend
from tests.fakes.temporary_gateway import WITH_AUTH, YAML, open_test_gateway


async def _no_data_plane(scope, receive, send):
    raise AssertionError("the data plane was not asked for")


@pytest.fixture
async def gateway(tmp_path: Path):
    async with open_test_gateway(tmp_path) as opened:
        yield opened


@pytest.fixture
async def guarded(tmp_path: Path):
    """One that asks for credentials."""
    async with open_test_gateway(tmp_path, YAML + WITH_AUTH) as opened:
        yield opened


@pytest.fixture
def app_of():
    """The control plane of a gateway, without a data plane and without a built dashboard unless one is given."""

    def make(gateway, *, data_plane=_no_data_plane, serves=lambda method, path: False, drain=None, site=None) -> ASGIApp:
        drain = drain or Drain()
        return as_app(make_dispatch(gateway, data_plane, serves, drain, site or Frontend({})))

    return make


@pytest.fixture
def app(gateway, app_of) -> ASGIApp:
    return app_of(gateway)
