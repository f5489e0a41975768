"""Limits and tuning of a whole process: file descriptors, turns of threads, garbage collection, freed memory."""

from __future__ import annotations

import ctypes
import gc
import resource
import sys

import structlog

_SWITCH_S = 0.001
"""The record writer's thread must not keep the interpreter from the event loop for Python's usual 5 ms."""

PER_STREAM = 2  # the caller's connection and the vendor's
_FEWEST_STREAMS = 8
OTHERS = 200  # listeners, database, idle connections, uploads on disk, dashboards
_YOUNG_OBJECTS = 20_000
"""Allocations minus deallocations before the collector examines the young objects. Requests free theirs by reference count;
Python's usual 700 makes it walk through running requests again and again, for 5 % of the time."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3  # malloc.h of glibc
_KEPT_BYTES = 8_388_608
"""Freed memory that stays with the process. A recording arrives in pieces that are freed together; given back and fetched again for
each recording, with a page fault every 4 kB, they cost as much as copying them."""
_MAPPED_BYTES = 4_194_304  # larger blocks are memory of their own, which goes back at once

_log = structlog.get_logger("gw.serve")


def tune_interpreter() -> None:
    """Set how often threads take turns, when garbage is collected and what freed memory is kept, for the whole process."""
    sys.setswitchinterval(_SWITCH_S)
    gc.freeze()  # modules and settings live as long as the process: no need to examine them again
    gc.set_threshold(_YOUNG_OBJECTS)
    gc.enable()
    keep_freed_memory()


def keep_freed_memory() -> None:
    """Have the C library keep the process's freed memory, up to _KEPT_BYTES."""
    if (mallopt := getattr(ctypes.PyDLL(None), "mallopt", None)) is not None:  # glibc
        mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
        mallopt(_M_MMAP_THRESHOLD, _MAPPED_BYTES)


def allow_streams(max_in_flight: int) -> int:
    """Raise the limit of file descriptors to two a stream, as far as it goes, and return it."""
    wanted = descriptors_needed(max_in_flight)
    allowed = ensure_descriptors(wanted)
    if allowed < wanted:
        streams = streams_possible(allowed)
        _log.warning("few_file_descriptors", allowed=allowed, wanted=wanted, max_in_flight=max_in_flight, in_flight_now=streams)
    return allowed


def streams_possible(descriptors: int) -> int:
    """Return how many streams fit: more would be accepted and then have no descriptor for their vendor."""
    return max(_FEWEST_STREAMS, (descriptors - OTHERS) // PER_STREAM)


def connections_possible(descriptors: int) -> int:
    """Return how many connections of callers, idle ones included, leave a descriptor for the vendor of each stream."""
    return max(2 * _FEWEST_STREAMS, descriptors - OTHERS // 2 - streams_possible(descriptors))


def descriptors_needed(streams: int) -> int:
    return PER_STREAM * streams + OTHERS


def ensure_descriptors(count: int) -> int:
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
