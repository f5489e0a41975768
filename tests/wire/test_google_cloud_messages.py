"""Messages of Google Cloud's live transcription, against those that the vendor's SDK has written."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from gw.wire import google_cloud_messages as messages
from gw.wire import protobuf
from gw.wire.google_cloud_messages import RecognizeAnswer, RecognizedWord, RecognizeSettings, Result

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "google_cloud" / "streaming.json").read_text("utf-8"))
SETTINGS = RecognizeSettings(
    recognizer="projects/acme/locations/global/recognizers/_", model="telephony", languages=("de-DE",), encoding="mulaw",
    sample_rate_hz=8_000, interim_results=True, profanity_filter=True, word_times=True, punctuation=True, terms=("Contoso", "Zürich"),
)  # fmt: skip
PLAIN = RecognizeSettings(
    recognizer="projects/acme/locations/us/recognizers/_", model="chirp_3", languages=("auto",), encoding="pcm_s16le",
    sample_rate_hz=16_000, punctuation=True,
)  # fmt: skip


def golden(name: str) -> bytes:
    return bytes.fromhex(GOLDEN[name])


@pytest.mark.parametrize(("name", "settings"), [("settings", SETTINGS), ("plain_settings", PLAIN)])
def test_settings(name, settings):
    assert messages.encode_settings(settings) == golden(name)
    assert messages.decode_request(golden(name)) == settings


def test_audio():
    assert messages.encode_audio(bytes(range(200))) == golden("audio")
    assert messages.decode_request(golden("audio")) == bytes(range(200))


def test_an_interim_answer():
    first, second = messages.decode_answer(golden("interim")).results
    assert (first.text, first.is_final, first.end_s) == ("to be", False, 1.2)
    assert (second.text, second.language) == (" or not to be", "en-us")


def test_a_final_answer():
    (result,) = messages.decode_answer(golden("final")).results
    assert (result.text, result.is_final, result.language) == ("to be or not to be", True, "en-us")
    assert (result.end_s, result.confidence) == (pytest.approx(2.97), pytest.approx(0.92))
    assert result.words == (
        RecognizedWord(text="to", start_s=0.2, end_s=0.4, confidence=0.5), RecognizedWord(text="be", start_s=0.4, end_s=2.5),
    )  # fmt: skip


def test_answers_without_results():
    assert messages.decode_answer(golden("event")) == messages.decode_answer(b"") == RecognizeAnswer()


def test_what_is_written_is_read():
    words = (RecognizedWord(text="one", end_s=0.5),)
    result = Result(text="one two", is_final=True, end_s=1.25, confidence=0.5, language="de-DE", words=words)
    assert messages.decode_answer(messages.encode_answer([result, Result()])).results == (result, Result())


@pytest.mark.parametrize("name", ["settings", "audio", "interim", "final"])
def test_cut_messages_are_refused_or_shorter(name):
    whole = golden(name)
    decode = messages.decode_request if name in ("settings", "audio") else messages.decode_answer
    for at in range(1, len(whole)):
        with suppress(ValueError):
            assert decode(whole[:at]) != decode(whole)


@pytest.mark.parametrize(
    "message",
    [b"", messages.encode_settings(PLAIN) + messages.encode_audio(b"a"), protobuf.bytes_field(6, b""), protobuf.number_field(5, 1)],
    ids=["nothing", "both", "no encoding", "a number"],
)
def test_bad_requests(message):
    with pytest.raises(ValueError, match=r"\w"):
        messages.decode_request(message)


def test_impossible_durations():
    minus_one = protobuf.number_field(1, 2**64 - 1)
    result = protobuf.bytes_field(4, minus_one) + protobuf.bytes_field(1, protobuf.text_field(1, "a"))
    assert messages.decode_answer(protobuf.bytes_field(6, result)).results[0].end_s == 0.0
