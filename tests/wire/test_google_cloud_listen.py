"""The client's side of Google Cloud's live transcription: times, silences, and what the next call gets."""

from __future__ import annotations

import pytest

from gw.errors import UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.stt import Final, Interim, ListenRequest, UtteranceEnd
from gw.wire import google_cloud_listen as google
from gw.wire import google_cloud_messages as messages
from gw.wire.google_cloud_listen import GoogleCloudListenClient
from gw.wire.google_cloud_messages import RecognizedWord, RecognizeSettings, Result

RECOGNIZER = "projects/acme/locations/global/recognizers/_"
SECOND = bytes(32_000)


def client(model="chirp_2", **more):
    return GoogleCloudListenClient("p", ListenRequest(**{"model": "m", "format": PCM_16K, **more}), model, RECOGNIZER)


def answer(*results):
    return messages.encode_answer(results)


def sent(frames):
    return b"".join(messages.decode_request(frame) for frame in frames)


def hear(wire, seconds):
    for _ in range(seconds):
        wire.audio(SECOND)


def test_the_settings():
    wire = client("telephony", language="de", keyterms=("Contoso",), profanity_filter=True, interim_results=False)
    (opening,) = wire.opening()
    assert messages.decode_request(opening) == RecognizeSettings(
        recognizer=RECOGNIZER, model="telephony", languages=("de-DE",), encoding="pcm_s16le", sample_rate_hz=16_000, channels=1,
        interim_results=False, profanity_filter=True, word_times=True, punctuation=True, terms=("Contoso",),
    )  # fmt: skip
    without_times = messages.decode_request(client("chirp_3").opening()[0])
    assert (without_times.word_times, without_times.languages) == (False, ("auto",))


def test_audio_is_sent_in_messages_of_the_size_that_the_vendor_takes():
    data = bytes(range(256)) * 125
    frames = client().audio(data)
    assert sent(frames) == data
    assert max(len(messages.decode_request(frame)) for frame in frames) <= 15 * 1_024
    assert client().audio(b"") == []


def test_channels_are_mixed():
    stereo = AudioFormat(encoding="pcm_s16le", sample_rate_hz=8_000, channels=2)
    wire = client(format=stereo)
    assert messages.decode_request(wire.opening()[0]).channels == 1
    assert sent(wire.audio((100).to_bytes(2, "little") + (300).to_bytes(2, "little"))) == (200).to_bytes(2, "little")


def test_results():
    wire = client()
    hear(wire, 3)
    (interim,) = wire.receive(answer(Result(text="to be", end_s=1.2), Result(text=" or not", end_s=1.2)))
    assert interim == Interim(text="to be or not", start_s=0.0, end_s=1.2)
    words = (RecognizedWord(text="to", start_s=0.2, end_s=0.4, confidence=0.5), RecognizedWord(text="be", start_s=0.4, end_s=2.5))
    final, end = wire.receive(answer(Result(text=" to be ", is_final=True, end_s=2.9, confidence=0.75, words=words, language="en-us")))
    assert isinstance(final, Final)
    assert (final.text, final.start_s, final.end_s, final.confidence, final.language) == ("to be", 0.2, 2.5, 0.75, "en-us")
    assert end == UtteranceEnd(at_s=2.5)
    (later,) = wire.receive(answer(Result(text="that", end_s=3.0)))
    assert (later.start_s, later.end_s) == (2.9, 3.0)


def test_a_final_result_and_what_follows_it_in_one_answer():
    wire = client("chirp_3")
    hear(wire, 2)
    final, _, interim = wire.receive(answer(Result(text="one", is_final=True, end_s=1.0), Result(text="two", end_s=2.0)))
    assert (final.start_s, final.end_s, interim.start_s, interim.end_s) == (0.0, 1.0, 1.0, 2.0)


def test_interim_results_that_nobody_wants():
    assert client(interim_results=False).receive(answer(Result(text="one"))) == []


def test_results_without_words_or_time():
    wire = client()
    hear(wire, 2)
    assert wire.receive(answer(Result(is_final=True, end_s=1.0))) == wire.receive(b"") == []
    final, _ = wire.receive(answer(Result(text="one", is_final=True)))
    assert (final.start_s, final.end_s) == (1.0, 2.0)


def test_times_leave_silences_out():
    wire = client()
    hear(wire, 2)
    assert len(sent(wire.flush())) == pytest.approx(google.FLUSH_S * 32_000, abs=2)
    final, _ = wire.receive(answer(Result(text="one", is_final=True, end_s=2 + google.FLUSH_S)))
    assert final.end_s == pytest.approx(2.0)
    hear(wire, 1)
    final, _ = wire.receive(answer(Result(text="two", is_final=True, end_s=3 + google.FLUSH_S)))
    assert (final.start_s, final.end_s) == (pytest.approx(2.0), pytest.approx(3.0))


def test_a_time_beyond_the_audio_is_that_of_its_end():
    wire = client()
    hear(wire, 1)
    final, _ = wire.receive(answer(Result(text="one", is_final=True, end_s=1e9)))
    assert final.end_s == 1.0


def test_the_next_call_gets_the_audio_after_the_last_final_transcript():
    wire = client()
    for second in range(5):
        wire.audio(bytes([second]) * 32_000)
    wire.receive(answer(Result(text="one", is_final=True, end_s=3.0)))
    (settings, *frames), again_s = wire.next_opening()
    assert [settings] == wire.opening()
    assert (sent(frames), again_s) == (bytes([3]) * 32_000 + bytes([4]) * 32_000, 2.0)
    final, _ = wire.receive(answer(Result(text="two", is_final=True, end_s=1.5)))
    assert (final.start_s, final.end_s) == (3.0, 4.5)


def test_of_a_silence_the_end_is_kept():
    wire = client()
    hear(wire, 60)
    assert wire.next_opening()[1] == 10.0
    final, _ = wire.receive(answer(Result(text="one", is_final=True, end_s=10.0)))
    assert (final.start_s, final.end_s) == (50.0, 60.0)


def test_all_of_an_utterance_is_kept():
    wire = client()
    hear(wire, 5)
    wire.receive(answer(Result(text="one", end_s=5.0)))
    hear(wire, 60)
    assert wire.next_opening()[1] == 65.0


def test_when_a_call_is_replaced():
    wire = client()
    assert [wire.may_renew(age_s) for age_s in (239.9, 240.0)] == [False, True]
    wire.receive(answer(Result(text="one", end_s=1.0)))
    assert [wire.may_renew(age_s) for age_s in (240.0, 284.9, 285.0)] == [False, False, True]
    wire.receive(answer(Result(text="one", is_final=True, end_s=1.0)))
    assert wire.may_renew(240.0)


def test_a_malformed_message():
    with pytest.raises(UpstreamProtocolError):
        client().receive(b"\x08")


def test_the_pace():
    pace = google.pace_of(ListenRequest(model="m", format=PCM_16K, endpointing_ms=500))
    assert (pace.endpoint_s, pace.utterance_end_s, pace.ends_on_flush) == (google.FLUSH_S, 0.5, True)
