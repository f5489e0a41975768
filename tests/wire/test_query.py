"""Query strings of speech endpoints: what is kept of them, and which values are refused."""

from __future__ import annotations

import pytest

from gw.errors import ClientProtocolError
from gw.wire.query import encoding_field, int_field, is_true, optional_pairs, query_pairs, sample_rate


def test_settings_are_kept_in_order_without_credentials_and_gateway_fields():
    query = b"b=2&token=x&a=1&access_token=x&b=3&api_key=x&single_use_token=x&gw_session=s&c=&d=K%C3%B6ln&e=%FF"
    assert query_pairs(query) == [("b", "2"), ("a", "1"), ("b", "3"), ("c", ""), ("d", "Köln"), ("e", "\ufffd")]


@pytest.mark.parametrize(("value", "result"), [("true", True), ("True", True), ("1", True), ("", True), ("false", False), (None, False)])
def test_flags(value, result):
    assert is_true(value) is result


def test_numbers():
    assert int_field({"n": "12"}, "n", 3) == 12
    assert int_field({}, "n", 3) == 3
    for value in ("", "-1", "1.5", "²", "1234567890"):
        with pytest.raises(ClientProtocolError) as caught:
            int_field({"n": value}, "n", 3)
        assert caught.value.param == "n"


@pytest.mark.parametrize("value", ["", "3999", "192001", "8k", "٨000", -8_000, "1e4"])
def test_sample_rates_that_are_refused(value):
    with pytest.raises(ClientProtocolError) as caught:
        sample_rate(value, 16_000)
    assert caught.value.param == "sample_rate"


def test_sample_rates():
    assert (sample_rate(None, 16_000), sample_rate("8000", 16_000), sample_rate(24_000, 16_000)) == (16_000, 8_000, 24_000)


def test_encodings():
    assert encoding_field("linear16", {"linear16": "pcm_s16le"}) == "pcm_s16le"
    with pytest.raises(ClientProtocolError, match="one of linear16, mulaw"):
        encoding_field("x", {"linear16": 1, "mulaw": 2})


def test_optional_fields():
    assert optional_pairs(a="x", b=None, c=False, d="", e=0, f=True) == [("a", "x"), ("e", "0"), ("f", "true")]
