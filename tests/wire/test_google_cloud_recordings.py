"""Google Cloud's transcription of recordings: settings and answers of both roles, and its languages."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path

import pytest

from gw.errors import ClientProtocolError, UpstreamProtocolError
from gw.providers.recording_call import WavRecording
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import ListenRequest, TranscribeRequest
from gw.wire import google_cloud_recordings as recordings

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "google_cloud" / "recording.json").read_text("utf-8"))
BODY = json.dumps(GOLDEN["answer"]).encode()


def request(**more):
    return TranscribeRequest(model="m", audio=WavRecording(bytes(320)), **more)


def sent(model="chirp_2", **more):
    head, tail = recordings.body_around_audio(request(**more), model)
    return recordings.parse(head + b64encode(b"RIFF") + tail)


def test_the_golden_answer():
    transcript = recordings.decode(BODY, "p")
    assert (transcript.text, transcript.language, transcript.usage.audio_seconds) == ("how old is the Brooklyn Bridge", "en-us", 2.0)
    (segment,) = transcript.segments
    assert (segment.start_s, segment.end_s, segment.confidence) == (0.0, 1.77, 0.98267895)
    assert [(word.text, word.start_s, word.end_s) for word in transcript.words[:2]] == [("how", 0.0, 0.3), ("old", 0.3, 0.6)]


def test_what_is_written_is_read():
    transcript = recordings.decode(BODY, "p")
    assert recordings.decode(recordings.encode(transcript, transcript.segments, "en-us", 2.0), "p").text == transcript.text


def test_a_recording_without_speech():
    transcript = recordings.decode(b'{"metadata":{"totalBilledDuration":"3s"}}', "p")
    assert (transcript.text, transcript.words, transcript.usage.audio_seconds) == ("", (), 3.0)
    assert recordings.decode(b"{}", "p").usage is None


def test_channels_are_read_in_the_order_of_time():
    results = [
        {"alternatives": [{"transcript": text}], "resultEndOffset": end, "channelTag": channel}
        for text, end, channel in (("one", "1s", 1), (" three", "3s", 1), ("two", "2s", 2))
    ]
    transcript = recordings.decode(json.dumps({"results": results}).encode(), "p")
    assert (transcript.text, [s.end_s for s in transcript.segments]) == ("one two three", [1.0, 2.0, 3.0])


def test_speakers_of_words_that_the_last_result_repeats():
    def word(text, start, speaker=""):
        return {"word": text, "startOffset": f"{start}s", "endOffset": f"{start + 1}s", **({"speakerLabel": speaker} if speaker else {})}

    results = [
        {"alternatives": [{"transcript": "hello", "words": [word("hello", 0)]}], "resultEndOffset": "1s"},
        {"alternatives": [{"transcript": "you", "words": [word("hello", 0, "1"), word("you", 1, "2")]}], "resultEndOffset": "2s"},
    ]
    transcript = recordings.decode(json.dumps({"results": results}).encode(), "p")
    assert (transcript.text, [(w.text, w.speaker) for w in transcript.words]) == ("hello you", [("hello", "1"), ("you", "2")])
    assert transcript.segments == ()


@pytest.mark.parametrize("body", [b"", b"[]", b'{"error":"over capacity"}', b'{"results":1}', b'{"results":[{"alternatives":{}}]}'])
def test_bad_answers(body):
    with pytest.raises(UpstreamProtocolError):
        recordings.decode(body, "p")


@pytest.mark.parametrize("duration", ["-5s", "1e999s", "x", "nans"])
def test_impossible_durations(duration):
    result = {"alternatives": [{"transcript": "a", "words": [{"word": "a", "startOffset": duration, "endOffset": duration}]}]}
    body = {"results": [{**result, "resultEndOffset": duration}], "metadata": {"totalBilledDuration": duration}}
    transcript = recordings.decode(json.dumps(body).encode(), "p")
    assert (transcript.words[0].start_s, transcript.segments[0].end_s, transcript.usage.audio_seconds) == (0.0, 0.0, 0.0)


def test_the_settings():
    config, audio = sent(
        language="de", keyterms=("Contoso",), profanity_filter=True, timestamps=frozenset({"word"}),
        format=AudioFormat(encoding="wav", sample_rate_hz=8_000, channels=2),
    )  # fmt: skip
    features = config.features
    assert (audio, config.model, config.language_codes, config.terms) == (b"RIFF", "chirp_2", ["de-DE"], ["Contoso"])
    assert (features.profanity_filter, features.enable_word_time_offsets, features.multi_channel_mode) == (
        True, True, "SEPARATE_RECOGNITION_PER_CHANNEL",
    )  # fmt: skip
    plain, _ = sent("chirp_3", diarize=True, timestamps=frozenset({"segment"}))
    assert (plain.language_codes, plain.features.enable_word_time_offsets, plain.features.diarization_config) == (["auto"], False, {})
    assert (plain.terms, plain.features.multi_channel_mode) == ([], 0)


@pytest.mark.parametrize(
    "body",
    [
        b"{", b"{}", b'{"config":{"model":"m","languageCodes":["a"]},"content":"UklG"}',
        b'{"config":{"autoDecodingConfig":{},"explicitDecodingConfig":{},"model":"m","languageCodes":["a"]},"content":"UklG"}',
        b'{"config":{"autoDecodingConfig":{},"languageCodes":["a"]},"content":"UklG"}',
        b'{"config":{"autoDecodingConfig":{},"model":"m","languageCodes":[]},"content":"UklG"}',
        b'{"config":{"autoDecodingConfig":{},"model":"m","languageCodes":["a"]},"content":"*"}',
    ],
)  # fmt: skip
def test_requests_that_the_vendor_refuses(body):
    with pytest.raises(ClientProtocolError):
        recordings.parse(body)


@pytest.mark.parametrize(
    ("language", "model", "code"),
    [
        (None, "long", "en-US"), (None, "chirp_3", "auto"), ("multi", "chirp_2", "auto"), ("multi", "telephony", None),
        ("en", "long", "en-US"), ("en_gb", "long", "en-GB"), ("zh", "chirp_3", "cmn-Hans-CN"), ("zh-TW", "chirp_3", "cmn-Hant-TW"),
        ("he", "long", "iw-IL"), ("no", "long", "no-NO"), ("deu", "long", "de-DE"), ("tlh", "long", None), ("???", "long", None),
    ],
)  # fmt: skip
def test_languages(language, model, code):
    assert recordings.locale_of(request(language=language), model) == code
    assert recordings.locale_of(ListenRequest(model="m", format=PCM_16K, language=language), model) == code


def test_what_models_have():
    assert (recordings.has_word_times("chirp_2"), recordings.has_word_times("chirp_3")) == (True, False)
    assert (recordings.tells_speakers("chirp_2"), recordings.tells_speakers("chirp_3")) == (False, True)
