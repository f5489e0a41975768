from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gw.store import latency, requests, rollups
from gw.store.latency import MergedBuckets, QueryContext
from gw.telemetry.clock import utc_day
from gw.telemetry.histogram import Histogram
from gw.types.usage import AttemptRecord, Usage
from tests.fakes import databases
from tests.fakes.databases import write
from tests.fakes.records import DAY, NOON, record

PROJECTS = ("p0", "p1", "p2", "default")
TALLIES = requests.Totals.__struct_fields__


def context(db):
    return QueryContext(db, MergedBuckets(None))


fields = st.fixed_dictionaries(
    {
        "timestamp": st.sampled_from([NOON, NOON + 3600, NOON + 86_400]),
        "project": st.sampled_from(["p", "q"]),
        "model_id": st.sampled_from(["a/x", "b/x"]),
        "status": st.sampled_from(["success", "error", "fallback", "cancelled"]),
        "refused": st.booleans(),
        "fallback_from": st.sampled_from([None, "a/y"]),
        "cost_nusd": st.none() | st.integers(0, 10**12),
        "ttfb_ms": st.none() | st.floats(0, 1e5),
        "total_latency_ms": st.floats(0, 1e6),
        "usage": st.builds(Usage, input_tokens=st.integers(0, 999), audio_seconds=st.integers(0, 99).map(float)),
    }
)


@settings(max_examples=40)
@given(st.lists(st.lists(fields, max_size=5), max_size=5), st.sampled_from([None, "p"]), st.sampled_from([None, DAY + 1]))
def test_reports_are_the_sums_of_the_records(batches, project, since_day):
    with databases.new_database("sqlite") as db:
        _check_sums(db, batches, project, since_day)


def _check_sums(db, batches, project, since_day):
    everything = []
    for batch in batches:
        records = [
            record(f"{len(everything) + n}", **{**f, "refused": f["refused"] and f["status"] == "error"}) for n, f in enumerate(batch)
        ]
        write(db, records)
        everything += records
    counted = [
        r
        for r in everything
        if (project is None or r.project == project) and (since_day is None or utc_day(r.timestamp) >= since_day)
    ]
    costs = rollups.costs(db, since_day, project)
    assert sum(row.cost_nusd for row in costs) == sum(r.cost_nusd or 0 for r in counted)
    assert sum(row.unpriced for row in costs) == sum(r.cost_nusd is None for r in counted)
    assert sum(row.input_tokens for row in costs) == sum(r.usage.input_tokens for r in counted)
    assert sum(row.audio_seconds for row in costs) == sum(r.usage.audio_seconds for r in counted)
    assert {(row.project, row.model_id): row.requests for row in costs} == _counts(counted)
    totals = rollups.totals(db, since_day, project)
    statuses = [r.status for r in counted]
    refused = sum(r.refused for r in counted)
    assert (totals.requests, totals.errors, totals.refused, totals.fallbacks, totals.cancelled) == (
        len(counted),
        statuses.count("error") - refused,
        refused,
        sum(r.status == "fallback" or r.fallback_from is not None for r in counted),
        statuses.count("cancelled"),
    )
    assert (totals.cost_nusd, totals.unpriced) == (sum(r.cost_nusd for r in costs), sum(r.unpriced for r in costs))
    for model_id, row in latency.latencies(context(db), since_day, project).items():
        own = [r for r in counted if r.model_id == model_id]
        _same(row.ttfb, [r.ttfb_ms for r in own if r.ttfb_ms is not None])
        _same(row.total, [r.total_latency_ms for r in own if r.status in ("success", "fallback")])
        assert row.requests == len(own)
    assert _hours(db) == _days(db)
    db.close()


def _counts(records):
    keys = [(r.project, r.model_id) for r in records]
    return {key: keys.count(key) for key in keys}


def _same(histogram, values):
    direct = Histogram(values)
    assert histogram.sum_ms == pytest.approx(direct.sum_ms)
    assert [histogram.quantile(q) for q in (0, 0.5, 1)] == [direct.quantile(q) for q in (0, 0.5, 1)]


def _hours(db):
    return list(db.execute("select bucket / 24, sum(requests), sum(cost_nusd) from rollup_hour group by 1 order by 1"))


def _days(db):
    return list(db.execute("select bucket, sum(requests), sum(cost_nusd) from rollup_day group by 1 order by 1"))


