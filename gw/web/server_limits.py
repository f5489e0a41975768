"""Limits of connections to clients: how long, how slow, how many."""

from __future__ import annotations

import msgspec

PIECE_BYTES = 262_144
"""A blocked write gets its deadline anew after each such piece: a large body needs 9 kB/s, not one deadline in all."""


class ServerLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Seconds on trio's clock, and counts."""

    head_s: float = 10.0
    """For a request head, from its first byte. A new connection without a byte is closed a little earlier, from the accept on."""
    body_idle_s: float = 30.0
    """Without one byte of a request body the app waits for."""
    body_rate: float = 100.0
    """Bytes per second a body must keep up on top of `body_idle_s`, counted only while the app waits for it."""
    idle_s: float = 75.0
    """Between two requests."""
    write_s: float = 30.0
    """For a client to take PIECE_BYTES."""
    max_connections: int = 10_000
