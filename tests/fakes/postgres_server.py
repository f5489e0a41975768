"""A real PostgreSQL server of Debian's package, for as long as tests need it, with a database for each of them."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import psycopg

from tests.fakes.ports import free_port

_UNPRIVILEGED = "postgres"
"""Account of Debian's package: the server refuses to run as root."""
_SETTINGS = ("fsync=off", "full_page_writes=off", "max_connections=200", "shared_buffers=64MB", "log_min_messages=fatal")


def programs() -> Path | None:
    """Return the folder of the newest server's programs; None where none is installed (Debian package: postgresql)."""
    versions = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(versions, key=lambda path: int(path.parent.name), default=None)


class PostgresServer:
    """Keeps its files in a folder of its own, so that a restart finds them again."""

    def __init__(self) -> None:
        found = programs()
        assert found is not None, "no PostgreSQL server is installed: apt-get install postgresql"
        self._programs = found
        self._folder = Path(tempfile.mkdtemp(prefix="gw-postgres-"))
        self._numbers = count(1)
        self.port = free_port()
        if os.getuid() == 0:
            account = pwd.getpwnam(_UNPRIVILEGED)
            os.chown(self._folder, account.pw_uid, account.pw_gid)
            self._as: dict[str, Any] = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        else:
            self._as = {}
        options = ("-U", "gw", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "--no-sync")
        self._run("initdb", "-D", str(self._data), *options)
        self._process: subprocess.Popen[bytes] | None = None
        self._watcher: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def _data(self) -> Path:
        return self._folder / "data"

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(self._programs / program), *arguments]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd="/", **self._as)

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://gw@127.0.0.1:{self.port}/{database}"

    def start(self) -> None:
        options = [part for setting in _SETTINGS for part in ("-c", setting)]
        command = [str(self._programs / "postgres"), "-D", str(self._data), "-p", str(self.port), "-k", str(self._folder), *options]
        self._process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd="/", **self._as)
        self._watch(self._process.pid)
        deadline = time.monotonic() + 60
        while True:
            try:
                psycopg.connect(self.url(), connect_timeout=5).close()
            except psycopg.OperationalError:
                assert time.monotonic() < deadline
                threading.Event().wait(0.02)
            else:
                return

    def _watch(self, pid: int) -> None:
        """Have the server ended, and its files removed, when this process is gone: then nobody holds the pipe's other end."""
        program = 'read line; kill -QUIT "$1"; while kill -0 "$1" 2>/dev/null; do sleep 0.1; done; rm -rf "$2"'
        command = ["sh", "-c", program, "sh", str(pid), str(self._folder)]
        self._watcher = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, cwd="/")

    def stop(self) -> None:
        """End all connections and the server, as `pg_ctl stop -m fast` does."""
        self._end(signal.SIGINT)

    def crash(self) -> None:
        """End the server in the middle of everything: its next start recovers."""
        self._end(signal.SIGQUIT)

    def _end(self, number: signal.Signals) -> None:
        process, watcher = self._process, self._watcher
        self._process = self._watcher = None
        if watcher is not None:
            assert watcher.stdin is not None
            watcher.kill()
            watcher.wait()
            watcher.stdin.close()
        if process is not None:
            process.send_signal(number)
            process.wait()

    def freeze(self) -> None:
        """Stop all processes of the server as a hanging machine would: connections stay open, and nothing answers."""
        postmaster = self._postmaster()
        os.kill(postmaster, signal.SIGSTOP)
        self._wait_until_stopped(postmaster)
        for child in self._children():
            os.kill(child, signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the children first: while the postmaster is stopped, it reaps no child whose id has just been read."""
        for child in self._children():
            os.kill(child, signal.SIGCONT)
        os.kill(self._postmaster(), signal.SIGCONT)

    def _postmaster(self) -> int:
        assert self._process is not None
        return self._process.pid

    def _children(self) -> list[int]:
        postmaster = self._postmaster()
        return [int(pid) for pid in Path(f"/proc/{postmaster}/task/{postmaster}/children").read_text().split()]

    def _wait_until_stopped(self, pid: int) -> None:
        """Return when the process forks and reaps no more: a signal takes effect only when the process next runs."""
        deadline = time.monotonic() + 10
        while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
            assert time.monotonic() < deadline
            threading.Event().wait(0.001)

    def execute(self, sql: str, database: str = "postgres") -> list[Any]:
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(sql)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def database(self) -> Iterator[str]:
        """Yield the address of a new, empty database."""
        name = f"test_{next(self._numbers)}"
        self.execute(f"create database {name}")
        yield self.url(name)
        self.execute(f"drop database {name} with (force)")

    def remove(self) -> None:
        self.stop()
        shutil.rmtree(self._folder, ignore_errors=True)
