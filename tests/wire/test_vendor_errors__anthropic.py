"""Meaning of an error answer of the Messages API for routing."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.anthropic_messages_answer import error_body
from gw.wire.vendor_errors import classify_anthropic as classify


def body(kind: str, message: str = "no", code: str | None = None) -> bytes:
    details = {"error_code": code} if code else None
    return msgspec.json.encode({"type": "error", "error": {"type": kind, "message": message, "details": details}})


@pytest.mark.parametrize(
    ("status", "data", "error", "fault"),
    [
        (400, body("invalid_request_error", "messages: at least one"), ProviderRejected, "caller"),
        (400, body("invalid_request_error", "prompt is too long: 209 tokens > 200 maximum"), ProviderRejected, "request"),
        (400, body("invalid_request_error", "`temperature` is not supported by this model"), ProviderRejected, "request"),
        (400, body("invalid_request_error", "Your credit balance is too low to access"), ProviderFailed, ""),
        (401, body("authentication_error"), ProviderRejected, "candidate"),
        (402, body("billing_error"), ProviderFailed, ""),
        (403, body("permission_error"), ProviderRejected, "candidate"),
        (404, body("not_found_error"), ProviderRejected, "candidate"),
        (429, body("rate_limit_error"), RateLimitError, ""),
        (429, body("rate_limit_error", code="enforced_spend_limit_reached"), ProviderFailed, ""),
        (500, body("api_error"), ProviderFailed, ""),
        (529, body("overloaded_error"), ProviderFailed, ""),
        (529, b"<html>", ProviderFailed, ""),
        (400, b"[]", ProviderRejected, "caller"),
    ],
)
def test_classify(status, data, error, fault):
    result = classify("p", status, b"7", data, ("a-secret",))
    assert type(result) is error
    assert getattr(result, "fault", "") == fault
    if isinstance(result, RateLimitError):
        assert result.retry_after_s == 7


def test_secrets_and_prompts_stay_out():
    result = classify("p", 400, None, body("invalid_request_error", "bad key s3cret-value in 'x'"), ("s3cret-value",))
    assert "s3cret" not in str(result)


def test_our_own_body():
    data = msgspec.json.decode(error_body(status=402, message="m", request_id="r", project="p"))
    assert data == {
        "type": "error", "error": {"type": "billing_error", "message": "m", "project": "p"}, "request_id": "r",
    }  # fmt: skip
    kinds = {s: msgspec.json.decode(error_body(status=s, message="", request_id=""))["error"]["type"] for s in (418, 502, 529)}
    assert kinds == {418: "invalid_request_error", 502: "api_error", 529: "overloaded_error"}
