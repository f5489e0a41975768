"""Connections of a database that are not in use, for threads that each need one at a time."""

from __future__ import annotations

import threading
from typing import Generic, Protocol, TypeVar


class Closable(Protocol):
    def close(self) -> object: ...


C = TypeVar("C", bound=Closable)


class IdleConnections(Generic[C]):
    """Used by several threads. A connection that is in use when they are closed is closed when it is given back."""

    def __init__(self) -> None:
        self._idle: list[C] = []
        self._lock = threading.Lock()
        self._closed = False

    def take(self) -> C | None:
        """Return a connection; None if there is none, and a new one is needed."""
        with self._lock:
            return self._idle.pop() if self._idle else None

    def give_back(self, connection: C, *, usable: bool = True) -> None:
        """Keep a connection for the next caller, or close it."""
        with self._lock:
            keep = usable and not self._closed
            if keep:
                self._idle.append(connection)
        if not keep:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
