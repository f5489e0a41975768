"""The list of models that end."""

from __future__ import annotations

from datetime import date

from gw.pricing import retired
from gw.types.provider_types import PROVIDER_TYPES


def test_a_model_that_ends_and_one_that_goes_on():
    found = retired.successor("anthropic", "claude-sonnet-4-5")
    assert found is not None
    assert (found.ends, found.successor) == (date(2026, 11, 30), "claude-sonnet-4-6")
    assert retired.successor("anthropic", "claude-sonnet-4-6") is None
    assert retired.successor("groq", "claude-sonnet-4-5") is None


def test_the_sentence():
    found = retired.successor("openai", "tts-1")
    assert found is not None
    assert found.sentence(date(2027, 1, 5)) == "will be shut down on 2027-01-06"
    assert found.sentence(date(2027, 1, 6)) == "was shut down on 2027-01-06"
    other = retired.successor("openai", "whisper-1")
    assert other is not None
    assert other.sentence(date(2026, 1, 1)).endswith("; its successor is gpt-transcribe")


def test_the_list_is_sound():
    known = retired._known()
    for (provider, model), row in known.items():
        assert provider in PROVIDER_TYPES
        assert (row.provider_type, row.model) == (provider, model)
        assert type(row.ends) is date
        assert row.source
        following = retired.successor(provider, row.successor)
        assert following is None or following.ends > row.ends
