"""Ports for programs that must be given a number. A test's own listeners bind port 0 instead."""

from __future__ import annotations

import os
import random
import socket

_PORTS = range(10_000, 30_000)
"""Systems take others for connections and for port 0 (Linux: from 32,768), so no connection of another test gets one meanwhile."""
_chance = random.Random(os.urandom(16))


def free_port() -> int:
    """Return a port of 127.0.0.1 on which nothing listens. It stays free for a program that starts a moment later, or anew."""
    while True:
        port = _chance.choice(_PORTS)
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        return port
