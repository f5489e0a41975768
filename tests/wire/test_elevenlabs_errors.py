"""Meaning of ElevenLabs' errors for routing in a live session: frames and reasons of close frames."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError
from gw.wire.elevenlabs_errors import close_error, frame_error, session_error


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
    result = frame_error("p", msgspec.json.encode(frame))
    assert type(result) is error
    assert result.retryable


@pytest.mark.parametrize("frame", ["", "[]", "x", '{"audio":"AA=="}', '{"error":null}', '{"message":"only"}'])
def test_frames_without_an_error(frame):
    assert frame_error("p", frame) is None


@pytest.mark.parametrize(
    ("reason", "error"),
    [
        ("This request exceeds your quota: quota_exceeded. You have 0 credits", ProviderFailed),
        ("invalid_api_key", ProviderRejected),
        ("TOO_MANY_CONCURRENT_REQUESTS", RateLimitError),
    ],
)
def test_the_reason_of_a_close_frame(reason, error):
    result = close_error("p", reason)
    assert type(result) is error
    assert "credits" not in result.message


def test_a_reason_that_names_nothing():
    assert close_error("p", "bye") is None


@given(st.text(max_size=40))
def test_any_word_is_an_error_that_another_candidate_may_not_give(name):
    assert session_error("p", name, "m").retryable
