"""Server's side of Azure Speech's live transcription: what it refuses, and the forms of its results."""

from __future__ import annotations

import json

import pytest

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final, ListenRequest, SpeechStarted
from gw.wire.azure_speech_listen import AzureSpeechListenClient
from gw.wire.azure_speech_listen_server import AzureSpeechListenServer
from gw.wire.azure_speech_messages import parse_message, text_frame


def opened(query=b"", fmt=PCM_16K):
    client = AzureSpeechListenClient("p", ListenRequest(model="m", format=fmt), "f" * 32, lambda: "t")
    server = AzureSpeechListenServer(query)
    for frame in client.opening():
        server.receive(frame)
    return client, server


def test_the_form_of_results():
    events = [SpeechStarted(at_s=0.5), SpeechStarted(at_s=0.7), Final(text="Hi there.", start_s=0.5, end_s=1.0)]
    for query, members in ((b"format=simple", set()), (b"format=detailed", {"NBest"})):
        started, phrase = map(parse_message, opened(query)[1].encode(events))
        assert (started.path, json.loads(started.body)) == ("speech.startdetected", {"Offset": 5_000_000})
        simple = {"Id", "RecognitionStatus", "DisplayText", "Offset", "Duration", "Channel"}
        assert (phrase.path, set(json.loads(phrase.body))) == ("speech.phrase", simple | members)


def test_a_turn_may_go_on_with_the_format_before():
    client, server = opened()
    server.receive(client.audio(bytes(3_200))[0])
    frame = text_frame("audio", {}, ("X-RequestId", "another")).replace("{}", "").encode()
    _, end = server.receive(len(frame).to_bytes(2, "big") + frame)
    assert end.name == "FINISH"


def test_the_server_refuses():
    server = AzureSpeechListenServer(b"")
    with pytest.raises(ClientProtocolError, match="header of a WAV"):
        server.receive(b"\x00\x0cPath: audio\r\n" + bytes(10))
    with pytest.raises(ClientProtocolError, match="not a message"):
        server.receive(text_frame("speech.nonsense", {}))
    with pytest.raises(ClientProtocolError, match="format"):
        opened(fmt=AudioFormat(encoding="pcm_s16le", sample_rate_hz=44_100))
