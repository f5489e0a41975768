"""Fields of protobuf messages: what is written is read, and what is malformed is refused wherever it is cut."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.wire import protobuf


@given(st.integers(0, 2**64 - 1))
def test_numbers(value):
    encoded = protobuf.number_field(3, value)
    assert list(protobuf.fields(encoded)) == ([(3, value)] if value else [])


@pytest.mark.parametrize(("value", "encoded"), [(1, "01"), (127, "7f"), (128, "8001"), (150, "9601"), (2**64 - 1, "ffffffffffffffffff01")])
def test_varints_of_the_specification(value, encoded):
    assert protobuf.varint(value).hex() == encoded


@given(st.binary(max_size=300), st.text(max_size=50), st.floats(width=32, allow_nan=False))
def test_bytes_texts_and_floats(data, text, number):
    message = protobuf.bytes_field(1, data) + protobuf.text_field(2, text) + protobuf.float_field(3, number)
    read = dict(protobuf.fields(message))
    assert protobuf.data(read[1]) == data
    assert protobuf.text(read.get(2, b"")) == text
    assert protobuf.float_number(read.get(3, bytes(4))) == number


def test_fields_of_64_bits_are_read_as_bytes():
    assert list(protobuf.fields(b"\x09" + b"12345678" + b"\x08\x05")) == [(1, b"12345678"), (1, 5)]


@pytest.mark.parametrize(
    "message",
    [b"\x08", b"\x08\x80", b"\x08" + b"\x80" * 10 + b"\x01", b"\x08" + b"\xff" * 9 + b"\x02", b"\x0a\x05ab", b"\x0d\x00", b"\x0b", b"\x0f",
     b"\x00\x01", b"\x80\x80\x80\x80\x10\x01"],
    ids=["no value", "cut varint", "eleven bytes", "65 bits", "cut bytes", "cut float", "a group", "type 7", "number 0", "number 2^29"],
)  # fmt: skip
def test_malformed_messages(message):
    with pytest.raises(ValueError, match=r"\w"):
        list(protobuf.fields(message))


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(message):
    with suppress(ValueError):
        list(protobuf.fields(message))


def test_values_of_another_type():
    for read, value in (
        (protobuf.whole_number, b""), (protobuf.data, 1), (protobuf.text, 1), (protobuf.float_number, 1), (protobuf.float_number, b"abc"),
        (protobuf.text, b"\xff"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"\w"):
            read(value)
