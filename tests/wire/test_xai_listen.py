"""xAI's transcription: the golden session, pieces of an utterance, settings of both roles, and times without the silence of a flush."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.speech_settings import DETECT
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, TranscribeRequest, Transcript, UtteranceEnd, Word
from gw.types.usage import Usage
from gw.wire import xai_listen
from gw.wire.xai_listen import XaiListenClient, XaiListenServer
from tests.fakes.recording import wav_of

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "xai" / "listen.json").read_text("utf-8"))
REQUEST = ListenRequest(model="grok-voice-transcribe-2.0", format=PCM_16K, dialect="xai", endpointing_ms=400)


def client(**more) -> XaiListenClient:
    return XaiListenClient("p", attrs.evolve(REQUEST, **more), ("secret",))


def finished() -> XaiListenClient:
    read = client()
    read.finish()
    return read


def partial(text, start_s, length_s, *, final=False, speech=False, words=()):
    timed = [{"text": word, "start": begin, "end": end} for word, begin, end in words]
    members = {"text": text, "start": start_s, "duration": length_s, "is_final": final, "speech_final": speech, "words": timed}
    return json.dumps({"type": "transcript.partial", **members})


def texts(events):
    return [(type(event).__name__, event.text) for event in events if isinstance(event, Interim | Final)]


def test_the_golden_session():
    read = client()
    read.finish()
    events = [event for frame in GOLDEN["frames"] for event in read.receive(json.dumps(frame))]
    assert read.started
    assert read.ended
    assert texts(events) == [
        ("Interim", "The quick"), ("Interim", "The quick brown fox"), ("Interim", "The quick brown fox jumps"),
        ("Final", "The quick brown fox jumps."),
    ]  # fmt: skip
    final = events[3]
    assert (final.start_s, final.end_s, final.language, len(final.words)) == (0.1, 1.6, "en", 5)
    assert final.words[4] == Word(text="jumps.", start_s=1.2, end_s=1.6, confidence=0.9, speaker="0")
    assert events[4:] == [UtteranceEnd(at_s=1.6), ListenEnd()]


def test_pieces_that_an_utterance_does_not_restate_are_part_of_it():
    read = client()
    read.receive(partial("one two", 0.0, 3.0, final=True))
    read.receive(partial("three", 3.0, 3.0, final=True))
    (interim,) = read.receive(partial("fo", 6.0, 0.2))
    final, end = read.receive(partial("four", 6.0, 0.5, final=True, speech=True, words=[("four", 6.0, 6.4)]))
    assert (interim.text, final.text, final.start_s, final.end_s, end.at_s) == ("one two three fo", "one two three four", 0.0, 6.4, 6.4)
    assert texts(read.receive(partial("five", 8.0, 0.5, final=True, speech=True))) == [("Final", "five")]


def test_a_piece_is_not_lost_at_the_end():
    read = client(interim_results=False)
    assert read.receive(partial("one two", 0.0, 3.0, final=True)) == []
    read.finish()
    events = read.receive('{"type":"transcript.done","text":"","duration":3.5}')
    assert texts(events) == [("Final", "one two")]
    assert isinstance(events[-1], ListenEnd)
    assert texts(finished().receive('{"type":"transcript.done","text":" hi ","words":[],"duration":1}')) == [("Final", "hi")]
    assert finished().receive('{"type":"transcript.done","duration":0}') == [ListenEnd()]
    with pytest.raises(ProviderFailed, match="by itself"):
        client().receive('{"type":"transcript.done","duration":0}')


def test_other_frames():
    assert client().receive('{"type":"transcript.new"}') == []
    assert client().receive(partial(" ", 0.0, 1.0)) == []
    with pytest.raises(UpstreamProtocolError):
        client().receive('{"type":')
    with pytest.raises(ProviderFailed) as caught:
        client().receive(xai_listen.error_frame("the secret is bad"))
    assert "secret" not in caught.value.detail
    assert "is bad" in caught.value.detail


def test_times_leave_out_the_silence_of_flushes():
    read = client()
    read.audio(bytes(32_000))
    silence = read.flush()
    assert PCM_16K.seconds(len(silence)) == pytest.approx(read.flush_s) == pytest.approx(0.7)
    assert not any(silence)
    final, end = read.receive(partial("one", 0.5, 0.9, final=True, speech=True))
    assert (final.start_s, final.end_s, end.at_s) == (0.5, 1.0, 1.0)
    (interim,) = read.receive(partial("two", 2.0, 0.4))
    assert (interim.start_s, interim.end_s) == (pytest.approx(1.3), pytest.approx(1.7))


@pytest.mark.parametrize("number", ["1e308", "-1e308", "1" + "0" * 30])
def test_times_that_cannot_be(number):
    frame = partial("a", 1.25, 2.5, final=True, speech=True, words=[("a", 3.5, 4.75)])
    for written in ("1.25", "2.5", "3.5", "4.75"):
        final, _ = client().receive(frame.replace(written, number))
        assert 0.0 <= final.start_s <= final.end_s <= 2e7


@pytest.mark.parametrize("encoding", xai_listen.ENCODINGS)
def test_a_server_reads_what_the_client_writes(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=8_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de-CH", keyterms=("Acme & Co", "gw"), diarize=True, endpointing_ms=50)
    path, _, query = xai_listen.live_path(request, request.model).partition("?")
    assert path == "/stt"
    assert xai_listen.parse_query(query.encode()) == attrs.evolve(request, language="de")


def test_detection_and_bounds():
    request = attrs.evolve(REQUEST, language=DETECT, endpointing_ms=60_000, interim_results=False)
    read = xai_listen.parse_query(xai_listen.live_path(request, "m").partition("?")[2].encode())
    assert (read.model, read.language, read.endpointing_ms, read.interim_results) == ("m", None, 5_000, False)
    assert [xai_listen.takes_language(name) for name in ("en-US", "fil", DETECT, "zh", "tlh")] == [True, True, True, False, False]
    assert [xai_listen.takes_keyterms(terms) for terms in (["a"] * 100, ["a"] * 101, ["a" * 51])] == [True, False, False]


@pytest.mark.parametrize(
    ("query", "param"),
    [
        ("encoding=mp3", "encoding"), ("sample_rate=11025", "sample_rate"), ("endpointing=5001", "endpointing"),
        ("multichannel=true", "multichannel"), ("keyterm=" + "a" * 51, "keyterm"),
    ],
)  # fmt: skip
def test_settings_that_the_vendor_refuses(query, param):
    with pytest.raises(ClientProtocolError) as caught:
        xai_listen.parse_query(query.encode())
    assert caught.value.param == param


def test_channels_are_mixed():
    read = client(format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2))
    assert read.audio(b"\x02\x00\x04\x00" * 10) == b"\x03\x00" * 10


def test_the_form_of_a_recording():
    request = TranscribeRequest(model="m", audio=wav_of(bytes(320)), language="en-GB", keyterms=("Acme", "gw"), diarize=True)
    assert xai_listen.form_fields(request, "m") == [
        ("model", "m"), ("language", "en"), ("diarize", "true"), ("keyterm", "Acme"), ("keyterm", "gw"), ("format", "true"),
    ]  # fmt: skip
    assert xai_listen.form_fields(attrs.evolve(request, language=DETECT, keyterms=(), diarize=False), "m") == [("model", "m")]


def test_recordings():
    words = (Word(text="Hi", start_s=0.1, end_s=0.3, confidence=0.9, speaker="1"),)
    body = xai_listen.encode_recording(Transcript(text="Hi", duration_s=1.254, words=words))
    usage = Usage(audio_seconds=1.25, source="vendor")
    assert xai_listen.decode_recording(body, "p") == Transcript(text="Hi", duration_s=1.25, words=words, usage=usage)
    without = xai_listen.decode_recording(b'{"text":" Hi ","language":"en"}', "p")
    assert without == Transcript(text="Hi", language="en")
    assert xai_listen.decode_recording(b'{"text":"","duration":1e300}', "p").usage is None
    with pytest.raises(UpstreamProtocolError):
        xai_listen.decode_recording(b"{}", "p")


def test_the_pieces_of_the_server_come_to_the_utterance():
    server, read = XaiListenServer(REQUEST), client()
    turn = [
        [Interim(text="one", start_s=0.5, end_s=1.0)], [Interim(text="one two", start_s=0.5, end_s=4.0)],
        [Interim(text="one two three", start_s=0.5, end_s=4.5)],
        [Final(text="one two three four", start_s=0.5, end_s=5.0), UtteranceEnd(at_s=5.0)],
    ]  # fmt: skip
    frames = [frame for events in turn for frame in server.encode(events)]
    sent = [msgspec.json.decode(frame) for frame in frames]
    assert [(frame["text"], frame["is_final"], frame["speech_final"]) for frame in sent] == [
        ("one", False, False), ("one two", True, False), ("three", False, False), ("three four", True, False),
        ("one two three four", True, True),
    ]  # fmt: skip
    events = [event for frame in frames for event in read.receive(frame)]
    assert texts(events) == [
        ("Interim", "one"), ("Interim", "one two"), ("Interim", "one two three"), ("Interim", "one two three four"),
        ("Final", "one two three four"),
    ]  # fmt: skip
    assert events[-1] == UtteranceEnd(at_s=5.0)


def test_the_server():
    server = XaiListenServer(attrs.evolve(REQUEST, interim_results=True))
    assert msgspec.json.decode(server.opening()[0])["type"] == "transcript.created"
    server.receive(bytes(32_000))
    events = [Interim(text="a"), Final(text="b", end_s=1.0), UtteranceEnd(at_s=1.0)]
    frames = [msgspec.json.decode(frame) for frame in server.encode(events)]
    assert [(frame["text"], frame["is_final"], frame["speech_final"]) for frame in frames] == [("a", False, False), ("b", True, True)]
    (done,) = (msgspec.json.decode(frame) for frame in server.encode([Final(text="c"), ListenEnd()]))
    assert (done["type"], done["text"], done["duration"]) == ("transcript.done", "c", 1.0)
