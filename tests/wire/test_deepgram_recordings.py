"""Transcription of recordings: from a golden answer, and against our own server's side."""

from __future__ import annotations

from contextlib import suppress
from urllib.parse import parse_qsl

import attrs
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderError, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, AudioFormat
from gw.types.stt import Final, TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire import deepgram_recordings
from tests.fakes.golden import golden

BODY = golden("deepgram/listen").strip()


@attrs.frozen
class Recording:
    size: int = 32_000
    filename: str = "a.wav"
    content_type: str = "audio/wav"

    async def chunks(self):
        yield bytes(self.size)


def requested(**request) -> list[tuple[str, str]]:
    path, _, query = deepgram_recordings.recording_path(TranscribeRequest(model="m", audio=Recording(), **request), "nova-3").partition("?")
    assert path == "/v1/listen"
    return parse_qsl(query, keep_blank_values=True)


def test_the_golden_answer():
    data = deepgram_recordings.decode_transcript(BODY, "p", keep_raw=False)
    assert data.text == "Grüß Gott. How can I help?\nMy phone is broken."
    assert (data.language, data.duration_s, data.raw) == ("de", 12.5, None)
    assert data.usage == Usage(audio_seconds=25.0, source="vendor")
    assert data.words[0] == Word(text="Grüß", start_s=0.16, end_s=0.4, confidence=0.98, speaker="0")
    assert [word.text for word in data.words] == ["Grüß", "Gott.", "how", "My"]
    assert data.segments[1] == Final(text="My phone is broken.", start_s=4.0, end_s=5.5, confidence=0.98, speaker="1")


def test_a_caller_of_the_same_dialect_gets_the_body():
    assert deepgram_recordings.decode_transcript(BODY, "p", keep_raw=True).raw == BODY


def test_the_request_for_a_caller_of_another_dialect():
    assert requested() == [("model", "nova-3"), ("smart_format", "true"), ("punctuate", "true"), ("detect_language", "true")]
    more = requested(language="de", timestamps=frozenset({"segment"}), diarize=True, keyterms=("Köln", "a b"), format=MULAW_8K)
    assert more[3:] == [
        ("encoding", "mulaw"), ("sample_rate", "8000"), ("language", "de"), ("utterances", "true"), ("diarize", "true"),
        ("keyterm", "Köln"), ("keyterm", "a b"),
    ]  # fmt: skip
    assert ("encoding", "linear16") not in requested(format=AudioFormat(encoding="wav", sample_rate_hz=8_000))


def test_own_settings_are_passed_on():
    fields = (("model", "theirs"), ("keyterm", "a"), ("keyterm", "b c"), ("callback", "http://x"), ("redact", "pci"))
    own = [("model", "nova-3"), ("keyterm", "a"), ("keyterm", "b c"), ("redact", "pci")]
    assert requested(dialect="deepgram", fields=fields) == own
    assert requested(dialect="deepgram", fields=fields, language="de") == [*own, ("language", "de")]
    named = (("detect_language", "true"),)
    assert requested(dialect="deepgram", fields=named, language="de") == [("model", "nova-3"), *named]


def parsed(query: bytes, sniffed: AudioFormat | None = None) -> TranscribeRequest:
    return deepgram_recordings.parse_recording(query, Recording(), 1.5, sniffed)


def test_a_query_is_read():
    request = parsed(
        b"model=m&language=de&diarize=TRUE&utterances=true&keyterm=a+b&keyterm=K%C3%B6ln&keywords=snuffy:2"
        b"&encoding=linear16&sample_rate=16000&token=secret&gw_project=x"
    )
    assert (request.model, request.language, request.dialect) == ("m", "de", "deepgram")
    assert (request.diarize, request.timestamps) == (True, {"word", "segment"})
    assert request.keyterms == ("a b", "Köln", "snuffy")
    assert (request.format, request.audio_seconds) == (PCM_16K, 1.0)
    assert "token" not in dict(request.fields)
    assert "gw_project" not in dict(request.fields)
    assert dict(request.fields)["keywords"] == "snuffy:2"


def test_a_header_tells_more_than_the_query():
    data = AudioFormat(encoding="wav", sample_rate_hz=8_000)
    request = parsed(b"encoding=linear16&sample_rate=16000&channels=2", data)
    assert (request.format, request.audio_seconds, request.fields) == (data, 1.5, ())


@pytest.mark.parametrize(
    ("query", "param"),
    [
        (b"encoding=mp7", "encoding"), (b"encoding=linear16", "sample_rate"), (b"encoding=mulaw&sample_rate=-8", "sample_rate"),
        (b"encoding=mulaw&sample_rate=8000&channels=0", "channels"),
    ],
)  # fmt: skip
def test_invalid_queries(query, param):
    with pytest.raises(ClientProtocolError) as caught:
        parsed(query)
    assert caught.value.param == param


def test_our_own_answer_is_read_back():
    words = (Word(text="Grüß", start_s=0.1, end_s=0.5, confidence=0.9, speaker="1"), Word(text="Gott.", start_s=0.5, end_s=1.0))
    built = Transcript(
        text="Grüß Gott.", language="de", language_confidence=0.75, duration_s=3.0,
        words=words,  # in whole seconds, as some vendors tell it
        segments=(Final(text="Grüß Gott.", start_s=0.1, end_s=1.0, confidence=0.8),),
    )  # fmt: skip
    body = deepgram_recordings.encode_transcript(
        built, request_id="r", created="2026-11-24T00:00:00Z", duration_s=2.5, sha256="0", utterances=True
    )
    data = deepgram_recordings.decode_transcript(body, "p", keep_raw=False)
    assert (data.text, data.language, data.duration_s, data.segments) == (built.text, "de", 2.5, built.segments)
    assert data.words == words
    assert (data.confidence, data.language_confidence) == (0.9, 0.75)
    assert data.usage == Usage(audio_seconds=2.5, source="vendor")


def test_an_empty_transcript_is_an_answer():
    body = deepgram_recordings.encode_transcript(Transcript(text=""), request_id="r", created="", duration_s=3.0, sha256="0")
    data = deepgram_recordings.decode_transcript(body, "p", keep_raw=False)
    assert (data.text, data.words, data.duration_s) == ("", (), 3.0)
    assert msgspec.json.decode(body)["results"]["channels"][0]["alternatives"][0]["confidence"] == 0.0


def test_several_languages():
    body = b'{"results":{"channels":[{"alternatives":[{"transcript":"a","languages":["es","en"]}]}]}}'
    data = deepgram_recordings.decode_transcript(body, "p", keep_raw=False)
    assert (data.language, data.usage) == ("es", None)


def test_every_beginning_of_an_answer_is_malformed():
    for at in range(0, len(BODY)):
        with pytest.raises(UpstreamProtocolError):
            deepgram_recordings.decode_transcript(BODY[:at], "p", keep_raw=True)


@pytest.mark.parametrize("body", [b"[]", b'{"results":7}', b'{"results":{}}', b'{"metadata":{}}', b"[" * 100_000])
def test_malformed(body):
    with pytest.raises(UpstreamProtocolError):
        deepgram_recordings.decode_transcript(body, "p", keep_raw=False)


@given(st.integers(0, len(BODY)), st.binary(max_size=6))
def test_a_spoilt_answer_is_a_provider_error_or_a_transcript(at, rubbish):
    with suppress(ProviderError):
        deepgram_recordings.decode_transcript(BODY[:at] + rubbish + BODY[at + len(rubbish) :], "p", keep_raw=True)
