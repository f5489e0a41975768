"""First audio by project and by models are sums of the same turns, whatever is read."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gw.store import first_audio, migrations
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.migrations import migrate
from gw.store.window_pieces import DAY_S, HOUR_S, TimeWindow
from tests.fakes.databases import drop_later, write
from tests.fakes.records import NOON, record

PROJECTS, STACKS = ("p", "q"), ("a / x", "a / y", "b / x")


def turns(count):
    """Return turns of the three days before NOON, of a model and a voice each: (time, project, stack)."""
    dice = Random(count)
    return [(NOON - dice.uniform(0, 3 * DAY_S), dice.choice(PROJECTS), dice.choice(STACKS)) for _ in range(count)]


def write_turns(db, made, *, first=0):
    for number, (at, project, stack) in enumerate(made, first):
        llm, tts = stack.split(" / ")
        which = {"project": project, "turn_id": f"t{number}", "session_id": f"s{number}"}
        asked = record(f"{number}-llm", timestamp=at, modality="llm", model_id=llm, **which)
        spoken = record(f"{number}-tts", timestamp=at + 0.5, modality="tts", model_id=tts, ttfb_ms=100.0, **which)
        write(db, [asked, spoken])


def read(db, by, window, project=None):
    return {name: waits.count for name, waits in first_audio.by_name(QueryContext(db, MergedBuckets(None)), window, by, project).items()}


@pytest.mark.parametrize("window", [TimeWindow(), TimeWindow(NOON - 2.3 * DAY_S, NOON - 0.4 * DAY_S)])
@pytest.mark.parametrize("project", [None, "p"])
def test_each_turn_is_counted_once_however_they_are_divided(db, window, project):
    made = turns(60)
    write_turns(db, made)
    since, until = window.since or 0.0, window.until or float("inf")
    within = [one for one in made if since <= one[0] < until and project in (None, one[1])]
    assert len(within) > 10
    assert read(db, "none", window, project) == {"": len(within)}
    assert read(db, "project", window, project) == Counter(one[1] for one in within)
    assert read(db, "stack", window, project) == Counter(one[2] for one in within)
    for step_s in (10, 60, 600, HOUR_S, DAY_S):
        steps = first_audio.by_step(QueryContext(db, MergedBuckets(None)), window, step_s, project)
        assert {step: waits.count for step, waits in steps.items()} == Counter(int(one[0] // step_s) for one in within)


class Statements:
    """A database that notes the statements."""

    def __init__(self, db):
        self._db = db
        self.texts = []

    def execute(self, text, *bindings):
        self.texts.append(text)
        return self._db.execute(text, *bindings)


@pytest.mark.parametrize(
    "window", [TimeWindow((NOON // DAY_S - 2) * DAY_S, NOON // DAY_S * DAY_S), TimeWindow(NOON - 40 * HOUR_S, NOON - 30 * HOUR_S)]
)
@pytest.mark.parametrize("project", [None, "p"])
def test_complete_hours_and_days_are_merged_once_until_a_turn_is_added_to_one_of_them(db, window, project):
    made = turns(40)
    write_turns(db, made)
    merged, counted = MergedBuckets(None), Statements(db)

    def by_stack():
        counted.texts.clear()
        found = first_audio.by_name(QueryContext(counted, merged), window, "stack", project)
        read_all = any("stack <> ''" in text for text in counted.texts)
        return {name: (waits.count, waits.sum_ms) for name, waits in found.items()}, read_all

    first, read_all = by_stack()
    assert read_all
    assert sum(count for count, _ in first.values()) == sum(
        window.since <= at < window.until and project in (None, owner) for at, owner, _ in made
    )
    assert by_stack() == (first, False)
    write_turns(db, [(window.since + 60.0, "p", "b / x")], first=len(made))
    changed, read_all = by_stack()
    assert read_all
    assert changed["b / x"][0] == first.get("b / x", (0, 0.0))[0] + 1
    write_turns(db, [(NOON - 60.0, "p", "a / y")], first=len(made) + 1)  # outside of it
    assert by_stack() == (changed, False)


def test_an_earlier_database_gets_the_sums(sqlite_db):
    db = sqlite_db
    write_turns(db, turns(40))
    tables = {name: list(db.execute(f"select * from {name} order by 1, 2, 3")) for name in ("first_audio_hour", "first_audio_day")}
    for name in tables:
        db.execute(f"delete from {name} where project = '' or stack = ''")
    later = ("owner_spend", "alert_incidents", "alert_outbox", "alert_mutes")
    for table in later:  # of the steps after it
        db.execute(f"drop table {table}")
    drop_later(db)
    db.pragma("user_version", migrations.MIGRATIONS.index(migrations._first_audio_sums))
    migrate(db)
    assert {name: list(db.execute(f"select * from {name} order by 1, 2, 3")) for name in tables} == tables
