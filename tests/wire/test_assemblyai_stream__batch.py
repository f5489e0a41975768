"""AssemblyAI's transcription of recordings: golden bodies, both roles, and malformed answers."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import (
    ClientProtocolError,
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    RateLimitError,
    UpstreamProtocolError,
)
from gw.types.stt import TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire import assemblyai_settings
from gw.wire import assemblyai_stream as batch
from gw.wire.vendor_errors import classify
from tests.fakes.golden import golden

BODY = golden("assemblyai/transcript").strip()
URL = "https://cdn.test/upload/1"


class Recording:
    size = 3
    filename = "a.wav"
    content_type = "audio/wav"

    async def chunks(self):
        yield b"abc"


def requested(**more) -> dict:
    return msgspec.json.decode(batch.job_body(TranscribeRequest(model="m", audio=Recording(), **more), "universal-2", URL))


def decode_job(body: bytes, *, keep_raw: bool = False) -> str | Transcript:
    return batch.decode_job(body, "p", ("a-secret",), keep_raw=keep_raw)


def test_the_golden_transcript():
    result = decode_job(BODY)
    assert isinstance(result, Transcript)
    assert (result.text, result.language, result.duration_s) == ("Good morning. Hello.", "en_us", 2.0)
    assert result.usage == Usage(audio_seconds=2.0, source="vendor")
    assert result.words[0] == Word(text="Good", start_s=0.24, end_s=0.4, confidence=0.98, speaker="A")
    assert [word.speaker for word in result.words] == ["A", "A", "B"]
    assert [(s.text, s.start_s, s.end_s) for s in result.segments] == [("Good morning.", 0.24, 0.9), ("Hello.", 1.5, 1.9)]
    assert result.raw is None


def test_a_caller_of_the_same_dialect_gets_the_body():
    result = decode_job(BODY, keep_raw=True)
    assert isinstance(result, Transcript)
    assert result.raw == BODY


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_a_job_that_is_not_done(status):
    assert decode_job(batch.encode_job("t-1", status, audio_url=URL)) == "t-1"


def test_a_job_that_failed():
    with pytest.raises(ProviderFailed) as caught:
        decode_job(batch.encode_job("t-1", "error", audio_url=URL, error="Download error with key a-secret, see log"))
    assert caught.value.upstream_status == 200
    assert "Download error" in caught.value.detail
    assert "a-secret" not in caught.value.detail


def test_silence():
    result = decode_job(batch.encode_job("t-1", "completed", audio_url=URL, text="", words=[], audio_duration=1))
    assert isinstance(result, Transcript)
    assert (result.text, result.words, result.duration_s) == ("", (), 1.0)


@pytest.mark.parametrize("data", [b"null", b"-1"])
def test_an_impossible_duration(data):
    result = decode_job(b'{"id":"1","status":"completed","text":"x","audio_duration":%b}' % data)
    assert isinstance(result, Transcript)
    assert (result.duration_s, result.usage) == (None, None)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"{", b"[]", b"null", b'{"id":"1"}', b'{"id":"1","status":"paused"}', b'{"status":"queued"}',
        b'{"id":"../upload","status":"queued"}', b'{"id":"a b","status":"queued"}', b'{"id":"1\\r\\nx: y","status":"queued"}',
        b'{"id":1,"status":"queued"}', b'{"id":"1","status":"completed","words":[{"start":"x"}]}', b"\xff\xfe",
    ],
)  # fmt: skip
def test_a_malformed_answer(body):
    with pytest.raises(UpstreamProtocolError):
        decode_job(body)


def test_a_body_cut_anywhere():
    for at in range(len(BODY)):
        with pytest.raises(UpstreamProtocolError):
            decode_job(BODY[:at])


def test_the_address_of_an_upload():
    assert batch.upload_url(batch.encode_upload(URL), "p") == URL
    for body in (b"", b"{}", b'{"upload_url":1}', b"[]"):
        with pytest.raises(UpstreamProtocolError):
            batch.upload_url(body, "p")


def test_the_request_for_a_recording():
    assert requested() == {"audio_url": URL, "speech_models": ["universal-2"], "language_detection": True}
    assert requested(language="de", diarize=True, keyterms=("gw", "Grüße")) == {
        "audio_url": URL, "speech_models": ["universal-2"], "language_code": "de", "speaker_labels": True,
        "keyterms_prompt": ["gw", "Grüße"],
    }  # fmt: skip


def test_models_that_a_caller_of_the_same_dialect_names_or_does_not():
    def models(model: str, sent: str, *named: str) -> list[str]:
        fields = (("speech_models", msgspec.json.encode(named).decode()),) if named else ()
        request = TranscribeRequest(model=model, audio=Recording(), fields=fields, dialect="assemblyai")
        return msgspec.json.decode(batch.job_body(request, sent, URL))["speech_models"]

    assert models("slam-1", "slam-1", "slam-1", "universal") == ["slam-1", "universal"]
    assert models("assemblyai/slam-1", "slam-1", "assemblyai/slam-1", "universal") == ["slam-1"]
    assert models("", "universal-3-5-pro") == ["universal-3-5-pro", "universal-2"]
    assert models("", "universal-2") == ["universal-2"]
    assert models("universal-3-5-pro", "universal-3-5-pro") == ["universal-3-5-pro"]


@pytest.mark.parametrize(
    ("language", "sent"),
    [
        ("en", "en"), ("EN", "en"), ("en-US", "en_us"), ("en-GB", "en_uk"), ("en_uk", "en_uk"), ("en-IN", "en"),
        ("de-CH", "de_ch"), ("de-DE", "de"), ("pt-BR", "pt"), ("haw", "haw"),
    ],
)  # fmt: skip
def test_languages_by_the_names_it_takes(language, sent):
    assert requested(language=language)["language_code"] == sent
    assert assemblyai_settings.spoken_language(language, ()) == sent.partition("_")[0]


@pytest.mark.parametrize("language", ["", "multi", "x", "d3", "日本"])
def test_an_unknown_language_is_detected(language):
    assert requested(language=language) == requested()


def test_settings_of_a_caller_of_the_same_dialect_are_passed_on():
    body = msgspec.json.encode(
        {
            "audio_url": "gw-upload:1", "speech_models": ["m"], "speech_model": None,
            "language_code": "en_us", "sentiment_analysis": True, "custom_spelling": [{"from": ["a"], "to": "ä"}],
        }
    )  # fmt: skip
    result, others = batch.parse_job(body)
    assert (result.audio_url, result.speech_models, result.language_code) == ("gw-upload:1", ["m"], "en_us")
    assert requested(dialect="assemblyai", fields=others) == {
        "audio_url": URL, "speech_models": ["universal-2"], "language_code": "en_us", "sentiment_analysis": True,
        "custom_spelling": [{"from": ["a"], "to": "ä"}],
    }  # fmt: skip


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'{"audio_url":1}', b'{"speech_models":"x"}', b"\xff"])
def test_a_malformed_request(body):
    with pytest.raises(ClientProtocolError):
        batch.parse_job(body)


def test_a_transcript_of_another_provider():
    words = (Word(text="hi", start_s=0.1, end_s=0.25), Word(text="there", start_s=0.3, end_s=0.5, confidence=0.5, speaker="1"))
    built = batch.encode_transcript(
        "t-1", Transcript(text="hi there", words=words), audio_url=URL, model="other/m", duration_s=1.6
    )
    body = msgspec.json.decode(built)
    assert body["words"] == [
        {"text": "hi", "start": 100, "end": 250, "confidence": 0.0, "speaker": None},
        {"text": "there", "start": 300, "end": 500, "confidence": 0.5, "speaker": "B"},
    ]
    assert (body["confidence"], body["language_confidence"]) == (0.5, None)
    assert (body["status"], body["audio_duration"], body["speech_models"]) == ("completed", 2, ["other/m"])
    result = decode_job(built)
    assert isinstance(result, Transcript)
    assert result.text == "hi there"
    assert [(w.text, w.start_s, w.end_s, w.speaker) for w in result.words] == [
        ("hi", 0.1, 0.25, None), ("there", 0.3, 0.5, "B"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("status", "error", "retryable"),
    [
        (400, ProviderRejected, False), (401, ProviderRejected, True), (402, ProviderFailed, True),
        (404, ProviderRejected, True), (429, RateLimitError, True), (500, ProviderFailed, True),
        (503, ProviderFailed, True),
    ],
)  # fmt: skip
def test_error_answers(status, error, retryable):
    result = classify("p", status, b"7", batch.error_body("the key a-secret is bad"), ("a-secret",))
    assert type(result) is error
    assert result.retryable is retryable
    assert "a-secret" not in result.message
    assert "is bad" in result.message


@given(st.text(), st.lists(st.tuples(st.text(max_size=8), st.integers(0, 10**7), st.integers(0, 10**7)), max_size=4))
def test_write_and_read(text, words):
    built = Transcript(text=text, words=tuple(Word(text=t, start_s=a / 1000, end_s=b / 1000) for t, a, b in words))
    result = decode_job(batch.encode_transcript("t-1", built, audio_url=URL, model="m", duration_s=3.0))
    assert isinstance(result, Transcript)
    assert result.text == text
    assert [(w.text, w.start_s, w.end_s) for w in result.words] == [(w.text, w.start_s, w.end_s) for w in built.words]


@given(st.binary(max_size=64))
def test_any_bytes(body):
    with suppress(ProviderError):   # and no other
        assert isinstance(decode_job(body), str | Transcript)


def test_a_language_that_nobody_has_found_is_null():
    encoded = batch.encode_transcript("t", Transcript(text="hi"), audio_url=URL, model="m", duration_s=1.0)
    assert msgspec.json.decode(encoded)["language_code"] is None
