"""The commands on a real terminal: a table for people, colours only where they are wanted, and Ctrl-C."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable

import apsw
import pytest

from gw.store import migrations
from tests.cli.conftest import gateway_in

pytestmark = pytest.mark.process
ESCAPE = "\x1b"
DECORATION = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@pytest.fixture(scope="module")
def real_gateway(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gw")
    with gateway_in(folder) as running:
        running.chat()
        yield running, folder


class Terminal:
    """A command whose three streams are a pseudo-terminal, 120 columns wide."""

    def __init__(self, *args: str, folder, **env: str) -> None:
        self.master, side = pty.openpty()
        fcntl.ioctl(side, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        clean = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "FORCE_COLOR") and not k.startswith("GW_")}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "gw", *args],
            cwd=folder,
            env={**clean, "TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8", **env},
            stdin=side, stdout=side, stderr=side, close_fds=True, start_new_session=True,
        )  # fmt: skip
        os.close(side)
        self.text = ""

    def read_until(self, seen: Callable[[str], bool]) -> str:
        deadline = time.monotonic() + 60
        while not seen(self.text) and time.monotonic() < deadline:
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.text += os.read(self.master, 65_536).decode("utf-8", "replace")
                except OSError:  # Linux says so when the last writer is gone
                    break
        return self.text

    def end(self) -> tuple[int, str]:
        self.read_until(lambda _: False)
        os.close(self.master)
        return self.process.wait(60), self.text.replace("\r\n", "\n")


@pytest.mark.parametrize("command", ["models list", "costs", "logs", "status", "projects list", "latency", "top --once"])
def test_a_table_on_a_terminal_and_tabs_in_a_pipe(real_gateway, command):
    _, folder = real_gateway
    code, text = Terminal(*command.split(), folder=folder).end()
    assert code == 0, text
    assert "─" in text
    assert "\t" not in text
    piped = subprocess.run(
        [sys.executable, "-m", "gw", *command.split()], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert "─" not in piped.stdout
    assert ESCAPE not in piped.stdout
    assert "\t" in piped.stdout.splitlines()[0]


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_no_colour_where_none_is_wanted(real_gateway, env):
    _, folder = real_gateway
    code, text = Terminal("models", "list", folder=folder, **env).end()
    assert code == 0
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text), "a colour"
    assert "sim/echo" in text


def test_ctrl_c_ends_the_live_log(real_gateway):
    _, folder = real_gateway
    terminal = Terminal("logs", "-f", folder=folder)
    terminal.read_until(lambda text: "sim/echo" in text)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.end()
    assert code == 130
    assert "Traceback" not in text
    assert "Error" not in text


def test_ctrl_c_ends_top_and_the_screen_is_as_before(real_gateway):
    _, folder = real_gateway
    terminal = Terminal("top", "--every", "0.2", folder=folder)
    terminal.read_until(lambda text: "requests" in text)
    assert f"{ESCAPE}[?1049h" in terminal.text, "the other screen"
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.end()
    assert code == 130
    assert f"{ESCAPE}[?1049l" in text
    assert "Traceback" not in text


def test_ctrl_c_ends_a_status_that_watches(real_gateway):
    _, folder = real_gateway
    terminal = Terminal("status", "--watch", "0.2", folder=folder)
    terminal.read_until(lambda text: text.count("gateway") > 1)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.end()
    assert (code, "Traceback" in text) == (130, False)


def test_a_person_is_asked_before_something_is_deleted(real_gateway):
    _, folder = real_gateway
    created = subprocess.run(
        [sys.executable, "-m", "gw", "projects", "add", "app"], cwd=folder, capture_output=True, text=True, check=True
    )
    assert "added project app" in created.stderr
    terminal = Terminal("projects", "rm", "app", folder=folder)
    terminal.read_until(lambda text: "[y/N]" in text)
    os.write(terminal.master, b"y\n")
    code, text = terminal.end()
    assert code == 0, text
    assert "deleted project app" in DECORATION.sub("", text)


def test_online_checks_have_a_bar(real_gateway):
    _, folder = real_gateway
    _, text = Terminal("check", "--online", folder=folder).end()
    assert "testing providers" in text


def test_a_long_bill_has_a_bar(real_gateway):
    _, folder = real_gateway
    bill = folder / "bill.csv"
    bill.write_text("model,input_tokens,output_tokens,cost_usd\n" + "gpt-x,1,1,0.01\n" * 20_000)
    command = ["reconcile", "--provider", "openai", "--provider-usage-file", str(bill)]
    code, text = Terminal(*command, folder=folder).end()
    assert (code, "100%" in text) == (0, True), text
    assert "reading" in text
    piped = subprocess.run(
        [sys.executable, "-m", "gw", *command], cwd=folder, capture_output=True, text=True, check=True, timeout=60
    )
    assert "reading" not in piped.stdout + piped.stderr


def test_ctrl_c_ends_the_reading_of_a_bill(real_gateway):
    _, folder = real_gateway
    bill = folder / "long.csv"
    bill.write_text("model,input_tokens,output_tokens,cost_usd\n" + "gpt-x,1,1,0.01\n" * 1_000_000)
    terminal = Terminal("reconcile", "--provider", "openai", "--provider-usage-file", str(bill), folder=folder)
    terminal.read_until(lambda text: "1%" in text)
    terminal.process.send_signal(signal.SIGINT)
    code, text = terminal.end()
    assert (code, "Traceback" in text, "100%" in text) == (130, False, False), text


def test_an_upgrade_has_a_bar(tmp_path):
    path = tmp_path / "old.db"
    db = apsw.Connection(str(path))
    migrations.MIGRATIONS[0](db)
    db.pragma("application_id", migrations.APPLICATION_ID)
    db.pragma("user_version", 1)
    db.close()
    code, text = Terminal("db", "--db", str(path), "migrate", folder=tmp_path).end()
    assert code == 0, text
    assert "upgrading" in text
    assert "100%" in text
    assert f"schema 1 -> {migrations.VERSION}" in text
