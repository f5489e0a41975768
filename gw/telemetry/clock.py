"""The only reader of wall time. Durations come from `trio.current_time()`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Protocol

DAY_S = 86_400


class Clock(Protocol):
    def now(self) -> float:
        """Return Unix seconds."""
        ...


class SystemClock:
    now = staticmethod(time.time)


def utc_day(now: float) -> int:
    """Return days since 1970-01-01 UTC."""
    return int(now // DAY_S)


def utc_hour(now: float) -> int:
    """Return hours since 1970-01-01 UTC."""
    return int(now // 3600)


_IMPORTED_AT = time.monotonic()


def process_age_s() -> float:
    """Return seconds since this process was started, or since this module was imported if the kernel does not report it."""
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
        return time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    except (OSError, AttributeError, IndexError, ValueError):
        return time.monotonic() - _IMPORTED_AT
