"""When each vendor's events are due, by its own settings and by those of callers of other dialects."""

from __future__ import annotations

import math

import msgspec
import pytest

from gw.types.audio import PCM_16K
from gw.types.stt import ListenPace, ListenRequest
from gw.wire import (
    assemblyai_stream,
    aws_transcribe_listen,
    azure_speech_listen,
    cartesia_listen,
    deepgram_flux_listen,
    deepgram_listen,
    elevenlabs_listen,
    gladia_listen,
    google_cloud_listen,
    soniox_listen,
    speechmatics_listen,
    xai_listen,
)
from gw.wire.openai_realtime_beta import BetaListenClient
from gw.wire.openai_realtime_client import RealtimeListenClient

FLUX, TURNS = deepgram_listen.BY_TURNS, cartesia_listen.BY_TURNS
UNIVERSAL, U3 = "universal-streaming-english", "universal-3-6-pro"


def request(dialect="", endpointing_ms=None, *, options=(), **more) -> ListenRequest:
    return ListenRequest(
        model="m", format=PCM_16K, dialect=dialect, endpointing_ms=endpointing_ms, options=tuple(options), **more
    )


def options(**values):
    return tuple(values.items())


def realtime(turns):
    session = {"audio": {"input": {"transcription": {"model": "m"}, "turn_detection": turns}}}
    made = request("openai", options=[("session", msgspec.json.encode(session).decode())])
    return RealtimeListenClient("p", made, "gpt-4o-transcribe").pace


def due(pause_s, endpoint_s, running_s=2.5, answer_s=0.0, **more):
    return ListenPace(pause_s=pause_s, endpoint_s=endpoint_s, running_s=running_s, answer_s=answer_s, **more)


def flushed(utterance_end_s, *, seen=False, **more):
    """What follows where a flush ends the wait for a final; `seen`: the caller would see the utterance end with it."""
    return {"ends_on_flush": True, "utterance_end_s": utterance_end_s, "flush_is_seen": seen, **more}


def turned(utterance_end_s):
    return flushed(utterance_end_s, has_times=False)


deepgram, flux, eleven = deepgram_listen.pace_of, deepgram_flux_listen.pace_of, elevenlabs_listen.pace_of
assembly = assemblyai_stream.pace_of


