from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, UpstreamProtocolError
from gw.types.stt import TranscribeRequest
from gw.wire import whisper_cpp
from tests.fakes.golden import golden
from tests.fakes.recording import Recording
from tests.fakes.vendors.whisper_cpp import encode


def test_the_golden_answer():
    built = whisper_cpp.decode(golden("whisper/inference_verbose"), "p")
    assert (built.text, built.language, built.duration_s) == ("And so my fellow Americans, ask not.", "english", 11.0)
    assert [(s.text, s.start_s, s.end_s) for s in built.segments] == [("And so my fellow Americans, ask not.", 0.0, 10.5)]
    assert [(w.text, w.start_s, w.confidence) for w in built.words] == [("And", 0.33, 0.78), ("so", 0.53, 0.97)]


def test_an_answer_there_and_back():
    data = whisper_cpp.decode(golden("whisper/inference_verbose"), "p")
    assert whisper_cpp.decode(encode(data), "p") == data


def test_fields():
    request = TranscribeRequest(
        model="m", audio=Recording(b""), language="multi", keyterms=("Ada", "Bob"), dialect="deepgram", fields=(("a", "b"),)
    )
    assert whisper_cpp.fields(request) == [
        ("response_format", "verbose_json"), ("language", "auto"), ("prompt", "Ada, Bob"),
    ]  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b"\xff", b'{"text":1}', b"{}", b'{"text":"a","segments":[{"start":"x"}]}'])
def test_malformed_transcripts(body):
    with pytest.raises(UpstreamProtocolError):
        whisper_cpp.decode(body, "p")


def test_an_error_inside():
    with pytest.raises(ProviderFailed) as caught:
        whisper_cpp.decode(msgspec.json.encode({"error": "the text itself"}), "p")
    assert "itself" not in str(caught.value)
