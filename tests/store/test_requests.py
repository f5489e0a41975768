import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.policy.hedge import HedgeSpend
from gw.relay.meter import hedged_nusd
from gw.store import migrations, requests
from gw.store.id_endings import ENDS_SO
from gw.store.postgres.dialect import translate
from gw.store.requests import LogFilter, page, place
from gw.telemetry.clock import DAY_S, utc_day
from gw.types.usage import AttemptRecord, RequestRecord, Usage
from tests.fakes import databases
from tests.fakes.databases import write
from tests.fakes.records import NOON, record

FULL = record(
    "full",
    ttfb_ms=None,
    gateway_ms=None,
    cost_nusd=None,
    usage=Usage(
        input_tokens=1,
        cached_input_tokens=2,
        cache_write_tokens=3,
        output_tokens=4,
        reasoning_tokens=3,
        input_audio_tokens=5,
        output_audio_tokens=6,
        audio_seconds=7.5,
        characters=8,
        source="estimated",
    ),
    measured=Usage(characters=9),
    attempts=(
        AttemptRecord(model_id="a/b", outcome="rate_limited", started_ms=0, duration_ms=4, upstream_status=429),
        AttemptRecord(model_id="c/d", outcome="ok", started_ms=4, duration_ms=9, ttfb_ms=3),
    ),
    fallback_from="a/b",
    error_code="e",
    stream=True,
    session_id="s",
    turn_id="t",
    key_id="k",
)


@pytest.mark.parametrize("one", [record(), FULL], ids=["usual", "full"])
def test_a_record_comes_back_as_it_went(db, one):
    write(db, [one])
    assert requests.find(db, one.id) == one


def test_an_id_goes_in_once(db):
    first, again = record("a", cost_nusd=1), record("a", cost_nusd=2)
    assert write(db, [first, again]) == 1
    assert write(db, [again, record("b")]) == 1
    assert requests.find(db, "a") == first
    assert requests.find(db, "a") == first
    assert requests.count(db) == 2


def test_what_is_not_there_is_none(db):
    assert requests.find(db, "x") is None


@pytest.mark.parametrize("n", [10**30, -(10**30), 10**400, -(10**5000)], ids=["large", "-large", "endless", "-endless"])
def test_absurd_numbers_do_not_hold_up_the_rest(db, n):
    odd = record(
        cost_nusd=n,
        timestamp=math.nan,
        total_latency_ms=math.inf,
        ttfb_ms=math.nan,
        usage=Usage(input_tokens=n, audio_seconds=math.inf),
    )
    write(db, [odd, record("next")])
    limited = requests.find(db, "r1")
    assert abs(limited.cost_nusd) == abs(limited.usage.input_tokens) == requests.LARGEST
    assert (limited.timestamp, limited.total_latency_ms, limited.ttfb_ms, limited.usage.audio_seconds) == (0, 0, 0, 0)
    assert requests.count(db) == 2


CHOICES = {
    "modality": ["stt", "llm"],
    "project": ["p", "q"],
    "status": ["success", "error"],
    "model_id": ["a/x", "b/x"],
    "session_id": ["s", None],
    "turn_id": ["t", None],
    "provider": ["a", "b"],
    "error_code": ["e", None],
}
some_records = st.lists(
    st.fixed_dictionaries(
        {"timestamp": st.sampled_from([NOON, NOON + 1, NOON + 2])}
        | {name: st.sampled_from(values) for name, values in CHOICES.items()}
    ),
    max_size=12,
)
some_filters = st.fixed_dictionaries({name: st.sampled_from([None, *values]) for name, values in CHOICES.items()})


@given(some_records, some_filters, st.integers(1, 4))
def test_pages_together_are_all_that_pass_the_filters_newest_first(fields, filters, size):
    records = [record(f"{n:02}", **f) for n, f in enumerate(fields)]
    with databases.new_database("sqlite") as db:
        _check_pages(db, records, filters, size)


