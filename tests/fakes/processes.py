"""The processes that one has started, as the kernel lists them."""

from __future__ import annotations

import threading
import time
from pathlib import Path


def children(pid: int, module: str = "") -> list[int]:
    """Return the children of a process, of all its threads, whose command line has `module`."""
    listed = [child for path in Path(f"/proc/{pid}/task").glob("*/children") for child in path.read_text().split()]
    return [int(child) for child in listed if module.encode() in Path(f"/proc/{child}/cmdline").read_bytes()]


def wait_gone(pid: int, within_s: float = 60.0) -> None:
    """Wait, in a thread, until there is no such process."""
    deadline = time.monotonic() + within_s
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < deadline
        threading.Event().wait(0.01)
