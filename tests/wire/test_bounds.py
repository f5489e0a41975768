"""Numbers from outside, brought within bounds."""

import math

import pytest

from gw.types.usage import Dimensions, Usage
from gw.wire.bounds import MAX_DURATION_S, MOST_AUDIO_S, MOST_TOKENS, MOST_USED_TOKENS, plausible, seconds, tokens


@pytest.mark.parametrize(
    ("reported", "count"),
    [(None, 0), (0, 0), (7, 7), (-1, 0), (MOST_TOKENS, MOST_TOKENS), (10**20, MOST_TOKENS), (10**400, MOST_TOKENS)],
)
def test_tokens(reported, count):
    assert tokens(reported) == count


@pytest.mark.parametrize(
    ("reported", "result"),
    [
        (None, None), (0.0, 0.0), (1.5, 1.5), ("2.25", 2.25), (1e300, MAX_DURATION_S), (10**400, None), (-0.1, None),
        (math.inf, None), (math.nan, None), ("inf", None), ("-inf", None), ("nan", None), ("9" * 400, None), ("long", None),
    ],
)
def test_seconds(reported, result):
    assert seconds(reported) == result


def test_plausible():
    for usage in (Usage(input_tokens=MOST_USED_TOKENS), Usage(audio_seconds=MOST_AUDIO_S), Usage(dimensions=Dimensions(searches=1_000))):
        assert plausible(usage) is usage
    for usage in (
        Usage(input_tokens=MOST_USED_TOKENS + 1), Usage(cached_input_tokens=MOST_TOKENS), Usage(output_tokens=MOST_TOKENS),
        Usage(cache_write_tokens=MOST_TOKENS), Usage(audio_seconds=MAX_DURATION_S), Usage(dimensions=Dimensions(searches=1_001)),
    ):  # fmt: skip
        assert plausible(usage) is None
