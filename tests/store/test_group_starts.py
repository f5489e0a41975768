"""Turns and sessions by when they began, with filters and pages: the same as by looking at all records, in both databases."""

from __future__ import annotations

import random

import pytest

from gw.store import group_starts, requests
from gw.store.group_starts import SESSION, TROUBLES, TURN, StartSearch, newest_groups
from tests.fakes.databases import write
from tests.fakes.records import NOON, record

DAY_S = 86_400
PROJECTS = ("p", "q")


def filled(db, seed, *, trouble):
    """Write records of three days: ids that are used again, in other sessions and projects, and times that are equal."""
    chance, records = random.Random(seed), []
    for n in range(300):
        status = chance.choice(("error", "fallback", "cancelled")) if chance.random() < trouble else "success"
        session = chance.choice((None, *(f"s{k}" for k in range(60))))
        records.append(
            record(
                f"{seed}-{n}",
                timestamp=NOON - round(chance.random() * 3 * DAY_S, -1),
                project=chance.choice(PROJECTS),
                modality=chance.choice(("stt", "llm", "tts")),
                status=status,
                refused=status == "error" and chance.random() < 0.3,
                fallback_from="a/b" if status == "fallback" or (status != "success" and chance.random() < 0.2) else None,
                session_id=session,
                turn_id=None if chance.random() < 0.2 else f"t{chance.randrange(80)}",
            )
        )
    write(db, records)
    rows = []
    for one in records:
        place = requests.place(db, one.id)
        assert place is not None
        rows.append((place, one))
    return rows


def has_trouble(one, name):
    return {
        "error": one.status == "error" and not one.refused,
        "fallback": one.fallback_from is not None,
        "interruption": one.status == "cancelled" and one.modality != "stt",
    }[name]


def expected(rows, group, *, project=None, since=None, until=None, trouble=None):
    """Return (place of its first request, key) of each group, the newest first."""
    groups: dict = {}
    for place, one in rows:
        key = tuple(getattr(one, name) for name in group.columns)
        if key[0] is not None and project in (None, one.project):
            groups.setdefault(key, []).append((place, one))
    wanted = [name for name in ("error", "fallback", "interruption") if trouble in (name, "any")]
    found = []
    for key, members in groups.items():
        first = min(place for place, _ in members)
        in_time = (since is None or first[0] >= since) and (until is None or first[0] < until)
        if in_time and (trouble is None or any(has_trouble(one, name) for _, one in members for name in wanted)):
            found.append((first, key))
    return sorted(found, reverse=True)


def search_of(group, before, *, project=None, since=None, until=None, trouble=None):
    conditions = () if project is None else ("project = :project",)
    return StartSearch(
        group=group, index="time" if project is None else "project", conditions=conditions, bindings={"project": project}, since=since,
        until=until, before=before, trouble=trouble,
    )  # fmt: skip


FILTERS = [
    {}, {"project": "q"}, {"since": NOON - DAY_S}, {"until": NOON - DAY_S}, *({"trouble": name} for name in TROUBLES),
    {"trouble": "error", "project": "p"}, {"trouble": "any", "since": NOON - 2 * DAY_S, "until": NOON - DAY_S},
]  # fmt: skip


@pytest.mark.parametrize("trouble", [0.02, 0.5])
def test_pages_have_the_groups_that_all_records_have(db, trouble):
    rows = filled(db, 1, trouble=trouble)
    for group in (TURN, SESSION):
        for filters in FILTERS:
            wanted = expected(rows, group, **filters)
            places = {key: place for place, key in wanted}
            before, pages = None, []
            while page := newest_groups(db, search_of(group, before, **filters), 30):
                pages += page
                assert set(page) <= set(places), (group, filters)
                before = places[page[-1]]
            assert pages == [key for _, key in wanted], (group, filters)


def test_a_page_far_back_in_frequent_trouble_is_found_in_the_log(db):
    """More requests with trouble are newer than it than the first look takes."""
    newer = [
        record(f"n{n}", timestamp=NOON + n, status="error", error_code="timeout", session_id=f"s{n}", turn_id=f"t{n}") for n in range(1_100)
    ]
    older = [record(f"o{n}", timestamp=NOON - 10 - n, status="error" if n % 9 == 0 else "success", session_id=f"o{n}") for n in range(200)]
    write(db, newer)
    write(db, older)
    before = requests.place(db, "n0")
    found = newest_groups(db, search_of(SESSION, before, trouble="error"), 5)
    assert found == [(f"o{n}", "default") for n in (0, 9, 18, 27, 36)]


def test_a_group_with_trouble_after_the_end_of_its_page_belongs_to_it(db):
    write(db, [record("first", timestamp=NOON - 2 * DAY_S, session_id="long"), record("other", timestamp=NOON - DAY_S, session_id="x")])
    write(db, [record("last", timestamp=NOON, session_id="long", status="error")])
    before = requests.place(db, "other")
    assert newest_groups(db, search_of(SESSION, before, trouble="error"), 5) == [("long", "default")]


def test_an_empty_database_has_none(db):
    assert newest_groups(db, search_of(TURN, None, trouble="any"), 5) == []
    assert newest_groups(db, search_of(TURN, None), 5) == []


def test_the_newest_and_the_oldest_request_are_looked_up_in_the_index(sqlite_db):
    plan = [detail for *_, detail in sqlite_db.execute(f"explain query plan {group_starts.EXTENT}")]
    assert sum("SEARCH" in step for step in plan) == 2
    assert not any("SCAN requests" in step for step in plan), plan
