from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gw.wire.byte_search import find


@given(
    st.binary(max_size=6_000), st.binary(min_size=1, max_size=40), st.lists(st.integers(0, 9_000), max_size=3),
    st.integers(4_000, 9_000), st.sampled_from([b"\0", b"\r", b"\r\n-", b"a"]),
)  # fmt: skip
def test_the_first_place_is_the_one_that_python_says(noise, pattern, places, size, filling):
    data = bytearray((noise + filling * size)[:size])
    for at in places:
        data[at : at + len(pattern)] = pattern[: max(0, size - at)]
    for searched in (bytes(data), bytes(data[1:])):
        assert find(searched, pattern) == searched.find(pattern)


def test_patterns_at_both_ends_and_longer_than_the_data():
    filling = b"\r\n--" * 2_000
    assert find(b"needle" + filling, b"needle") == 0
    assert find(filling + b"needle", b"needle") == len(filling)
    assert find(filling + b"needl", b"needle") == -1
    assert find(filling, filling + b"x") == -1
    assert find(b"", b"needle") == -1
