"""Speechmatics' recordings: the form, the state of a job, and its transcript."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gw.errors import ClientProtocolError, ProviderRejected, UpstreamProtocolError
from gw.types.stt import TranscribeRequest, Transcript, Word
from gw.types.usage import Usage
from gw.wire import speechmatics_jobs
from tests.fakes.recording import Recording

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "speechmatics" / "transcript.json").read_text("utf-8"))["answer"]


def test_the_golden_transcript():
    transcript = speechmatics_jobs.decode_transcript(json.dumps(GOLDEN).encode(), "p")
    assert (transcript.text, transcript.language, transcript.duration_s) == ("Welcome to Speechmatics.", "en", 15.0)
    assert transcript.words[2] == Word(text="Speechmatics.", start_s=1.44, end_s=2.4, confidence=0.98)
    assert transcript.usage == Usage(audio_seconds=15.0, source="vendor")


def test_a_transcript_cut_at_every_byte_is_an_error_and_nothing_else():
    encoded = json.dumps(GOLDEN).encode()
    for at in range(len(encoded)):
        with pytest.raises(UpstreamProtocolError):
            speechmatics_jobs.decode_transcript(encoded[:at], "p")


def test_a_language_without_spaces():
    words = (Word(text="你", start_s=0.0, end_s=0.1), Word(text="好", start_s=0.1, end_s=0.2))
    encoded = json.loads(speechmatics_jobs.encode_transcript("j", Transcript(text="", words=words), 1.0, {"language": "cmn"}))
    encoded["metadata"]["language_pack_info"]["word_delimiter"] = ""
    assert speechmatics_jobs.decode_transcript(json.dumps(encoded).encode(), "p").text == "你好"


def test_the_form():
    request = TranscribeRequest(model="m", audio=Recording(b""), language="multi", diarize=True, keyterms=("Acme",))
    assert speechmatics_jobs.parse_config(speechmatics_jobs.config(request, "enhanced")) == {
        "language": "auto", "model": "enhanced", "additional_vocab": [{"content": "Acme"}], "diarization": "speaker",
    }  # fmt: skip
    with pytest.raises(ClientProtocolError):
        speechmatics_jobs.parse_config('{"type":"alignment"}')


def test_the_state_of_a_job():
    job = speechmatics_jobs
    assert job.job_id(job.encode_created("a1b2c3d4e5"), "p") == "a1b2c3d4e5"
    assert [job.is_done(job.encode_job("j", status, 1.0), "p") for status in ("running", "created", "done")] == [False, False, True]
    with pytest.raises(ProviderRejected) as caught:
        job.is_done(job.encode_job("j", "rejected", 1.0), "p")
    assert (caught.value.fault, caught.value.upstream_code) == ("request", "rejected")
    for body in (job.encode_job("j", "odd", 1.0), b"{}"):
        with pytest.raises(UpstreamProtocolError):
            job.is_done(body, "p")
    with pytest.raises(UpstreamProtocolError):
        job.job_id(b'{"id":"../x"}', "p")
