"""Live transcription, the server's side: what clients insist on, and against our own client's side."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.types.audio import MULAW_8K, PCM_24K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, SpeechStarted, UtteranceEnd, VendorFrame
from gw.wire.live_messages import Audio, Control, DirectReply, Forward
from gw.wire.openai_realtime_client import RealtimeListenClient
from gw.wire.openai_realtime_server import RealtimeListenServer

SECOND = b64encode(bytes(48_000)).decode()
TRANSCRIPTION = "conversation.item.input_audio_transcription."


def server(**more):
    return RealtimeListenServer(session_id="1", **more)


def frame(kind: str, **members: object) -> str:
    return msgspec.json.encode({"type": kind, **members}).decode()


def decoded(frames: list[str]) -> list[dict]:
    return [msgspec.json.decode(text) for text in frames]


def kinds(frames: list[str]) -> list[str]:
    return [event["type"].removeprefix(TRANSCRIPTION).removeprefix("input_audio_buffer.") for event in decoded(frames)]


def refusal(side: RealtimeListenServer, text: str) -> dict:
    """The error that answers a malformed frame."""
    (reply,) = side.receive(text)
    assert isinstance(reply, DirectReply)
    event = msgspec.json.decode(reply.frame)
    assert event["type"] == "error"
    return event["error"]


def update(**received_events: object) -> str:
    return frame("session.update", session={"type": "transcription", "audio": {"input": received_events}})


def test_a_session_begins_with_its_settings():
    (created,) = decoded(server(model="gpt-4o-transcribe").opening())
    assert created["session"]["type"] == "transcription"
    assert created["session"]["audio"]["input"]["transcription"] == {"model": "gpt-4o-transcribe"}
    assert created["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
    assert created["event_id"]


def test_settings_that_are_left_out_keep_their_value():
    side = server(model="from-the-query")
    assert side.request is None
    side.receive(
        update(
            format={"type": "audio/pcmu"},
            transcription={"model": "m", "language": "en", "keywords": ["gw"]},
            turn_detection={"type": "server_vad", "silence_duration_ms": 200},
        )
    )
    request = side.request
    assert request is not None
    assert (request.model, request.format, request.language, request.keyterms) == ("m", MULAW_8K, "en", ("gw",))
    assert (request.endpointing_ms, request.dialect) == (200, "openai")
    (reply,) = side.receive(update(turn_detection=None, transcription={"language": "de"}))
    request = side.request
    assert (request.model, request.format, request.language) == ("m", MULAW_8K, "de")
    (updated,) = decoded([reply.frame])
    assert updated["session"]["audio"]["input"] == msgspec.json.decode(request.options[0][1])["audio"]["input"]
    assert updated["session"]["audio"]["input"]["turn_detection"] is None


@pytest.mark.parametrize(
    "text",
    [
        "{", "[]", '{"x":1}', frame("session.update", session=7), frame("session.update", session={"type": "realtime"}),
        update(format={"type": "audio/pcm", "rate": 16_000}), update(format={"type": "audio/opus"}),
        frame("input_audio_buffer.append", audio="!"), frame("input_audio_buffer.commit"),
    ],
)  # fmt: skip
def test_malformed_frames(text):
    assert refusal(server(), text)["type"] == "invalid_request_error"


def test_the_buffer():
    side = server()
    assert side.receive(frame("input_audio_buffer.append", audio=SECOND)) == (Audio(bytes(48_000)),)
    (cleared,) = side.receive(frame("input_audio_buffer.clear"))
    assert kinds([cleared.frame]) == ["cleared"]
    assert refusal(side, frame("input_audio_buffer.commit"))["code"] == "input_audio_buffer_commit_empty"
    side.receive(frame("input_audio_buffer.append", audio=SECOND))
    assert side.receive(frame("input_audio_buffer.commit"))[-1] is Control.FLUSH
    other = frame("response.create")
    assert side.receive(other) == (Forward(other),)


def test_an_error_names_the_clients_frame():
    assert refusal(server(), frame("input_audio_buffer.commit", event_id="mine"))["event_id"] == "mine"
    assert refusal(server(), "{")["event_id"] is None
    (event,) = decoded([server().error(type="t", code="c", message="m", event_id="mine")])
    assert event["error"] == {"type": "t", "code": "c", "message": "m", "param": None, "event_id": "mine"}


def test_speech_as_clients_expect_it():
    side = server()
    frames = side.encode(
        [
            SpeechStarted(at_s=0.5),
            Interim(text="Hello"),
            Interim(text="Hello there"),
            Interim(text="Hallo there"),   # rewritten: nothing can be taken back
            Final(text="Hello there.", start_s=0.5, end_s=1.75, language="en"),
            UtteranceEnd(at_s=1.75),
        ]
    )
    assert kinds(frames) == [
        "speech_started", "delta", "delta", "speech_stopped", "committed", "conversation.item.added",
        "conversation.item.done", "completed",
    ]  # fmt: skip
    events = decoded(frames)
    assert len({event["event_id"] for event in events}) == len(events)
    assert len({event.get("item_id") or event["item"]["id"] for event in events}) == 1
    assert (events[0]["audio_start_ms"], events[3]["audio_end_ms"]) == (500, 1_750)
    assert [events[1]["delta"], events[2]["delta"]] == ["Hello", " there"]
    assert (events[-1]["transcript"], events[-1]["languages"]) == ("Hello there.", [{"code": "en"}])
    assert events[-1]["usage"] == {"type": "duration", "seconds": 1.25}
    again = decoded(side.encode([Final(text="Bye.", start_s=2, end_s=3)]))
    assert again[0]["type"] == "input_audio_buffer.speech_stopped"
    assert again[1]["previous_item_id"] == events[0]["item_id"]


def test_what_the_client_commits():
    side = server()
    side.receive(update(turn_detection=None))
    for _ in range(2):
        side.receive(frame("input_audio_buffer.append", audio=SECOND))
        *replies, flush = side.receive(frame("input_audio_buffer.commit"))
        assert flush is Control.FLUSH
        frames = [reply.frame for reply in replies]
        assert kinds(frames) == ["committed", "conversation.item.added", "conversation.item.done"]
    assert kinds(side.encode([Interim(text="He"), Final(text="Hello", start_s=0, end_s=1)])) == ["delta", "completed"]
    (empty,) = decoded(side.encode([UtteranceEnd(at_s=2)]))
    assert (empty["transcript"], empty["usage"]["seconds"]) == ("", 0)
    assert side.encode([ListenEnd()]) == []


def test_frames_of_the_same_dialect_go_on_as_they_came():
    assert server().encode([Final(text="a", raw="{1}"), VendorFrame(raw="{2}"), VendorFrame(raw=b"{3}")]) == ["{1}", "{2}", "{3}"]


UTTERANCES = st.lists(st.text(min_size=1, max_size=12).filter(str.strip), max_size=4)


@given(UTTERANCES)
def test_the_client_decodes_what_the_server_encodes(texts):
    side = server()
    client = RealtimeListenClient("p", ListenRequest(model="m", format=PCM_24K), "gpt-4o-transcribe")
    received_events = [event for out in side.opening() for event in client.receive(out)]
    received_events += [event for reply in side.receive(client.opening()) for event in client.receive(reply.frame)]
    for at, text in enumerate(texts):
        side.receive(client.audio(bytes(48_000)) or "")
        sent = [SpeechStarted(at_s=float(at)), Interim(text=text[:1], start_s=at), Final(text=text, start_s=at, end_s=at + 0.5)]
        received_events += [event for out in side.encode([*sent, UtteranceEnd(at_s=at + 0.5)]) for event in client.receive(out)]
    replies = side.receive(client.finish())
    frames = [*(reply.frame for reply in replies if isinstance(reply, DirectReply)), *side.encode([ListenEnd()])]
    received_events += [event for out in frames for event in client.receive(out)]
    finals = [(e.text, e.start_s, e.end_s) for e in received_events if isinstance(e, Final)]
    assert finals == [(text, at, at + 0.5) for at, text in enumerate(texts)]
    assert isinstance(received_events[-1], ListenEnd)
