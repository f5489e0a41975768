import stat
import tempfile
from functools import partial
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from structlog.testing import capture_logs

from gw.store import requests, rollups
from gw.store.batches import write_batch, write_possible
from gw.store.journal import Journal
from gw.store.journal_files import read_lines, segment_paths
from gw.store.recovery import Replayed, interrupted, replay
from gw.store.sqlite import open_writer
from gw.types.usage import Usage
from tests.fakes.disk import files_end_at, refuse
from tests.fakes.records import NOON, intent, record


@pytest.fixture
def path(tmp_path):
    return tmp_path / "gw.db"


@pytest.fixture
def db(path):
    connection = open_writer(path)
    yield connection
    connection.close()


def test_finished_records_go_in_and_the_segments_go(db, path):
    journal = Journal(path)
    journal.intent(intent("a"))
    journal.finish(record("a"))
    assert replay(partial(write_possible, db), path) == Replayed(records=1)
    assert requests.find(db, "a") == record("a")
    assert segment_paths(path) == []


def test_replaying_twice_changes_nothing(db, path):
    journal = Journal(path)
    journal.finish(record("a"))
    journal.intent(intent("b"))
    segment = segment_paths(path)[0]
    content = segment.read_bytes()
    assert replay(partial(write_possible, db), path) == Replayed(records=1, interrupted=1)
    segment.write_bytes(content)
    assert replay(partial(write_possible, db), path) == Replayed()
    assert rollups.totals(db, None, None).requests == requests.count(db) == 2


def test_an_intent_of_a_committed_request_is_nothing(db, path):
    write_batch(db, [record("a")])
    Journal(path).intent(intent("a"))
    assert replay(partial(write_possible, db), path) == Replayed()
    assert requests.find(db, "a").status == "success"


def test_more_records_than_fit_in_a_batch(db, path):
    journal = Journal(path)
    for n in range(1_200):
        journal.finish(record(f"r{n}"))
    assert replay(partial(write_possible, db), path).records == requests.count(db) == 1_200


def test_unreadable_lines_are_counted_and_a_torn_end_is_nothing(db, path):
    path.with_name("gw.db.journal.1").write_bytes(b"Fgarbage\n\x00\xff\nF{torn")
    kept = path.with_name("gw.db.journal.1.bad")
    assert replay(partial(write_possible, db), path) == Replayed(unreadable=2, kept_in=(str(kept),))
    assert kept.read_bytes() == b"Fgarbage\n\x00\xff\n"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert segment_paths(path) == []
    path.with_name("gw.db.journal.1").write_bytes(b"Fmore\n")
    assert replay(partial(write_possible, db), path) == Replayed(unreadable=1, kept_in=(str(kept),))
    assert kept.read_bytes() == b"Fgarbage\n\x00\xff\nFmore\n"


def test_unreadable_lines_stay_where_they_are_on_a_full_disk(db, path):
    segment = path.with_name("gw.db.journal.1")
    segment.write_bytes(b"Fgarbage\n")
    with files_end_at(0):
        assert replay(partial(write_possible, db), path) == Replayed(unreadable=1, kept_in=(str(segment),))
    assert segment.read_bytes() == b"Fgarbage\n"


def test_numbers_without_bounds_do_not_stop_the_start(db, path):
    """A request in flight with a limit of 400 digits, and a record of as many tokens."""
    journal = Journal(path)
    endless = Usage(output_tokens=10**400, source="estimated")
    journal.intent(intent("a", estimate=endless, estimate_nusd=10**398))
    journal.finish(record("b", usage=endless, cost_nusd=10**400))
    assert replay(partial(write_possible, db), path) == Replayed(records=1, interrupted=1)
    assert requests.find(db, "a").usage.output_tokens == requests.find(db, "b").cost_nusd == requests.LARGEST
    assert replay(partial(write_possible, db), path) == Replayed()


def test_a_record_that_cannot_be_written_is_told_and_the_others_go_in(db, path):
    refuse(db, "odd", "odd intent")
    journal = Journal(path)
    for name in ("a", "odd", "b"):
        journal.finish(record(name))
    journal.intent(intent("odd intent"))
    journal.intent(intent("c"))
    with capture_logs() as logs:
        assert replay(partial(write_possible, db), path) == Replayed(records=2, interrupted=1, unwritable=2)
    assert [(line["event"], line["id"]) for line in logs] == [
        ("usage_record_unwritable", "odd"),
        ("usage_record_unwritable", "odd intent"),
    ]
    assert {id for (id,) in db.execute("select id from requests")} == {"a", "b", "c"}  # noqa: A001
    assert rollups.totals(db, None, None).requests == 3
    assert segment_paths(path) == []


def test_no_journal_is_nothing(db, path):
    assert replay(partial(write_possible, db), path) == Replayed()


