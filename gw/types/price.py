"""Rates of one model."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class Price:
    """Rates in nano-USD per one million units (tokens, characters, seconds of audio). None = not billed by that unit.

    `source` names the origin of the rates; `valid_from` is a UTC day number (days since 1970-01-01).
    """

    input_tokens: int | None = None
    cached_input_tokens: int | None = None
    cache_write_tokens: int | None = None
    output_tokens: int | None = None
    input_audio_tokens: int | None = None
    output_audio_tokens: int | None = None
    audio_seconds: int | None = None
    characters: int | None = None
    min_audio_seconds: float = 0.0
    """Shortest duration that is billed."""
    source: str = ""
    valid_from: int = 0
