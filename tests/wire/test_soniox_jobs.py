"""Soniox's recordings: the job, its state, and its transcript."""

from __future__ import annotations

import json

import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, UpstreamProtocolError
from gw.types.stt import TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire import soniox_jobs
from gw.wire.soniox_jobs import CompletedJob
from tests.fakes.recording import Recording

REQUEST = TranscribeRequest(model="m", audio=Recording(b""), language="de", diarize=True, keyterms=("Acme",), prompt="a call")
SETTINGS = soniox_jobs.parse_job(soniox_jobs.job_body(REQUEST, "stt-async-v5", "f1"))
DONE = CompletedJob(duration_s=2.5)
WORDS = (
    Word(text="Hello", start_s=0.1, end_s=0.3, confidence=0.9, speaker="1"),
    Word(text="there.", start_s=0.3, end_s=0.6, confidence=0.8, speaker="2"),
)  # fmt: skip


def test_the_job():
    assert json.loads(soniox_jobs.job_body(REQUEST, "stt-async-v5", "f1")) == {
        "model": "stt-async-v5", "file_id": "f1", "language_hints": ["de"], "language_hints_strict": True,
        "context": {"terms": ["Acme"], "text": "a call"}, "enable_speaker_diarization": True,
    }  # fmt: skip
    with pytest.raises(ClientProtocolError):
        soniox_jobs.parse_job(b'{"model":"m"}')


def test_the_state_of_a_job():
    assert soniox_jobs.created_id(soniox_jobs.encode_file("84c32fc6-4fb5-4e7a-b656-b5ec70493753", 3), "p").startswith("84c3")
    bodies = [soniox_jobs.encode_job("j", status, 2.5, SETTINGS) for status in ("queued", "processing", "completed")]
    assert [soniox_jobs.completed(body, "p") for body in bodies] == [None, None, DONE]
    for body in (soniox_jobs.encode_job("j", "odd", 1.0, SETTINGS), b"{}"):
        with pytest.raises(UpstreamProtocolError):
            soniox_jobs.completed(body, "p")
    with pytest.raises(UpstreamProtocolError):
        soniox_jobs.created_id(b'{"id":"../x"}', "p")


@pytest.mark.parametrize(
    ("kind", "error"), [("invalid_audio_file", ProviderRejected), ("internal_error", ProviderFailed), ("", ProviderFailed)]
)
def test_a_job_that_failed(kind, error):
    with pytest.raises(error) as caught:
        soniox_jobs.completed(msgspec.json.encode({"status": "error", "error_type": kind, "error_message": "about a secret"}), "p")
    assert caught.value.retryable
    assert caught.value.upstream_code == kind
    assert "secret" not in caught.value.detail


def test_the_transcript():
    body = soniox_jobs.encode_transcript("j", Transcript(text="Hello there.", words=WORDS))
    assert soniox_jobs.decode_transcript(body, "p", DONE) == Transcript(
        text="Hello there.", words=WORDS, duration_s=2.5, usage=Usage(audio_seconds=2.5, source="vendor")
    )
    assert soniox_jobs.decode_transcript(body, "p", CompletedJob(duration_s=None)).usage is None
    for at in range(len(body)):
        with pytest.raises(UpstreamProtocolError):
            soniox_jobs.decode_transcript(body[:at], "p", DONE)
