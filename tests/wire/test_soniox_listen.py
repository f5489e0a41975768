"""Soniox's live transcription: the configuration, tokens to words and transcripts, errors, and both roles against each other."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd, Word
from gw.wire import soniox_listen
from gw.wire.live_messages import Audio, Control
from gw.wire.soniox_listen import SonioxListenClient, SonioxListenServer

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "soniox" / "listen.json").read_text("utf-8"))["frames"]
REQUEST = ListenRequest(model="m", format=PCM_16K, dialect="deepgram")


def client(**more):
    made = SonioxListenClient("p", attrs.evolve(REQUEST, **more))
    made.finish()
    return made


def test_the_golden_transcript():
    made = client()
    events = [made.receive(json.dumps(frame)) for frame in GOLDEN]
    assert [[type(event) for event in batch] for batch in events] == [
        [Interim], [Interim], [Final, UtteranceEnd], [Final, UtteranceEnd], [Interim], [Final, UtteranceEnd, ListenEnd],
    ]  # fmt: skip
    assert events[1][0].text == "How're you"
    first, end = events[2]
    assert first.text == "How're you"
    assert first.words == (
        Word(text="How're", start_s=0.12, end_s=0.3, confidence=pytest.approx(0.96)),
        Word(text="you", start_s=0.36, end_s=0.42, confidence=0.99),
    )  # fmt: skip
    assert (first.start_s, first.end_s, end.at_s) == (0.12, 0.42, 0.42)
    assert [batch[0].text for batch in events[3:]] == ["Fine", "bye", "bye"]
    assert made.ended


def test_without_interims_only_finals_come():
    made = client(interim_results=False)
    kinds = [type(event) for frame in GOLDEN for event in made.receive(json.dumps(frame))]
    assert kinds == [Final, UtteranceEnd] * 3 + [ListenEnd]


def test_a_flush_of_nothing_is_answered():
    made = client()
    assert made.receive('{"tokens":[{"text":"<fin>","is_final":true}],"final_audio_proc_ms":1500}') == [UtteranceEnd(at_s=1.5)]


def test_another_speaker_begins_a_word():
    tokens = [
        {"text": "Yes", "start_ms": 0, "end_ms": 10, "is_final": True, "speaker": "1"},
        {"text": "No", "start_ms": 20, "end_ms": 30, "is_final": True, "speaker": "2"}, {"text": "<end>", "is_final": True},
    ]  # fmt: skip
    (final, _) = client().receive(json.dumps({"tokens": tokens}))
    assert [(word.text, word.speaker) for word in final.words] == [("Yes", "1"), ("No", "2")]


@pytest.mark.parametrize("frame", GOLDEN)
def test_frames_cut_at_every_byte_are_errors_and_nothing_else(frame):
    encoded = json.dumps(frame)
    for at in range(1, len(encoded)):
        with pytest.raises(UpstreamProtocolError):
            client().receive(encoded[:at])


@pytest.mark.parametrize(
    ("code", "error", "fault"),
    [
        (400, ProviderRejected, "request"), (401, ProviderRejected, "candidate"), (402, ProviderFailed, ""), (408, ProviderFailed, ""),
        (429, RateLimitError, ""), (500, ProviderFailed, ""), (503, ProviderFailed, ""),
    ],
)  # fmt: skip
def test_errors_say_whose_fault_they_are(code, error, fault):
    with pytest.raises(error) as caught:
        client().receive(soniox_listen.error_frame(code, "scripted"))
    assert (caught.value.retryable, getattr(caught.value, "fault", "")) == (True, fault)


def test_the_configuration():
    request = attrs.evolve(REQUEST, language="de-CH", keyterms=("Acme",), prompt="a call", diarize=True, endpointing_ms=100)
    assert json.loads(soniox_listen.configuration(request, "stt-rt-v5")) == {
        "model": "stt-rt-v5", "audio_format": "pcm_s16le", "sample_rate": 16_000, "num_channels": 1,
        "enable_endpoint_detection": True, "max_endpoint_delay_ms": 500, "language_hints": ["de"], "language_hints_strict": True,
        "context": {"terms": ["Acme"], "text": "a call"}, "enable_speaker_diarization": True,
    }  # fmt: skip
    plain = json.loads(soniox_listen.configuration(attrs.evolve(REQUEST, language="multi"), "m"))
    assert plain["enable_language_identification"]
    assert not {"language_hints", "context", "max_endpoint_delay_ms"} & plain.keys()


@pytest.mark.parametrize("language", ["multi", "en", "en-GB", "zh"])
def test_languages(language):
    assert soniox_listen.takes_language(language)
    assert not soniox_listen.takes_language("tlh")


def test_a_server_reads_what_the_client_writes():
    fmt = AudioFormat(encoding="mulaw", sample_rate_hz=8_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de", keyterms=("Acme",), prompt="a call", diarize=True, endpointing_ms=700)
    read = soniox_listen.parse_configuration(soniox_listen.configuration(request, "stt-rt-v5"))
    assert read == attrs.evolve(request, model="stt-rt-v5", dialect="soniox")
    made, server = client(), SonioxListenServer(read)
    assert server.receive(made.audio(b"\xff" * 80)) == (Audio(b"\xff" * 80),)
    assert server.receive(made.flush()) == (Control.FLUSH,)
    assert server.receive(soniox_listen.KEEPALIVE) == ()
    assert [server.receive(frame) for frame in made.finish()] == [(Control.FINISH,)]
    words = (Word(text="hello", start_s=0.1, end_s=0.2, confidence=0.5), Word(text="there", start_s=0.2, end_s=0.4, confidence=0.7))
    said = Final(text="hello there", start_s=0.1, end_s=0.4, words=words)
    events = [event for frame in server.encode([said, UtteranceEnd(at_s=0.4), ListenEnd()]) for event in made.receive(frame)]
    assert [event for event in events if not isinstance(event, Interim)] == [said, UtteranceEnd(at_s=0.4), ListenEnd()]


@pytest.mark.parametrize(
    "frame",
    ["{}", "no json", b"\x00\x00", '{"model":"m"}', '{"model":"m","audio_format":"pcm_s16le"}',
     '{"model":"m","audio_format":"pcm_s16le","sample_rate":8000,"num_channels":1,"max_endpoint_delay_ms":1}'],
)  # fmt: skip
def test_a_configuration_that_the_vendor_refuses(frame):
    with pytest.raises(ClientProtocolError):
        soniox_listen.parse_configuration(frame)
