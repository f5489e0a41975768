"""What is written at a time, without a writer: lines in, an acknowledgement out."""

import os
import time

import apsw
import pytest

from gw.errors import StoreUnavailable
from gw.store import entity_rows
from gw.store.committer import Committer
from gw.store.core_share import give_way
from gw.store.record_lines import encode_record
from gw.store.recovery import interrupted
from gw.store.sqlite import DatabaseGone, open_writer
from gw.store.sqlite_records import SqliteRecords, SqliteTarget
from gw.telemetry.clock import utc_hour
from gw.types.entities import AuditEntry
from tests.fakes.records import NOON, intent, record


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


@pytest.fixture
def db(path):
    return open_writer(path)


@pytest.fixture
def committer(db, path):
    yield Committer(SqliteRecords(db, SqliteTarget(path)), 90)
    db.close()


def lines(*names):
    return [encode_record(record(name)) for name in names]


def test_lines_are_committed_once(committer, db, path):
    segment = path.with_name("gw.db.journal.7")
    segment.touch()
    committed = committer.commit(lines("a", "b"), [segment])
    assert (committed.new, committed.refused, committed.hours) == (2, (), {utc_hour(NOON)})
    assert not segment.exists()
    assert committer.commit(lines("b", "c"), [segment]).new == 1
    assert [row[0] for row in db.execute("select id from requests order by id")] == ["a", "b", "c"]


@pytest.fixture
def offered(monkeypatch):
    """The times at which the process offered its core."""
    times = []
    monkeypatch.setattr(os, "sched_yield", lambda: times.append(None))
    return times


def test_requests_can_have_the_core_between_two_steps_of_the_process_that_writes(db, path, offered):
    committer = Committer(SqliteRecords(db, SqliteTarget(path)), 90, offers_core=True)
    committer.commit(lines(*map(str, range(50))))
    assert len(offered) > 50  # each line is a step, and so are pieces of statements
    offered.clear()
    assert committer.prune(NOON + 1_000, 50) == 50
    assert len(offered) >= 5
    committer.close()


def test_a_thread_that_writes_does_not_offer_the_core(committer, offered):
    committer.commit(lines(*map(str, range(50))))
    assert committer.prune(NOON + 1_000, 50) == 50
    assert not offered


def test_a_transaction_that_requests_have_kept_waiting_takes_its_share_of_the_core(offered, monkeypatch):
    now = 7.0
    monkeypatch.setattr(time, "monotonic", lambda: now)
    between = give_way(0.5)
    assert [between(), len(offered)] == [False, 1]
    now = 7.5
    assert [between(), len(offered)] == [False, 1]


def test_a_line_that_cannot_be_read_does_not_stop_the_others(committer):
    [good] = lines("a")
    committed = committer.commit([b'F{"id":', good, b"F[[[[", b'F{"id":"x"}'])
    assert committed.new == 1
    assert [line for line, _ in committed.refused] == [b'F{"id":', b"F[[[[", b'F{"id":"x"}']
    assert all(why for _, why in committed.refused)


def test_a_load_is_all_or_nothing_and_ends_interrupted_requests(committer, db):
    committer.commit([encode_record(interrupted([intent("a")])), *lines("b")])
    with pytest.raises(ValueError, match=r"truncated"):
        committer.load([*lines("c"), b'F{"id":'])
    assert committer.load(lines("a", "b", "c")).new == 2
    assert dict(db.execute("select id, status from requests")) == dict.fromkeys("abc", "success")


def test_a_change_that_is_sent_twice_is_applied_once(committer, db):
    entry = AuditEntry(timestamp=NOON, entity_type="project", entity_id="x", action="create", changes={}, source="api", actor="admin")
    change = entity_rows.Change(audit=(entry,), meta=(("shown", "1"),))
    for name in ("one", "one", "two", "two", "", ""):
        committer.change(change, name)
    assert db.execute("select count(*) from audit").get == 4
    assert entity_rows.meta(db, "shown") == "1"


def test_nothing_is_written_to_a_file_that_is_gone(committer, path):
    path.rename(path.with_name("elsewhere.db"))
    with pytest.raises(DatabaseGone):
        committer.commit(lines("a"))
    with pytest.raises(StoreUnavailable, match="was deleted while gw runs"):
        committer.load(lines("a"))
    with pytest.raises(StoreUnavailable, match="was deleted while gw runs"):
        committer.change(entity_rows.Change(), "n")
    committer.close()
    assert path.with_name("gw.db-wal").exists()  # for the file, wherever it is now


def test_a_foreign_writer_is_no_fault_of_a_record(committer, path):
    other = apsw.Connection(str(path))
    other.execute("begin immediate")
    with pytest.raises(apsw.BusyError):
        committer.commit(lines("a"))
    other.close()
    assert committer.commit(lines("a")).new == 1
