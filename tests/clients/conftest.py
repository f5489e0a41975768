"""One `gw serve --demo` for all third-party clients, and what their tests share.

The clients are imported inside tests: without their packages the other tests must still be collected.
"""

from __future__ import annotations

import gc
import importlib.util
import io
import json
import os
import shutil
import urllib.request
import wave
from collections.abc import Callable, Iterator
from typing import Any
from urllib.error import HTTPError

import attrs
import pytest

from tests.clients.matrix import Results
from tests.e2e.conftest import Daemon, starter
from tests.e2e.test_workers_live import wait_for

HOW_TO_INSTALL = {
    "flite": "apt-get install flite",
    "java": "apt-get install default-jdk-headless",
    "javac": "apt-get install default-jdk-headless",
    "node": "apt-get install nodejs",
    "npm": "apt-get install npm",
}


@attrs.frozen
class Gateway:
    """A running gateway. `base` is the one address that a client is given."""

    daemon: Daemon

    @property
    def base(self) -> str:
        return self.daemon.url + "/v1"

    def record(self, request_id: str) -> dict[str, Any]:
        """Return the record of a request, which is written a moment after the caller has the answer."""

        def find() -> dict[str, Any] | None:
            try:
                with urllib.request.urlopen(f"{self.base}/requests/{request_id}") as response:
                    found: dict[str, Any] = json.load(response)
            except HTTPError as error:
                with error:
                    if error.code != 404:
                        raise
                return None
            return found

        record: dict[str, Any] = wait_for(find)
        return record


@pytest.fixture
def not_ours() -> Iterator[None]:
    """Sockets that a client leaves open are collected, and warned of, inside its own test, which ignores that."""
    yield
    gc.collect()
    gc.freeze()  # what survives, above all the modules of SDKs, is not looked through again after each of the next tests


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with starter(tmp_path_factory.mktemp("demo")) as start:
        yield Gateway(start())


@pytest.fixture(scope="session")
def tool() -> Callable[[str], str]:
    """`tool("flite")` is its path; a missing one fails the test and says how to install it."""

    def find(name: str) -> str:
        path = shutil.which(name)
        if path is None:
            pytest.fail(f"{name} is not installed; on Debian: {HOW_TO_INSTALL[name]}")
        return path

    return find


@pytest.fixture(scope="session")
def package() -> Callable[[str], None]:
    """`package("livekit")` fails the test when that package is missing, and says how to install it."""

    def find(name: str) -> None:
        if importlib.util.find_spec(name) is None:
            pytest.fail(f"{name} is not installed; run: uv run nox -s clients, or install tests/clients/requirements.txt")

    return find


@pytest.fixture(scope="session")
def as_wav() -> Callable[..., bytes]:
    def pack(pcm: bytes, sample_rate_hz: int = 24_000) -> bytes:
        packed = io.BytesIO()
        with wave.open(packed, "wb") as file:
            file.setparams((1, 2, sample_rate_hz, 0, "NONE", ""))
            file.writeframes(pcm)
        return packed.getvalue()

    return pack


@pytest.fixture(scope="session")
def drop_in(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A gateway with every vendor's fake behind it, and the engine inside."""
    from tests.clients.gateway_pair import open_gateway_pair

    with open_gateway_pair(tmp_path_factory.mktemp("gateways")) as pair:
        yield pair


_results = Results()


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    if report.when == "call" or report.failed:
        _results.note(report.nodeid, report.passed)


def pytest_sessionfinish() -> None:
    if os.environ.get("GW_WRITE_MATRIX"):
        _results.write()
