"""Notify systemd, or another supervisor with the protocol of sd_notify(3), that gw is ready, alive, reloading or stopping.

The supervisor names a datagram socket in the environment. Each message is one datagram of lines `NAME=value`.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping

import msgspec
import structlog
import trio

from gw.telemetry.clock import monotonic_us

_log = structlog.get_logger("gw.service_manager")


class ServiceManager(msgspec.Struct, frozen=True, kw_only=True):
    """The supervisor of this process. Without an address nothing is sent."""

    address: str = ""
    """Path of its socket; `@name` is one in Linux's abstract namespace."""
    watchdog_s: float | None = None
    """Time without a sign of life after which it restarts this process; None = it does not watch."""

    @classmethod
    def from_environment(cls, env: Mapping[str, str]) -> ServiceManager:
        """Return the supervisor that `NOTIFY_SOCKET`, `WATCHDOG_USEC` and `WATCHDOG_PID` describe.

        The variables reach child processes too: `WATCHDOG_PID` says who is meant.
        """
        address, limit = env.get("NOTIFY_SOCKET", ""), env.get("WATCHDOG_USEC", "")
        meant = env.get("WATCHDOG_PID", "") in ("", str(os.getpid()))
        watched = address[:1] in ("/", "@") and meant and limit.isascii() and limit.isdigit() and int(limit) > 0
        return cls(address=address if address[:1] in ("/", "@") else "", watchdog_s=int(limit) / 1e6 if watched else None)

    def send(self, *lines: str) -> None:
        """Send one message without blocking. A supervisor that does not take it is logged: it may end this process for it."""
        if not self.address:
            return
        address = "\0" + self.address[1:] if self.address[0] == "@" else self.address
        try:
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC) as sender:
                sender.sendto("\n".join(lines).encode(), address)
        except OSError as error:
            _log.warning("service_manager_not_reached", message=lines[0], why=str(error))

    def reloading(self) -> None:
        """Say that a reload begins; `ready` ends it."""
        self.send("RELOADING=1", f"MONOTONIC_USEC={monotonic_us()}", "STATUS=reading the configuration again")

    def ready(self, status: str) -> None:
        """Say that this process serves. `status` is a line that `systemctl status` shows."""
        self.send("READY=1", "STATUS=" + status.replace("\n", " "))

    def stopping(self) -> None:
        self.send("STOPPING=1", "STATUS=draining")

    async def keep_alive(self) -> None:
        """Send a sign of life from the event loop, twice in the time that the supervisor allows; return if it does not watch."""
        if self.watchdog_s is None:
            return
        while True:
            self.send("WATCHDOG=1")
            await trio.sleep(self.watchdog_s / 2)
