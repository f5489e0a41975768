from __future__ import annotations

import pytest

from gw.errors import CandidateSkipped, ProviderFailed, RateLimitError
from gw.policy.respelling import PronunciationTable, RespelledText
from gw.registry.catalog import Model
from gw.relay.attempt import Attempt
from gw.relay.attempt_record import record_of
from gw.types.model_routes import Routed
from gw.types.pronunciation import Pronunciation
from gw.types.usage import AttemptRecord, Cost, Usage

MODEL = Model(id="p/m", modality="tts", provider="p", name="m")
PLAIN = {"model_id": "p/m", "started_ms": 500.0, "duration_ms": 1_000.0}


def entry(*, is_only: bool = True, **facts: object) -> AttemptRecord:
    attempt = Attempt(MODEL, started=1.5, ended=2.5, **facts)
    return record_of(attempt, began=1.0, now=9.0, is_only=is_only)


def test_an_answer_has_its_times_and_nothing_else():
    assert entry(ready_at=1.75) == AttemptRecord(outcome="ok", ttfb_ms=250.0, **PLAIN)


@pytest.mark.parametrize(
    ("error", "fields"),
    [
        (ProviderFailed(provider="p", upstream_status=503), {"upstream_status": 503}),
        (RateLimitError(provider="p", limit_source="upstream", detail="the vendor's words"), {"upstream_status": 429}),
        (RateLimitError(provider="p", limit_source="configured", detail="one a minute used up"), {"detail": "one a minute used up"}),
        (CandidateSkipped(provider="p", reason="busy", detail="max_concurrent reached"), {"detail": "max_concurrent reached"}),
    ],
    ids=lambda value: type(value).__name__,
)
def test_a_failure_has_its_code_the_vendors_status_and_why_it_was_passed_over(error, fields):
    outcome = error.reason if isinstance(error, CandidateSkipped) else error.outcome
    assert entry(error=error) == AttemptRecord(outcome=outcome, error_code=error.code, **fields, **PLAIN)


def test_a_choice_of_a_route_is_noted_with_its_reason():
    made = entry(ready_at=1.75, routed=Routed("desk", "weight 1 of 2"))
    assert (made.route, made.routing) == ("desk", "weight 1 of 2")


def test_speech_from_the_cache_has_what_it_saved():
    made = entry(ready_at=1.75, cache="hit", saved_nusd=1_500)
    assert (made.cache, made.saved_nusd, made.lost_s, made.text_characters) == ("hit", 1_500, None, None)


def test_speech_that_no_vendor_heard_is_noted():
    made = entry(ready_at=1.75, lost_s=0.5)
    assert (made.cache, made.lost_s) == ("", 0.5)


def test_a_text_with_pronunciations_has_its_own_length():
    text = RespelledText(PronunciationTable([Pronunciation(word="Ng", say="Ing")]))
    assert text.feed("Dr Ng") + text.end() == "Dr Ing"
    assert entry(ready_at=1.75, respelled=text).text_characters == 5


def test_one_of_several_attempts_has_its_part_of_the_cost():
    usage, cost = Usage(characters=10), Cost(nusd=70, source="config")
    made = entry(is_only=False, ready_at=1.75, usage=usage, cost=cost)
    assert (made.characters, made.cost_nusd, made.pricing_source) == (10, 70, "config")
    assert entry(ready_at=1.75, usage=usage, cost=cost).pricing_source == ""
