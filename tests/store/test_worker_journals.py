"""Journals of workers that a killed gateway has left, and of workers that died while it runs."""

import os
import signal
import subprocess
import sys

from gw.store.journal import Journal
from gw.store.store import open_store
from gw.store.worker_journals import end_writers, hold, journal_path, left_behind, read_left, remove
from tests.fakes.records import HandClock, intent, record

WRITER = """
import signal, sys
from pathlib import Path
from gw.store.worker_journals import hold
if sys.argv[2] == "stuck":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
hold(Path(sys.argv[1]))
print("held", flush=True)
signal.pause()
"""


def journal_of(database, name="a-1-1"):
    return journal_path(database, name)


def test_what_a_worker_has_left_is_read_once(tmp_path):
    path = journal_of(tmp_path / "gw.db")
    lock = hold(path)
    journal = Journal(path)
    journal.intent(intent("one"))
    journal.finish(record("one"))
    sent_to = journal.current.n, journal.current.size
    journal.intent(intent("two"))
    journal.finish(record("two"))
    journal.intent(intent("three"))
    journal.current.close()
    os.close(lock)
    assert left_behind(tmp_path / "gw.db") == [path]
    left = list(read_left(path, sent_to))
    assert [(r.id, r.error_code) for r in left] == [("two", None), ("three", "interrupted")]
    assert [r.id for r in read_left(path)] == ["one", "two", "three"]
    remove(path)
    assert list(tmp_path.iterdir()) == []


async def test_the_next_start_takes_over_the_records_of_dead_workers(tmp_path):
    database = tmp_path / "gw.db"
    for name in ("a-1-1", "a-2-1"):
        journal = Journal(journal_of(database, name))
        journal.finish(record(f"finished-{name}"))
        journal.intent(intent(f"running-{name}"))
        journal.current.close()
    async with open_store(database, clock=HandClock()) as store:
        assert (store.replayed.records, store.replayed.interrupted) == (2, 2)
        assert (await store.stats()).requests == 4
    assert left_behind(database) == []


def test_workers_without_a_keeper_are_ended_before_their_journals_are_read(tmp_path):
    database = tmp_path / "gw.db"
    writers = []
    for name, how in (("a-1-1", "polite"), ("a-2-1", "stuck")):
        command = [sys.executable, "-c", WRITER, str(journal_of(database, name)), how]
        writers.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
    for writer in writers:
        assert writer.stdout.readline() == "held\n"
    assert end_writers(database, grace_s=0.2) == [journal_of(database, "a-1-1"), journal_of(database, "a-2-1")]
    assert [writer.wait(60) for writer in writers] == [-signal.SIGTERM, -signal.SIGKILL]
    for writer in writers:
        writer.stdout.close()
