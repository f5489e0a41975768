"""The store on PostgreSQL: `open_postgres_store` for a gateway, `open_postgres_readonly` for a command beside it.

The journal, the lock file and captured content stay in files of each gateway; `path` names them, as that of the database does where
the database is a file.
"""

from __future__ import annotations

import base64
import os
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import trio

from gw.store import lock
from gw.store.alert_channel import AlertChannel
from gw.store.commit_process import CommitProcess, CommitThread
from gw.store.committer import CommitExecutor, Committer
from gw.store.entity_rows import Change
from gw.store.journal import LIMIT_BYTES, Journal
from gw.store.journal_replay import noting, replayed_from, replayed_lines
from gw.store.owner_spend import SpendOfAll
from gw.store.postgres.alert_lead import AlertLead
from gw.store.postgres.pg_connection import named, translated
from gw.store.postgres.pg_database import PostgresRecords, PostgresTarget
from gw.store.postgres.pg_readers import PostgresReaders, PostgresSource
from gw.store.postgres.pg_schema import Progress
from gw.store.postgres.shared_changes import SharedChanges, entities_version
from gw.store.postgres.slot_rollups import owner_spend_of, spend_of
from gw.store.postgres.sum_versions import SumVersions
from gw.store.record_lines import encode_record
from gw.store.recovery import Replayed
from gw.store.report_process import ReportProcess
from gw.store.rollups import Spend
from gw.store.sqlite import prepare_folder
from gw.store.store import CLOSE_S, FIRST_PRUNE_S, ReadOnlyStore, Store, running
from gw.store.writer import Complete, OnCommitted, Writer
from gw.telemetry.clock import Clock
from gw.types.entities import Stored
from gw.types.secret import Secret
from gw.types.usage import RequestRecord

_TURNS_KEY = "turns_key"
_NOBODY: Mapping[str, object] = {}
LOCAL_FILES = "GW_DB_PATH"
"""Variable that names the files of one gateway."""


class PostgresStore(Store):
    """A store whose database other gateways may use, too."""

    shared: SharedChanges
    instance: str
    url: Secret
    _version: int | None = None

    async def spend_of_instance(self, day: int) -> dict[str, Spend]:
        return await self._readers.read(spend_of, day, self.instance)

    async def owner_spend_of_instance(self, day: int) -> SpendOfAll:
        return await self._readers.read(owner_spend_of, day, self.instance)

    async def entities(self) -> list[Stored]:
        """Return what was created through the API, by whichever gateway."""
        version = await self._readers.read(entities_version)
        stored = await super().entities()
        self.shared.known = max(version, self.shared.known)
        return stored

    async def turns_key(self) -> bytes:
        """Return the key with which the gateways of this database encrypt the words that they send to each other; make it if there is none.

        It keeps words from whoever can read the messages, but not the database. Raises DatabaseLocked, StoreUnavailable.
        """
        async with self.changing():  # two gateways must not make one each
            if (known := await self.meta(_TURNS_KEY)) is None:
                known = base64.b64encode(os.urandom(32)).decode()
                await self.change(Change(meta=((_TURNS_KEY, known),)))
        return base64.b64decode(known)

    def complete_by(self, complete: Complete) -> None:
        """Have `complete` return the lines of records when they are committed, with what has become known of them since."""
        self._writer.complete = complete

    def join(self, record: RequestRecord) -> None:
        """Write, soon, the turn of a record that was committed without it. Never blocks or raises."""
        self._writer.put_again(record.id, encode_record(record))

    @asynccontextmanager
    async def changing(self) -> AsyncIterator[bool]:
        async with self.shared.exclusively() as version:
            self._version = version
            try:
                yield version != self.shared.known
            finally:
                self._version = None

    async def change(self, change: Change) -> None:
        """Write a change; entities only in a block of `changing`, or without others that change them. Raises as `Store.change`."""
        if not (change.put or change.remove):
            await self.shared.apply(change, None)
        elif self._version is not None:
            await self.shared.apply(change, self._version)
        else:
            async with self.changing():
                await self.shared.apply(change, self._version)

    @asynccontextmanager
    async def alert_channel(self) -> AsyncIterator[AlertChannel]:
        """Yield this gateway's part in alerts; its session ends with the block."""
        lead = AlertLead(self.url, self.instance)
        try:
            yield lead
        finally:
            await lead.aclose()

    async def follow_changes(self, changed: Callable[[], Awaitable[None]]) -> None:
        await self.shared.follow(changed)

    @property
    def changes_lost(self) -> bool:
        return self.shared.lost