def test_an_unpriced_request_is_counted_and_not_summed(db):
    write(db, [record("a", cost_nusd=None), record("b", cost_nusd=7)])
    [row] = rollups.costs(db, DAY, None)
    assert (row.cost_nusd, row.requests, row.unpriced) == (7, 2, 1)


def test_the_dearest_comes_first(db):
    write(db, [record("a", model_id="a/x", cost_nusd=1), record("b", model_id="b/x", cost_nusd=2)])
    assert [row.model_id for row in rollups.costs(db, None, None)] == ["b/x", "a/x"]


def test_what_was_there_already_is_not_counted_again(db):
    write(db, [record("a")])
    write(db, [record("a"), record("b"), record("b")])
    assert rollups.totals(db, None, None).requests == 2


def test_pruning_leaves_the_rollups(db):
    write(db, [record("a")])
    assert databases.prune(db, before=NOON + 86_400) == 1
    assert rollups.totals(db, None, None).requests == 1


def test_spend_is_that_of_one_day_by_project(db):
    later = NOON + 86_400
    write(db, [record("a", project="p"), record("b", project="q"), record("c", project="p", timestamp=later)])
    assert rollups.spend(db, DAY) == {"p": (1_000, 0), "q": (1_000, 0)}
    assert rollups.spend(db, DAY + 1) == {"p": (1_000, 0)}
    assert rollups.spend(db, DAY + 2) == {}


def test_nothing_at_all(db):
    assert rollups.costs(db, None, None) == []
    assert latency.latencies(context(db), None, None) == {}
    assert rollups.totals(db, None, None) == rollups.Totals(
        requests=0, errors=0, refused=0, fallbacks=0, cancelled=0, cost_nusd=0, unpriced=0, wasted_nusd=0, saved_nusd=0
    )


@pytest.mark.parametrize("grain", ["hour", "day"])
def test_where_the_buckets_begin_and_end_is_looked_up_not_searched_for(sqlite_db, grain):
    db = sqlite_db
    for number, days in enumerate((3, 0, 5)):
        write(db, [record(f"{number}", timestamp=NOON + days * 86_400)])
    plans = []
    db.exec_trace = lambda cursor, sql, bindings: plans.append((sql, bindings)) or True
    matches = latency.latency_points(context(db), grain, 0, 10**6, by="none", project=None, model_id=None)
    db.exec_trace = None
    assert [row.requests for row in matches.values()] == [1, 1, 1]
    steps = [row[3] for sql, bindings in plans for row in db.execute(f"explain query plan {sql}", bindings)]
    assert [step for step in steps if step.startswith("SCAN rollup")] == []


def test_waste_is_added_up_where_it_is_known(db):
    write(db, [record("a", wasted_nusd=5), record("b", wasted_nusd=None), record("c", wasted_nusd=7)])
    assert rollups.totals(db, None, None).wasted_nusd == 12
    assert [row.wasted_nusd for row in rollups.costs(db, None, None)] == [12]
    assert sum(point.wasted_nusd for point in rollups.points(db, "hour", 0, 10**6, by="none")) == 12


def test_the_sums_of_absurd_numbers_stay_sums(db):
    write(db, [record(f"{n}", cost_nusd=10**30) for n in range(3)])
    assert rollups.totals(db, None, None).cost_nusd == 3 * requests.LARGEST


def part(model_id, cost_nusd, **fields):
    source = "unpriced" if cost_nusd is None else "config"
    facts = {"outcome": "cut", "started_ms": 0.0, "duration_ms": 1.0, "pricing_source": source, **fields}
    return AttemptRecord(model_id=model_id, cost_nusd=cost_nusd, **facts)


def moved(id="m", **fields):  # noqa: A002
    """A session that began at a/x, was refused by c/x and ended at b/x."""
    attempts = (
        part("a/x", 70, audio_seconds=7.0, wasted_nusd=20),
        AttemptRecord(model_id="c/x", outcome="busy", started_ms=1.0, duration_ms=0.0),
        part("b/x", 5, audio_seconds=3.0, outcome="ok"),
    )
    usage = Usage(audio_seconds=10.0)
    facts = {"model_id": "b/x", "provider": "b", "status": "fallback", "cost_nusd": 75, "usage": usage, "wasted_nusd": 20}
    return record(id, **{"modality": "stt", "attempts": attempts, **facts, **fields})


