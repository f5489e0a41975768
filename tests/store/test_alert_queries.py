import pytest

from gw.store import alert_rows
from gw.store.alert_queries import ProviderCalls, record_facts
from gw.store.alert_rows import AlertChange
from gw.store.latency import MergedBuckets, QueryContext
from gw.types.alerts import Mute
from gw.types.usage import AttemptRecord
from tests.fakes import databases
from tests.fakes.temporary_gateway import NOON, record


def attempt(model_id, outcome):
    return AttemptRecord(model_id=model_id, outcome=outcome, started_ms=0.0, duration_ms=1.0)


@pytest.fixture
def facts(db):
    def read(*records):
        databases.write(db, records)
        return record_facts(QueryContext(db, MergedBuckets(None)), NOON, 600.0)

    return read


def test_calls_errors_and_fallbacks_of_the_last_minutes(facts):
    good = [record(number, timestamp=NOON - number) for number in range(1, 6)]
    fell = record(
        10, timestamp=NOON - 10, status="fallback", fallback_from="openai/gpt-4o",
        attempts=(attempt("openai/gpt-4o", "failed"), attempt("groq/openai/gpt-oss-20b", "ok")),
    )
    failed = record(
        11, timestamp=NOON - 11, status="error", error_code="upstream_failed", cost_nusd=0,
        attempts=(attempt("openai/gpt-4o", "breaker_open"), attempt("groq/openai/gpt-oss-20b", "too_slow")),
    )
    busy = record(12, timestamp=NOON - 12, status="cancelled", attempts=(attempt("groq/openai/gpt-oss-20b", "busy"),))
    old = record(13, timestamp=NOON - 601, status="error", attempts=(attempt("openai/gpt-4o", "failed"),))
    refused = record(14, timestamp=NOON - 14, status="error", refused=True, error_code="budget_exceeded", attempts=())
    seen = facts(*good, fell, failed, busy, old, refused)
    assert (seen.requests, seen.errors, seen.fallbacks) == (7, 1, 1)
    assert seen.providers == {
        "groq": ProviderCalls(calls=7, failed=1, busy=1), "openai": ProviderCalls(calls=1, failed=1),
    }
    assert (seen.turns, seen.first_audio_p95_ms) == (0, None)


def test_models_without_a_price_today(facts):
    day_before = record(2, timestamp=NOON - 86_400, cost_nusd=None, pricing_source="unpriced", model_id="groq/older")
    seen = facts(record(1, timestamp=NOON - 20_000, cost_nusd=None, pricing_source="unpriced"), day_before)
    assert seen.unpriced == ["groq/openai/gpt-oss-20b"]
    assert facts().requests == 0


def test_muted_rules(db, facts):
    alert_rows.write(db, AlertChange(mutes=(Mute(rule="prices_old", until=NOON + 1), Mute(rule="error_rate", until=NOON - 1))))
    assert facts().muted == ["prices_old"]
