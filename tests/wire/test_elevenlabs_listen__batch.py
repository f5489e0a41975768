"""ElevenLabs' transcription of recordings, client and server."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import UpstreamProtocolError
from gw.types.audio import PCM_16K
from gw.types.stt import (
    TranscribeRequest,
    Transcript,
    Word,
)
from gw.types.usage import Usage
from gw.wire.elevenlabs_listen import decode_transcript, encode_transcript, form_fields, parse_form
from tests.fakes.golden import golden

ANSWER = golden("elevenlabs/transcript")


class Upload:
    size, filename, content_type = 32_000, "a.wav", "audio/wav"

    async def chunks(self):
        yield bytes(self.size)


def request(**members) -> TranscribeRequest:
    return TranscribeRequest(model="m", audio=Upload(), **members)


def test_the_form():
    settings = {"language": "de-AT", "diarize": True, "keyterms": ("Acme", "gw"), "timestamps": frozenset({"word"})}
    assert form_fields(request(**settings, temperature=0.5), "s") == [
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
            Word(text="Hello", start_s=0.1, end_s=0.5, confidence=math.exp(-0.1), speaker="speaker_0"),
            Word(text="wörld!", start_s=0.5, end_s=1.0, confidence=math.exp(-0.1), speaker="speaker_1"),
        ),
        language_confidence=0.98,
        usage=Usage(audio_seconds=2.5, source="vendor"),
    )  # fmt: skip


def test_channels():
    first = b'{"text":"one","language_code":"en","words":[{"text":"one"}]}'
    body = b'{"transcripts":[%b,{"text":""},{"text":"two"}],"audio_duration_secs":4}' % first
    result = decode_transcript(body, "p", keep_raw=False)
    assert (result.text, result.language, result.duration_s, len(result.words)) == ("one\ntwo", "en", 4.0, 1)


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
        result = decode_transcript(body, "p", keep_raw=False)
    except UpstreamProtocolError:
        return
    assert (result.duration_s, result.usage) == (None, None)


def test_what_we_write_we_read():
    result = Transcript(text="Hi é", language="de", words=(Word(text="Hi", start_s=0.0, end_s=1.0, speaker="speaker_3"),))
    read = decode_transcript(encode_transcript(result, request_id="r", duration_s=3.0), "p", keep_raw=False)
    assert (read.text, read.language, read.words, read.duration_s) == (result.text, result.language, result.words, 3.0)


@given(st.binary(max_size=80))
def test_any_body_is_a_transcript_or_refused(body):
    try:
        result = decode_transcript(body, "p", keep_raw=False)
    except UpstreamProtocolError:
        return
    assert isinstance(result.text, str)
