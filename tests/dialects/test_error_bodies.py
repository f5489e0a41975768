from __future__ import annotations

import msgspec
import pytest

from gw.dialects.error_bodies import body_of, code_of, headers_of, status_of, vendor_body_of
from gw.errors import (
    AllCandidatesFailed,
    AuthError,
    BudgetExceededError,
    CandidateSkipped,
    ClientProtocolError,
    Failure,
    GwError,
    Overloaded,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    RateLimitError,
    RequestError,
    TooLarge,
    UnknownModelError,
    UpstreamCut,
    UpstreamSlow,
)

LIMIT = RateLimitError(provider="p", limit_source="upstream", retry_after_s=6.2)
NO_MODEL = ProviderRejected(provider="p", upstream_status=404, upstream_code="model_not_found", fault="candidate")
WRONG_KEY = ProviderRejected(provider="p", upstream_status=401, fault="candidate")
NO_CREDIT = ProviderFailed(provider="p", upstream_status=402, out_of_credit=True)
OVERLOADED = ProviderFailed(provider="p", upstream_status=529)
SLOW = UpstreamSlow(provider="q", after_s=2.0)


def failed(*errors) -> AllCandidatesFailed:
    return AllCandidatesFailed(
        model="p/m", failures=tuple(Failure(model_id=f"{e.provider}/m", error=e) for e in errors)
    )


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError(what="x"), 400, "invalid_request"),
        (ClientProtocolError(what="x"), 400, "invalid_request"),
        (TooLarge(what="x"), 413, "too_large"),
        (AuthError(), 401, "unauthorized"),
        (UnknownModelError(name="x"), 404, "model_not_found"),
        (BudgetExceededError(project="p", daily_budget=1.0, spent=1.0), 402, "budget_exceeded"),
        (Overloaded(), 503, "overloaded"),
        (LIMIT, 429, "rate_limited"),
        (SLOW, 504, "upstream_too_slow"),
        (UpstreamCut(provider="p"), 502, "upstream_failed"),
        (ProviderFailed(provider="p", upstream_status=503), 503, "upstream_failed"),
        (ProviderFailed(provider="p", upstream_status=529), 503, "upstream_failed"),
        (ProviderFailed(provider="p", upstream_status=504), 504, "upstream_failed"),
        (ProviderFailed(provider="p", upstream_status=500), 502, "upstream_failed"),
        (NO_MODEL, 404, "model_not_found"),
        (failed(OVERLOADED, LIMIT), 503, "upstream_failed"),
        (ProviderRejected(provider="p", upstream_status=422, fault="caller"), 422, "upstream_rejected"),
        (ProviderRejected(provider="p", upstream_status=400, upstream_code="odd", fault="caller"), 400, "odd"),
        (ProviderRejected(provider="p", upstream_status=400, upstream_code="long", fault="request"), 400, "long"),
        (ProviderRejected(provider="p", upstream_status=401, upstream_code="k", fault="candidate"), 502, "upstream_rejected"),
        (ProviderRefused(provider="p", upstream_status=400, upstream_code="content_filter"), 400, "content_filter"),
        (ProviderRefused(provider="p"), 502, "upstream_refused"),
        (failed(LIMIT, LIMIT), 429, "rate_limited"),
        (failed(SLOW, SLOW), 504, "upstream_failed"),
        (failed(SLOW, LIMIT), 502, "upstream_failed"),
        (GwError(), 500, "internal_error"),
    ],
)
def test_status_and_code(error, status, code):
    assert (status_of(error), code_of(error)) == (status, code)
    assert msgspec.json.decode(body_of(error, "r1"))["error"]["code"] == code


def test_the_body_has_openais_members_and_the_facts():
    error = BudgetExceededError(project="shop", daily_budget=2.5, spent=2.6)
    assert msgspec.json.decode(body_of(error, "r1")) == {
        "error": {
            "type": "BudgetExceededError",
            "code": "budget_exceeded",
            "message": error.message,
            "param": None,
            "request_id": "r1",
            "project": "shop",
            "daily_budget": 2.5,
            "spent": 2.6,
            "period": "day",
            "budget": 2.5,
        }
    }


def test_the_member_at_fault_is_named():
    body = msgspec.json.decode(body_of(ClientProtocolError(what="bad", param="stream"), "r1"))["error"]
    assert (body["param"], body["message"]) == ("stream", "bad")
    assert "what" not in body


def test_every_candidate_is_listed_with_its_outcome():
    skipped = CandidateSkipped(provider="q", reason="breaker_open", detail="circuit breaker open")
    body = msgspec.json.decode(body_of(failed(LIMIT, skipped), "r1"))["error"]
    assert body["attempts"] == [
        {"model": "p/m", "outcome": "rate_limited", "detail": ""},
        {"model": "q/m", "outcome": "skipped", "detail": "circuit breaker open"},
    ]
    assert "failures" not in body


@pytest.mark.parametrize(
    ("error", "headers"),
    [
        (LIMIT, [(b"retry-after", b"7")]),
        (RateLimitError(provider="p", limit_source="configured", retry_after_s=0.1), [(b"retry-after", b"1")]),
        (RateLimitError(provider="p", limit_source="upstream"), []),
        (failed(LIMIT, SLOW), [(b"retry-after", b"7")]),
        (Overloaded(retry_after_s=2.0), [(b"retry-after", b"2")]),
        (BudgetExceededError(project="p", daily_budget=1.0, spent=1.0), [(b"x-should-retry", b"false")]),
        (SLOW, []),
        (OVERLOADED, [(b"retry-after", b"1")]),
        (WRONG_KEY, [(b"x-should-retry", b"false")]),
        (failed(WRONG_KEY, NO_CREDIT), [(b"x-should-retry", b"false")]),
        (failed(WRONG_KEY, SLOW), []),
    ],
)
def test_headers(error, headers):
    assert headers_of(error) == headers


@pytest.mark.parametrize(
    ("error", "type_", "code"),
    [
        (RequestError(what="x", param="stream"), "invalid_request_error", "invalid_request"),
        (AuthError(), "invalid_request_error", "invalid_api_key"),
        (BudgetExceededError(project="p", daily_budget=1.0, spent=1.0), "insufficient_quota", "insufficient_quota"),
        (UnknownModelError(name="x"), "invalid_request_error", "model_not_found"),
        (TooLarge(what="x", limit_bytes=5), "invalid_request_error", "request_too_large"),
        (failed(LIMIT, LIMIT), "requests", "rate_limit_exceeded"),
        (SLOW, "server_error", "upstream_too_slow"),
        (ProviderRejected(provider="p", upstream_status=400, upstream_code="rate_limited"), "invalid_request_error", "rate_limited"),
    ],
)
def test_a_voice_request_fails_in_openais_words_with_ours_beside_them(error, type_, code):
    body = msgspec.json.decode(vendor_body_of(error, "r1"))["error"]
    assert set(body) == {"message", "type", "param", "code", "gw"}
    assert (body["type"], body["code"], body["message"]) == (type_, code, error.message)
    assert body["param"] == getattr(error, "param", None)
    assert (body["gw"]["type"], body["gw"]["code"], body["gw"]["request_id"]) == (type(error).__name__, code_of(error), "r1")
