"""A real Valkey or Redis server of Debian's package, for as long as a test needs it."""

from __future__ import annotations

import shutil
import signal
import socket
import subprocess
import threading
import time
from pathlib import Path

from tests.fakes.ports import free_port

PROGRAMS = ("valkey-server", "redis-server")


def program() -> str | None:
    """Return the server's path; None where none is installed (Debian package: redis-server)."""
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


class ValkeyServer:
    """Keeps nothing on disk: a restart loses all, as a server without persistence does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.port = free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"valkey://127.0.0.1:{self.port}"

    def start(self) -> None:
        path = program()
        assert path is not None, "neither valkey-server nor redis-server is installed: apt-get install redis-server"
        command = [path, "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", str(self._folder)]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 60
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            assert time.monotonic() < deadline
            threading.Event().wait(0.02)

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def command(self, *words: str | bytes) -> str:
        """Return the answer to a command that is answered with one text or number, such as `ZSCORE` or `ZREM`."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(b" ".join(word if isinstance(word, bytes) else word.encode() for word in words) + b"\r\n")
            with connection.makefile("rb") as answer:
                head = answer.readline()
                if head.startswith(b":"):
                    return head[1:].strip().decode()
                assert head.startswith(b"$"), head
                return answer.read(int(head[1:])).decode()

    def freeze(self) -> None:
        """Stop it as a hanging machine would: connections stay open, and nothing answers."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
