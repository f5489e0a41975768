from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest
import trio
from structlog.testing import capture_logs

from gw.net.service_manager import ServiceManager


@attrs.frozen
class Supervisor:
    """The receiving end of sd_notify(3): a datagram socket."""

    socket: socket.socket
    address: str

    def messages(self) -> list[list[str]]:
        """Return the messages that have arrived, as lists of lines."""
        received: list[list[str]] = []
        while True:
            try:
                received.append(self.socket.recv(4_096).decode().split("\n"))
            except BlockingIOError:
                return received


@pytest.fixture(params=["path", "abstract"])
def supervisor(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Supervisor]:
    name = f"gw-test-{os.getpid()}-{tmp_path.name}"
    address = str(tmp_path / "notify") if request.param == "path" else "@" + name
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as receiver:
        receiver.bind(address if request.param == "path" else "\0" + name)
        yield Supervisor(receiver, address)


def test_the_states_of_a_service(supervisor):
    manager = ServiceManager.from_environment({"NOTIFY_SOCKET": supervisor.address})
    manager.ready("serving at\nhttp://127.0.0.1:1")
    manager.reloading()
    manager.ready("serving")
    manager.stopping()
    first, reloading, again, stopping = supervisor.messages()
    assert first == ["READY=1", "STATUS=serving at http://127.0.0.1:1"]
    assert reloading[0] == "RELOADING=1"
    assert int(reloading[1].removeprefix("MONOTONIC_USEC=")) > 0
    assert again == ["READY=1", "STATUS=serving"]
    assert stopping == ["STOPPING=1", "STATUS=draining"]


async def test_signs_of_life_come_twice_in_the_time_allowed(supervisor, autojump_clock):
    env = {"NOTIFY_SOCKET": supervisor.address, "WATCHDOG_USEC": "30000000", "WATCHDOG_PID": str(os.getpid())}
    with trio.move_on_after(100):
        await ServiceManager.from_environment(env).keep_alive()
    assert supervisor.messages() == [["WATCHDOG=1"]] * 7


@pytest.mark.parametrize(
    "env",
    [
        {},
        {"NOTIFY_SOCKET": "", "WATCHDOG_USEC": "1000000"},
        {"NOTIFY_SOCKET": "vsock:2:1", "WATCHDOG_USEC": "1000000"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "0"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "soon"},
        {"NOTIFY_SOCKET": "/run/notify", "WATCHDOG_USEC": "1000000", "WATCHDOG_PID": "1"},
    ],
)
async def test_nobody_watches(env):
    await ServiceManager.from_environment(env).keep_alive()  # returns


def test_without_a_supervisor_nothing_is_sent():
    with capture_logs() as logs:
        ServiceManager.from_environment({}).ready("serving")
    assert logs == []


def test_a_supervisor_that_is_gone_is_logged(tmp_path):
    manager = ServiceManager.from_environment({"NOTIFY_SOCKET": str(tmp_path / "gone")})
    with capture_logs() as logs:
        manager.stopping()
    [line] = logs
    assert (line["event"], line["message"]) == ("service_manager_not_reached", "STOPPING=1")
