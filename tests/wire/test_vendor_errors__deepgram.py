"""Meaning of Deepgram's error bodies for routing."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.vendor_errors import classify_deepgram as classify


def old(code: str, message: str = "no") -> bytes:
    return msgspec.json.encode({"err_code": code, "err_msg": message, "request_id": "r"})


def new(category: str, message: str = "no", details: str = "") -> bytes:
    return msgspec.json.encode({"category": category, "message": message, "details": details, "request_id": "r"})


@pytest.mark.parametrize(
    ("status", "body", "error", "fault", "code"),
    [
        (400, old("Bad Request", "Bad Request: failed to process audio"), ProviderRejected, "caller", ""),
        (400, new("INVALID_QUERY_PARAMETER", "Failed to parse query"), ProviderRejected, "caller", "INVALID_QUERY_PARAMETER"),
        (401, new("INVALID_AUTH"), ProviderRejected, "candidate", "INVALID_AUTH"),
        (402, old("ASR_PAYMENT_REQUIRED"), ProviderFailed, "", "ASR_PAYMENT_REQUIRED"),
        (403, new("INSUFFICIENT_PERMISSIONS"), ProviderRejected, "candidate", "INSUFFICIENT_PERMISSIONS"),
        (404, b"Not Found", ProviderRejected, "candidate", ""),
        (408, old("SLOW_UPLOAD"), ProviderFailed, "", "SLOW_UPLOAD"),
        (413, b"", ProviderRejected, "request", ""),
        (422, new("UNPROCESSABLE_ENTITY"), ProviderRejected, "caller", "UNPROCESSABLE_ENTITY"),
        (429, old("TOO_MANY_REQUESTS"), RateLimitError, "", ""),
        (503, new("SERVICE_UNAVAILABLE"), ProviderFailed, "", "SERVICE_UNAVAILABLE"),
        (504, b"\xff{", ProviderFailed, "", ""),
        (400, b'{"err_code":7}', ProviderRejected, "caller", ""),
    ],
)
def test_classify(status, body, error, fault, code):
    result = classify("p", status, None, body, ("a-secret",))
    assert type(result) is error
    assert getattr(result, "fault", "") == fault
    assert getattr(result, "upstream_code", "").startswith(code)
    if isinstance(result, RateLimitError):
        assert result.retry_after_s is None


def test_both_shapes_are_quoted():
    assert "failed to process audio" in str(classify("p", 400, None, old("X", "failed to process audio")))
    assert "no such model: nova-9" in str(classify("p", 400, None, new("X", "no such model", "nova-9")))


def test_a_secret_stays_out():
    for body in (old("a s3cret-value", "bad key s3cret-value"), new("s3cret-value", "m", "s3cret-value")):
        assert "s3cret" not in str(classify("p", 401, None, body, ("s3cret-value",)))
