"""The journals of all processes of a gateway: how large they are, and how large they may be."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gw.store.store import Store
from gw.types.worker_state import WorkerState


class JournalUse:
    """Divides `limit_bytes` equally among the journals, and adds up what is in them."""

    def __init__(self, store: Store, workers: Callable[[], Sequence[WorkerState]], limit_bytes: int) -> None:
        """`store`: of this process, whose journal has this limit; `workers`: returns the other processes."""
        self._store = store
        self._workers = workers
        self.limit_bytes = limit_bytes
        self.processes = 1
        """Processes that have a journal."""

    def limit(self, limit_bytes: int) -> None:
        """Set the limit of all journals together."""
        self.limit_bytes = limit_bytes
        self._store.limit_journal(limit_bytes // self.processes)

    def divide(self, processes: int) -> None:
        """Let this process use one of so many parts."""
        self.processes = processes
        self.limit(self.limit_bytes)

    @property
    def bytes(self) -> int:
        return self._store.journal_bytes + sum(worker.figures.journal_bytes for worker in self._workers())

    @property
    def records_waiting(self) -> int:
        """Return the number of finished records that are not in the database."""
        return self._store.queue_depth + sum(worker.figures.records_waiting for worker in self._workers())

    @property
    def keeps_records(self) -> bool:
        """Return False while a record could be lost, because a journal is full or cannot be written."""
        return self._store.accepting and all(worker.figures.keeps_records for worker in self._workers())
