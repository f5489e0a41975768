"""Speechmatics' live transcription: the first frame, results to transcripts, errors, and both roles against each other."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd, Word
from gw.wire import speechmatics_listen
from gw.wire.live_messages import Audio, Control
from gw.wire.speechmatics_listen import SpeechmaticsListenClient, SpeechmaticsListenServer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "speechmatics" / "listen.json").read_text("utf-8"))["frames"]
REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


def client(**more):
    return SpeechmaticsListenClient("p", attrs.evolve(REQUEST, **more), ("secret",))


def test_the_golden_session():
    made = client()
    events, notices = [], []
    for frame in GOLDEN:
        events.append(made.receive(json.dumps(frame)))
        notices.append(made.is_notice)
    assert [n for n, notice in enumerate(notices) if notice] == [1, 2, 6, 8]
    assert [[type(event) for event in batch] for batch in events] == [
        [], [], [], [Interim], [Final], [UtteranceEnd], [], [UtteranceEnd], [], [ListenEnd],
    ]  # fmt: skip
    partial, final = events[3][0], events[4][0]
    assert (partial.text, [word.confidence for word in partial.words]) == ("I am", [None, None])
    assert (final.text, final.language, final.start_s, final.end_s) == ("I am 35.", "en", 0.1, 1.1)
    assert [(word.text, word.confidence, word.speaker) for word in final.words] == [
        ("I", 1.0, "S1"), ("am", 0.9, "S1"), ("35.", 0.8, None),
    ]  # fmt: skip
    assert events[5][0].at_s == 1.1
    assert made.started
    assert made.ended


def test_the_transcript_of_a_flush_comes_with_the_end_of_the_utterance():
    made, server = client(), SpeechmaticsListenServer(REQUEST)
    server.receive(made.flush())
    final, end = (frame for frame in server.encode([Final(text="hello", start_s=0.1, end_s=0.2), UtteranceEnd(at_s=0.2)]))
    assert made.receive(final) == []
    assert [type(event) for event in made.receive(end)] == [Final, UtteranceEnd]
    server.receive(made.flush())
    made.receive(server.encode([Final(text="bye", start_s=0.3, end_s=0.4)])[0])
    assert [type(event) for event in made.receive('{"message":"EndOfTranscript"}')] == [Final, ListenEnd]


@pytest.mark.parametrize("frame", GOLDEN)
def test_frames_cut_at_every_byte_are_errors_and_nothing_else(frame):
    encoded = json.dumps(frame)
    for at in range(1, len(encoded)):
        with pytest.raises(UpstreamProtocolError):
            client().receive(encoded[:at])


@pytest.mark.parametrize(
    ("kind", "error", "fault"),
    [
        ("invalid_language", ProviderRejected, "request"), ("invalid_config", ProviderRejected, "request"),
        ("not_authorised", ProviderRejected, "candidate"), ("not_allowed", ProviderRejected, "candidate"),
        ("quota_exceeded", RateLimitError, ""), ("timelimit_exceeded", ProviderFailed, ""), ("idle_timeout", ProviderFailed, ""),
        ("job_error", ProviderFailed, ""), ("something_new", ProviderFailed, ""),
    ],
)  # fmt: skip
def test_errors_say_whose_fault_they_are(kind, error, fault):
    with pytest.raises(error) as caught:
        client().receive(speechmatics_listen.error_frame(kind, "the secret is bad"))
    assert (caught.value.retryable, getattr(caught.value, "fault", "")) == (True, fault)
    assert "secret" not in caught.value.detail
    assert getattr(caught.value, "out_of_credit", False) is (kind == "timelimit_exceeded")


@pytest.mark.parametrize(
    ("code", "error"),
    [(4001, ProviderRejected), (4004, ProviderRejected), (4005, RateLimitError), (4006, ProviderFailed), (1011, ProviderFailed)],
)
def test_close_codes_stand_for_errors(code, error):
    assert isinstance(speechmatics_listen.close_error("p", code), error)
    assert speechmatics_listen.close_error("p", 1006) is None


def test_the_first_frame():
    request = attrs.evolve(REQUEST, language="de-CH", keyterms=("Acme",), diarize=True, endpointing_ms=0)
    assert json.loads(speechmatics_listen.start(request, "enhanced")) == {
        "message": "StartRecognition", "audio_format": {"type": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000},
        "transcription_config": {
            "language": "de", "model": "enhanced", "additional_vocab": [{"content": "Acme"}], "diarization": "speaker",
            "enable_partials": True, "conversation_config": {"end_of_utterance_silence_trigger": 0.1},
        },
    }  # fmt: skip


def test_a_server_reads_what_the_client_writes():
    fmt = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de", keyterms=("Acme",), diarize=True, endpointing_ms=700)
    read = speechmatics_listen.parse_start(speechmatics_listen.start(request, "enhanced"))
    assert read == attrs.evolve(request, model="enhanced", dialect="speechmatics")
    made, server = client(format=fmt), SpeechmaticsListenServer(read)
    assert server.receive(made.audio(b"\xff" * 80)) == (Audio(b"\xff" * 80),)
    assert json.loads(made.flush()) == {"message": "ForceEndOfUtterance", "timestamp": 0.01}
    assert server.receive(made.flush()) == (Control.FLUSH,)
    assert json.loads(made.finish())["last_seq_no"] == 1
    assert server.receive(made.finish()) == (Control.FINISH,)
    words = (Word(text="hello", start_s=0.1, end_s=0.2, confidence=0.5), Word(text="there.", start_s=0.2, end_s=0.4, confidence=0.7))
    said = Final(text="hello there.", start_s=0.1, end_s=0.4, words=words, language="de")
    frames = [*server.opening(), server.added(), *server.encode([said, UtteranceEnd(at_s=0.4), ListenEnd()])]
    assert json.loads(frames[2])["forced"]
    assert [event for frame in frames for event in made.receive(frame)] == [said, UtteranceEnd(at_s=0.4), ListenEnd()]


@pytest.mark.parametrize(
    "frame",
    ["{}", "no json", b"\x00\x00", '{"message":"StartRecognition","audio_format":{"type":"file"},"transcription_config":{"language":"en"}}',
     '{"message":"StartRecognition","audio_format":{"type":"raw","encoding":"alaw","sample_rate":8000},"transcription_config":{"language":"en"}}',
     '{"message":"StartRecognition","audio_format":{"type":"raw","encoding":"mulaw","sample_rate":8000},"transcription_config":'
     '{"language":"en","conversation_config":{"end_of_utterance_silence_trigger":3}}}'],
)  # fmt: skip
def test_a_first_frame_that_the_vendor_refuses(frame):
    with pytest.raises(ClientProtocolError):
        speechmatics_listen.parse_start(frame)
