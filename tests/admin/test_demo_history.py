from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest

from gw.admin.demo_history import DAYS, PROJECT, sample_records
from gw.config.parse import demo_settings
from gw.pricing.rate_tables import load_book
from gw.telemetry.clock import DAY_S, utc_day
from gw.types.ids import split_model_id

NOW = 20_000 * DAY_S + 15 * 3_600.0
"""A Wednesday, 15:00 UTC."""
BOOK = load_book()


@pytest.fixture(scope="module")
def records():
    return list(sample_records(NOW, book=BOOK))


@pytest.fixture
def settings(tmp_path):
    return demo_settings(tmp_path)


def test_every_record_is_marked_and_is_unique(records):
    assert {record.project for record in records} == {PROJECT} == {"demo-history"}
    assert {record.endpoint for record in records} == {"sample"}
    assert all(record.id.startswith("sample-") for record in records)
    assert len({record.id for record in records}) == len(records)


def test_it_is_a_plausible_amount_on_each_day_before_today(records):
    per_day = Counter(utc_day(record.timestamp) for record in records)
    assert sorted(per_day) == list(range(utc_day(NOW) - DAYS, utc_day(NOW)))
    assert 1_500 < len(records) < 3_500


@pytest.mark.parametrize("second", [0, DAY_S - 1])
def test_none_is_of_today_at_any_hour(second):
    today = utc_day(NOW)
    assert {utc_day(r.timestamp) for r in sample_records(today * DAY_S + second, 1, book=BOOK)} == {today - 1}


def test_no_session_reaches_into_the_next_day():
    late = max(record.timestamp % DAY_S for record in sample_records(NOW, 60, book=BOOK))
    assert late > 23 * 3_600
    last_begin = 23 * 3_600 + 3_300
    assert late < last_begin + 6 * 40  # its turns
    for record in sample_records(NOW, 60, book=BOOK):
        assert record.id.startswith(f"sample-{utc_day(record.timestamp)}-")


def test_a_day_is_the_same_whenever_it_is_asked_for(records):
    again = {record.id: record for record in sample_records(NOW + 3 * DAY_S, book=BOOK)}
    common = [record for record in records if record.id in again]
    assert len({utc_day(record.timestamp) for record in common}) == DAYS - 3
    assert all(again[record.id] == record for record in common)


def test_working_days_and_hours_are_busier():
    per_weekday: Counter[int] = Counter()
    per_hour: Counter[int] = Counter()
    for record in sample_records(NOW, 70, book=BOOK):
        per_weekday[(utc_day(record.timestamp) + 3) % 7] += 1
        per_hour[int(record.timestamp % DAY_S // 3_600)] += 1
    assert min(per_weekday[day] for day in range(5)) > max(per_weekday[5], per_weekday[6])
    assert min(per_hour[9], per_hour[14]) > 3 * max(per_hour[hour] for hour in range(6))


def test_models_projects_and_chain_are_those_of_the_demo(records, settings):
    known = {(model.modality, model.id) for model in settings.models.values()}
    used = {(record.modality, attempt.model_id) for record in records for attempt in record.attempts}
    assert used == known
    assert PROJECT in settings.projects
    assert {record.provider for record in records} == set(settings.providers)
    for record in (record for record in records if record.attempts):
        others = [model for model in settings.fallbacks.get(record.modality, ()) if model != record.requested_model]
        tried = [attempt.model_id for attempt in record.attempts]
        assert tried == [record.requested_model, *others][: len(tried)]


def test_money_is_what_the_price_book_says(records):
    for record in records:
        if record.status == "error":
            assert (record.cost_nusd, record.pricing_source) == (0, "")
            continue
        price = BOOK.price(*split_model_id(record.model_id), at_day=utc_day(record.timestamp))
        cost = BOOK.cost(record.usage, price, local=True)
        assert (record.cost_nusd, record.pricing_source) == (cost.nusd, cost.source)
        assert cost.nusd > 0


def test_the_daily_budget_stops_the_busiest_days(records, settings):
    budget = settings.projects[PROJECT].daily_budget_nusd
    spent: dict[int, int] = defaultdict(int)
    refused = 0
    for record in records:
        day = utc_day(record.timestamp)
        if record.error_code == "budget_exceeded":
            assert spent[day] >= budget
            assert (record.status, record.attempts, record.cost_nusd) == ("error", (), 0)
            refused += 1
        spent[day] += record.cost_nusd
    assert refused
    assert max(spent.values()) < 1.5 * budget


def test_things_go_wrong_now_and_then(records):
    share = {status: n / len(records) for status, n in Counter(record.status for record in records).items()}
    assert share["success"] > 0.9
    assert 0.01 < share["fallback"] < 0.08
    assert 0.005 < share["cancelled"] < 0.04
    assert 0.002 < share["error"] < 0.03


def test_a_record_agrees_with_its_attempts(records):
    for record in records:
        *failed, last = record.attempts or (None,)
        if last is None:
            assert record.ttfb_ms is None
            continue
        assert all(attempt.outcome != "ok" and attempt.error_code for attempt in failed)
        assert (last.outcome == "ok") == (record.status != "error") == (record.error_code is None)
        assert record.model_id == last.model_id
        assert record.fallback_from == (record.requested_model if failed and last.outcome == "ok" else None)
        assert (record.status == "fallback") <= bool(failed)
        assert record.total_latency_ms > last.started_ms + last.duration_ms
        if record.ttfb_ms is not None:
            assert last.started_ms < record.ttfb_ms < record.total_latency_ms
        begins = [attempt.started_ms for attempt in record.attempts]
        assert begins == sorted(begins)


def test_turns_listen_then_think_then_speak_and_end_at_an_error(records):
    turns = defaultdict(list)
    for record in records:
        turns[record.session_id, record.turn_id].append(record)
    assert all(session and turn for session, turn in turns)
    for stages in turns.values():
        assert [stage.modality for stage in stages] == ["stt", "llm", "tts"][: len(stages)]
        assert len(stages) == 3 or stages[-1].error_code
        for before, after in pairwise(stages):
            assert after.timestamp >= before.timestamp + before.total_latency_ms / 1_000 - 1e-3
            assert before.error_code is None
    sessions = Counter(session for session, _ in turns)
    assert max(sessions.values()) > 3


def test_latencies_have_a_long_tail(records):
    first = sorted(record.ttfb_ms for record in records if record.modality == "llm" and record.status == "success")
    median, p99 = first[len(first) // 2], first[len(first) * 99 // 100]
    assert 200 < median < 330
    assert 1.7 < p99 / median < 4
