"""Ports of loopback for programs that cannot be given port 0, or are away at first, which nobody else gets meanwhile."""

from __future__ import annotations

import random
import socket

_RANGE = range(12_000, 32_000)
"""Below the ports that the kernel gives to those who ask for port 0 and to outgoing connections."""


def free_port() -> int:
    """Return a port that nobody listens at. No other process that calls this gets it before this one ends."""
    while True:
        port = random.choice(_RANGE)
        reservation, probe = socket.socket(socket.AF_UNIX), socket.socket()
        with probe:
            try:
                reservation.bind(f"\0gw-test-port-{port}")  # an abstract name, which ends with its process
                probe.bind(("127.0.0.1", port))
            except OSError:
                reservation.close()
                continue
        reservation.detach()  # it stays open until this process ends
        return port
