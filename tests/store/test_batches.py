"""What a batch writes, and how the end of a request takes the place of the one that a replay made up."""

from __future__ import annotations

import msgspec
import pytest

from gw.store import requests
from gw.store.recovery import interrupted
from gw.types.usage import AttemptRecord, Usage
from tests.fakes import databases
from tests.fakes.records import NOON, intent, record

INTENTS = [intent("r1", attempt=n, model_id=model, timestamp=NOON + n) for n, model in enumerate(("openai/a", "deepgram/b"), 1)]
TRUE = record(
    "r1", timestamp=NOON + 1, status="fallback", model_id="deepgram/b", provider="deepgram", cost_nusd=5_000, ttfb_ms=30.0,
    usage=Usage(input_tokens=4), attempts=(
        AttemptRecord(model_id="openai/a", outcome="connection", started_ms=0.0, duration_ms=1.0),
        AttemptRecord(model_id="deepgram/b", outcome="ok", started_ms=1.0, duration_ms=8.0),
    ),
)  # fmt: skip


def tables_after(kind, *batches, ends_interrupted=False):
    """Return the requests, but for their order of insertion, and the rows of all rollups."""
    with databases.new_database(kind) as db:
        for batch in batches:
            databases.write(db, batch, ends_interrupted=ends_interrupted)
        names = ("rollup_hour", "rollup_day", "rollup_attempt")
        rollups = {name: sorted(map(tuple, db.execute(f"select * from {name}")), key=repr) for name in names}
        return [requests.record_of(row) for row in db.execute(f"{requests.SELECT} order by id")], rollups


def test_the_end_takes_the_place_of_an_interrupted_request_in_all_sums(kind):
    other = record("r2", timestamp=NOON)
    expected = tables_after(kind, [other], [TRUE])
    found, rollups = tables_after(kind, [other], [interrupted(INTENTS)], [TRUE], ends_interrupted=True)
    assert [(one.id, one.status) for one in found] == [("r1", "fallback"), ("r2", "success")]
    assert (found, rollups) == expected
    assert any(rollups.values())


@pytest.mark.parametrize("again", [TRUE, interrupted(INTENTS)])
def test_nothing_else_is_replaced(kind, again):
    known = msgspec.structs.replace(TRUE, cost_nusd=7) if again is TRUE else again
    expected = tables_after(kind, [known])
    assert tables_after(kind, [known], [again], ends_interrupted=True) == expected
    [one], _ = expected
    assert one.cost_nusd == known.cost_nusd


def test_an_end_takes_the_place_only_where_it_is_wanted(kind):
    [one], _ = tables_after(kind, [interrupted(INTENTS)], [msgspec.structs.replace(TRUE, timestamp=INTENTS[0].timestamp)])
    assert one.status == "error"
