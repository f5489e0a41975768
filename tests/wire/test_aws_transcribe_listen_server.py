"""The server's side of Amazon Transcribe's live sessions: it reads what the client writes, and refuses what the vendor refuses."""

from __future__ import annotations

from urllib.parse import urlencode

import attrs
import pytest

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_16K
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd, Word
from gw.wire import aws_transcribe_listen
from gw.wire.aws_event_stream import encode_headers, encode_message
from gw.wire.aws_transcribe_listen import AUDIO_HEADERS, AwsTranscribeListenClient
from gw.wire.aws_transcribe_listen_server import AwsTranscribeListenServer, parse_query
from gw.wire.live_messages import Audio, Control

REQUEST = ListenRequest(model="standard", format=PCM_16K, language="en-US", dialect="aws_transcribe")


def query(**fields) -> bytes:
    usual = {"language-code": "en-US", "media-encoding": "pcm", "sample-rate": "16000"}
    return urlencode(usual | {name.replace("_", "-"): value for name, value in fields.items()}).encode()


@pytest.mark.parametrize("request_", [REQUEST, attrs.evolve(REQUEST, language="de-CH", diarize=True)])
def test_a_server_reads_the_settings_of_the_client(request_):
    assert parse_query(urlencode(aws_transcribe_listen.settings(request_)).encode()) == request_


@pytest.mark.parametrize(
    "fields",
    [
        {"language_code": "en-SG"}, {"language_code": ""}, {"media_encoding": "mulaw"}, {"sample_rate": "4000"}, {"sample_rate": "96000"},
        {"sample_rate": "fast"}, {"partial_results_stability": "highest"},
    ],
)  # fmt: skip
def test_settings_that_the_vendor_refuses(fields):
    with pytest.raises(ClientProtocolError) as caught:
        parse_query(query(**fields))
    assert caught.value.param == next(iter(fields)).replace("_", "-")


def test_audio_and_the_end():
    client, server = AwsTranscribeListenClient("p", REQUEST), AwsTranscribeListenServer(REQUEST)
    (frame,) = client.audio(b"\x01\x02" * 10)
    assert server.receive(frame) == (Audio(b"\x01\x02" * 10),)
    assert server.receive(client.finish()) == (Control.FINISH,)


@pytest.mark.parametrize(
    "frame",
    [
        "text", b"\0", encode_message(AUDIO_HEADERS, bytes(32_002)), encode_message(encode_headers({}), b"x"),
        encode_message(encode_headers({":message-type": "event", ":event-type": "ConfigurationEvent"}), b"x"),
    ],
)  # fmt: skip
def test_frames_that_the_vendor_refuses(frame):
    with pytest.raises(ClientProtocolError):
        AwsTranscribeListenServer(REQUEST).receive(frame)


def test_a_client_reads_what_the_server_writes():
    words = (
        Word(text="hello", start_s=0.5, end_s=0.75, confidence=0.9, speaker="0"),
        Word(text="there.", start_s=0.75, end_s=1.0, confidence=0.8, speaker="1"),
    )
    final = Final(text="hello there.", start_s=0.5, end_s=1.0, words=words)
    server, client = AwsTranscribeListenServer(REQUEST), AwsTranscribeListenClient("p", REQUEST)
    frames = server.encode([Interim(text="hello", start_s=0.5, end_s=0.75, words=words[:1]), final, UtteranceEnd(at_s=1.0), ListenEnd()])
    events = [event for frame in frames for event in client.receive(frame)]
    assert events == [Interim(text="hello", start_s=0.5, end_s=0.75, words=words[:1]), final, UtteranceEnd(at_s=1.0)]


def test_an_event_without_words_gets_some():
    client = AwsTranscribeListenClient("p", REQUEST)
    (frame,) = AwsTranscribeListenServer(REQUEST).encode([Final(text="one two", start_s=1.0, end_s=2.0)])
    final, _ = client.receive(frame)
    assert [(word.text, word.start_s, word.end_s) for word in final.words] == [("one", 1.0, 1.5), ("two", 1.5, 2.0)]
