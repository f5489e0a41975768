"""Gateways as processes, hundreds of them: forked from one process that has imported all of gw, which takes a second each time.

A forked one runs `gw serve` from its first line, with its own log file. `python -m tests.fakes.fork_server` is that process; it reads a
JSON line for each gateway to start (folder, arguments, environment) and answers with its process id.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import attrs

from tests.fakes.ports import free_port

ROOT = Path(__file__).parents[2]
_MODULES = (
    "gw.cli.serve_command", "gw.serve", "gw.store.report_process", "gw.dialects.data_plane", "gw.providers.openai", "gw.providers.sim",
    "gw.providers.kokoro",
)  # fmt: skip
_READY = "ready\n"


@attrs.define
class Forked:
    """A gateway. It is no child of this process, so it is awaited by a descriptor of its process."""

    pid: int
    url: str
    log: Path
    handle: int
    """-1: it has ended."""

    def kill(self, number: int = signal.SIGKILL, within_s: float = 60.0) -> None:
        """Signal it and wait for its end."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)
        ended, _, _ = select.select([self.handle], [], [], within_s)
        assert ended, f"it did not end: {self.log.read_text()[-2000:]}"
        os.close(self.handle)
        self.handle = -1


class ForkServer:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._started: list[Forked] = []

    def start(self, folder: Path, text: str, within_s: float = 60.0, **more: str) -> Forked:
        """Start a gateway with this gw.yaml and a database in `folder`; return once it accepts connections. `more`: its environment."""
        (folder / "gw.yaml").write_text(text)
        port, log = free_port(), folder / "gw.log"
        env = {"GW_CONFIG": str(folder / "gw.yaml"), "GW_DB_PATH": str(folder / "gw.db"), "GW_LOG_LEVEL": "warning", **more}
        order = {"folder": str(folder), "arguments": ["serve", "--port", str(port)], "env": env, "log": str(log)}
        began = time.monotonic()
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        handle = os.pidfd_open(pid)
        started = Forked(pid, f"http://127.0.0.1:{port}", log, handle)
        self._started.append(started)
        while not _accepts(port):
            gone, _, _ = select.select([handle], [], [], 0.002)
            assert not gone, log.read_text()[-2000:]
            assert time.monotonic() < began + within_s, log.read_text()[-2000:]
        return started

    def stop(self) -> None:
        for started in self._started:
            if started.handle >= 0:
                started.kill()


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


@contextmanager
def fork_server(**env: str) -> Iterator[ForkServer]:
    """`env`: variables for the gateways, beside those of this process. All that runs is killed at the end."""
    command = [sys.executable, "-m", "tests.fakes.fork_server"]
    variables = {**os.environ, "NO_COLOR": "1", **env}
    variables["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [variables.get("PYTHONPATH", "")])])
    with subprocess.Popen(command, cwd=ROOT, env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        server = ForkServer(process)
        assert process.stdout is not None
        assert process.stdout.readline() == _READY  # it has imported all, which belongs to no gateway's start
        try:
            yield server
        finally:
            server.stop()
            assert process.stdin is not None
            process.stdin.close()


def _become(order: dict[str, object]) -> None:
    """Run the command line in this process, which was just forked."""
    log = os.open(str(order["log"]), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    null = os.open(os.devnull, os.O_RDONLY)
    for descriptor, source in ((0, null), (1, log), (2, log)):
        os.dup2(source, descriptor)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    os.chdir(str(order["folder"]))
    os.environ.update(order["env"])  # type: ignore[arg-type]
    from gw.cli.main import main

    main(order["arguments"])


def _serve_forks() -> None:
    for module in _MODULES:
        __import__(module)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for them here
    print(_READY, end="", flush=True)
    for line in sys.stdin:
        pid = os.fork()
        if not pid:
            try:
                _become(json.loads(line))
            finally:
                os._exit(70)
        print(pid, flush=True)


if __name__ == "__main__":
    _serve_forks()
