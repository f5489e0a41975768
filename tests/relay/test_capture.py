"""What a capture holds in memory while a request runs and while its words wait to be stored."""

from __future__ import annotations

import tracemalloc
from collections.abc import AsyncIterator

import msgspec
import pytest

from gw.relay import capture
from gw.relay.capture import RequestCapture, is_in_share
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.captured import CapturedText, Piece
from gw.types.entities import Capture
from gw.types.llm import Completion, Delta
from gw.types.stt import Final, Interim, ListenRequest, TranscribeRequest, Transcript
from gw.types.tts import AudioChunk, SpeakLiveRequest
from gw.wire.openai_chat import parse_request

SPEECH = SpeakLiveRequest(model="sim/tone", format=PCM_24K)
TRANSCRIPTION = ListenRequest(model="sim/tone", format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000))


class Sink:
    """Measures the parts of sound and lets them go, as the writer does; keeps the words."""

    def __init__(self) -> None:
        self.texts: list[Piece] = []
        self.sound_bytes = 0

    def put(self, piece: Piece) -> bool:
        if piece.kind == "audio":
            self.sound_bytes += piece.size
        else:
            self.texts.append(piece)
        return True

    def said(self) -> CapturedText:
        return msgspec.json.decode(self.texts[-1].make(), type=CapturedText)


class Recording:
    """An uploaded recording in memory."""

    size, filename, content_type = 5_000_000, "", "audio/wav"

    def __init__(self) -> None:
        self.data = bytes(self.size)

    async def chunks(self) -> AsyncIterator[bytes]:
        yield self.data


def begin(sink: Sink, request: object, **settings) -> RequestCapture:
    return RequestCapture(sink, Capture(**{"text": True, "audio": True, **settings}), "kept", "r1", 0.0, request)


@pytest.mark.parametrize("share", [0, 0.05, 0.3, 0.5, 1])
@pytest.mark.parametrize("form", ["session-{}", "{}", "call-2026-11-26-{:06}", "{:032x}"])
def test_a_share_of_sessions_whatever_their_ids_look_like(share, form):
    sessions = [form.format(n) for n in range(5_000)]
    kept = {session for session in sessions if is_in_share(share, session)}
    assert len(kept) == pytest.approx(share * len(sessions), abs=0.02 * len(sessions) * (0 < share < 1))
    assert all(is_in_share(min(1, share + 0.1), session) for session in kept)


@pytest.mark.parametrize("settings", [{}, {"audio": False}, {"text": False}], ids=str)
def test_the_sound_of_a_live_speech_is_not_held_until_its_end(settings):
    sink = Sink()
    held = begin(sink, SPEECH, **settings)
    tracemalloc.start()
    for _ in range(400):
        held.give([AudioChunk(data=bytes(48_000))])
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 1_000_000  # of 19 MB; a part of five seconds is 240 kB
    held.text("hello")
    assert held.finish() == "stored"
    assert sink.sound_bytes == (400 * 48_000 if settings.get("audio", True) else 0)


def test_only_final_transcripts_of_a_live_session_are_held():
    sink = Sink()
    held = begin(sink, TRANSCRIPTION)
    for _ in range(3):
        held.give([Interim(text="hel", raw="x" * 10_000)] * 50)
        held.give([Final(text="hello", start_s=1.0, raw="x" * 10_000)])
    held.finish()
    assert [(one.role, one.text, one.at_s) for one in sink.said().said] == [("transcript", "hello", 1.0)] * 3
    assert sink.texts[0].size < 10_000


def test_nothing_of_an_answer_is_held_where_only_sound_is_kept():
    held = begin(Sink(), None, text=False)
    held.give([Delta(text="hello")])
    held.text("hello")
    assert held.given == []


def test_the_size_of_what_waits_counts_each_event_and_each_text():
    for events in ([Delta(text="word ", raw=b"x" * 300)] * 2_000, [Completion(text="x" * 50_000)], [Transcript(text="x" * 50_000)]):
        sink = Sink()
        held = begin(sink, None)
        held.give(events)
        held.finish()
        assert sink.texts[0].size >= sum(len(event.text) + len(getattr(event, "raw", None) or b"") for event in events)
    sink = Sink()
    url = b"data:image/png;base64," + b"A" * 50_000
    image = b'{"type":"image_url","image_url":{"url":"%s"}}' % url
    begin(sink, parse_request(b'{"model":"m","messages":[{"role":"user","content":[%s]}]}' % image)).finish()
    assert sink.texts[0].size >= 50_000
    assert sink.said().said[0].text == "[image]"
    sink = Sink()
    held = begin(sink, SPEECH)
    held.text("x" * 50_000)
    held.finish()
    assert sink.texts[0].size >= 50_000


def test_more_events_than_are_held_are_said_to_be_cut(monkeypatch):
    monkeypatch.setattr(capture, "MAX_EVENTS", 10)
    sink = Sink()
    held = begin(sink, None)
    for _ in range(12):
        held.give([Delta(text="a")])
    held.finish()
    assert (sink.said().said[0].text, sink.said().cut) == ("a" * 10, True)


def test_a_recording_does_not_wait_with_its_transcript():
    sink = Sink()
    tracemalloc.start()
    held = begin(sink, TranscribeRequest(model="sim/tone", audio=Recording()), audio=False)
    held.give([Transcript(text="hello")])
    held.finish()
    current, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert current < 1_000_000
    assert sink.said().said[0].text == "hello"
