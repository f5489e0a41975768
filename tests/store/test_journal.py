import stat

import pytest

from gw.errors import StoreUnavailable
from gw.store.journal import SEGMENT_BYTES, Journal
from gw.store.journal_files import read_lines, read_record_lines, segment_paths
from gw.store.record_lines import decode_record
from tests.fakes.disk import files_end_at
from tests.fakes.records import intent, record


@pytest.fixture
def db(tmp_path):
    return tmp_path / "gw.db"


def lines(db):
    return [value for path in segment_paths(db) for _, value in read_lines(path)]


def test_what_was_written_can_be_read(db):
    journal = Journal(db)
    journal.intent(intent())
    journal.finish(record())
    assert lines(db) == [intent(), record()]
    assert stat.S_IMODE(segment_paths(db)[0].stat().st_mode) == 0o600


def test_a_torn_end_was_not_written(db):
    journal = Journal(db)
    journal.finish(record("a"))
    journal.finish(record("b"))
    path = segment_paths(db)[0]
    space = path.read_bytes()
    complete = space.rstrip(b"\0")
    for cut in range(1, len(complete) // 2):
        path.write_bytes(complete[:-cut])
        assert lines(db) == [record("a")]
        path.write_bytes(complete[:-cut].ljust(len(space), b"\0"))  # killed in the middle of copying
        assert lines(db) == [record("a")]


def test_a_segment_has_its_space_from_the_beginning_and_gives_back_the_rest(db):
    journal = Journal(db)
    journal.finish(record("a"))
    journal.finish(record("b"))
    path = segment_paths(db)[0]
    assert path.stat().st_size == SEGMENT_BYTES
    assert path.stat().st_blocks * 512 >= SEGMENT_BYTES
    journal.close()
    assert path.stat().st_size == journal.current.size == len(path.read_bytes().rstrip(b"\0"))
    assert lines(db) == [record("a"), record("b")]


def test_a_line_longer_than_a_segment_has_one_of_its_own(db):
    journal = Journal(db, segment_bytes=2_000)
    long = record("x" * 5_000)
    for value in (record("a"), long, record("b")):
        journal.finish(value)
    assert lines(db) == [record("a"), long, record("b")]
    assert len(segment_paths(db)) == 3


def test_a_line_that_cannot_be_read_does_not_hide_the_next(db):
    journal = Journal(db)
    journal.finish(record("a"))
    path = segment_paths(db)[0]
    path.write_bytes(b"F{]\nXhello\n\n" + path.read_bytes())
    assert lines(db) == [None, None, None, record("a")]


def test_reading_goes_on_where_it_stopped(db):
    journal = Journal(db)
    for name in "abc":
        journal.intent(intent(name))
        journal.finish(record(name))
    path = segment_paths(db)[0]
    first, offset = read_record_lines(path, 0, 2)
    remainder, end = read_record_lines(path, offset, 2)
    assert [id_ for id_, _ in first + remainder] == ["a", "b", "c"]
    assert [decode_record(line) for _, line in first] == [record("a"), record("b")]
    assert end == journal.current.size


def test_the_offset_of_the_last_record(db):
    journal = Journal(db)
    journal.finish(record("a"))
    journal.finish(record("b"))
    assert read_record_lines(segment_paths(db)[0], journal.last_offset, 5)[0] == [("b", journal.record_line)]
    assert decode_record(journal.record_line) == record("b")


def test_a_segment_goes_when_all_of_it_is_committed(db):
    journal = Journal(db, segment_bytes=1)  # every line begins one
    acquired = {name: journal.finish(record(name)) for name in "abc"}
    journal.committed("b", acquired["b"])
    assert [path.name for path in journal.take_finished()] == ["gw.db.journal.1", "gw.db.journal.3"]  # nothing fits the first
    journal.committed("a", acquired["a"])
    journal.committed("c", acquired["c"])
    assert [path.name for path in journal.take_finished()] == ["gw.db.journal.2"]  # the last is still being written
    assert journal.bytes == journal.current.size


def test_an_open_intent_keeps_its_segment(db):
    journal = Journal(db, segment_bytes=1)
    journal.intent(intent(attempt=0))
    journal.intent(intent(attempt=1))
    journal.intent(intent("other"))
    assert [path.name for path in journal.take_finished()] == ["gw.db.journal.1"]  # nothing fits it
    assert journal.open_intents == 2
    journal.finish(record())
    assert [path.name for path in journal.take_finished()] == ["gw.db.journal.2", "gw.db.journal.3"]
    assert journal.open_intents == 1


def test_intents_of_one_request_in_one_segment_count_once(db):
    journal = Journal(db)
    for attempt in range(3):
        journal.intent(intent(attempt=attempt))
    segment = journal.finish(record())
    journal.committed("r1", segment)
    assert segment.live == 0


def test_closing_removes_what_is_settled_and_keeps_what_is_not(db):
    journal = Journal(db, segment_bytes=1)
    journal.committed("a", journal.finish(record("a")))
    journal.finish(record("b"))
    journal.committed("c", journal.finish(record("c")))
    journal.close()
    assert lines(db) == [record("b")]


def test_a_new_journal_leaves_old_segments_alone(db):
    Journal(db).finish(record("a"))
    Journal(db).finish(record("b"))
    assert [path.name for path in segment_paths(db)] == ["gw.db.journal.1", "gw.db.journal.2"]


def test_files_of_other_names_are_not_segments(db):
    for name in ("gw.db.journal.x", "gw.db-journal", "gw.db.journal.3.bak", "aw.db.journal.1"):
        db.with_name(name).touch()
    assert segment_paths(db) == []


def test_segments_are_read_in_order_of_their_numbers(db):
    for n in (10, 9, 1):
        db.with_name(f"gw.db.journal.{n}").touch()
    assert [path.name for path in segment_paths(db)] == ["gw.db.journal.1", "gw.db.journal.9", "gw.db.journal.10"]


def test_a_full_disk_is_told_when_the_segment_is_full(db):
    journal = Journal(db, segment_bytes=2_000)
    journal.finish(record("a"))
    written = 1
    with files_end_at(0):
        while not journal.trouble:
            written += journal.finish(record("b")) is not None
        journal.intent(intent("c" * 2_000))
        assert "cannot be written" in journal.trouble
        assert not journal.probe()
        assert [path.name for path in segment_paths(db)] == ["gw.db.journal.1"]
    assert journal.failures == 3
    assert journal.open_intents == 0
    assert journal.probe()
    assert journal.trouble == ""
    journal.finish(record("d"))
    assert lines(db) == [record("a"), *[record("b")] * (written - 1), record("d")]


def test_an_intent_stays_open_until_a_record_without_a_line_is_committed(db):
    journal = Journal(db, segment_bytes=900)
    journal.intent(intent())
    with files_end_at(0):
        while journal.finish(record("other")) is not None:
            pass
        assert journal.finish(record()) is None
    assert journal.open_intents == 1
    journal.committed("r1", None)
    assert journal.open_intents == 0


def test_the_spill_has_a_bound(db):
    journal = Journal(db, segment_bytes=2_000, limit_bytes=10_000)
    acquired = {}
    while not journal.trouble:
        name = f"r{len(acquired)}"
        acquired[name] = journal.finish(record(name))
    assert "wait for the database" in journal.trouble
    assert journal.bytes < 11_000
    journal.limit_bytes = 20_000
    assert journal.probe()
    journal.limit_bytes = 10_000
    assert not journal.probe()
    for name, segment in acquired.items():
        if segment:
            journal.committed(name, segment)
    assert journal.probe()


def test_the_oldest_line_is_known(db):
    journal = Journal(db)
    assert journal.oldest == float("inf")
    journal.intent(intent(timestamp=50.0))
    acquired = journal.finish(record(timestamp=60.0))
    assert journal.oldest == 50.0
    journal.committed("r1", acquired)
    journal.rotate_if_older(before=40.0)
    assert journal.oldest == 50.0
    journal.rotate_if_older(before=55.0)
    assert journal.oldest == float("inf")


def test_a_segment_that_cannot_be_rotated_is_reported(db):
    journal = Journal(db)
    journal.finish(record(timestamp=50.0))
    db.with_name("gw.db.journal.2").touch()
    journal.rotate_if_older(before=55.0)
    assert "cannot be written" in journal.trouble


def test_a_folder_that_cannot_be_written(tmp_path):
    with pytest.raises(StoreUnavailable, match="cannot write the journal beside"):
        Journal(tmp_path / ("x" * 250))


def test_a_line_that_is_no_utf8_is_unreadable(db):
    Journal(db).finish(record("aaaa"))
    path = segment_paths(db)[0]
    path.write_bytes(path.read_bytes().replace(b"aaaa", b"a\xff\xfea") + b"F" + b"[" * 100_000 + b"\n")
    assert lines(db) == [None, None]
