"""The store of a worker process: a journal of its own; the records go to the process that has the database."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import islice
from pathlib import Path
from typing import cast

import structlog
import trio

from gw.errors import StoreUnavailable
from gw.store import entity_rows, worker_journals
from gw.store.batches import BATCH
from gw.store.disk import why
from gw.store.journal import Journal
from gw.store.reader_pool import SqliteReaders
from gw.store.record_lines import encode_record
from gw.store.record_sender import RecordSender, SentBatch
from gw.store.store import CLOSE_S, Reader, Store
from gw.store.writer import Writer
from gw.telemetry.clock import Clock
from gw.types.usage import Intent, RequestRecord

SPARES = 4
"""Spare segments of a worker: 4 MB are about 5,000 records."""

log = structlog.get_logger()


class WorkerStore(Store):
    """Writes intents and records as `Store` does. It has no database: what only the keeper can do raises StoreUnavailable."""

    starting = False

    def __init__(self, database: Path, clock: Clock, journal: Journal, sender: RecordSender) -> None:
        Reader.__init__(self, SqliteReaders(database, clock))
        self._journal = journal
        self._writer = cast("Writer", sender)  # `intent` and `finish` use what both have
        self.sender = sender
        self.commits_first = sender.commits_first
        self.watcher = None

    def intent(self, intent: Intent) -> None:
        """Write an intent, as `Store` does."""
        super().intent(intent)
        if self.sender.sends_intents:
            self.sender.wake()

    async def catch_up(self) -> None:
        await self.sender.flush()

    async def change(self, change: entity_rows.Change) -> None:
        """Raise StoreUnavailable."""
        raise StoreUnavailable(what="a worker process cannot change the database")


@asynccontextmanager
async def open_worker_store(
    database: Path, journal_path: Path, clock: Clock, send: Callable[[SentBatch], bool], *, power: bool
) -> AsyncIterator[WorkerStore]:
    """Lock and open the journal, and yield the store; on exit, wait until all records are committed, for CLOSE_S at most.

    What is not committed then stays in the journal. Raises StoreUnavailable, OSError (the lock).
    """
    lock = worker_journals.hold(journal_path)
    try:
        journal = Journal(journal_path, spares=SPARES)
        store = WorkerStore(database, clock, journal, RecordSender(journal, send, power=power))
        async with trio.open_nursery() as nursery:
            nursery.start_soon(store.sender.run)
            try:
                yield store
            finally:
                with trio.move_on_after(CLOSE_S, shield=True):
                    await store.sender.flush()
                if store.sender.depth:
                    log.warning("usage_records_left_in_journal", records=store.sender.depth, why=store.sender.trouble)
                store.close()
                nursery.cancel_scope.cancel()
        journal.close()
    finally:
        os.close(lock)


async def adopt(
    store: Store, journal: Path, after: tuple[int, int], note: Callable[[Sequence[RequestRecord]], None],
    complete: Callable[[RequestRecord], RequestRecord],
) -> None:  # fmt: skip
    """Commit what a worker that has ended has left in its journal, and remove that. Calls `note` with the new records.

    `complete` returns a record with what its worker could not know. `after`: segment and offset up to which the worker has passed
    on its records. Raises StoreUnavailable for a disk that cannot be
    read; the journal then stays for the next start.
    """
    records = worker_journals.read_left(journal, after)
    try:
        while batch := await trio.to_thread.run_sync(lambda: list(islice(records, BATCH))):
            note(batch)
            await store.add((record, encode_record(record)) for record in map(complete, batch))
        await trio.to_thread.run_sync(worker_journals.remove, journal)
    except OSError as error:
        raise StoreUnavailable(what=f"cannot take over the journal of a worker process: {why(error, journal)}") from error