def cartesia(made, model="ink-2", *, turns=True):
    return cartesia_listen.pace_of(made, model, turns=turns)


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        # Deepgram: interim results every second; an unfinished number may delay a final
        (deepgram(request()), due(0.21, 3.01, **flushed(0.01))),
        (deepgram(request(endpointing_ms=500, interim_results=False)), due(0.7, 3.5, **flushed(0.5))),
        (deepgram(request("deepgram")), due(0.01, 0.01, **flushed(0.01))),
        (deepgram(request("deepgram", 300, interim_results=False)), due(0.3, 0.3, 10.0)),
        (
            deepgram(request("deepgram", options=options(smart_format="true", endpointing="false"))),
            due(1.2, math.inf, **flushed(math.inf, seen=True)),
        ),
        (deepgram(request("deepgram", options=options(smart_format="true", no_delay="true"))), due(0.01, 0.01, **flushed(0.01))),
        (flux(request()), due(0.0, 5.0, **flushed(1.2))),
        (flux(request("deepgram", options=[FLUX, ("eot_timeout_ms", "900")])), due(0.0, 0.9, **flushed(0.9, seen=True))),
        # AssemblyAI: Universal-3 models answer in pauses, with partial results every three seconds
        (assembly(request(), UNIVERSAL), due(0.0, 1.28, **flushed(1.28))),
        (assembly(request(endpointing_ms=700), UNIVERSAL), due(0.0, 0.7, **flushed(0.7))),
        (
            assembly(request("assemblyai", options=options(max_turn_silence="2400")), UNIVERSAL),
            due(0.0, 2.4, **flushed(2.4, seen=True)),
        ),
        (assembly(request(), U3), due(0.1, 1.0, 4.5, **flushed(1.0))),
        (
            assembly(request("assemblyai", options=options(min_turn_silence="1500")), "u3-rt-pro"),
            due(1.5, 1.5, 4.5, **flushed(1.5, seen=True)),
        ),
        (assembly(request(diarize=True), U3), due(0.1, 1.0, 10.0, **flushed(1.0))),
        (assembly(request("assemblyai", options=options(redact_pii="True")), UNIVERSAL), due(1.28, 1.28, 10.0)),
        # Cartesia: by turns, or final transcripts by command or after a silence
        (cartesia(request()), due(0.0, 5.6, **turned(1.2))),
        (cartesia(request(endpointing_ms=100)), due(0.0, 0.64, **turned(0.64))),
        (cartesia(request("cartesia", options=[TURNS, ("turn_end_timeout_ms", "8000.0")])), due(0.0, 8.0, **turned(8.0))),
        (cartesia(request("cartesia"), turns=False), due(math.inf, math.inf, math.inf)),
        (cartesia(request(), "ink-whisper", turns=False), due(2.0, 2.0, 10.0)),
        (
            cartesia(request("cartesia", options=options(max_silence_duration_secs="0.7")), "ink-whisper", turns=False),
            due(0.7, 0.7, 10.0),
        ),
        # ElevenLabs: partial results, committed after a silence, by prediction or by command
        (eleven(request()), due(0.0, 1.5, **flushed(1.5))),
        (eleven(request(endpointing_ms=100)), due(0.0, 0.3, **flushed(0.3))),
        (eleven(request("elevenlabs")), due(0.0, math.inf)),
        (
            eleven(request("elevenlabs", options=options(commit_strategy="vad", vad_silence_threshold_secs="0.6"))),
            due(0.0, 0.6, **flushed(0.6, seen=True)),
        ),
        (eleven(request("elevenlabs", options=options(commit_strategy="turn_prediction"))), due(0.0, 10.0)),
        (eleven(request("elevenlabs", options=options(filter_background_audio="true"))), due(0.0, math.inf, has_times=False)),
        # Soniox: an endpoint after a silence, or by command
        (soniox_listen.pace_of(request()), due(0.0, 2.0, **flushed(1.2))),
        (soniox_listen.pace_of(request(endpointing_ms=300)), due(0.0, 0.5, **flushed(0.5))),
        # Speechmatics: an end after a silence, or by command
        (speechmatics_listen.pace_of(request()), due(0.0, 0.8, **flushed(0.8))),
        (speechmatics_listen.pace_of(request(endpointing_ms=5_000, interim_results=False)), due(0.0, 2.0, 10.0, **flushed(2.0))),
        # Gladia: an utterance without partial results lasts a minute at most
        (gladia_listen.pace_of(request()), due(0.0, 0.3, **flushed(0.3))),
        (gladia_listen.pace_of(request(endpointing_ms=20_000, interim_results=False)), due(0.0, 10.0, 60.0, **flushed(10.0))),
        # Amazon Transcribe: silence ends a segment, after the vendor's own time
        (aws_transcribe_listen.pace_of(request()), due(0.0, 1.9, **flushed(1.9))),
        (aws_transcribe_listen.pace_of(request(endpointing_ms=500, interim_results=False)), due(0.0, 1.9, 20.0, **flushed(0.5))),
        # Google Cloud: silence ends an utterance, after the vendor's own time
        (google_cloud_listen.pace_of(request()), due(0.0, 1.57, **flushed(1.57))),
        (google_cloud_listen.pace_of(request(endpointing_ms=500, interim_results=False)), due(0.0, 1.57, 20.0, **flushed(0.5))),
        # xAI: silence ends an utterance
        (xai_listen.pace_of(request()), due(0.0, 0.4, **flushed(0.4))),
        (xai_listen.pace_of(request(endpointing_ms=9_000, interim_results=False)), due(0.0, 5.0, 60.0, **flushed(5.0))),
        # Azure Speech: silence ends a phrase
        (azure_speech_listen.pace_of(request()), due(0.0, 0.65, **flushed(1.2))),
        (azure_speech_listen.pace_of(request(endpointing_ms=50, interim_results=False)), due(0.0, 0.1, 20.0, **flushed(0.1))),
        # OpenAI: the end of speech is reported, then its words
        (RealtimeListenClient("p", request(), "gpt-4o-transcribe").pace, due(0.5, 0.5, 10.0)),
        (RealtimeListenClient("p", request(endpointing_ms=900), "gpt-4o-transcribe").pace, due(0.9, 0.9, 10.0)),
        (realtime({"type": "semantic_vad", "eagerness": "low"}), due(8.0, 8.0, 10.0)),
        (realtime(None), due(math.inf, math.inf, math.inf)),
        (BetaListenClient("p", request()).pace, due(0.85, 0.85, 10.0, 4.0)),
    ],
)
def test_when_events_are_due(found, expected):
    for name in ListenPace.__struct_fields__:
        assert getattr(found, name) == pytest.approx(getattr(expected, name)), name
