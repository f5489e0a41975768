from base64 import b64encode

import msgspec
import pytest

from gw.wire.realtime_duration import SessionDuration


def frame(kind, **members):
    return msgspec.json.encode({"type": kind, **members}).decode()


def done(total_s):
    return frame("response.done", usage={"input_tokens": 10, "billable_audio_seconds": total_s}, response={"usage": {}})


def audio(seconds, bytes_per_s=48_000):
    return b64encode(bytes(round(seconds * bytes_per_s))).decode()


def test_a_session_is_billed_by_the_clock_in_seconds_begun():
    counter = SessionDuration()
    assert [counter.total_s(elapsed_s) for elapsed_s in (0.0, 0.1, 1.0, 59.2)] == [0.0, 1.0, 1.0, 60.0]


def test_the_vendors_running_total_counts_and_our_clock_from_there():
    counter = SessionDuration()
    counter.received(done(3), 2.4)
    assert [counter.total_s(elapsed_s) for elapsed_s in (2.4, 2.9, 3.2)] == [3.0, 3.0, 4.0]
    counter.received(done(10), 14.0)  # four seconds less than our clock
    assert [counter.total_s(elapsed_s) for elapsed_s in (14.0, 15.5)] == [10.0, 12.0]
    counter.received(done(2), 20.0)   # a total cannot shrink
    assert counter.reported_s == 10.0


@pytest.mark.parametrize("total", ["many", -1, None, 1e400, True])
def test_a_total_that_cannot_be_leaves_our_clock(total):
    counter = SessionDuration()
    counter.received(done(total if total != 1e400 else "Infinity"), 2.0)
    assert (counter.reported_s, counter.total_s(2.0)) == (0.0, 2.0)


@pytest.mark.parametrize(
    "off", [{"turn_detection": None}, {"turn_detection": {"type": None}}, {"audio": {"input": {"turn_detection": None}}}]
)
def test_without_turn_detection_the_audio_of_both_sides_is_billed(off):
    counter = SessionDuration()
    counter.sent(frame("session.update", session=off))
    counter.sent(frame("input_audio_buffer.append", audio=audio(0.7)))
    counter.received(frame("response.output_audio.delta", delta=audio(1.5)), 9.0)
    assert counter.total_s(600.0) == 3.0
    counter.received(done(3), 10.0)
    counter.sent(frame("input_audio_buffer.append", audio=audio(1.9)))
    assert counter.total_s(600.0) == 5.0


def test_turn_detection_that_is_turned_off_late_saves_nothing():
    counter = SessionDuration()
    counter.sent(frame("conversation.item.create", item={"type": "message", "content": [{"type": "input_text", "text": "hi"}]}))
    counter.sent(frame("session.update", session={"turn_detection": None}))
    assert counter.total_s(60.0) == 60.0


@pytest.mark.parametrize(
    ("form", "bytes_per_s"),
    [({"type": "audio/pcm", "rate": 16_000}, 32_000), ({"type": "audio/pcmu"}, 8_000), ({"type": "audio/pcm"}, 48_000)],
)
def test_audio_counts_in_the_format_of_the_session(form, bytes_per_s):
    counter = SessionDuration()
    counter.sent(frame("session.update", session={"turn_detection": None}))
    counter.received(frame("session.updated", session={"audio": {"input": {"format": form}, "output": {"format": form}}}), 0.1)
    counter.sent(frame("input_audio_buffer.append", audio=audio(4, bytes_per_s)))
    counter.received(frame("response.output_audio.delta", delta=audio(3, bytes_per_s)), 1.0)
    assert counter.total_s(100.0) == 7.0


def test_messages_of_text_are_counted_and_no_others():
    counter = SessionDuration()
    for item in (
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]},
        {"type": "force_message", "role": "assistant", "content": [{"type": "output_text", "text": "hello"}]},
        {"type": "function_call_output", "call_id": "c", "output": "{}"},
        {"type": "message", "role": "user", "content": [{"type": "input_audio", "audio": audio(2.0)}]},
    ):
        counter.sent(frame("conversation.item.create", item=item))
    counter.sent(frame("response.create"))
    assert counter.text_messages == 2


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"type": 5}', '{"type": "session.update", "session": "x"}', '{"type":"response.done","usage":7}']
)
def test_what_cannot_be_read_counts_nothing(text):
    counter = SessionDuration()
    counter.sent(text)
    counter.received(text, 1.0)
    assert (counter.text_messages, counter.total_s(0.0)) == (0, 0.0)
