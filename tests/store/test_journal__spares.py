"""Spare segments: their space is reserved while there is some, and holds the lines that a full disk would refuse."""

from __future__ import annotations

import os
import stat

import pytest

from gw.store import journal as journals
from gw.store.journal import Journal
from gw.store.journal_files import read_lines, segment_paths
from tests.fakes.disk import files_end_at
from tests.fakes.records import record


@pytest.fixture
def db(tmp_path):
    return tmp_path / "gw.db"


def spares(db):
    return sorted(path.name for path in db.parent.iterdir() if ".spare." in path.name)


def test_they_take_the_lines_of_a_full_disk_and_no_more(db):
    journal = Journal(db, segment_bytes=2_000, spares=3)
    journal.spares.fill()
    assert spares(db) == ["gw.db.journal.spare.1", "gw.db.journal.spare.2", "gw.db.journal.spare.3"]
    files = [db.with_name(name).stat() for name in spares(db)]
    assert {(stat.S_IMODE(file.st_mode), file.st_size) for file in files} == {(0o600, 2_000)}
    names = []
    with files_end_at(0):
        while True:
            name = f"r{len(names)}"
            if journal.finish(record(name)) is None:
                break
            names.append(name)
        assert journal.trouble
        assert not journal.probe()
        assert spares(db) == []
    paths = segment_paths(db)
    assert len(paths) == 4
    assert [line for path in paths for _, line in read_lines(path)] == [record(name) for name in names]
    assert journal.probe()
    journal.spares.fill()
    assert len(spares(db)) == 3
    journal.close()
    assert spares(db) == []


def test_a_short_line_that_still_fits_does_not_end_the_trouble(db):
    journal = Journal(db, segment_bytes=2_000)
    with files_end_at(0):
        journal.finish(record("a"))
        assert journal.finish(record("b" * 1_900)) is None
        assert journal.finish(record("c")) is not None
        assert journal.trouble
    assert journal.probe()
    journal.finish(record("d"))
    assert journal.trouble == ""


def test_those_of_a_killed_process_are_replaced(db):
    Journal(db, segment_bytes=2_000, spares=2).spares.fill()
    os.truncate(db.with_name("gw.db.journal.spare.1"), 5)
    journal = Journal(db, segment_bytes=2_000, spares=1)
    assert spares(db) == []
    journal.spares.fill()
    assert spares(db) == ["gw.db.journal.spare.1"]


def test_a_small_disk_keeps_its_space(db, monkeypatch):
    journal = Journal(db, segment_bytes=2_000, spares=3)
    monkeypatch.setattr(journals.os, "statvfs", lambda folder: os.statvfs_result((2_000, 2_000, 1_000, 200, 200, 0, 0, 0, 0, 255)))
    journal.spares.fill()
    assert len(spares(db)) == 2