def _check_pages(db, records, filters, size):
    write(db, records)
    passing = [r for r in records if all(v is None or getattr(r, name) == v for name, v in filters.items())]
    expected = sorted(passing, key=lambda r: (r.timestamp, r.id), reverse=True)  # ids rise as records are inserted
    seen: list[RequestRecord] = []
    before = None
    while page := requests.page(db, limit=size, before=before, log_filter=LogFilter(**filters)):
        assert len(page) <= size
        seen += page
        before = requests.place(db, page[-1].id)
    assert seen == expected


INDEXES = [
    ({}, "time"),
    ({"modality": "stt"}, "time"),
    ({"provider": "a"}, "time"),
    ({"status": "success"}, "time"),
    ({"status": "success", "project": "p"}, "project"),
    ({"project": "p"}, "project"),
    ({"model_id": "a/x", "project": "p"}, "model_id"),
    ({"status": "error", "model_id": "a/x"}, "unusual"),
    ({"status": "fallback"}, "unusual"),
    ({"error_code": "e", "status": "error"}, "error_code"),
    ({"session_id": "s", "project": "p"}, "session_id"),
    ({"turn_id": "t", "session_id": "s"}, "turn_id"),
]


@pytest.mark.parametrize(("filters", "index"), INDEXES)
def test_a_page_reads_one_index_range_and_sorts_nothing(sqlite_db, filters, index):
    plans = []
    db = sqlite_db
    db.exec_trace = lambda cursor, sql, bindings: plans.append((sql, bindings)) or True
    requests.page(db, limit=5, before=(NOON, 7), log_filter=LogFilter(**filters))
    db.exec_trace = None
    [(sql, bindings)] = plans
    steps = [row[3] for row in db.execute(f"explain query plan {sql}", bindings)]
    assert len(steps) == 1
    assert f"USING INDEX requests_{index} (" in steps[0]


def test_no_index_is_without_a_question(sqlite_db):
    used = {f"requests_{index}" for _, index in INDEXES} | {"requests_turns", "requests_ending"}
    named = sqlite_db.execute("select name from sqlite_schema where type = 'index' and tbl_name = 'requests'")
    assert {name for (name,) in named} - {"sqlite_autoindex_requests_1"} == used


def test_pruning_takes_the_oldest_first_and_not_too_many(sqlite_db):
    db = sqlite_db
    write(db, [record(f"{n}", timestamp=NOON + n) for n in (3, 1, 2, 0)])
    assert requests.prune(db, before=NOON + 3, limit=2) == 2
    assert [r.id for r in requests.page(db, limit=9)] == ["3", "2"]
    assert requests.prune(db, before=NOON + 3, limit=2) == 1
    assert requests.prune(db, before=NOON + 3, limit=2) == 0


@pytest.mark.parametrize(
    ("value", "as_int", "as_float"),
    [
        (7, 7, 7.0), (10**400, requests.LARGEST, 1e15), (-(10**400), -requests.LARGEST, -1e15),
        (1e308, requests.LARGEST, 1e15), (2.5, 2, 2.5), (math.inf, 0, 0.0), (math.nan, 0, 0.0), (-math.inf, 0, 0.0), (True, 1, 1.0),
    ],
    ids=range(9),
)  # fmt: skip
def test_numbers_are_brought_within_their_column(value, as_int, as_float):
    assert requests.bounded_int(value) == as_int
    assert requests.bounded_float(value) == as_float


def test_cleaning_reaches_everything():
    matches = requests.clean({"a": ["x\udcff", (math.inf, 10**400)], "b": {"c": True, "d": None}})
    assert matches == {"a": ["x?", [0.0, requests.LARGEST]], "b": {"c": True, "d": None}}


