"""Event streams, cut anywhere."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire.sse import SseDecoder, SseTooLong, comment, encode
from gw.wire.sse_event import SseEvent


def decoded(*pieces: bytes) -> list[SseEvent]:
    decoder = SseDecoder()
    return [event for piece in pieces for event in decoder.feed(piece)]


STREAM = (
    b"\xef\xbb\xbfdata: first\n\n"
    b": a comment\n\n"
    b"event: x\ndata: a\ndata:b\nid: 7\nretry: 10\n\n"
    b"\n\n\n"
    b"data: \xc3\xa4\xe2\x82\xac\n\n"
    b"event: nothing\n\n"
    b"data\n\n"
    b"data:  two spaces\nunknown: y\n\n"
)
EVENTS = [
    SseEvent(b"first"),
    SseEvent(b"a\nb", "x"),
    SseEvent("ä€".encode()),
    SseEvent(b""),
    SseEvent(b" two spaces"),
]


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_every_line_end_and_every_cut(line_end):
    stream = STREAM.replace(b"\n", line_end)
    assert decoded(stream) == EVENTS
    assert decoded(*(stream[i : i + 1] for i in range(len(stream)))) == EVENTS
    for at in range(len(stream)):
        assert decoded(stream[:at], stream[at:]) == EVENTS


def test_an_event_is_out_as_soon_as_its_empty_line_is_in():
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\r\n\r") == [SseEvent(b"a")]
    assert decoder.feed(b"\ndata: b\n\n") == [SseEvent(b"b")]


def test_several_events_in_one_piece_and_a_partial_one():
    decoder = SseDecoder()
    assert decoder.feed(b"data: a\n\ndata: b\n\ndata: c") == [SseEvent(b"a"), SseEvent(b"b")]
    assert decoder.feed(b"") == []
    assert decoder.feed(b"\n\n") == [SseEvent(b"c")]


def test_an_unfinished_event_comes_only_at_the_end():
    decoder = SseDecoder()
    assert decoder.feed(b"data: [DONE]\n") == []
    assert decoder.end() == [SseEvent(b"[DONE]")]
    assert decoder.end() == []
    assert SseDecoder().end() == []


@pytest.mark.parametrize(
    "pieces",
    [
        [b"data: " + b"x" * 200 + b"\n\n"],
        [b"data: " + b"x" * 200],
        [b"x" * 60, b"x" * 60],
        [b"data: a\ndata: " + b"x" * 100 + b"\n\n"],
        [b": ", b"data: " + b"x" * 200 + b"\n\ndata: y\n\n"],
    ],
)
def test_a_size_cap(pieces):
    decoder = SseDecoder(max_event_bytes=100)
    with pytest.raises(SseTooLong, match="100 bytes"):
        [decoder.feed(piece) for piece in pieces]


def test_the_cap_is_for_one_event_not_for_one_read():
    assert len(SseDecoder(max_event_bytes=20).feed(b"data: aaaa\n\n" * 50)) == 50


def test_encode():
    assert encode(b"{}") == b"data: {}\n\n"
    assert encode(b"{}", "ping") == b"event: ping\ndata: {}\n\n"
    assert encode(b"a\r\nb\nc\rd") == b"data: a\ndata: b\ndata: c\ndata: d\n\n"
    assert encode(b"x", "a\nb") == b"event: a b\ndata: x\n\n"
    assert comment("still\nhere") == b": still here\n\n"


EVENT = st.builds(
    SseEvent,
    st.binary(max_size=30).filter(lambda data: b"\r" not in data),
    st.text(st.characters(exclude_characters="\r\n\ufeff", codec="utf-8"), max_size=8).filter(lambda e: not e.startswith(" ")),
)


@given(events=st.lists(EVENT, max_size=6), cuts=st.lists(st.integers(0, 300), max_size=6))
def test_round_trip_through_any_cuts(events, cuts):
    stream = b"".join(encode(event.data, event.event) + comment("k") for event in events)
    at = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert decoded(*(stream[a:b] for a, b in pairwise(at))) == events


@given(st.lists(st.sampled_from([b"data", b":", b" ", b"\r", b"\n", b"\r\n", b"\n\n", b"event: e", b"x", b"\xef\xbb\xbf"]), max_size=25))
def test_any_input_is_read_alike_at_once_and_byte_by_byte(pieces):
    stream = b"".join(pieces)
    assert decoded(stream) == decoded(*(stream[i : i + 1] for i in range(len(stream))))
