"""Amazon Transcribe's live sessions: the vendor's own events, settings of both roles, and times without the silence that was added."""

from __future__ import annotations

import json
from pathlib import Path

import attrs
import pytest

from gw.errors import ProviderFailed, ProviderRejected, RateLimitError, UpstreamProtocolError
from gw.types.audio import PCM_16K, AudioFormat
from gw.types.speech_settings import DETECT
from gw.types.stt import Final, Interim, ListenEnd, ListenRequest, UtteranceEnd, Word
from gw.wire import aws_transcribe_listen
from gw.wire.aws_event_stream import decode_message, encode_headers, encode_message
from gw.wire.aws_transcribe_listen import AwsTranscribeListenClient
from gw.wire.aws_transcribe_listen_server import exception_frame

GOLDEN = json.loads((Path(__file__).parents[1] / "golden" / "aws" / "transcribe.json").read_text("utf-8"))
REQUEST = ListenRequest(model="standard", format=PCM_16K)
EVENT = {":content-type": "application/json", ":event-type": "TranscriptEvent", ":message-type": "event"}


def client(**more) -> AwsTranscribeListenClient:
    return AwsTranscribeListenClient("p", attrs.evolve(REQUEST, **more), ("secret",))


def event_frame(event, headers=EVENT) -> bytes:
    return encode_message(encode_headers(headers), json.dumps(event).encode())


def result(start_s, end_s, *, partial=False, text="hello") -> bytes:
    items = [{"Content": text, "StartTime": start_s, "EndTime": end_s, "Type": "pronunciation"}]
    of = {"Alternatives": [{"Transcript": text, "Items": items}], "StartTime": start_s, "EndTime": end_s, "IsPartial": partial}
    return event_frame({"Transcript": {"Results": [of]}})


def test_the_vendors_events():
    read = client()
    (interim,) = read.receive(event_frame(GOLDEN["partial"]))
    assert isinstance(interim, Interim)
    assert (interim.text, interim.start_s, interim.end_s, len(interim.words)) == ("The Amazon is the large", 1.26, 2.775, 5)
    final, end = read.receive(event_frame(GOLDEN["complete"]))
    assert isinstance(final, Final)
    assert (final.text, final.start_s, final.end_s, end) == ("On the planet.", 1.26, 5.735, UtteranceEnd(at_s=5.735))
    assert final.words == (
        Word(text="On", start_s=1.26, end_s=1.4475, confidence=0.9, speaker="0"),
        Word(text="the", start_s=1.4475, end_s=2.1725, confidence=0.8, speaker="0"),
        Word(text="planet.", start_s=2.1725, end_s=5.735, confidence=1.0, speaker="1"),
    )
    assert client(interim_results=False).receive(event_frame(GOLDEN["partial"])) == []


@pytest.mark.parametrize(("name", "message", "status"), GOLDEN["exceptions"])
def test_exceptions(name, message, status):
    expected = {403: ProviderRejected, 400: ProviderRejected, 429: RateLimitError}.get(status, ProviderFailed)
    with pytest.raises(expected) as caught:
        client().receive(exception_frame(name, f"{message} secret"))
    assert caught.value.upstream_status == status if hasattr(caught.value, "upstream_status") else status == 429
    assert name in caught.value.detail
    assert "secret" not in caught.value.detail
    assert caught.value.retryable


def test_an_error_has_its_words_in_headers():
    headers = {":message-type": "error", ":error-code": "InternalFailure", ":error-message": "it broke"}
    with pytest.raises(ProviderFailed, match="InternalFailure: it broke"):
        client().receive(event_frame({}, headers))


@pytest.mark.parametrize(
    "frame",
    [
        "text", b"", b"\0" * 20, encode_message(encode_headers(EVENT), b"{"), event_frame({"Transcript": 3}),
        event_frame({"Transcript": {"Results": [{"Alternatives": 1}]}}),
    ],
)  # fmt: skip
def test_malformed_frames(frame):
    with pytest.raises(UpstreamProtocolError):
        client().receive(frame)


@pytest.mark.parametrize(
    "event",
    [{}, {"Transcript": None}, {"Transcript": {"Results": []}}, {"Transcript": {"Results": [{"IsPartial": False}]}}],
)
def test_events_without_words(event):
    assert client().receive(event_frame(event)) == []


def test_unknown_messages_are_skipped():
    assert client().receive(event_frame({}, {":message-type": "event", ":event-type": "CategoryEvent"})) == []
    assert client().receive(event_frame({}, {":message-type": "later"})) == []


def test_the_end():
    read = client()
    assert read.closed() == []  # the vendor has not been told to end
    assert decode_message(read.finish()).payload == b""
    assert (read.closed(), read.ended, read.closed()) == ([ListenEnd()], True, [])


def test_audio_goes_in_pieces_that_the_vendor_takes():
    frames = client().audio(bytes(range(256)) * 200)  # 1.6 s
    payloads = [decode_message(frame).payload for frame in frames]
    assert b"".join(payloads) == bytes(range(256)) * 200
    assert [len(payload) / 32_000 for payload in payloads] == [0.2] * 8
    assert decode_message(frames[0]).headers == {
        ":content-type": "application/octet-stream", ":event-type": "AudioEvent", ":message-type": "event",
    }  # fmt: skip


def test_channels_are_mixed():
    (frame,) = client(format=AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000, channels=2)).audio(b"\x02\x00\x04\x00" * 10)
    assert decode_message(frame).payload == b"\x03\x00" * 10


def test_times_leave_out_the_silence_of_flushes_and_of_keeping_alive():
    read, second = client(), bytes(32_000)
    read.audio(second)
    sent = b"".join(decode_message(frame).payload for frame in read.flush())
    assert (PCM_16K.seconds(len(sent)), any(sent)) == (pytest.approx(1.9), False)
    (final, end) = read.receive(result(0.5, 1.3))  # its end lies within the silence
    assert (final.start_s, final.end_s, final.words[0].end_s, end.at_s) == (0.5, 1.0, 1.0, 1.0)
    read.audio(second)
    assert len(read.keep_alive()) == 1
    (interim,) = read.receive(result(3.0, 3.4, partial=True))
    assert (interim.start_s, interim.end_s) == (pytest.approx(1.1), pytest.approx(1.5))
    read.audio(second)
    (final, _) = read.receive(result(3.1, 4.5))
    assert (final.start_s, final.end_s) == (pytest.approx(1.2), pytest.approx(2.5))


@pytest.mark.parametrize(
    ("language", "locale"),
    [
        (None, "en-US"), ("en", "en-US"), ("en-gb", "en-GB"), ("de", "de-DE"), ("nb", "no-NO"), ("fil", "tl-PH"), ("yue-HK", "zh-HK"),
        ("cy", "cy-WL"), ("bg", "bg-BG"), ("pt", "pt-BR"), ("en-SG", None), ("xx", None), (DETECT, None),
    ],
)  # fmt: skip
def test_languages(language, locale):
    assert aws_transcribe_listen.locale_of(attrs.evolve(REQUEST, language=language)) == locale
