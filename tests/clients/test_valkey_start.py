"""`gw serve` with a fleet's server that cannot be used: one error with its line, and no start, because no limit would hold."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from tests.fakes.ports import free_port
from tests.fakes.valkey_server import ValkeyServer

pytestmark = pytest.mark.clients

MAJOR = re.compile(rb"((?:redis|valkey)_version:)\d+")


@contextmanager
def as_version_6(port: int) -> Iterator[int]:
    """Yield the port of a proxy before the server, in whose answers it has another version of the same length."""
    with ExitStack() as opened, socket.create_server(("127.0.0.1", 0)) as listener:

        def copy(source: socket.socket, target: socket.socket) -> None:
            with suppress(OSError):
                while data := source.recv(65_536):
                    target.sendall(MAJOR.sub(rb"\g<1>6", data))
                target.shutdown(socket.SHUT_WR)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    near = opened.enter_context(listener.accept()[0])
                    far = opened.enter_context(socket.create_connection(("127.0.0.1", port)))
                    for ends in ((near, far), (far, near)):
                        threading.Thread(target=copy, args=ends, daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


def start(folder, port: int, workers: str) -> subprocess.CompletedProcess[str]:
    text = f"providers: {{sim: {{}}}}\nmodels: {{llm: [sim/echo]}}\nfleet:\n  valkey: valkey://127.0.0.1:{port}\n"
    (folder / "gw.yaml").write_text(text)
    command = [sys.executable, "-m", "gw", "serve", "--port", "0", "--workers", workers]
    env = {**os.environ, "GW_DB_PATH": str(folder / "gw.db")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


def check(done: subprocess.CompletedProcess[str], why: str) -> None:
    assert done.returncode != 0
    assert "gw.yaml:4:" in done.stderr
    assert why in done.stderr
    assert done.stderr.count("gw.yaml:") == 1
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_server_that_is_not_there_is_one_error(tmp_path, workers):
    port = free_port()
    check(start(tmp_path, port, workers), f"127.0.0.1:{port} cannot be used")


@pytest.mark.parametrize("workers", ["1", "2"])
def test_an_older_server_is_one_error_that_says_which_version_it_has(tmp_path, workers):
    server = ValkeyServer(tmp_path)
    try:
        with as_version_6(server.port) as port:
            check(start(tmp_path, port, workers), "and gw needs 7 or later")
    finally:
        server.kill()