def test_an_interrupted_request_has_what_was_estimated():
    stt = {"modality": "stt", "requested_model": "default", "session_id": "s", "stream": True}
    half = Usage(audio_seconds=1.5, source="estimated")
    second = intent(attempt=1, model_id="deepgram/b/c", timestamp=NOON + 2, estimate=half, estimate_nusd=4, **stt)
    first = intent(attempt=0, model_id="openai/a", timestamp=NOON, estimate=half, estimate_nusd=3, **stt)
    result = interrupted([second, first])
    assert (result.id, result.timestamp, result.status, result.error_code) == ("r1", NOON, "error", "interrupted")
    assert (result.model_id, result.provider, result.requested_model) == ("deepgram/b/c", "deepgram", "default")
    assert (result.cost_nusd, result.pricing_source) == (7, "estimated")
    assert result.usage == Usage(audio_seconds=3.0, source="estimated")
    assert [(a.model_id, a.outcome, a.started_ms) for a in result.attempts] == [
        ("openai/a", "interrupted", 0.0),
        ("deepgram/b/c", "interrupted", 2000.0),
    ]
    assert (result.session_id, result.stream, result.modality) == ("s", True, "stt")


@pytest.mark.parametrize(
    ("estimates", "cost", "source"), [([None], None, "unpriced"), ([None, 5], 5, "unpriced + estimated"), ([0], 0, "estimated")]
)
def test_an_interrupted_request_without_a_price(estimates, cost, source):
    result = interrupted([intent(attempt=n, estimate_nusd=estimate) for n, estimate in enumerate(estimates)])
    assert (result.cost_nusd, result.pricing_source) == (cost, source)


class Killed(RuleBasedStateMachine):
    """Journal and database under kills at any moment: every request ends up recorded exactly once."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "gw.db"
        self.db = open_writer(self.path)
        self.db.pragma("synchronous", "off")  # the machine stays up: nothing to wait for
        self.journal = Journal(self.path, segment_bytes=1_500)
        self.n = 0
        self.in_flight: list[str] = []
        self.waiting = []
        self.finished: set[str] = set()
        self.interrupted: set[str] = set()

    @rule()
    def call(self):
        self.n += 1
        self.in_flight.append(f"r{self.n}")
        self.journal.intent(intent(f"r{self.n}"))

    @rule()
    def call_again(self):
        if self.in_flight:
            self.journal.intent(intent(self.in_flight[0], attempt=1))

    @rule()
    def finish(self):
        if self.in_flight:
            one = record(self.in_flight.pop(0))
            self.waiting.append((one, self.journal.finish(one)))
            self.finished.add(one.id)

    @rule()
    def commit(self):
        write_batch(self.db, [one for one, _ in self.waiting])
        for one, segment in self.waiting:
            self.journal.committed(one.id, segment)
        self.waiting = []

    @rule()
    def trim(self):
        for path in self.journal.take_finished():
            path.unlink()

    @rule()
    def kill(self):
        self._restart()

    @rule()
    def kill_between_commit_and_trim(self):
        write_batch(self.db, [one for one, _ in self.waiting])
        self._restart()

    def _restart(self):
        self.interrupted |= set(self.in_flight)
        self.in_flight, self.waiting = [], []
        replay(partial(write_possible, self.db), self.path)
        self.journal = Journal(self.path, segment_bytes=1_500)
        rows = dict(self.db.execute("select id, error_code from requests"))
        assert {name for name, code in rows.items() if code is None} == self.finished
        assert {name for name, code in rows.items() if code} == self.interrupted
        assert rollups.totals(self.db, None, None).requests == len(rows)

    @invariant()
    def nothing_is_trimmed_too_early(self):
        lines = [line for path in segment_paths(self.path) for _, line in read_lines(path)]
        names = {line.id for line in lines if line is not None}
        assert {one.id for one, _ in self.waiting} | set(self.in_flight) <= names

    def teardown(self):
        self.db.close()
        self.folder.cleanup()


TestKilled = Killed.TestCase
TestKilled.settings = settings(max_examples=15, stateful_step_count=40, deadline=None)


def test_each_vendor_has_its_part_of_an_interrupted_request():
    models = {"a/x": None, "b/x": 5}
    intents = [
        intent(attempt=n, model_id=name, estimate_nusd=nusd, estimated_nusd=0 if nusd else 9)
        for n, (name, nusd) in enumerate(models.items())
    ]
    record = interrupted(intents)
    assert [(part.model_id, part.cost_nusd, part.estimated_nusd, part.input_tokens) for part in record.parts] == [
        ("a/x", None, 9, 10), ("b/x", 5, 0, 10),
    ]  # fmt: skip
    assert (record.cost_nusd, record.estimated_nusd) == (5, 9)
    assert interrupted(intents[:1]).parts == []
