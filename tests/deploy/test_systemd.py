"""The systemd unit in deploy/: the daemon speaks sd_notify(3), and `systemd-analyze` rates the unit."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conftest import program
from tests.e2e.conftest import Start, starter


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starter(tmp_path) as begin:
        yield begin


UNIT = Path(__file__).parents[2] / "deploy" / "gw.service"
TEXT = "providers: {sim: {}}\nmodels: {llm: [sim/echo]}\n"
HIGHEST_EXPOSURE = 3.0


@pytest.mark.process
def test_the_daemon_notifies_its_supervisor(tmp_path: Path, start: Start) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as supervisor:
        supervisor.bind(str(tmp_path / "notify"))
        supervisor.settimeout(60)

        def until(message: str) -> list[str]:
            """Return the messages up to `message`, each by its first line."""
            received: list[str] = []
            while message not in received:
                received.append(supervisor.recv(4_096).decode().partition("\n")[0])
            return received

        daemon = start(TEXT, NOTIFY_SOCKET=str(tmp_path / "notify"), WATCHDOG_USEC="200000")
        assert until("READY=1") == ["READY=1"]
        assert [*until("WATCHDOG=1"), *until("WATCHDOG=1")] == ["WATCHDOG=1"] * 2
        daemon.process.send_signal(signal.SIGHUP)
        assert set(until("RELOADING=1")) <= {"WATCHDOG=1", "RELOADING=1"}
        assert set(until("READY=1")) <= {"WATCHDOG=1", "READY=1"}
        (tmp_path / "gw.yaml").write_text("providers: [")
        daemon.process.send_signal(signal.SIGHUP)
        assert until("RELOADING=1")
        while not (message := supervisor.recv(4_096).decode()).startswith("READY=1"):
            assert message == "WATCHDOG=1"
        assert message == "READY=1\nSTATUS=the configuration is invalid; the one before it is in force"
        daemon.process.send_signal(signal.SIGTERM)
        assert set(until("STOPPING=1")) <= {"WATCHDOG=1", "STOPPING=1"}
        assert daemon.process.wait(60) == 0


def directives() -> list[tuple[str, str]]:
    lines = [line for line in UNIT.read_text().splitlines() if "=" in line and not line.startswith("#")]
    return [(name, value) for name, _, value in (line.partition("=") for line in lines)]


def test_the_unit_is_of_a_service_that_notifies_and_is_watched() -> None:
    unit = dict(directives())
    assert (unit["Type"], unit["NotifyAccess"], unit["Restart"]) == ("notify", "main", "on-failure")
    assert int(unit["WatchdogSec"]) >= 10
    assert unit["ExecStart"].endswith("gw serve")


@pytest.mark.needs_program("systemd-analyze")
def test_the_unit_gives_little_away() -> None:
    command = [program("systemd-analyze"), "security", "--offline=true", "--no-pager", str(UNIT)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    rating = re.search(r"Overall exposure level for gw\.service: ([0-9.]+)", ended.stdout)
    assert rating is not None, ended.stdout
    assert float(rating[1]) <= HIGHEST_EXPOSURE
    unknown = set(re.findall(r"Unknown key '(\w+)'", ended.stderr))
    assert unknown <= {"RestartSteps", "RestartMaxDelaySec"}  # systemd before 254
