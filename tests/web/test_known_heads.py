"""Heads that several connections send are parsed once."""

from __future__ import annotations

import pytest

from gw.web import known_heads
from gw.web.http_errors import Refused
from gw.web.http_server_head import parse_head
from gw.web.known_heads import MOST_BYTES, MOST_HEADS, KnownHeads


def head(path: str = "/v1/x", length: int | None = 3, more: str = "") -> bytes:
    sized = "" if length is None else f"Content-Length: {length}\r\n"
    return f"POST {path} HTTP/1.1\r\nHost: gw\r\n{sized}{more}X-After: 1\r\n\r\n".encode()


@pytest.fixture
def parsed(monkeypatch):
    """The heads that were parsed."""
    heads = []
    monkeypatch.setattr(known_heads, "parse_head", lambda data: heads.append(data) or parse_head(data))
    return heads


def test_a_head_is_parsed_once_whatever_its_length(parsed):
    known = KnownHeads()
    for length in (3, 4, 1_000, 3):
        one, alone = known.parse(head(length=length)), parse_head(head(length=length))
        assert (one.headers, one.body.left, one.keep) == (alone.headers, alone.body.left, alone.keep)
        assert (one.method, one.target, one.path, one.version) == (b"POST", "/v1/x", "/v1/x", "1.1")
    assert parsed == [head(length=3)]


def test_connections_share_what_was_made_out_of_a_head_and_nothing_else():
    known = KnownHeads()
    one, other = known.parse(head()), known.parse(head(length=9))
    one.facts["route"] = "here"
    assert (other.facts, known.parse(head("/v1/y")).facts) == ({"route": "here"}, {})
    one.scope = {}
    one.body.take(bytearray(b"abc"))
    assert (one.body.done, other.body.left, other.scope, known.parse(head()).body.left) == (True, 9, None, 3)
    one.let_go()
    assert (other.facts, other.headers[1]) == ({"route": "here"}, (b"content-length", b"9"))
    assert known.parse(head()).headers[1] == (b"content-length", b"3")


@pytest.mark.parametrize(
    "data",
    [
        head(more="Transfer-Encoding: chunked\r\n", length=None),
        head(more="Connection: upgrade\r\nUpgrade: websocket\r\n", length=None),
        head(more=f"Cookie: {'x' * MOST_BYTES}\r\n"),
    ],
)
def test_some_heads_are_parsed_each_time(parsed, data):
    known = KnownHeads()
    assert [known.parse(data).path for _ in range(2)] == ["/v1/x"] * 2
    assert parsed == [data] * 2


def test_a_head_that_is_refused_is_refused_again():
    known = KnownHeads()
    for _ in range(2):
        with pytest.raises(Refused):
            known.parse(head(more="Content-Length: 4\r\n"))


def test_the_heads_used_last_are_known(parsed):
    known = KnownHeads()
    for n in range(MOST_HEADS):
        known.parse(head(f"/{n}"))
    known.parse(head("/0"))
    known.parse(head("/another"))
    parsed.clear()
    known.parse(head("/0"))
    known.parse(head("/1"))
    assert parsed == [head("/1")]
