"""What a batch writes, and how the end of a request takes the place of the one that a replay made up."""

from __future__ import annotations

from contextlib import contextmanager

import apsw
import msgspec
import pytest

from gw.store.batches import write_batch
from gw.store.migrations import migrate
from gw.store.recovery import interrupted
from gw.types.usage import AttemptRecord, Usage
from tests.fakes.records import NOON, intent, record

INTENTS = [intent("r1", attempt=n, model_id=model, timestamp=NOON + n) for n, model in enumerate(("openai/a", "deepgram/b"), 1)]
TRUE = record(
    "r1", timestamp=NOON + 1, status="fallback", model_id="deepgram/b", provider="deepgram", cost_nusd=5_000, ttfb_ms=30.0,
    usage=Usage(input_tokens=4), attempts=(
        AttemptRecord(model_id="openai/a", outcome="connection", started_ms=0.0, duration_ms=1.0),
        AttemptRecord(model_id="deepgram/b", outcome="ok", started_ms=1.0, duration_ms=8.0),
    ),
)  # fmt: skip


@contextmanager
def written(*batches, **options):
    db = apsw.Connection(":memory:")
    migrate(db)
    for batch in batches:
        write_batch(db, batch, **options)
    yield db
    db.close()


def tables(db):
    """Return the rows of the requests, but for their order of insertion, and of all rollups."""
    names = [name for (name,) in db.execute("select name from sqlite_master where type = 'table' and name like 'rollup%'")]
    return {name: sorted(db.execute(f"select * from {name}"), key=repr) for name in names}


def test_the_end_takes_the_place_of_an_interrupted_request_in_all_sums():
    other = record("r2", timestamp=NOON)
    with written([other], [TRUE]) as expected, written([other], [interrupted(INTENTS)], [TRUE], ends_interrupted=True) as db:
        assert db.execute("select id, status from requests order by id").fetchall() == [("r1", "fallback"), ("r2", "success")]
        assert tables(db) == tables(expected)
        assert any(tables(db).values())


@pytest.mark.parametrize("again", [TRUE, interrupted(INTENTS)])
def test_nothing_else_is_replaced(again):
    known = msgspec.structs.replace(TRUE, cost_nusd=7) if again is TRUE else again
    with written([known], [again], ends_interrupted=True) as db, written([known]) as expected:
        assert db.execute("select cost_nusd from requests").get == known.cost_nusd
        assert tables(db) == tables(expected)
    with written([interrupted(INTENTS)], [TRUE]) as db:  # only where it is wanted
        assert db.execute("select status from requests").get == "error"
