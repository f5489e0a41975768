"""Google Cloud's speech: requests and answers of both roles, and the names of voices."""

from __future__ import annotations

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import SpeakRequest
from gw.wire import google_cloud_speak as google
from gw.wire import vendor_errors

VOICE = "en-GB-Chirp3-HD-Charon"
REQUEST = SpeakRequest(model="chirp3-hd", text="Hello.", voice=VOICE, format=PCM_24K, dialect="google_cloud", language="en-GB")


@pytest.mark.parametrize("changes", [{}, {"speed": 1.5}, {"format": AudioFormat(encoding="mp3")}, {"text": "<b>Fish & chips</b> 漢"}])
def test_what_is_sent_is_read(changes):
    request = attrs.evolve(REQUEST, **changes)
    assert google.parse(google.body(request)) == request


def test_the_language_of_a_voice_and_the_bounds_of_speed():
    assert google.parse(google.body(attrs.evolve(REQUEST, language=None, speed=9.0))) == attrs.evolve(REQUEST, speed=2.0)
    assert google.parse(google.body(attrs.evolve(REQUEST, voice="own", language="de-DE"))).language == "de-DE"


@pytest.mark.parametrize(
    ("voice", "model", "locale", "speaks_english"),
    [
        ("en-US-Neural2-A", "neural2", "en-US", True), ("de-DE-Chirp3-HD-Kore", "chirp3-hd", "de-DE", False),
        ("cmn-CN-Wavenet-B", "wavenet", "cmn-CN", False), ("Kore", "", "", True),
    ],
)  # fmt: skip
def test_voices(voice, model, locale, speaks_english):
    assert (google.model_of(voice), google.locale_of(voice), google.speaks("en", voice)) == (model, locale, speaks_english)


def test_answers():
    assert google.decode(google.encode(b"\x00\xff" * 100), "p") == b"\x00\xff" * 100
    for body in (b"", b"{}", b'{"audioContent":"%%"}', b'{"audioContent":5}'):
        with pytest.raises(UpstreamProtocolError):
            google.decode(body, "p")


@pytest.mark.parametrize(
    ("message", "fault"),
    [("API key not valid. Please pass a valid API key.", "request"), ("Voice 'x' does not exist.", "request"), ("Bad text.", "caller")],
)
def test_errors(message, fault):
    error = vendor_errors.classify("p", 400, None, google.error_body(400, "INVALID_ARGUMENT", message), dialect=google.ERRORS)
    assert (error.fault, error.upstream_code) == (fault, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("input", {"text": " "}), ("voice", {"languageCode": ""}), ("audioConfig", {"audioEncoding": "WAV"}),
        ("audioConfig", {"audioEncoding": 99}), ("input", {}),
    ],
)  # fmt: skip
def test_bad_requests(member, value):
    body = msgspec.json.decode(google.body(REQUEST)) | {member: value}
    with pytest.raises(ClientProtocolError):
        google.parse(msgspec.json.encode(body))
