"""`gw` as a process on loopback, as its users run it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import attrs
import pytest

STARTS_WITHIN_S = 120.0
URL = re.compile(r"API\s+(https?://\S+)/v1")


@attrs.define
class Daemon:
    """A running `gw serve`. `log` is what it wrote to stderr, where everything but data goes."""

    process: subprocess.Popen[str]
    url: str
    output: list[str]
    reader: threading.Thread
    grew: threading.Condition

    def stop(self, number: int = signal.SIGTERM, within_s: float = 60.0) -> int:
        """Signal it, wait for its end and return its exit code."""
        self.process.send_signal(number)
        return self.process.wait(within_s)

    def text(self) -> str:
        return "".join(self.output)

    def wait_for(self, pattern: str, within_s: float = 60.0) -> re.Match[str]:
        """Return the match of `pattern` in the log: its lines are written by a thread, perhaps after "ready in" was."""
        until = time.monotonic() + within_s
        with self.grew:
            while not (match := re.search(pattern, self.text())):
                if not self.grew.wait(until - time.monotonic()):
                    raise AssertionError(f"no {pattern!r} within {within_s} s in:\n{self.text()}")
        return match


def launch(*arguments: str, folder: Path, **env: str) -> Daemon:
    """Start `gw serve ARGUMENTS --port 0` in `folder` and wait until it says where it listens."""
    process = subprocess.Popen(
        [sys.executable, "-m", "gw", "serve", *arguments, "--port", "0"],
        cwd=folder,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    output: list[str] = []
    listening = threading.Event()
    grew = threading.Condition()
    urls: list[str] = []

    def read() -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                with grew:
                    output.append(line)
                    grew.notify_all()
                if not urls and (match := URL.search(line)):
                    urls.append(match[1])
                if "ready in" in line:
                    listening.set()
        listening.set()

    reader = threading.Thread(target=read)
    reader.start()
    if not listening.wait(STARTS_WITHIN_S) or not urls or process.poll() is not None:
        process.kill()
        process.wait()
        reader.join()
        raise AssertionError("gw serve did not start:\n" + "".join(output))
    return Daemon(process, urls[0], output, reader, grew)


def compiled_once(folder: Path) -> dict[str, str]:
    """Return the environment of a gateway with several processes, which then compile each module once, also where tests keep nothing."""
    return {"PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(folder.parent / "compiled")}


Start = Callable[..., Daemon]


@contextlib.contextmanager
def starter(folder: Path) -> Iterator[Start]:
    """`start()` runs the demo, `start(text)` a gw.yaml, both with a database in `folder`; all are ended afterwards."""
    running: list[Daemon] = []

    def start(text: str | None = None, *arguments: str, **env: str) -> Daemon:
        if text is None:
            daemon = launch("--demo", *arguments, folder=folder, **env)
        else:
            (folder / "gw.yaml").write_text(text)
            daemon = launch(*arguments, folder=folder, GW_CONFIG=str(folder / "gw.yaml"), **{"GW_DB_PATH": str(folder / "gw.db"), **env})
        running.append(daemon)
        return daemon

    try:
        yield start
    finally:
        for daemon in running:
            if daemon.process.poll() is None:
                daemon.process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    daemon.process.wait(20)
            if daemon.process.poll() is None:
                daemon.process.kill()
                daemon.process.wait()
            daemon.reader.join()
    for daemon in running:
        assert "Traceback" not in daemon.text(), daemon.text()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with starter(tmp_path) as begin:
        yield begin


@pytest.fixture(scope="module")
def start_for_module(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    with starter(tmp_path_factory.mktemp("gw")) as begin:
        yield begin
