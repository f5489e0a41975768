"""ElevenLabs' transcription of recordings, both sides, and its live one, the server's side."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    SpeechStarted,
    TranscribeRequest,
    Transcript,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.types.usage import Usage
from gw.wire.elevenlabs_listen import (
    ElevenListenServer,
    decode_transcript,
    encode_transcript,
    error_frame,
    form_fields,
    parse_form,
    parse_query,
)
from gw.wire.listen_messages import Audio, Control, DelayedReply, Forward
from tests.fakes.golden import golden

ANSWER = golden("elevenlabs/transcript")


class Upload:
    size, filename, content_type = 32_000, "a.wav", "audio/wav"

    async def chunks(self):
        yield bytes(self.size)


def request(**members) -> TranscribeRequest:
    return TranscribeRequest(model="m", audio=Upload(), **members)


def asked(query: str = ""):
    return parse_query(f"model_id=m&{query}".encode())


def told(frames: list[str]) -> list[dict]:
    return [msgspec.json.decode(frame) for frame in frames]


# ---- recordings


def test_the_form():
    asked_for = {"language": "de-AT", "diarize": True, "keyterms": ("Acme", "gw"), "timestamps": frozenset({"word"})}
    assert form_fields(request(**asked_for, temperature=0.5), "s") == [
        ("model_id", "s"), ("language_code", "de"), ("temperature", "0.5"), ("timestamps_granularity", "word"),
        ("tag_audio_events", "false"), ("diarize", "true"), ("keyterms", "Acme"), ("keyterms", "gw"),
    ]  # fmt: skip
    assert form_fields(request(), "s") == [("model_id", "s"), ("timestamps_granularity", "none"), ("tag_audio_events", "false")]


def test_the_form_of_a_caller_of_this_dialect():
    fields = [("model_id", "x"), ("tag_audio_events", "true"), ("webhook_metadata", "null"), ("keyterms", "a"), ("keyterms", "b")]
    parsed = parse_form(fields, Upload(), None, 1.0)
    assert parsed.keyterms == ("a", "b")
    assert form_fields(parsed, "s") == [("model_id", "s"), ("tag_audio_events", "true"), ("keyterms", "a"), ("keyterms", "b")]


def test_raw_samples_tell_their_length():
    parsed = parse_form([("model_id", "x"), ("file_format", "pcm_s16le_16")], Upload(), None, 0.0)
    assert (parsed.format, parsed.audio_seconds) == (PCM_16K, 1.0)
    assert parse_form([("file_format", "other")], Upload(), None, 2.0).audio_seconds == 2.0


def test_the_golden_answer():
    assert decode_transcript(ANSWER, "p", keep_raw=True) == Transcript(
        text="Hello wörld! (laughter)", language="eng", duration_s=2.5, raw=ANSWER,
        words=(
            Word(text="Hello", start_s=0.1, end_s=0.5, speaker="speaker_0"),
            Word(text="wörld!", start_s=0.5, end_s=1.0, speaker="speaker_1"),
        ),
        usage=Usage(audio_seconds=2.5, source="vendor"),
    )  # fmt: skip


def test_channels():
    first = b'{"text":"one","language_code":"en","words":[{"text":"one"}]}'
    body = b'{"transcripts":[%b,{"text":""},{"text":"two"}],"audio_duration_secs":4}' % first
    made = decode_transcript(body, "p", keep_raw=False)
    assert (made.text, made.language, made.duration_s, len(made.words)) == ("one\ntwo", "en", 4.0, 1)


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{}", b'{"text":null}', b'{"text":5}', b'{"text":"\xff"}', b'{"message":"accepted"}', ANSWER[:-9]],
)
def test_what_is_no_answer(body):
    with pytest.raises(UpstreamProtocolError):
        decode_transcript(body, "p", keep_raw=False)


@pytest.mark.parametrize("seconds", ["-1", "1e999", "null"])
def test_a_duration_that_cannot_be(seconds):
    body = b'{"text":"x","audio_duration_secs":%b}' % seconds.encode()
    try:
        made = decode_transcript(body, "p", keep_raw=False)
    except UpstreamProtocolError:
        return
    assert (made.duration_s, made.usage) == (None, None)


def test_what_we_write_we_read():
    made = Transcript(text="Hi é", language="de", words=(Word(text="Hi", start_s=0.0, end_s=1.0, speaker="s"),))
    read = decode_transcript(encode_transcript(made, request_id="r", duration_s=3.0), "p", keep_raw=False)
    assert (read.text, read.language, read.words, read.duration_s) == (made.text, made.language, made.words, 3.0)


# ---- live


def test_a_query():
    found = asked("audio_format=ulaw_8000&language_code=de&keyterms=a&keyterms=b&include_timestamps=true&token=t&gw_x=1")
    assert (found.request.format, found.request.language, found.request.keyterms) == (MULAW_8K, "de", ("a", "b"))
    assert found.timed
    assert not {"token", "gw_x"} & {name for name, _ in found.request.options}
    assert asked().request.format == PCM_16K
    assert not asked().timed
    assert asked("include_language_detection=true").timed


@pytest.mark.parametrize("name", ["mp3", "pcm_", "pcm_1", "pcm_x", "ulaw", "pcm_²²²²"])
def test_a_form_that_is_not_offered(name):
    with pytest.raises(ClientProtocolError) as caught:
        asked(f"audio_format={name}")
    assert caught.value.param == "audio_format"


def test_what_a_client_says():
    frame = msgspec.json.encode(
        {"message_type": "input_audio_chunk", "audio_base_64": b64encode(b"ab").decode(), "commit": True, "sample_rate": 1, "new": 1}
    )
    server = ElevenListenServer(asked(), session_id="s")
    audio, flush, reply = server.receive(frame)
    assert (audio, flush) == (Audio(b"ab"), Control.FLUSH)
    assert isinstance(reply, DelayedReply)
    assert server.receive(frame) == [Audio(b"ab"), Control.FLUSH]   # the first commit is not answered yet
    assert server.receive('{"message_type":"other"}') == (Forward('{"message_type":"other"}'),)
    for bad in ("", "[]", '{"message_type":"input_audio_chunk","audio_base_64":"%"}', '{"commit":1}'):
        with pytest.raises(ClientProtocolError):
            server.receive(bad)


def test_what_a_client_is_told():
    server = ElevenListenServer(asked("include_timestamps=true&language_code=de"), session_id="s")
    assert told(server.opening())[0]["session_id"] == "s"
    said = Final(text="Hi you", start_s=1.0, end_s=2.0, words=(Word(text="Hi", start_s=1.0, end_s=1.5, speaker="a"),), language="en")
    events = [SpeechStarted(at_s=0.0), Interim(text=""), Interim(text="Hi"), said, UtteranceEnd(at_s=2.0), ListenEnd()]
    partial, plain, timed = told(server.encode(events))
    assert partial == {"message_type": "partial_transcript", "text": "Hi"}
    assert plain == {"message_type": "committed_transcript", "text": "Hi you"}
    assert (timed["text"], timed["language_code"], len(timed["words"])) == ("Hi you", "en", 1)
    (_, unworded) = told(server.encode([Final(text="Hi", start_s=1.0, end_s=2.0)]))
    assert [(w["text"], w["start"], w["end"]) for w in unworded["words"]] == [("Hi", 1.0, 2.0)]
    assert unworded["language_code"] == "de"
    assert len(ElevenListenServer(asked(), session_id="s").encode([said])) == 1


def test_a_commit_of_nothing():
    commit = '{"message_type":"input_audio_chunk","commit":true}'
    server = ElevenListenServer(asked(), session_id="s")
    *_, reply = server.receive(commit)
    assert told(reply.frames()) == [{"message_type": "committed_transcript", "text": ""}]
    assert reply.frames() == []
    server = ElevenListenServer(asked("include_timestamps=true"), session_id="s")
    *_, reply = server.receive(commit)
    (_, timed) = told(reply.frames())
    assert (timed["text"], timed["words"]) == ("", [])
    *_, reply = server.receive(commit)
    server.encode([Final(text="Hi", end_s=1.0)])
    assert reply.frames() == []


def test_the_vendors_own_frames_go_out():
    server = ElevenListenServer(asked(), session_id="s")
    assert server.encode([Final(text="x", raw="plain"), UtteranceEnd(at_s=1.0)]) == ["plain"]
    assert server.encode([VendorFrame(raw=b"bytes")]) == ["bytes"]
    assert server.encode([Final(text="x", raw='{"message_type":"committed_transcript_with_timestamps"}')]) == []


def test_an_error():
    assert msgspec.json.decode(error_frame("rate_limited", "m")) == {"message_type": "rate_limited", "error": "m"}


@given(st.binary(max_size=80))
def test_any_body_is_a_transcript_or_refused(body):
    try:
        made = decode_transcript(body, "p", keep_raw=False)
    except UpstreamProtocolError:
        return
    assert isinstance(made.text, str)
