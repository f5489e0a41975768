"""Cartesia's error bodies, read and written."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.cartesia_speak import error_body
from gw.wire.vendor_errors import classify_cartesia as classify


def data(code: str | None, message: str = "Something is wrong.", **more: object) -> bytes:
    return msgspec.json.encode({"error_code": code, "title": "Title", "message": message, "request_id": "r", **more})


@pytest.mark.parametrize(
    ("status", "code", "error", "fault"),
    [
        (400, None, ProviderRejected, "caller"),
        (400, "invalid_request", ProviderRejected, "caller"),
        (400, "model_sunsetted", ProviderRejected, "candidate"),
        (400, "voice_model_mismatch", ProviderRejected, "request"),
        (422, "language_not_supported", ProviderRejected, "request"),
        (401, "unauthorized", ProviderRejected, "candidate"),
        (403, "plan_upgrade_required", ProviderRejected, "candidate"),
        (404, "voice_not_found", ProviderRejected, "request"),
        (402, "quota_exceeded", ProviderFailed, None),
        (429, "concurrency_limited", RateLimitError, None),
        (500, None, ProviderFailed, None),
    ],
)
def test_classification(status, code, error, fault):
    built = classify("p", status, None, data(code))
    assert type(built) is error
    assert getattr(built, "fault", None) == fault
    assert "Something is wrong." in built.detail
    assert (code or "") in built.detail


def test_when_to_come_back():
    built = classify("p", 429, b"7", data("concurrency_limited"))
    assert isinstance(built, RateLimitError)
    assert (built.retry_after_s, built.limit_source) == (7.0, "upstream")


def test_the_title_without_a_message():
    assert "Title" in classify("p", 400, None, data("x", message="")).detail


@pytest.mark.parametrize("body", [b"", b"Title: Message", b"[]", b"null", b'{"error_code":5}', b"\xff", b'{"message":{}}'])
def test_other_bodies(body):
    built = classify("p", 404, None, body)
    assert isinstance(built, ProviderRejected)
    assert built.fault == "candidate"


def test_no_key_comes_through():
    built = classify("p", 401, None, data("unauthorized", "the key a-secret is wrong"), ("a-secret",))
    assert "a-secret" not in built.detail


def test_our_body_is_read_as_it_was_meant():
    body = error_body("budget_exceeded", "No money.", "r-1", outcome="x")
    assert msgspec.json.decode(body) == {
        "error_code": "budget_exceeded", "title": "Budget exceeded", "message": "No money.", "request_id": "r-1", "outcome": "x",
    }  # fmt: skip
    assert "No money." in classify("p", 400, None, body).detail


@given(st.integers(200, 599), st.binary(max_size=60))
def test_whatever_comes(status, body):
    assert isinstance(classify("p", status, None, body), ProviderError)
