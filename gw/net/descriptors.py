"""The limit on files and sockets that this process may have open at once."""

from __future__ import annotations

import resource

PER_STREAM = 2  # the caller's connection and the vendor's
OTHERS = 200  # listeners, database, idle connections, uploads on disk, dashboards


def needed(streams: int) -> int:
    return PER_STREAM * streams + OTHERS


def ensure(count: int) -> int:
    """Raise the soft limit to `count`, as far as the hard limit allows; return the limit in force."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = count if hard == resource.RLIM_INFINITY else min(count, hard)
    if soft == resource.RLIM_INFINITY:
        return count
    if soft < most:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        except (OSError, ValueError):  # a system whose real limit is lower than the reported one
            return soft
        return most
    return soft
