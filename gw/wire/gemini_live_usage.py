"""The counts of tokens of Gemini Live, `usageMetadata`, as usage.

Source: google-genai 3.6.1, `types.py` (`UsageMetadata`, November 2026): `totalTokenCount` is the sum of the counts of the prompt, the
answer, the results of tools and the thoughts; the cached part is in the prompt's.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gw.types.usage import COUNTERS, NO_DIMENSIONS, Dimensions, Usage
from gw.wire.bounds import plausible, tokens


class _Count(msgspec.Struct, gc=False, rename="camel"):
    modality: str | None = None
    token_count: int | None = None


class LiveUsage(msgspec.Struct, gc=False, rename="camel"):
    prompt_token_count: int | None = None
    cached_content_token_count: int | None = None
    response_token_count: int | None = None
    tool_use_prompt_token_count: int | None = None
    thoughts_token_count: int | None = None
    prompt_tokens_details: list[_Count] | None = None
    cache_tokens_details: list[_Count] | None = None
    response_tokens_details: list[_Count] | None = None
    tool_use_prompt_tokens_details: list[_Count] | None = None
    service_tier: str | None = None


def usage_of(counted: LiveUsage) -> Usage | None:
    """Return what the vendor counts of a turn; None if it cannot be true.

    The results of the vendor's own tools are input beside the prompt, thoughts are output beside the answer. Images and frames of video are
    counted together, since they have one price.
    """
    prompt, tools, cached, answer = (
        _by_modality(details)
        for details in (
            counted.prompt_tokens_details, counted.tool_use_prompt_tokens_details, counted.cache_tokens_details,
            counted.response_tokens_details,
        )
    )  # fmt: skip
    thoughts = counted.thoughts_token_count
    images, cached_images = _images(prompt) + _images(tools), _images(cached)
    cached_audio, tier = cached.get("AUDIO", 0), _tier(counted.service_tier)
    dimensions = NO_DIMENSIONS
    if images or cached_images or cached_audio or tier:
        dimensions = Dimensions(
            cached_audio_tokens=cached_audio, image_tokens=images, cached_image_tokens=cached_images, tier=tier
        )
    usage = Usage(
        input_tokens=tokens(counted.prompt_token_count) + tokens(counted.tool_use_prompt_token_count),
        cached_input_tokens=tokens(counted.cached_content_token_count),
        output_tokens=tokens(counted.response_token_count) + tokens(thoughts),
        reasoning_tokens=None if thoughts is None else tokens(thoughts),
        input_audio_tokens=prompt.get("AUDIO", 0) + tools.get("AUDIO", 0), output_audio_tokens=answer.get("AUDIO", 0),
        source="vendor", dimensions=dimensions,
    )  # fmt: skip
    return plausible(usage)


def _by_modality(details: Iterable[_Count] | None) -> dict[str, int]:
    counts: dict[str, int] = {}
    for each in details or ():
        modality = (each.modality or "").upper()
        counts[modality] = counts.get(modality, 0) + tokens(each.token_count)
    return counts


def _images(counts: dict[str, int]) -> int:
    return counts.get("IMAGE", 0) + counts.get("VIDEO", 0)


def _tier(name: str | None) -> str:
    """Return the service tier, "" for the standard one (`ServiceTier` of google-genai)."""
    bare = (name or "").lower().removeprefix("service_tier_")
    return "" if bare in ("unspecified", "standard") else bare[:40]


def usage_sum(one: Usage, other: Usage) -> Usage:
    """Return what two generations of one turn have used together."""
    counts = {name: getattr(one, name) + getattr(other, name) for name in COUNTERS}
    thoughts = [usage.reasoning_tokens for usage in (one, other) if usage.reasoning_tokens is not None]
    return Usage(
        **counts, reasoning_tokens=sum(thoughts) if thoughts else None, source="vendor", dimensions=one.dimensions + other.dimensions
    )