def by_model(db, *names):
    return {row.model_id: tuple(getattr(row, name) for name in names) for row in rollups.costs(db, None, None)}


def test_each_vendor_has_its_part_of_a_session_that_moved(db):
    write(db, [moved(), record("alone", model_id="a/x", provider="a", modality="stt", cost_nusd=1)])
    assert by_model(db, "requests", "calls", "cost_nusd", "audio_seconds", "wasted_nusd") == {
        "a/x": (1, 2, 71, 7.0, 20),
        "b/x": (1, 1, 5, 3.0, 0),
    }
    totals = rollups.totals(db, None, None)
    assert (totals.requests, totals.fallbacks, totals.cost_nusd, totals.wasted_nusd) == (2, 1, 76, 20)
    assert {row.model: row.calls for row in rollups.usage_by_model(db, DAY, DAY, "stt", ["a", "b"])} == {"a/x": 2, "b/x": 1}
    assert _hours(db) == _days(db)


def test_a_part_has_no_time_and_no_outcome_of_its_own(db):
    write(db, [moved()])
    assert {name: row.requests for name, row in latency.latencies(context(db), None, None).items()} == {"b/x": 1}
    rows = latency.latency_points(context(db), "day", DAY, DAY, by="model", project=None, model_id=None)
    assert list(rows) == [(DAY, "b/x")]


def test_a_request_with_parts_of_unknown_cost_is_unpriced_once(db):
    attempts = (part("a/x", None, estimated_nusd=9), part("b/x", None, estimated_nusd=4), part("c/x", 3))
    write(db, [moved(attempts=attempts, cost_nusd=3, pricing_source="unpriced + config", estimated_nusd=13, wasted_nusd=0)])
    assert by_model(db, "unpriced", "estimated_nusd", "cost_nusd") == {"a/x": (0, 9, 0), "b/x": (1, 4, 0), "c/x": (0, 0, 3)}
    assert rollups.totals(db, None, None).unpriced == 1
    counted, _ = requests.between(db, NOON, NOON + 1, None)
    assert counted == rollups.totals(db, None, None)
    assert rollups.spend(db, DAY) == {"default": (16, 13)}


def test_a_model_that_was_never_called_is_on_no_bill(db):
    write(db, [record("refused", cost_nusd=0, pricing_source="", status="error", attempts=())])
    assert rollups.usage_by_model(db, DAY, DAY, "llm", ["openai"]) == []


def test_a_part_counts_for_the_provider_that_its_model_names(db):
    write(db, [moved(attempts=(part("a/x", 70, provider="other"), part("b/x", 5)))])
    assert {(row.provider, row.model_id): row.cost_nusd for row in rollups.costs(db, None, None)} == {
        ("other", "a/x"): 70, ("b", "b/x"): 5,
    }  # fmt: skip


def test_all_projects_together_are_the_sum_of_each(db):
    records = [
        record(f"{n}", project=f"p{n % 3}", model_id=f"{'abc'[n % 3]}/{n % 4}", timestamp=NOON + n * 1_000, cost_nusd=n or None,
               status=("success", "error", "fallback", "cancelled")[n % 4], ttfb_ms=None, wasted_nusd=n % 5)
        for n in range(60)
    ]  # fmt: skip
    write(db, [*records, record("r", status="error", error_code="interrupted", ttfb_ms=None, cost_nusd=None)])
    write(db, [record("r", project="p1", cost_nusd=7)], ends_interrupted=True)

    def sums(rows):
        found = {}
        for row in rows:
            key = (getattr(row, "bucket", 0), getattr(row, "name", ""))
            found[key] = [a + b for a, b in zip(found.get(key, [0] * 9), (getattr(row, name) for name in TALLIES), strict=True)]
        return found

    for grain in rollups.TABLES:
        for by in ("model", "provider", "modality", "none"):
            points = partial(rollups.points, db, grain, 0, 2**40, by=by)
            assert sums(points()) == sums(row for project in PROJECTS for row in points(project=project))
            assert sums(points(model_id="a/0")) == sums(row for project in PROJECTS for row in points(project=project, model_id="a/0"))
        totals = [rollups.totals(db, None, project, grain=grain) for project in (None, *PROJECTS)]
        assert sums(totals[:1]) == sums(totals[1:])
        assert totals[0].requests == 61
