"""A database that is read-only, damaged, locked or slow while the gateway runs: requests go on, it is said, and no record is lost."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
import trio

from gw.errors import DatabaseLocked
from tests.contract.test_lost_database import YAML, becomes, chat, logged, stores
from tests.fakes.power_cut import Disk
from tests.fakes.running import open_running
from tests.fakes.temporary_gateway import SetClock

ALONE = """
import sys, apsw
db = apsw.Connection(sys.argv[1])
list(db.execute("pragma locking_mode = exclusive; begin immediate; create table held (a)"))
print("held", flush=True)
sys.stdin.read()
"""
"""A program that keeps readers out, too."""


@asynccontextmanager
async def on_disk(folder: Path, on_write: Callable[[str], None], text: str = YAML) -> AsyncIterator[tuple[Any, Path]]:
    """Run a gateway whose database is on a disk that `on_write` may let fail or wait."""
    disk = Disk(on_write)
    try:
        async with open_running(folder, text, SetClock()) as running:
            yield running, running.gateway.settings.cost_tracking.db_path
    finally:
        disk.unregister()


class Fault:
    """Raises `error` at each write to the database while it is set."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def __call__(self, name: str) -> None:
        if self.error is not None:
            raise self.error


async def test_a_database_that_becomes_read_only_or_fails_gets_the_records_later(tmp_path, mock_clock):
    for n, error in enumerate((apsw.ReadOnlyError(), apsw.IOError(), apsw.CorruptError())):
        folder, fault = tmp_path / str(n), Fault()
        folder.mkdir()
        async with on_disk(folder, fault) as (running, _):
            ids = [await chat(running)]
            await stores(running)
            fault.error = error
            ids += [await chat(running) for _ in range(3)]
            await becomes(running, mock_clock, "degraded")
            ids.append(await chat(running))
            fault.error = None
            await becomes(running, mock_clock, "ok")
            assert await logged(running) == set(ids)


async def test_what_a_read_only_database_did_not_take_is_there_after_a_restart(tmp_path, mock_clock, monkeypatch):
    monkeypatch.setattr("gw.store.store.CLOSE_S", 0.0)
    fault = Fault()
    async with on_disk(tmp_path, fault) as (running, _):
        ids = [await chat(running)]
        await stores(running)
        fault.error = apsw.ReadOnlyError()
        ids += [await chat(running) for _ in range(3)]
        await becomes(running, mock_clock, "degraded")
    async with open_running(tmp_path, YAML, SetClock()) as running:
        await stores(running)
        assert await logged(running) == set(ids)


async def test_a_foreign_lock_delays_no_answer(tmp_path, mock_clock):
    async with open_running(tmp_path, YAML, SetClock()) as running:
        ids = [await chat(running)]
        await stores(running)
        other = apsw.Connection(str(running.gateway.settings.cost_tracking.db_path))
        other.set_busy_timeout(5_000)
        other.execute("begin immediate")
        ids += [await chat(running) for _ in range(3)]
        other.close()
        await stores(running)
        assert await logged(running) == set(ids)


async def test_a_slow_disk_delays_answers_with_durability_power_only(tmp_path):
    """The disk finishes no sync before it is let go on."""
    for durability in ("crash", "power"):
        slow, syncing, goes_on = threading.Event(), threading.Event(), threading.Event()
        syncs: list[str] = []
        folder = tmp_path / durability
        folder.mkdir()

        def on_write(name: str, slow=slow, syncing=syncing, goes_on=goes_on, syncs=syncs) -> None:
            if slow.is_set() and name.endswith("-sync"):
                syncs.append(name)
                syncing.set()
                assert goes_on.wait(60)

        text = YAML + f"cost_tracking: {{durability: {durability}}}\n"
        async with on_disk(folder, on_write, text) as (running, _):
            ids = [await chat(running)]
            await stores(running)
            slow.set()
            counters = running.gateway.store.counters
            async with trio.open_nursery() as nursery:
                for _ in range(5):
                    nursery.start_soon(lambda ids=ids: _note(running, ids))
                if durability == "power":
                    await trio.to_thread.run_sync(syncing.wait)
                    while counters.finished < 6:
                        await trio.lowlevel.checkpoint()
                    assert len(ids) == 1
                    goes_on.set()
            assert len(syncs) <= 2, "those that come while the disk is busy share a commit"
            assert (await running.get("/health")).json["status"] == "ok"
            slow.clear()
            goes_on.set()
            await stores(running)
            assert await logged(running) == set(ids)


async def _note(running: Any, ids: list[str]) -> None:
    ids.append(await chat(running))


async def test_a_start_while_another_program_keeps_everybody_out_says_why(tmp_path, monkeypatch):
    monkeypatch.setattr("gw.store.sqlite.BUSY_TIMEOUT_MS", 100)
    async with open_running(tmp_path, YAML, SetClock()) as running:
        path = running.gateway.settings.cost_tracking.db_path
    command = [sys.executable, "-c", ALONE, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:  # noqa: ASYNC220  # a test, and it says a line
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stdout.readline() == b"held\n"
        with pytest.raises(DatabaseLocked, match=f"another program is writing to {path}"):
            async with open_running(tmp_path, YAML, SetClock()):
                pass
        program.stdin.close()
    async with open_running(tmp_path, YAML, SetClock()) as running:
        await chat(running)
