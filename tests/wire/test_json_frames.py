"""JSON frames of live sessions."""

from __future__ import annotations

import pytest

from gw.errors import ClientProtocolError
from gw.types.stt import Final, UtteranceEnd, VendorFrame
from gw.wire.json_frames import frame_text, frame_type, session_failure, typed_frame, vendor_frames


def test_a_frame_begins_with_its_type():
    assert typed_frame("Flushed", id=1) == '{"type":"Flushed","id":1}'
    assert frame_type(typed_frame("Flushed", id=1)) == "Flushed"


@pytest.mark.parametrize("frame", ["", "{", "[]", "{}", '{"type":7}', "[" * 100_000])
def test_a_frame_without_a_type_is_refused(frame):
    with pytest.raises(ClientProtocolError):
        frame_type(frame)


def test_frames_of_the_vendor_are_text():
    assert frame_text(b"a\xff") == "a\ufffd"
    events = [Final(text="a", raw="{1}"), UtteranceEnd(at_s=0.0), VendorFrame(raw=b"{2}")]
    assert vendor_frames(events) == ["{1}", "{2}"]


def test_a_failure_inside_a_session_keeps_code_and_filtered_message():
    error = session_failure("p", "the key hush is bad", "BAD", ("hush",))
    assert (error.upstream_status, error.upstream_code) == (101, "BAD")
    assert error.detail == "an error inside the session BAD: the key [removed] is bad"
    assert session_failure("p", "", "", ()).detail == "an error inside the session"