@asynccontextmanager
async def open_postgres_store(
    url: Secret, path: Path, *, instance: str, clock: Clock, durability: str = "crash", retention_days: int = 90,
    holder: Mapping[str, object] = _NOBODY, processes: bool = False, on_upgrade: Progress | None = None, spares: int = 0,
    journal_bytes: int = LIMIT_BYTES, on_committed: OnCommitted | None = None,
) -> AsyncIterator[Store]:  # fmt: skip
    """Lock the local files, connect, upgrade and replay, then yield the store; commit what is left on exit.

    `instance` names this gateway among those that use the database. See `gw.store.store.open_store`.

    Raises DatabaseLocked (another gateway uses these local files), DatabaseUnusable (an older server, a newer schema),
    StoreUnavailable.
    """
    path = prepare_folder(path)
    file_lock = await lock.acquire(path, started=clock.now(), facts=holder, setting=LOCAL_FILES)
    try:
        lines = replayed_lines(on_committed)
        database, replayed = await trio.to_thread.run_sync(_open, url, instance, path, on_upgrade, lines)
        if on_committed is not None and lines:
            on_committed(lines)
        executor: CommitExecutor
        if processes:
            await trio.to_thread.run_sync(database.close)  # the process that writes has a connection of its own
            executor = CommitProcess(PostgresTarget(url.reveal(), instance), retention_days, file_lock.fd)
        else:
            executor = CommitThread(Committer(database, retention_days))
        try:
            journal = Journal(path, spares=spares, limit_bytes=journal_bytes)
            writer = Writer(
                executor, journal=journal, clock=clock, power=durability == "power", first_prune_s=FIRST_PRUNE_S if processes else 0.0,
                on_committed=on_committed,
            )  # fmt: skip
            reports = ReportProcess(PostgresSource(url.reveal())) if processes else None
            store = PostgresStore(
                PostgresReaders(url), journal=journal, writer=writer, file_lock=file_lock, replayed=replayed, reports=reports,
                versions=SumVersions(),
            )  # fmt: skip
            store.shared, store.instance, store.url = SharedChanges(url), instance, url
            async with running(store, journal, writer, executor, reports):
                try:
                    yield store
                finally:
                    await store.shared.aclose()
        finally:
            with trio.move_on_after(CLOSE_S, shield=True):
                await executor.aclose()
    finally:
        file_lock.release()


def _open(
    url: Secret, instance: str, path: Path, on_upgrade: Progress | None, lines: deque[bytes]
) -> tuple[PostgresRecords, Replayed]:
    with translated(named(url)):
        database = PostgresRecords(url, instance, on_progress=on_upgrade)
        try:
            return database, replayed_from(path, noting(database.write, lines))
        except BaseException:
            database.close()
            raise


@asynccontextmanager
async def open_postgres_readonly(url: Secret) -> AsyncIterator[ReadOnlyStore]:
    """Open the database for reports, beside gateways or without one. Raises StoreUnavailable."""
    readers = PostgresReaders(url)
    store = ReadOnlyStore(readers)
    try:
        await readers.read(_nothing)
        yield store
    finally:
        store.close()


def _nothing(db: object) -> None:
    """Read nothing: a connection is made and its schema checked."""
