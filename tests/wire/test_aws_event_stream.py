"""Amazon's event stream encoding, compared with what its own SDK writes; messages that are damaged or cut."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gw.wire.aws_event_stream import decode_message, encode_headers, encode_message

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "aws" / "event_stream.json").read_text("utf-8"))["messages"]


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_messages_of_the_sdk(case):
    frame, payload = bytes.fromhex(case["frame"]), bytes.fromhex(case["payload"])
    message = decode_message(frame)
    assert (message.headers, message.payload) == (case["headers"], payload)
    if case["name"] != "every type of value":  # text alone is ever written
        assert encode_message(encode_headers(case["headers"]), payload) == frame


@pytest.mark.parametrize("case", GOLDEN, ids=lambda case: case["name"])
def test_no_cut_or_damaged_message_is_taken(case):
    frame = bytes.fromhex(case["frame"])
    for at in range(len(frame)):
        for damaged in (frame[:at], frame[:at] + bytes((frame[at] ^ 1,)) + frame[at + 1 :], frame[:at] + b"\0" + frame[at:]):
            with pytest.raises(ValueError, match=r"message|CRC|length|header"):
                decode_message(damaged)


@pytest.mark.parametrize(
    "headers",
    [
        b"\x05text", b"\x04text", b"\x04text\x07", b"\x04text\x07\0", b"\x04text\x07\0\x05abc", b"\x04text\x0a", b"\x04text\x09\0",
        b"\x04\xff\xff\xff\xff\x07\0\0",
    ],
)  # fmt: skip
def test_headers_that_are_wrong(headers):
    with pytest.raises(ValueError, match=r"header|decode"):
        decode_message(encode_message(headers, b"x"))
