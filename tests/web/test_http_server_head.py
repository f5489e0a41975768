from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.web.http_errors import Refused
from gw.web.http_server_head import HEAD_BYTES, HEADER_FIELDS, BodyFraming, Head, head_end, parse_head, without_length

OK = b"POST /v1/x?a=%20b HTTP/1.1\r\nHost: gw\r\nX-One:  1 \r\nContent-Length: 3\r\n\r\n"


def test_reads_method_path_query_and_fields():
    head = parse_head(OK)
    assert (head.method, head.raw_path, head.query, head.version) == (b"POST", b"/v1/x", b"a=%20b", "1.1")
    assert head.headers == [(b"host", b"gw"), (b"x-one", b"1"), (b"content-length", b"3")]
    assert head.keep
    assert head.body.left == 3
    assert head.target == "/v1/x?a=%20b"


def test_absolute_form_and_escapes():
    head = parse_head(b"GET http://gw:1/a%20b?q HTTP/1.1\r\nHost: gw\r\n\r\n")
    assert (head.path, head.raw_path, head.query) == ("/a b", b"/a%20b", b"q")
    assert parse_head(b"GET http://gw HTTP/1.1\r\nHost: gw\r\n\r\n").raw_path == b"/"


def test_http_1_0_does_not_keep_the_connection():
    head = parse_head(b"GET / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n")
    assert not head.keep


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +3\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\0b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\nHost: a\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"PRI * HTTP/2.0\r\n\r\n", 400),
        (b"CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X: y\r\n" * HEADER_FIELDS + b"\r\n", 431),
    ],
)
def test_refuses(head, status):
    with pytest.raises(Refused) as caught:
        parse_head(head)
    assert caught.value.status == status


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /" + b"a" * 20_000, 414),
        (b"GET / HTTP/1.1\nHost: a\n\n", 400),
        (b"\x16\x03\x01\x02\x00", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES, 431),
        (b"GET / HTTP/1.1\r\nX: " + b"y" * HEAD_BYTES + b"\r\n\r\n", 431),
    ],
)
def test_an_impossible_head_is_refused_before_it_ends(data, status):
    with pytest.raises(Refused) as caught:
        head_end(bytearray(data))
    assert caught.value.status == status


def test_the_end_of_a_head_is_found_at_every_cut():
    buffer = bytearray()
    for index, byte in enumerate(OK):
        searched = len(buffer)
        buffer.append(byte)
        assert head_end(buffer, searched) == (len(OK) if index == len(OK) - 1 else -1)


CHUNKED = b"5\r\nhello\r\n1;name=v\r\n!\r\n0\r\nTrailer: x\r\n\r\n"


@given(st.lists(st.integers(1, len(CHUNKED)), max_size=6))
def test_chunks_are_read_however_they_are_cut(cuts):
    places = sorted({*cuts, 0, len(CHUNKED)})
    body, buffer, got = BodyFraming(chunked=True), bytearray(), b""
    for begin, end in pairwise(places):
        buffer += CHUNKED[begin:end]
        got += body.take(buffer)
    assert got == b"hello!"
    assert body.done
    assert body.left == 0


def test_what_follows_a_body_stays_in_the_buffer():
    buffer = bytearray(CHUNKED + b"GET /")
    body = BodyFraming(chunked=True)
    assert body.left is None
    assert body.take(buffer) == b"hello!"
    assert buffer == b"GET /"
    buffer = bytearray(b"abcGET /")
    assert BodyFraming(3).take(buffer) == b"abc"
    assert buffer == b"GET /"


@pytest.mark.parametrize(
    "data",
    [
        b"zz\r\n",
        b"\r\n",
        b"5 \r\nhello\r\n",
        b"0x5\r\nhello\r\n",
        b"-1\r\n",
        b"5\nhello\n",
        b"5\r\nhelloX\r\n",
        b"5\r\nhello5\r\n",
        b"F" * 16 + b"\r\n",
        b"1;" + b"e" * 300,
        b"0\r\n" + b"T: " + b"x" * 9_000,
        b"0\r\n" + (b"T: " + b"x" * 4_000 + b"\r\n") * 3,
    ],
)
def test_malformed_chunks_are_refused(data):
    body = BodyFraming(chunked=True)
    with pytest.raises(Refused) as caught:
        body.take(bytearray(data))
    assert caught.value.status == 400


def sized(length: bytes, field: bytes = b"Content-Length: ") -> bytes:
    return b"POST /v1/x HTTP/1.1\r\nHost: gw\r\n" + field + length + b"\r\nX-After: 1\r\n\r\n"


def remembered(data: bytes) -> Head:
    head = parse_head(data)
    head.remember(*without_length(data))
    return head


@pytest.mark.parametrize("field", [b"Content-Length: ", b"content-length:", b"CONTENT-LENGTH:\t "])
def test_the_same_head_with_another_length_is_read_as_if_parsed(field):
    head = remembered(sized(b"3", field))
    before = head.headers
    for length in (b"3", b"41", b"0", b"999999999999999"):
        data = sized(length, field)
        assert head.again(data)
        parsed = parse_head(data)
        assert head.headers == parsed.headers
        assert (head.body.left, head.body.done) == (parsed.body.left, parsed.body.done)
        assert (head.method, head.raw_path, head.keep, head.expects) == (b"POST", b"/v1/x", True, False)
    assert before == parse_head(sized(b"3", field)).headers  # whoever kept them keeps them


@pytest.mark.parametrize("length", [b"", b"+3", b"-3", b"3 4", b"3\r\nX: 1", b"0x3", b"3, 3", b"1" * 16, "٣".encode()])
def test_a_length_out_of_the_ordinary_is_left_to_the_parser(length):
    assert not remembered(sized(b"3")).again(sized(length))


def test_another_head_is_another():
    data = b"GET /v1/x HTTP/1.1\r\nHost: gw\r\n\r\n"
    head = remembered(data)
    assert head.again(data)
    assert head.body.done
    assert not head.again(data[:-2] + b"Content-Length: 3\r\n\r\n")
    assert not head.again(data.replace(b"gw", b"wg"))
    begun = remembered(sized(b"33"))
    assert not begun.again(sized(b"3").replace(b"X-After: 1", b"X-After: 2"))
    assert not begun.again(sized(b"3")[:40])
    assert not parse_head(data).again(data)


def test_a_head_that_was_let_go_is_not_known_again():
    head = remembered(sized(b"3"))
    head.let_go()
    assert not head.again(sized(b"3"))
    assert (head.headers, head.method, head.path) == ([], b"POST", "/v1/x")
