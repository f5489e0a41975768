"""The processes that one has started, as the kernel lists them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path


def children(pid: int, module: str = "") -> list[int]:
    """Return the children of a process, of all its threads, whose command line has `module`."""
    listed = [child for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return [int(child) for child in listed if module.encode() in _command_line(child)]


def _command_line(pid: str) -> bytes:
    """Return b"" for a process that has ended since it was listed."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def state(pid: int) -> str:
    """Return the letter that `ps` shows: T stands still, Z has ended and nobody took note. "" for no process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def wait_gone(pid: int, within_s: float = 60.0) -> None:
    """Wait, in a thread, until there is no such process."""
    _wait_for(lambda: not Path(f"/proc/{pid}").exists(), within_s)


def wait_stopped(pid: int, within_s: float = 60.0) -> None:
    """Wait, in a thread, until a process that got SIGSTOP stands still: one that waits for the disk goes on for so long."""
    _wait_for(lambda: state(pid) == "T", within_s)


def _wait_for(condition: Callable[[], bool], within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
