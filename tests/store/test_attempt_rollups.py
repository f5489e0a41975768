"""How calls ended is the same by days and by hours, and a report on days reads no hours that a day has."""

from __future__ import annotations

import re
from collections import Counter
from random import Random

import pytest

from gw.store import attempt_rollups, migrations, requests
from gw.store.attempt_rollups import Move
from gw.store.migrations import migrate
from gw.types.usage import AttemptRecord
from tests.fakes.databases import drop_later, write
from tests.fakes.records import NOON, record

HOUR_S = 3_600
HOURS = 5 * 24
FIRST = int(NOON // HOUR_S) - HOURS
OUTCOMES = ("ok", "failed", "rate_limited", "cancelled", "busy")


def attempt(model_id, outcome):
    code = None if outcome == "ok" else f"code_{outcome}"
    return AttemptRecord(model_id=model_id, outcome=outcome, started_ms=0.0, duration_ms=1.0, error_code=code, upstream_status=500)


def made(count):
    dice = Random(count)
    return [
        record(
            f"r{number}", timestamp=NOON - dice.uniform(0, HOURS * HOUR_S),
            attempts=(attempt(dice.choice(("a/x", "b/y")), dice.choice(OUTCOMES[1:])), attempt("c/z", dice.choice(OUTCOMES))),
        )
        for number in range(count)
    ]  # fmt: skip


class Noting:
    """A connection that notes the statements."""

    def __init__(self, db):
        self.db = db
        self.statements = []

    def execute(self, sql, *bindings):
        self.statements.append(sql)
        return self.db.execute(sql, *bindings)


def expected(records, since, until):
    """Return outcomes by provider and day, and moves."""
    health, moves = Counter(), Counter()
    for one in records:
        hour = int(one.timestamp // HOUR_S)
        if since <= hour and (until is None or hour <= until):
            for tried in one.attempts:
                outcome = "skipped" if tried.outcome == "busy" else tried.outcome
                health[tried.provider_id, hour // 24 * 24, outcome] += 1
            moves[one.attempts[0].model_id, "c/z", one.attempts[0].outcome] += 1
    return health, moves


@pytest.mark.parametrize("until", [None, FIRST + HOURS - 1, FIRST + 70, FIRST + 96, FIRST + 30])
@pytest.mark.parametrize("since", [FIRST, FIRST + 12, FIRST + 13, FIRST + 23])
def test_days_have_what_their_hours_have(sqlite_db, since, until):
    records = made(200)
    write(sqlite_db, records)
    health, moves = expected(records, since, until)
    found = attempt_rollups.health(sqlite_db, since, 24, until)
    counts = {(one.provider, one.hour, outcome): getattr(one, outcome) for one in found for outcome in attempt_rollups._OUTCOMES}
    assert {key: count for key, count in counts.items() if count} == health
    assert attempt_rollups.moves(sqlite_db, since, until) == [
        Move(model_id=a, next_model_id=b, reason=reason, count=count)
        for (a, b, reason), count in sorted(moves.items(), key=lambda item: (-item[1], item[0]))
    ]
    hourly = attempt_rollups.health(sqlite_db, since, 1, until)
    assert sum(one.failed for one in hourly) == sum(one.failed for one in found)
    errors = attempt_rollups.last_errors(sqlite_db, since, until)
    for provider, error in errors.items():
        tried = [
            (one.timestamp, call.error_code) for one in records for call in one.attempts
            if call.provider_id == provider and call.error_code and since <= int(one.timestamp // HOUR_S) <= (until or 2**40)
        ]  # fmt: skip
        assert (error.at, error.code) == max(tried)


def test_a_report_on_days_reads_the_hours_around_them_only(db):
    write(db, made(100))
    day = FIRST // 24 + 1
    for since, until, tables in (
        (day * 24, None, {"rollup_attempt_day"}),
        (day * 24, (day + 2) * 24 - 1, {"rollup_attempt_day"}),
        (day * 24 + 1, None, {"rollup_attempt_day", "rollup_attempt"}),
    ):
        noting = Noting(db)
        for read in (attempt_rollups.last_errors, attempt_rollups.moves):
            read(noting, since, until)
        attempt_rollups.health(noting, since, 24, until)
        assert {name for sql in noting.statements for name in re.findall(r"from (rollup_\w+)", sql)} == tables


def test_an_earlier_database_gets_the_days(sqlite_db):
    db = sqlite_db
    write(db, made(100))
    days = list(db.execute("select * from rollup_attempt_day"))
    assert len(days) > 30
    drop_later(db)
    db.pragma("user_version", migrations.MIGRATIONS.index(migrations.sum_migrations.attempts_by_day))
    migrate(db)
    assert list(db.execute("select * from rollup_attempt_day")) == days


def test_a_made_up_end_that_is_replaced_leaves_nothing(db):
    interrupted = record("r1", status="error", error_code="interrupted", ttfb_ms=None, attempts=(attempt("a/x", "interrupted"),))
    write(db, [interrupted])
    write(db, [record("r1", attempts=(attempt("a/x", "ok"),))], ends_interrupted=True)
    for table in attempt_rollups.TABLES.values():
        assert [tuple(row) for row in db.execute(f"select outcome, attempts from {table}")] == [("ok", 1)]
    assert requests.count(db) == 1
