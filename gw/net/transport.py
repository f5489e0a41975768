"""Carry the bytes of a connection: the interface of TCP and TLS here, and of streams in memory in tests."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Final

import trio

from gw.net import poller
from gw.types.compiled import mypyc_attr
from gw.types.pending import Pending

READ_BYTES: Final = 65_536

LOST: Final = (OSError, trio.BrokenResourceError, trio.ClosedResourceError)
"""Raised by a transport whose connection is gone."""

Address = tuple[str, int]


@mypyc_attr(allow_interpreted_subclasses=True)
class Transport(ABC):
    """A byte stream that can also be checked and dropped without waiting. Lost connections raise one of `LOST`."""

    __slots__ = ()

    @property
    def tls(self) -> bool:
        """Return whether the peer's bytes are encrypted on their way to this machine."""
        return False

    @property
    def descriptor(self) -> int | None:
        """Return the file descriptor of a plain socket; None where bytes pass through something else."""
        return None

    def addresses(self) -> tuple[Address | None, Address | None]:
        """Return those of the peer and of this side, as ASGI wants them; None for what is not an internet address."""
        return None, None

    @abstractmethod
    async def send_all(self, data: bytes | bytearray | memoryview) -> None:
        """Send all of `data`."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close at once, and let other tasks have their turn. Idempotent."""

    @abstractmethod
    async def receive_some(self, max_bytes: int | None = None) -> bytes:
        """Return at least one byte, or b"" when the peer has finished sending."""

    @abstractmethod
    def abort(self) -> None:
        """Close at once. Idempotent."""

    def reset(self) -> None:
        """Close at once, so that the peer sees a broken connection and not an end. Idempotent."""
        self.abort()

    def is_stale(self) -> bool:
        """Return whether an idle connection has been closed, or has unexpected bytes. Never blocks."""
        return False

    def has_arrived(self) -> bool:
        """Return whether the kernel has bytes, or the end of the stream, that were not read yet. Never blocks."""
        return False

    def send_now(self, data: bytes | bytearray | memoryview) -> int:
        """Send what the kernel takes without waiting; return how many bytes that was. Raises one of `LOST`."""
        return 0

    def send_or_pending(self, data: bytes) -> Pending:
        """Send like `send_all`, as far as that needs no waiting. Raises one of `LOST`."""
        return self.send_all(data)

    async def send_eof(self) -> None:
        """Finish sending where the transport can do that alone, as TLS cannot; else only let other tasks have their turn."""
        await trio.lowlevel.checkpoint()

    def receive_now(self, max_bytes: int = READ_BYTES) -> bytes | None:
        """Return what has already arrived; None when nothing has, b"" at the end of the stream. Raises one of `LOST`."""
        return None

    async def receive_arrived(self, max_bytes: int) -> bytes | None:
        """Let other tasks have their turn, then return what has arrived already, as `receive_now` does."""
        return None

    def reading_by(self, _polled: poller.Poller) -> poller.Reading | None:
        """Return what reads a plain socket by callbacks; None where bytes pass through something else."""
        return None

    async def for_each_piece(self, take: Callable[[bytes], Pending]) -> Pending:
        """Call `take` with what arrives until it returns something to wait for, and return that; None at the end.

        On a plain socket the poller calls `take`, which must then neither wait nor need a task of its own.
        """
        return await poller.each_by_task(self.receive_some, take)
