"""Bodies in chunks. How a request's are read is in tests/web, an answer's in test_http_response."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.net.http_chunks import ChunkedBody, MalformedChunks

BODY = b"5\r\nhello\r\n1;name=v\r\n!\r\n0\r\nTrailer: x\r\n\r\n"


@given(st.lists(st.integers(1, len(BODY)), max_size=6))
def test_chunks_are_fed_however_they_are_cut(cuts):
    chunks, pieces = ChunkedBody(), []
    for begin, end in pairwise(sorted({*cuts, 0, len(BODY)})):
        chunks.feed(BODY[begin:end], pieces)
    assert (b"".join(pieces), chunks.done, chunks.has_surplus) == (b"hello!", True, False)


@pytest.mark.parametrize(
    ("data", "piece"),
    [
        (b"5\r\nhello\r\n", b"hello"), (b"a\r\n0123456789\r\n", b"0123456789"), (b"2\r\n\r\n\r\n", b"\r\n"),
        (b"A\r\n0123456789\r\n", None), (b"05\r\nhello\r\n", None), (b"0\r\n\r\n", None), (b"5\r\nhel", None),
        (b"5\r\nhello\r\n0\r\n\r\n", None),
        (b"6\r\nhello\r\n", None), (b"5\r\nhelloX\n", None), (b"", None), (b"\r\n", None), (b"hello", None), (b"-1\r\n\r\n", None),
    ],
)  # fmt: skip
def test_a_chunk_that_comes_alone(data, piece):
    assert ChunkedBody().whole(data) == piece


@pytest.mark.parametrize("before", [b"5\r\nhe", b"5", b"5\r\nhello", b"0\r\n"])
def test_nothing_is_a_whole_chunk_in_the_middle_of_another(before):
    chunks = ChunkedBody()
    chunks.feed(before, [])
    assert chunks.whole(b"3\r\nabc\r\n") is None


def test_what_follows_the_body_is_noticed():
    chunks, pieces = ChunkedBody(), []
    chunks.feed(b"5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n", pieces)
    assert (pieces, chunks.done, chunks.has_surplus) == ([b"hello"], True, True)


def test_what_came_before_malformed_chunks_is_kept():
    chunks, pieces = ChunkedBody(), []
    with pytest.raises(MalformedChunks, match="without its size"):
        chunks.feed(b"5\r\nhello\r\nzz\r\n", pieces)
    assert pieces == [b"hello"]
