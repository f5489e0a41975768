from __future__ import annotations

from pathlib import Path

import pytest

from gw.net.http1 import Pool
from gw.providers.spec import Account, spec_of
from gw.types.secret import Secret
from tests.fakes.net import FakeNet


@pytest.fixture
def net(nursery):
    return FakeNet(nursery)


@pytest.fixture
def account_at(net):
    """An account of a local type, as the relay makes it."""

    def make(provider_type, base_url=None, model="m", pool=None, **options):
        spec = spec_of(provider_type)
        return Account(
            provider_id="p",
            model=model,
            origin=spec.origin("p", base_url, options),
            api_key=Secret(""),
            pool=pool or Pool(connect=net),
            options=options,
        )

    return make


@pytest.fixture
def engine_libraries(monkeypatch):
    """Stand-ins for the engines' libraries, here and in processes of ours."""
    root = Path(__file__).parents[2]
    fakes = root / "tests" / "fakes" / "engines"
    monkeypatch.syspath_prepend(fakes)
    monkeypatch.setenv("PYTHONPATH", f"{root}:{fakes}")
