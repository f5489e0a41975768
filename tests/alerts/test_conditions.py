import attrs
import msgspec
import pytest

from gw.alerts.conditions import AlertFacts, BudgetFact, Expiry, GateFact, sightings
from gw.config.alert_settings import AlertSettings
from gw.store.alert_queries import ProviderCalls, RecordFacts
from gw.types.alerts import ALERT_RULES

NOW, DAY = 1_800_000_000.0, 86_400
SETTINGS = AlertSettings()


def records(**changes):
    fields = {
        "requests": 100, "errors": 0, "fallbacks": 0, "providers": {}, "turns": 50, "first_audio_p95_ms": 900.0, "unpriced": [], "muted": []
    }
    return RecordFacts(**fields | changes)


def gate(**changes):
    return attrs.evolve(GateFact(provider="openai", breaker="closed", models={}, in_flight=0, places=None), **changes)


def budget(spent, blocks=True):
    return BudgetFact(owner="project shop", period="day", budget_nusd=1_000_000_000, spent_nusd=spent, blocks=blocks)


def certificate(days):
    return Expiry(rule="certificate_expiring", subject="", what="The certificate x.pem", at=NOW + days * DAY)


def key(days, made=-100):
    return Expiry(rule="key_expiring", subject="k1", what="The key till", at=NOW + days * DAY, since=NOW + made * DAY)


def failing(calls, failed, busy=0):
    return records(providers={"openai": ProviderCalls(calls=calls, failed=failed, busy=busy)})


CASES = [
    ({"budgets": [budget(799_000_000)]}, []),
    ({"budgets": [budget(800_000_000)]}, [("budget_warning", "project shop day", "warning")]),
    (
        {"budgets": [budget(1_000_000_000)]},
        [("budget_exceeded", "project shop day", "critical"), ("budget_warning", "project shop day", "warning")],
    ),
    ({"gates": [gate()]}, []),
    ({"gates": [gate(breaker="open")]}, [("provider_failing", "openai", "critical")]),
    ({"gates": [gate(breaker="half_open")]}, [("provider_failing", "openai", "critical")]),
    ({"gates": [gate(models={"llm:openai/gpt-4o": "open"})]}, [("provider_failing", "openai", "critical")]),
    ({"records": failing(10, 5)}, [("provider_failing", "openai", "critical")]),
    ({"records": failing(9, 9)}, []),
    ({"records": failing(100, 49)}, []),
    ({"gates": [gate(places=2, in_flight=1)]}, []),
    ({"gates": [gate(places=2, in_flight=2)]}, [("slots_full", "openai", "warning")]),
    ({"gates": [gate(full=["tts:openai/a"])]}, [("slots_full", "openai", "warning")]),
    ({"records": failing(0, 0, busy=5)}, [("slots_full", "openai", "warning")]),
    ({"records": failing(0, 0, busy=4)}, []),
    ({"records": records(errors=10)}, [("error_rate", "", "critical")]),
    ({"records": records(errors=9)}, []),
    ({"records": records(requests=9, errors=9)}, []),
    ({"records": records(fallbacks=30)}, [("fallback_rate", "", "warning")]),
    ({"records": records(first_audio_p95_ms=2_500.0)}, [("first_audio_slow", "", "warning")]),
    ({"records": records(first_audio_p95_ms=9_000.0, turns=9)}, []),
    ({"records": records(first_audio_p95_ms=None, turns=0)}, []),
    ({"records": records(unpriced=["openai/new"])}, [("unpriced_models", "", "warning")]),
    ({"table_days": {"openai": 90}}, []),
    ({"table_days": {"openai": 91, "groq": 5}}, [("prices_old", "openai", "warning")]),
    ({"expiries": [certificate(15)]}, []),
    ({"expiries": [certificate(13)]}, [("certificate_expiring", "", "warning")]),
    ({"expiries": [certificate(2)]}, [("certificate_expiring", "", "critical")]),
    ({"expiries": [certificate(-30)]}, [("certificate_expiring", "", "critical")]),
    ({"expiries": [key(13)]}, [("key_expiring", "k1", "warning")]),
    ({"expiries": [key(13, made=-1)]}, []),
    ({"expiries": [key(-3)]}, [("key_expiring", "k1", "warning")]),
    ({"expiries": [key(-8)]}, []),
    ({"degraded": "database or disk is full"}, [("records_not_stored", "", "critical")]),
    ({"waiting_records": 5_000}, [("journal_growing", "", "critical")]),
    ({"waiting_records": 4_999}, []),
    ({"problems": {"reload_failed": "It failed."}}, [("gateway_degraded", "reload_failed", "critical")]),
]


@pytest.mark.parametrize(("facts", "expected"), CASES)
def test_a_rule(facts, expected):
    seen = sightings(AlertFacts(now=NOW, **facts), SETTINGS, [])
    assert [(one.rule, one.subject, one.severity) for one in seen] == expected
    for one in seen:
        assert one.text.endswith(".")
        assert sightings(AlertFacts(now=NOW, **facts), msgspec.structs.replace(SETTINGS, disabled=ALERT_RULES), []) == []


def test_every_rule_has_a_case():
    assert {rule for _, expected in CASES for rule, _, _ in expected} == set(ALERT_RULES)


@pytest.mark.parametrize(
    ("facts", "key"),
    [
        ({"records": records(errors=9)}, ("error_rate", "")),
        ({"records": records(fallbacks=24)}, ("fallback_rate", "")),
        ({"records": records(first_audio_p95_ms=2_000.0)}, ("first_audio_slow", "")),
        ({"records": failing(10, 4)}, ("provider_failing", "openai")),
        ({"waiting_records": 4_000}, ("journal_growing", "")),
    ],
)
def test_an_open_incident_is_judged_more_strictly(facts, key):
    assert sightings(AlertFacts(now=NOW, **facts), SETTINGS, []) == []
    assert [one.key for one in sightings(AlertFacts(now=NOW, **facts), SETTINGS, [key])] == [key]


def test_texts_say_what_it_is_about():
    snapshot = AlertFacts(now=NOW, budgets=[budget(1_500_000_000, blocks=False)], records=records(errors=25), expiries=[certificate(1.5)])
    texts = [one.text for one in sightings(snapshot, SETTINGS, [])]
    assert texts == [
        "project shop has spent $1.5 of its budget of $1 (day): requests go on, since budget_action is warn.",
        "project shop has spent $1.5 of its budget of $1 (day).",
        "25 of 100 requests (25%) failed in the last 10 minutes; the limit is 10%.",
        "The certificate x.pem expires in 36 hours.",
    ]
