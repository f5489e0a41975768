"""Gladia's jobs: settings of both roles, the transcript, and failures."""

from __future__ import annotations

import msgspec
import pytest

from gw.errors import ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.speech_settings import DETECT
from gw.types.stt import TranscribeRequest
from gw.wire import gladia_jobs
from tests.fakes.recording import wav_of
from tests.fakes.vendors.heard import heard

REQUEST = TranscribeRequest(model="m", audio=wav_of(bytes(320)), language="fr-CA", keyterms=("Acme",), diarize=True)


def test_a_job():
    body = gladia_jobs.job_body(REQUEST, "solaria-3", "https://x/file")
    assert msgspec.json.decode(body) == {
        "audio_url": "https://x/file", "model": "solaria-3", "language_config": {"languages": ["fr"], "code_switching": False},
        "custom_vocabulary": True, "custom_vocabulary_config": {"vocabulary": ["Acme"]}, "diarization": True,
    }  # fmt: skip
    assert gladia_jobs.parse_job(body) == {"audio_url": "https://x/file", "model": "solaria-3", "language": "fr", "diarization": True}
    detected = gladia_jobs.job_body(TranscribeRequest(model="m", audio=wav_of(b""), language=DETECT), "m", "u")
    assert gladia_jobs.parse_job(detected)["language"] == DETECT


def test_a_transcript():
    said = heard("one two three", 2.5, speakers=("0", "1"))
    job = gladia_jobs.encode_job("j", "done", result=gladia_jobs.encode_result(said, 2.5, "fr"))
    read = gladia_jobs.completed(job, "p")
    assert (read.text, read.language, read.duration_s) == ("one two three", "fr", 2.5)
    assert (read.usage.audio_seconds, read.usage.source) == (2.5, "vendor")
    assert [(segment.text, segment.speaker) for segment in read.segments] == [("one", "0"), ("two", "1"), ("three", "0")]
    assert read.words == said.words


@pytest.mark.parametrize("status", ["queued", "processing"])
def test_a_job_that_runs(status):
    assert gladia_jobs.completed(gladia_jobs.encode_job("j", status), "p") is None


@pytest.mark.parametrize(
    ("body", "error"),
    [
        (gladia_jobs.encode_job("j", "error", 422), ProviderRejected), (gladia_jobs.encode_job("j", "error", 500), ProviderFailed),
        (gladia_jobs.encode_job("j", "error"), ProviderFailed), (gladia_jobs.encode_job("j", "done"), UpstreamProtocolError),
        (gladia_jobs.encode_job("j", "gone"), UpstreamProtocolError), (b"[]", UpstreamProtocolError),
    ],
)  # fmt: skip
def test_failures(body, error):
    with pytest.raises(error) as caught:
        gladia_jobs.completed(body, "p")
    assert caught.value.retryable


@pytest.mark.parametrize("body", [b"{}", b'{"id":"../x"}', b'{"audio_url":7}'])
def test_ids_that_are_none(body):
    with pytest.raises(UpstreamProtocolError):
        gladia_jobs.created_id(body, "p")
    with pytest.raises(UpstreamProtocolError):
        gladia_jobs.uploaded_url(body, "p")
