"""What ElevenLabs' errors mean for routing: bodies, frames and reasons of close frames."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.elevenlabs_errors import classify, close_fault, frame_fault, named


def old(status: str, message: str = "no") -> bytes:
    return msgspec.json.encode({"detail": {"status": status, "message": message}})


def new(code: str, **more: object) -> bytes:
    told = {"type": "t", "code": code, "message": "no", "status": code, "request_id": "r", "param": None}
    return msgspec.json.encode({"detail": {**told, **more}})


@pytest.mark.parametrize("body", [old, new])
@pytest.mark.parametrize(
    ("status", "code", "error", "fault"),
    [
        (400, "voice_not_found", ProviderRejected, "candidate"),
        (404, "model_not_found", ProviderRejected, "candidate"),
        (400, "text_too_long", ProviderRejected, "candidate"),
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
    found = classify("p", status, b"7", body(code))
    assert type(found) is error
    assert getattr(found, "fault", "") == fault
    assert getattr(found, "upstream_status", status) == status
    assert code in found.message
    assert getattr(found, "retry_after_s", 7.0) == 7.0


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


@pytest.mark.parametrize(
    ("frame", "error"),
    [
        ({"message": "m", "error": "voice_id_does_not_exist", "code": 1008}, ProviderRejected),
        ({"message": "m", "error": "invalid_api_key", "code": 1008}, ProviderRejected),
        ({"message": "m", "error": "Some words of theirs", "code": 1008}, ProviderRejected),
        ({"message": "m", "error": "quota_exceeded", "code": 1008}, ProviderFailed),
        ({"message": "m", "error": "too_many_concurrent_requests", "code": 1008}, RateLimitError),
        ({"message": "m", "error": "internal_server_error", "code": 1011}, ProviderFailed),
        ({"message": 5, "error": {"a": 1}, "code": "x"}, ProviderFailed),
    ],
)
def test_a_frame_of_a_speech_socket(frame, error):
    found = frame_fault("p", msgspec.json.encode(frame))
    assert type(found) is error
    assert found.retryable


@pytest.mark.parametrize("frame", ["", "[]", "x", '{"audio":"AA=="}', '{"error":null}', '{"message":"only"}'])
def test_what_is_no_error(frame):
    assert frame_fault("p", frame) is None


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("This request exceeds your quota: quota_exceeded. You have 0 credits", ProviderFailed),
        ("invalid_api_key", ProviderRejected),
        ("TOO_MANY_CONCURRENT_REQUESTS", RateLimitError),
    ],
)
def test_the_reason_of_a_close_frame(reason, error):
    found = close_fault("p", reason)
    assert type(found) is error
    assert "credits" not in found.message


def test_a_reason_that_names_nothing():
    assert close_fault("p", "bye") is None


@given(st.integers(400, 599), st.binary(max_size=200))
def test_any_body_is_some_error(status, body):
    assert isinstance(classify("p", status, None, body), ProviderError)


@given(st.text(max_size=40))
def test_any_word_is_an_error_that_another_candidate_may_not_give(name):
    assert named("p", name, "m").retryable