def test_the_hedges_of_a_day(db):
    def attempt(name, **fields):
        return AttemptRecord(model_id=name, outcome="ok", started_ms=0, duration_ms=1, **fields)

    day = utc_day(NOON)
    hedged = (attempt("a/b", cost_nusd=100), attempt("c/d", hedges=True, cost_nusd=7))
    unpriced = (attempt("a/b"), attempt("c/d", hedges=True, estimated_nusd=5), attempt("e/f", hedges=True))
    write(db, [
        record("1", attempts=hedged), record("2", attempts=unpriced), record("3"), record("4", project="other"),
        record("5", attempts=hedged, timestamp=NOON - DAY_S),
    ])  # fmt: skip
    assert [hedged_nusd(record(attempts=attempts)) for attempts in (hedged, unpriced)] == [7, 5], "the same while it runs"
    assert requests.hedges(db, day) == {
        record().project: HedgeSpend(nusd=12, hedges=3, requests=3), "other": HedgeSpend(nusd=0, hedges=0, requests=1)
    }  # fmt: skip
    assert requests.hedges(db, day + 1) == {}


def test_ids_that_begin_or_end_alike_come_in_order_of_time_however_many(db, monkeypatch):
    monkeypatch.setattr(requests, "_FEW", 20)
    ids = {f"{'ab' if n % 3 else 'cd'}{n:04}-{n % 7}": NOON + (n % 5) * 86_400 * 3 + n for n in range(150)}
    write(db, [record(id_, timestamp=timestamp) for id_, timestamp in ids.items()])
    newest_first = sorted(ids, key=ids.__getitem__, reverse=True)
    for part in ("ab", "cd", "ab00", "-3", "2-3", "0002-2", "x", "%", "_"):
        expected = [id_ for id_ in newest_first if id_.startswith(part)] or [id_ for id_ in newest_first if id_.endswith(part)]
        found, before = [], None
        while rows := page(db, limit=7, log_filter=LogFilter(id_part=part), before=before):
            found += [row.id for row in rows]
            before = place(db, rows[-1].id)
        assert found == expected, part
    assert len(found) == 0 < len(ids)


def test_the_end_of_an_id_is_looked_up_in_each_day(sqlite_db):
    db = sqlite_db
    write(db, [record(f"{n:032x}", timestamp=day * DAY_S + n) for n in range(500) for day in (n % 3, 90 + n % 2, 20_000)])
    write(db, [record("never", timestamp=-1e15), record("later", timestamp=1e15)])
    plans: list[tuple[str, object]] = []
    db.exec_trace = lambda cursor, sql, bindings: plans.append((sql, bindings)) or True
    rows = page(db, limit=9, log_filter=LogFilter(id_part="001f3"))
    db.exec_trace = None
    assert [row.id for row in rows] == [f"{499:032x}"]
    sql, bindings = plans[-1]
    steps = [str(row[3]) for row in db.execute(f"explain query plan {sql}", bindings)]
    assert any(step.startswith("SEARCH requests USING INDEX requests_ending (<expr>=? AND <expr>=?)") for step in steps), steps
    assert not [step for step in steps if step.startswith("SCAN requests") and "requests_ending" not in step], steps
    assert [row.id for row in page(db, limit=9, log_filter=LogFilter(id_part="ater"))] == ["later"]
    assert [row.id for row in page(db, limit=9, log_filter=LogFilter(id_part="never"))] == ["never"]
    assert [row.id for row in page(db, limit=9, log_filter=LogFilter(id_part="ver", until=0.0))] == ["never"]


def test_an_earlier_database_gets_its_index_of_ends(sqlite_db):
    db = sqlite_db
    write(db, [record(f"{n:032x}", timestamp=NOON + n) for n in range(50)])
    db.execute("drop index requests_ending")
    db.pragma("user_version", migrations.MIGRATIONS.index(migrations.sum_migrations.endings))
    assert migrations.migrate(db) == 1
    assert [row.id for row in page(db, limit=9, log_filter=LogFilter(id_part="00031"))] == [f"{49:032x}"]


@pytest.mark.parametrize("kind", databases.POSTGRES)
def test_the_end_of_an_id_is_looked_up(db):
    write(db, [record(f"{n:032x}", timestamp=NOON + n) for n in range(500)])
    db.raw.execute("analyze requests")
    sql = translate(f"explain select id from requests where {ENDS_SO}")
    plan = "\n".join(line for (line,) in db.raw.execute(sql.encode(), {"part": "00001f3"}))
    assert "reverse" in plan.partition("Index Cond")[2], plan
