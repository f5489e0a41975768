"""Meaning of ElevenLabs' error bodies for routing."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.vendor_errors import classify_elevenlabs as classify


def old(status: str, message: str = "no") -> bytes:
    return msgspec.json.encode({"detail": {"status": status, "message": message}})


def new(code: str, **more: object) -> bytes:
    data = {"type": "t", "code": code, "message": "no", "status": code, "request_id": "r", "param": None}
    return msgspec.json.encode({"detail": {**data, **more}})


@pytest.mark.parametrize("body", [old, new])
@pytest.mark.parametrize(
    ("status", "code", "error", "fault"),
    [
        (400, "voice_not_found", ProviderRejected, "request"),
        (404, "model_not_found", ProviderRejected, "candidate"),
        (400, "text_too_long", ProviderRejected, "request"),
        (400, "invalid_text", ProviderRejected, "caller"),
        (422, "invalid_parameters", ProviderRejected, "caller"),
        (401, "invalid_api_key", ProviderRejected, "candidate"),
        (403, "detected_unusual_activity", ProviderRejected, "candidate"),
        (401, "quota_exceeded", ProviderFailed, ""),
        (429, "quota_exceeded", ProviderFailed, ""),
        (402, "payment_required", ProviderFailed, ""),
        (429, "too_many_concurrent_requests", RateLimitError, ""),
        (429, "system_busy", RateLimitError, ""),
        (500, "internal", ProviderFailed, ""),
    ],
)
def test_a_body(body, status, code, error, fault):
    result = classify("p", status, b"7", body(code))
    assert type(result) is error
    assert getattr(result, "fault", "") == fault
    assert getattr(result, "upstream_status", status) == status
    assert code in result.message
    assert getattr(result, "retry_after_s", 7.0) == 7.0


def test_a_validation_is_the_callers_fault_and_does_not_repeat_its_text():
    body = b'{"detail":[{"loc":["body","text"],"msg":"field required","type":"missing","input":"my secret diary"}]}'
    error = classify("p", 422, None, body)
    assert isinstance(error, ProviderRejected)
    assert error.fault == "caller"
    assert "field required" in error.message
    assert "diary" not in error.message


@pytest.mark.parametrize("body", [b"", b"no JSON", b"[]", b'{"detail":"plain"}', b'{"detail":null}', b'{"detail":{"status":401}}'])
def test_other_shapes(body):
    error = classify("p", 401, None, body)
    assert isinstance(error, ProviderRejected)
    assert error.fault == "candidate"


def test_secrets_are_taken_out():
    error = classify("p", 401, None, old("invalid_api_key", "the key k-1 234 is wrong"), ("k-1 234",))
    assert "k-1 234" not in f"{error!r}{error}"


@given(st.integers(400, 599), st.binary(max_size=200))
def test_any_body_is_some_error(status, body):
    assert isinstance(classify("p", status, None, body), ProviderError)
