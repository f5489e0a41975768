"""ElevenLabs' live transcription: the server."""

from __future__ import annotations

from base64 import b64encode

import msgspec
import pytest

from gw.errors import ClientProtocolError
from gw.types.audio import MULAW_8K, PCM_16K
from gw.types.stt import (
    Final,
    Interim,
    ListenEnd,
    SpeechStarted,
    UtteranceEnd,
    VendorFrame,
    Word,
)
from gw.wire.elevenlabs_listen import ElevenListenServer, error_frame, parse_query
from gw.wire.live_messages import Audio, Control, DelayedReply, Forward


def requested(query: str = ""):
    return parse_query(f"model_id=m&{query}".encode())


def decoded(frames: list[str]) -> list[dict]:
    return [msgspec.json.decode(frame) for frame in frames]


def test_a_query():
    results = requested("audio_format=ulaw_8000&language_code=de&keyterms=a&keyterms=b&include_timestamps=true&token=t&gw_x=1")
    assert (results.request.format, results.request.language, results.request.keyterms) == (MULAW_8K, "de", ("a", "b"))
    assert results.timed
    assert not {"token", "gw_x"} & {name for name, _ in results.request.options}
    assert requested().request.format == PCM_16K
    assert not requested().timed
    assert requested("include_language_detection=true").timed


@pytest.mark.parametrize("name", ["mp3", "pcm_", "pcm_1", "pcm_x", "ulaw", "pcm_²²²²"])
def test_a_form_that_is_not_offered(name):
    with pytest.raises(ClientProtocolError) as caught:
        requested(f"audio_format={name}")
    assert caught.value.param == "audio_format"


def test_client_frames():
    frame = msgspec.json.encode(
        {"message_type": "input_audio_chunk", "audio_base_64": b64encode(b"ab").decode(), "commit": True, "sample_rate": 1, "new": 1}
    )
    server = ElevenListenServer(requested(), session_id="s")
    audio, flush, reply = server.receive(frame)
    assert (audio, flush) == (Audio(b"ab"), Control.FLUSH)
    assert isinstance(reply, DelayedReply)
    assert server.receive(frame) == [Audio(b"ab"), Control.FLUSH]   # the first commit is not answered yet
    assert server.receive('{"message_type":"other"}') == (Forward('{"message_type":"other"}'),)
    for bad in ("", "[]", '{"message_type":"input_audio_chunk","audio_base_64":"%"}', '{"commit":1}'):
        with pytest.raises(ClientProtocolError):
            server.receive(bad)


def test_frames_for_transcripts():
    server = ElevenListenServer(requested("include_timestamps=true&language_code=de"), session_id="s")
    assert decoded(server.opening())[0]["session_id"] == "s"
    sent = Final(text="Hi you", start_s=1.0, end_s=2.0, words=(Word(text="Hi", start_s=1.0, end_s=1.5, speaker="a"),), language="en")
    events = [SpeechStarted(at_s=0.0), Interim(text=""), Interim(text="Hi"), sent, UtteranceEnd(at_s=2.0), ListenEnd()]
    partial, plain, timed = decoded(server.encode(events))
    assert partial == {"message_type": "partial_transcript", "text": "Hi"}
    assert plain == {"message_type": "committed_transcript", "text": "Hi you"}
    assert (timed["text"], timed["language_code"], len(timed["words"])) == ("Hi you", "en", 1)
    (_, unworded) = decoded(server.encode([Final(text="Hi", start_s=1.0, end_s=2.0)]))
    assert [(w["text"], w["start"], w["end"]) for w in unworded["words"]] == [("Hi", 1.0, 2.0)]
    assert unworded["language_code"] == "de"
    assert len(ElevenListenServer(requested(), session_id="s").encode([sent])) == 1


def test_a_commit_of_nothing():
    commit = '{"message_type":"input_audio_chunk","commit":true}'
    server = ElevenListenServer(requested(), session_id="s")
    *_, reply = server.receive(commit)
    assert decoded(reply.frames()) == [{"message_type": "committed_transcript", "text": ""}]
    assert reply.frames() == []
    server = ElevenListenServer(requested("include_timestamps=true"), session_id="s")
    *_, reply = server.receive(commit)
    (_, timed) = decoded(reply.frames())
    assert (timed["text"], timed["words"]) == ("", [])
    *_, reply = server.receive(commit)
    server.encode([Final(text="Hi", end_s=1.0)])
    assert reply.frames() == []
    *_, later = server.receive(commit)
    assert reply.frames() == []  # it was answered; the later commit has a time of its own
    assert len(later.frames()) == 2


def test_the_vendors_own_frames_go_out():
    server = ElevenListenServer(requested(), session_id="s")
    assert server.encode([Final(text="x", raw="plain"), UtteranceEnd(at_s=1.0)]) == ["plain"]
    assert server.encode([VendorFrame(raw=b"bytes")]) == ["bytes"]
    assert server.encode([Final(text="x", raw='{"message_type":"committed_transcript_with_timestamps"}')]) == []


def test_an_error():
    assert msgspec.json.decode(error_frame("rate_limited", "m")) == {"message_type": "rate_limited", "error": "m"}
