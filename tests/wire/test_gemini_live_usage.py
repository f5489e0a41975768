from __future__ import annotations

import msgspec
import pytest

from gw.types.usage import NO_DIMENSIONS, Dimensions, Usage
from gw.wire.gemini_live_usage import LiveUsage, usage_of, usage_sum
from tests.fakes.vendors.gemini_live import USAGE


def read(**counts):
    return usage_of(msgspec.convert(counts, LiveUsage))


def test_every_count_is_billed_once():
    """Counts with a price of their own are apart; the results of tools are input, thoughts are output."""
    usage = read(**USAGE, serviceTier="SERVICE_TIER_PRIORITY")
    assert usage == Usage(
        input_tokens=2_060, cached_input_tokens=500, output_tokens=190, reasoning_tokens=40, input_audio_tokens=840,
        output_audio_tokens=120, source="vendor",
        dimensions=Dimensions(cached_audio_tokens=200, image_tokens=260, tier="priority"),
    )  # fmt: skip
    assert usage.input_tokens + usage.output_tokens == USAGE["totalTokenCount"]


def test_every_field_of_the_sdk_is_known():
    """`totalTokenCount` is the sum of others, and `trafficType` is Vertex AI's."""
    ours = {field.encode_name for field in msgspec.structs.fields(LiveUsage)}
    assert USAGE.keys() - ours == {"totalTokenCount"}


@pytest.mark.parametrize("tier", ["standard", "unspecified", "SERVICE_TIER_STANDARD", None])
def test_the_standard_tier_is_none(tier):
    assert read(promptTokenCount=1, serviceTier=tier).dimensions is NO_DIMENSIONS


def test_modalities_of_tools_and_of_the_cache():
    counts = [{"modality": "audio", "tokenCount": 5}, {"modality": "IMAGE", "tokenCount": 7}, {"modality": "DOCUMENT", "tokenCount": 9}]
    usage = read(toolUsePromptTokenCount=21, toolUsePromptTokensDetails=counts, cacheTokensDetails=counts)
    assert (usage.input_tokens, usage.input_audio_tokens) == (21, 5)
    assert usage.dimensions == Dimensions(cached_audio_tokens=5, image_tokens=7, cached_image_tokens=7)


def test_counts_that_cannot_be():
    assert read(promptTokenCount=10**15) is None
    assert read(promptTokenCount=-5, responseTokenCount=None, promptTokensDetails=[{}]).input_tokens == 0


def test_a_sum():
    one, other = read(**USAGE), read(promptTokenCount=10)
    both = usage_sum(one, other)
    assert (both.input_tokens, both.reasoning_tokens, both.dimensions) == (2_070, 40, one.dimensions)
    assert usage_sum(other, other).reasoning_tokens is None
