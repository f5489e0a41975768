"""Each error as status, headers and body."""

from __future__ import annotations

import msgspec
import pytest
import structlog

from gw.errors import (
    AllCandidatesFailed,
    AuthError,
    BudgetExceededError,
    ConflictError,
    Failure,
    ForbiddenError,
    Overloaded,
    PluginMissing,
    RateLimitError,
    ReadOnlyError,
    RequestError,
    StoreUnavailable,
    TooLarge,
    UnknownModelError,
    UpstreamSlow,
)
from gw.web import reply as replies

LIMITED = RateLimitError(provider="groq", limit_source="upstream", retry_after_s=1.2)
SLOW = UpstreamSlow(provider="groq", after_s=8.0)


def failed(*causes):
    return AllCandidatesFailed(model="a/b", failures=tuple(Failure(model_id="a/b", error=cause) for cause in causes))


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (RequestError(what="limit must be a number", param="limit"), 422, "invalid_request"),
        (TooLarge(what="too large", limit_bytes=5), 413, "too_large"),
        (AuthError(), 401, "unauthorized"),
        (ForbiddenError(), 403, "forbidden"),
        (UnknownModelError(name="x", available=("a/b",)), 404, "model_not_found"),
        (ConflictError(what="it exists"), 409, "already_exists"),
        (ReadOnlyError(entity="project", id="shop"), 403, "read_only"),
        (BudgetExceededError(project="shop", daily_budget=2.0, spent=2.5), 402, "budget_exceeded"),
        (LIMITED, 429, "rate_limited"),
        (failed(LIMITED, LIMITED), 429, "rate_limited"),
        (failed(SLOW, SLOW), 504, "upstream_failed"),
        (failed(SLOW, LIMITED), 502, "upstream_failed"),
        (PluginMissing(module="faster_whisper", extra="whisper"), 501, "plugin_missing"),
        (Overloaded(), 503, "overloaded"),
        (StoreUnavailable(), 503, "usage_store_unavailable"),
    ],
)
def test_status_code_and_body(error, status, code):
    reply = replies.gateway_error(error, "id-1")
    found = msgspec.json.decode(reply.body)["error"]
    assert reply.status == status
    assert (found["type"], found["code"], found["message"]) == (type(error).__name__, code, error.message)
    assert found["request_id"] == "id-1"
    assert "param" in found
    assert reply.content_type == b"application/json"


def test_facts_are_members_of_the_body():
    reply = replies.gateway_error(BudgetExceededError(project="shop", daily_budget=2.0, spent=2.5), "id-1")
    found = msgspec.json.decode(reply.body)["error"]
    assert (found["project"], found["daily_budget"], found["spent"]) == ("shop", 2.0, 2.5)


@pytest.mark.parametrize("error", [LIMITED, failed(LIMITED), Overloaded(retry_after_s=1.2)])
def test_retry_after_is_rounded_up(error):
    assert (b"retry-after", b"2") in replies.gateway_error(error, "id-1").headers


def test_401_says_what_is_asked_for():
    assert (b"www-authenticate", b"Bearer") in replies.gateway_error(AuthError(), "id-1").headers
    assert b"www-authenticate" not in dict(replies.gateway_error(ForbiddenError(), "id-1").headers)


def test_routing_errors_have_the_same_shape():
    reply = replies.method_not_allowed(["GET", "POST"], "id-1")
    found = msgspec.json.decode(reply.body)["error"]
    assert (reply.status, found["code"], found["request_id"]) == (405, "method_not_allowed", "id-1")
    assert dict(reply.headers)[b"allow"] == b"GET, POST"
    assert replies.not_found("id-1").status == 404


def test_an_unexpected_error_is_logged_and_not_revealed():
    with structlog.testing.capture_logs() as logs:
        reply = replies.unexpected_error(ZeroDivisionError("secret detail"), "id-1")
    assert reply.status == 500
    assert b"secret detail" not in reply.body
    assert b"ZeroDivisionError" not in reply.body
    assert (logs[0]["event"], logs[0]["request_id"]) == ("request_failed", "id-1")
    assert isinstance(logs[0]["exc_info"], ZeroDivisionError)
