"""The list of models that end."""

from __future__ import annotations

import tomllib
from datetime import date
from importlib.resources import files

from gw.pricing import rate_tables
from gw.types.provider_types import PROVIDER_TYPES


def test_a_model_that_ends_and_one_that_goes_on():
    successor = rate_tables.successor("anthropic", "claude-sonnet-4-5")
    assert successor is not None
    assert (successor.ends, successor.successor) == (date(2026, 11, 30), "claude-sonnet-4-6")
    assert rate_tables.successor("anthropic", "claude-sonnet-4-6") is None
    assert rate_tables.successor("groq", "claude-sonnet-4-5") is None


def test_the_sentence():
    successor = rate_tables.successor("openai", "tts-1")
    assert successor is not None
    assert successor.sentence(date(2027, 1, 5)) == "will be shut down on 2027-01-06"
    assert successor.sentence(date(2027, 1, 6)) == "was shut down on 2027-01-06"
    other = rate_tables.successor("openai", "whisper-1")
    assert other is not None
    assert other.sentence(date(2026, 1, 1)).endswith("; its successor is gpt-transcribe")


def test_the_list_is_sound():
    known = rate_tables._retired()
    rows = tomllib.loads(files("gw.pricing").joinpath("retired.toml").read_text(encoding="utf-8"))["retired"]
    assert len(known) == sum(len(row["models"]) for row in rows), "a model is listed twice"
    for (provider, model), row in known.items():
        assert provider in PROVIDER_TYPES
        assert row.provider == provider
        assert model in row.models
        following = rate_tables.successor(provider, row.successor)
        assert following is None or following.ends > row.ends
