"""Figures of any stretch of time are the sums of its records, however it is divided between rollups and records."""

from __future__ import annotations

from collections import Counter
from random import Random

import msgspec

from gw.store import rollups, windows
from gw.store.latency import MergedBuckets, QueryContext
from gw.store.postgres.sum_versions import SumVersions
from gw.store.window_pieces import Buckets, Rows, TimeWindow, pieces
from gw.types.usage import AttemptRecord, Usage
from tests.fakes.databases import write
from tests.fakes.records import NOON, record

HOUR, DAY_S = 3_600, 86_400
MIDNIGHT = NOON - DAY_S // 2


def part(provider, cost_nusd, **fields):
    return AttemptRecord(
        model_id=f"{provider}/x", outcome="cut", started_ms=0.0, duration_ms=1.0, pricing_source="config", cost_nusd=cost_nusd,
        input_tokens=3, wasted_nusd=0, saved_nusd=2, **fields,
    )  # fmt: skip


def made(dice: Random, number: int):
    """Return a record of the four days before NOON; each sixth has moved from one vendor to another."""
    moved = number % 6 == 0
    modality = dice.choice(["stt", "llm", "tts"])
    cost = dice.choice([None, 0, 5, 10**9])
    parts = (part("a", 7, audio_seconds=1.5), part("b", None if cost is None else cost, characters=4))
    return record(
        f"r{number}",
        timestamp=NOON - dice.uniform(0, 4 * DAY_S),
        project=dice.choice(["p", "q"]),
        modality=modality,
        model_id=(model := dice.choice(["a/x", "b/x"])),
        provider=model[0],
        status=dice.choice(["success", "error", "fallback", "cancelled"]),
        cost_nusd=(cost or 0) + 7 if moved else cost,
        pricing_source="config" if cost is not None else "unpriced + config" if moved else "",
        estimated_nusd=11 if cost is None and not moved else 0,
        wasted_nusd=0 if moved or cost is None else cost // 2,
        ttfb_ms=dice.choice([None, dice.uniform(1, 900)]),
        total_latency_ms=dice.uniform(1, 9_000),
        usage=Usage(input_tokens=dice.randrange(9), audio_seconds=dice.choice([0.0, 2.5])),
        measured=Usage(audio_seconds=1.25, characters=8) if number % 5 == 0 else None,
        attempts=parts if moved else (part("a", 0),) if number % 4 == 0 else (),
    )


def context(db):
    return QueryContext(db, MergedBuckets(None))


def test_every_window_has_the_figures_of_its_records(db):
    dice = Random(20)
    records = [made(dice, number) for number in range(150)]
    write(db, records)
    edges = [MIDNIGHT, MIDNIGHT - DAY_S, NOON, NOON - HOUR, *(NOON - dice.uniform(0, 4 * DAY_S) for _ in range(4))]
    cells = 0
    for since in (None, *edges):
        for until in (None, *edges):
            for project in (None, "p"):
                if since is not None and until is not None and since >= until:
                    continue
                window = TimeWindow(since, until)
                chosen = [r for r in records if _within(r, window) and project in (None, r.project)]
                _check(context(db), window, project, chosen)
                cells += 1
    assert cells == 90


def _within(item, window):
    return (window.since is None or item.timestamp >= window.since) and (window.until is None or item.timestamp < window.until)


