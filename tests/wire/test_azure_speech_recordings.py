"""Azure Speech's fast transcription: settings and answers of both roles, and its locales."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.providers.recording_call import WavRecording
from gw.types.audio import PCM_16K
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire import azure_speech_recordings as recordings

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "azure_speech" / "recording.json").read_text("utf-8"))
BODY = json.dumps(GOLDEN["answer"]).encode()


def request(**more):
    return TranscribeRequest(model="m", audio=WavRecording(bytes(320)), **more)


def test_the_golden_answer():
    transcript = recordings.decode(BODY, "p")
    assert (transcript.text, transcript.language, transcript.duration_s) == ("Good afternoon. This is Sam.", "en-US", 182.439)
    assert transcript.usage.audio_seconds == 182.439
    assert [(segment.text, segment.speaker, segment.start_s, segment.end_s) for segment in transcript.segments] == [
        ("Good afternoon.", "0", 0.96, 1.6), ("This is Sam.", "1", 1.6, 2.24),
    ]  # fmt: skip
    assert [(word.text, word.start_s, word.speaker) for word in transcript.words[:3]] == [
        ("Good", 0.96, "0"), ("afternoon.", 1.2, "0"), ("This", 1.6, "1"),
    ]  # fmt: skip


def test_what_is_written_is_read():
    transcript = recordings.decode(BODY, "p")
    assert recordings.decode(recordings.encode(transcript, transcript.segments, "en-US"), "p") == transcript


@pytest.mark.parametrize("body", [b"", b"[]", b'{"phrases":[]}', b'{"combinedPhrases":[{}]}'])
def test_bad_answers(body):
    with pytest.raises(UpstreamProtocolError):
        recordings.decode(body, "p")


def test_impossible_numbers():
    body = b'{"durationMilliseconds":-5,"combinedPhrases":[],"phrases":[{"text":"a","offsetMilliseconds":-1,"durationMilliseconds":1e99}]}'
    transcript = recordings.decode(body, "p")
    assert (transcript.duration_s, transcript.usage, transcript.segments[0].start_s) == (None, None, 0.0)


def test_the_settings():
    asked = request(language="de", keyterms=("Contoso",), diarize=True, profanity_filter=True)
    read = recordings.parse_definition(recordings.definition(asked))
    assert (read.locales, read.phrase_list.phrases, read.diarization.enabled, read.profanity_filter_mode) == (
        ["de-DE"], ["Contoso"], True, "Masked",
    )  # fmt: skip
    plain = recordings.parse_definition(recordings.definition(request(language="multi")))
    assert (plain.locales, plain.phrase_list, plain.diarization, plain.profanity_filter_mode) == (None, None, None, "None")
    with pytest.raises(ClientProtocolError):
        recordings.parse_definition("{")


@pytest.mark.parametrize(
    ("language", "recorded", "live"),
    [
        ("en", "en-US", "en-US"), ("en-gb", "en-GB", "en-GB"), ("cs", "cs-CZ", "cs-CZ"), ("no", "nb-NO", "nb-NO"), ("zh", "zh-CN", "zh-CN"),
        ("fr-CA", None, "fr-CA"), ("el", None, "el-GR"), ("tlh", None, None), ("en-XX", None, None), (None, None, None),
    ],
)  # fmt: skip
def test_locales(language, recorded, live):
    assert recordings.locale_of(request(language=language)) == recorded
    assert recordings.locale_of(ListenRequest(model="m", format=PCM_16K, language=language)) == live
