from __future__ import annotations

import pytest

from gw.errors import ClientProtocolError
from gw.wire import piper_http


def test_a_body_there_and_back():
    built = piper_http.body("Où ?", "en_US-lessac-medium", 1.25)
    assert built == '{"text":"Où ?","voice":"en_US-lessac-medium","length_scale":0.8}'.encode()
    assert piper_http.parse(built).length_scale == 0.8
    assert piper_http.body("a", "", None) == b'{"text":"a"}'


@pytest.mark.parametrize("data", [b"", b"[]", b"\xff", b'{"voice":"v"}'])
def test_malformed_bodies(data):
    with pytest.raises(ClientProtocolError):
        piper_http.parse(data)


@pytest.mark.parametrize(
    ("requested", "model", "voice"),
    [
        ("", "piper", ""),
        ("alloy", "piper", "alloy"),
        ("alloy", "en_GB-alan-low", "en_GB-alan-low"),
        ("de_DE-thorsten-low", "en_GB-alan-low", "de_DE-thorsten-low"),
    ],
)
def test_a_voice_of_another_vendor_does_not_stand_before_the_models(requested, model, voice):
    assert piper_http.choose_voice(requested, model) == voice
