from __future__ import annotations

import msgspec
import pytest

from gw.dialects.error_bodies import body_of, code_of, headers_of, status_of
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
        (ProviderFailed(provider="p", upstream_status=503), 502, "upstream_failed"),
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
    ],
)
def test_headers(error, headers):
    assert headers_of(error) == headers
