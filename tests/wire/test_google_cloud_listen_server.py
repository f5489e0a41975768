"""The server's side of Google Cloud's live transcription: what a client may send, and what it gets."""

from __future__ import annotations

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError
from gw.types.audio import PCM_16K
from gw.types.stt import Final, Interim, ListenRequest, UtteranceEnd
from gw.wire import google_cloud_listen_server as server
from gw.wire import google_cloud_messages as messages
from gw.wire.google_cloud_listen import GoogleCloudListenClient
from gw.wire.google_cloud_messages import RecognizeSettings
from gw.wire.live_messages import Audio, Control

SETTINGS = RecognizeSettings(
    recognizer="projects/acme/locations/global/recognizers/_", model="chirp_2", languages=("auto",), encoding="pcm_s16le",
    sample_rate_hz=16_000, interim_results=True, word_times=True, terms=("Contoso",),
)  # fmt: skip


def changed(**more):
    return messages.encode_settings(msgspec.structs.replace(SETTINGS, **more))


def test_settings_are_a_request():
    settings = server.parse_settings(changed(languages=("de-DE",)))
    request = server.request_of(settings)
    assert attrs.asdict(request, filter=lambda field, value: field.name in ("model", "language", "keyterms")) == {
        "model": "chirp_2", "language": "de-DE", "keyterms": ("Contoso",),
    }  # fmt: skip
    assert request.format == PCM_16K


@pytest.mark.parametrize(
    ("message", "words"),
    [
        (messages.encode_audio(b"a"), "streaming_config"), (b"\x08", "malformed"), ("text", "malformed"),
        (changed(recognizer=""), "recognizer"), (changed(model=""), "model"), (changed(languages=()), "language_codes"),
        (changed(sample_rate_hz=4_000), "sample_rate"), (changed(channels=9), "channel"),
    ],
)  # fmt: skip
def test_settings_that_the_vendor_refuses(message, words):
    with pytest.raises(ClientProtocolError, match=words):
        server.parse_settings(message)


def test_messages_of_a_client():
    call = server.GoogleCloudListenServer(SETTINGS, "en-US")
    assert call.receive(messages.encode_audio(b"ab")) == (Audio(b"ab"),)
    assert call.receive(server.END) == (Control.FINISH,)
    for message, words in ((changed(), "only have audio"), (messages.encode_audio(bytes(15_361)), "15 KB"), (b"\x08", "malformed")):
        with pytest.raises(ClientProtocolError, match=words):
            call.receive(message)


def test_events_are_read_by_the_client():
    call = server.GoogleCloudListenServer(SETTINGS, "en-US")
    client = GoogleCloudListenClient("p", ListenRequest(model="m", format=PCM_16K), "chirp_2", SETTINGS.recognizer)
    client.audio(bytes(64_000))
    events = [Interim(text="one", end_s=0.5), Final(text="one two", start_s=0.2, end_s=1.2), UtteranceEnd(at_s=1.2)]
    interim, final, end = [event for frame in call.encode(events) for event in client.receive(frame)]
    assert interim == Interim(text="one", end_s=0.5)
    assert (final.text, final.start_s, final.end_s, final.language) == ("one two", 0.2, 1.2, "en-US")
    assert [(word.text, word.end_s) for word in final.words] == [("one", 0.7), ("two", 1.2)]
    assert end == UtteranceEnd(at_s=1.2)


def test_what_a_client_does_not_want():
    settings = msgspec.structs.replace(SETTINGS, interim_results=False, word_times=False, languages=("de-DE",))
    call = server.GoogleCloudListenServer(settings, "en-US")
    (frame,) = call.encode([Interim(text="one"), Final(text="one", end_s=1.0)])
    (result,) = messages.decode_answer(frame).results
    assert (result.words, result.language) == ((), "de-DE")
