from __future__ import annotations

import msgspec
import pytest

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.wire.json_codec import convert_or_none, decode_client, decode_or, decode_request, decode_upstream, present

COUNTS = msgspec.json.Decoder(list[int])
BAD = [b"[1", b'["x"]', b"\xff", b"[" * 100_000]


def test_good_json_is_decoded_from_text_and_bytes():
    assert decode_upstream(COUNTS, "[1]", "p") == decode_client(COUNTS, b"[1]") == decode_or(COUNTS, "[1]", []) == [1]


@pytest.mark.parametrize("data", BAD, ids=["syntax", "type", "utf-8", "depth"])
def test_bad_json_is_the_senders_fault(data):
    with pytest.raises(UpstreamProtocolError) as upstream:
        decode_upstream(COUNTS, data, "acme")
    assert upstream.value.provider == "acme"
    with pytest.raises(ClientProtocolError):
        decode_client(COUNTS, data)
    assert decode_or(COUNTS, data, [7]) == [7]


class Order(msgspec.Struct):
    name: str
    count: int = 1
    note: msgspec.Raw = msgspec.Raw(b"")


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"count":1}', "name"), (b'{"name":"x","count":"1"}', "count"), (b"[]", None), (b"{", None), (b"", None),
        (b'{"name":"x","note":"\xff"}', None),
    ],
)  # fmt: skip
def test_a_bad_request_names_the_member(body, param):
    with pytest.raises(ClientProtocolError) as caught:
        decode_request(msgspec.json.Decoder(Order), body)
    assert caught.value.param == param
    assert decode_request(msgspec.json.Decoder(Order), b'{"name":"x"}').name == "x"


def test_conversion_of_a_decoded_value():
    assert convert_or_none([1, 2], list[int]) == [1, 2]
    assert convert_or_none(["x"], list[int]) is None
    assert convert_or_none(None, list[int]) is None


def test_members_that_are_present():
    assert present(a=1, b=None, c=False, d="") == {"a": 1, "c": False, "d": ""}
