"""The room for records that wait for the database, divided among the processes of a gateway."""

from __future__ import annotations

import pytest

from gw.store.journal import LEAST_BYTES
from gw.store.journal_use import JournalUse
from gw.store.store import open_store
from gw.types.worker_state import WorkerFigures, WorkerState
from tests.fakes.records import HandClock, intent


def worker(**figures: object) -> WorkerState:
    return WorkerState(worker=1, pid=1, state="serving", starts=1, figures=WorkerFigures(**figures))


@pytest.fixture
async def store(tmp_path):
    async with open_store(tmp_path / "gw.db", clock=HandClock(), journal_bytes=60_000_000) as opened:
        yield opened


async def test_each_process_has_an_equal_part(store):
    journals = JournalUse(store, tuple, 60_000_000)
    assert store.journal_limit == 60_000_000
    journals.divide(3)
    assert (store.journal_limit, journals.limit_bytes) == (20_000_000, 60_000_000)
    journals.limit(90_000_000)
    assert store.journal_limit == 30_000_000
    journals.divide(1_000)  # what a journal needs at least
    assert store.journal_limit == LEAST_BYTES


async def test_what_all_processes_hold(store):
    workers = [worker(records_waiting=2, journal_bytes=1_500), worker(records_waiting=3, journal_bytes=2_500)]
    journals = JournalUse(store, lambda: workers, 60_000_000)
    store.intent(intent())
    assert journals.records_waiting == 5
    assert journals.bytes == 4_000 + store.journal_bytes > 4_000
    assert journals.keeps_records
    workers.append(worker(keeps_records=False))
    assert not journals.keeps_records