def _check(asked, window, project, chosen):
    sums = windows.totals(asked, window, project)
    assert sums.requests == len(chosen)
    assert sums.errors == sum(r.status == "error" for r in chosen)
    assert sums.cost_nusd == sum(r.cost_nusd or 0 for r in chosen)
    expected = {}
    for row in rollups.cost_rows(chosen):
        key = (row.provider, row.model_id, row.project, row.modality)
        expected[key] = expected[key] + row if key in expected else row
    rows = {(row.provider, row.model_id, row.project, row.modality): row for row in windows.costs(asked, window, project)}
    assert rows == {key: row for key, row in expected.items() if key in rows}
    assert sum(row.cost_nusd for row in rows.values()) == sum(row.cost_nusd for row in expected.values())
    assert sum(row.calls for row in rows.values()) == sum(row.calls for row in expected.values())
    latencies = windows.latency_by(asked, window, "modality", project)
    assert sum(row.ttfb.count for row in latencies.values()) == sum(r.ttfb_ms is not None for r in chosen)
    assert sum(row.total.count for row in latencies.values()) == sum(r.status in ("success", "fallback") for r in chosen)
    split = {"project": project, "model_id": None}
    for step in (600, HOUR, DAY_S):
        if step < HOUR and window.since is None:
            continue
        for by in ("none", "model", "project"):
            points = windows.points(asked, window, step, "cost", by=by, **split)
            assert sum(point.value for point in points) == sum(r.cost_nusd or 0 for r in chosen), (step, by)
        points = windows.points(asked, window, step, "requests", by="none", **split)
        steps = sorted(int(r.timestamp // step) for r in chosen)
        assert [point.bucket for point in points for _ in range(point.value)] == steps
        timed = windows.latency_points(asked, window, step, by="none", **split)
        assert sum(row.ttfb.count for row in timed.values()) == sum(r.ttfb_ms is not None for r in chosen)
        _check_models(asked, window, step, project, chosen)


def _check_models(asked, window, step, project, chosen):
    expected = Counter((int(r.timestamp // step), r.model_id, r.modality) for r in chosen)
    timed = windows.latency_points(asked, window, step, by="model and modality", project=project, model_id=None)
    assert {key: row.requests for key, row in timed.items()} == {(at, f"{model} ({of})"): n for (at, model, of), n in expected.items()}
    one = windows.latency_points(asked, window, step, by="none", project=project, model_id="a/x")
    times = Counter(int(r.timestamp // step) for r in chosen if r.model_id == "a/x" and r.ttfb_ms is not None)
    assert {at: row.ttfb.count for (at, _), row in one.items() if row.ttfb.count} == dict(times)
    by_provider = windows.latency_by(asked, window, "provider", project)
    answered = Counter(r.provider for r in chosen if r.status in ("success", "fallback"))
    assert {name: row.total.count for name, row in by_provider.items() if row.total.count} == dict(answered)


def test_a_window_is_divided_into_days_hours_and_records(db):
    write(db, [record("old", timestamp=0.0)])
    first = MIDNIGHT - 2 * DAY_S - 1.5 * HOUR
    day, hour = int(MIDNIGHT // DAY_S), int(MIDNIGHT // HOUR)
    assert set(pieces(context(db), TimeWindow(first, MIDNIGHT + 2.5 * HOUR))) == {
        Rows(first, first + HOUR / 2),
        Buckets("hour", hour - 49, hour - 49),
        Buckets("day", day - 2, day - 1),
        Buckets("hour", hour, hour + 1),
        Rows(MIDNIGHT + 2 * HOUR, MIDNIGHT + 2.5 * HOUR),
    }
    assert pieces(context(db), TimeWindow(NOON + 1, NOON + 5)) == [Rows(NOON + 1, NOON + 5)]
    assert pieces(context(db), TimeWindow(None, None)) == [Buckets("day", None, None)]
    assert pieces(context(db), TimeWindow(MIDNIGHT, None)) == [Buckets("day", day, None)]


def test_an_hour_counts_completely_once_records_of_it_are_deleted(db):
    write(db, [record(f"{n}", timestamp=NOON + 600 * n, cost_nusd=1) for n in range(12)])
    db.execute("delete from requests where timestamp < ?", (NOON + 1_300,))
    half_past = TimeWindow(NOON + HOUR / 2, None)
    assert windows.totals(context(db), half_past, None).requests == 9, "all of these records are still there"
    earlier = TimeWindow(NOON + 900, None)
    assert windows.totals(context(db), earlier, None).requests == 12, "so all of the first hour counts"
    points = windows.points(context(db), earlier, 600, "requests", by="none", project=None, model_id=None)
    assert [(point.bucket - int(NOON // 600), point.value) for point in points] == [(0, 6), *((n, 1) for n in range(6, 12))]


def test_points_of_a_young_gateway_are_fine_from_its_first_record_on(db):
    write(db, [record(f"{n}", timestamp=NOON + 1_000 + 10 * n) for n in range(5)])
    window = TimeWindow(NOON - DAY_S, None)
    points = windows.points(context(db), window, 10, "requests", by="none", project=None, model_id=None)
    assert [point.value for point in points] == [1] * 5
    timed = windows.latency_points(context(db), window, 10, by="none", project=None, model_id=None)
    assert [row.requests for row in timed.values()] == [1] * 5


class Stretches:
    """A database that notes from when to when records are read."""

    def __init__(self, db):
        self._db = db
        self.read = set()

    def execute(self, text, bindings=None):
        if "requests_" in text:
            self.read.add((bindings["since"], bindings["until"]))
        return self._db.execute(text, bindings)


def test_costs_of_a_part_of_an_hour_are_kept_until_something_is_added_to_the_hour(db):
    dice, hour = Random(4), NOON - HOUR
    at = [hour - 60, *(hour + 3_600 * dice.random() for _ in range(39))]  # the first one: of the hour nothing is deleted
    write(db, [msgspec.structs.replace(made(dice, number), timestamp=when) for number, when in enumerate(at)])
    merged, window = MergedBuckets(SumVersions()), TimeWindow(hour + 130, hour + 3_300)
    all_of_it, ends_of_it = {(hour + 130, hour + 3_300)}, {(hour + 130, hour + 600), (hour + 3_000, hour + 3_300)}

    def costs():
        counted = Stretches(db)
        rows = windows.costs(QueryContext(counted, merged), window, None)
        assert rows == windows.costs(context(db), window, None)
        return rows, counted.read

    first, _, third = costs(), costs(), costs()
    assert first[1] == all_of_it
    assert third == (first[0], ends_of_it)
    write(db, [msgspec.structs.replace(made(dice, 40), timestamp=hour + 1_500)])
    changed, read = costs()
    assert sum(row.requests for row in changed) == sum(row.requests for row in first[0]) + 1
    assert read == all_of_it
