"""Transcripts in every response format, read and written."""

import json
import math

import pytest

from gw.errors import ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.stt import Final, TextDelta, TranscribeEvent, Transcript, Word
from gw.types.usage import Usage
from gw.wire.bounds import MAX_DURATION_S
from gw.wire.openai_audio import (
    TranscriptDecoder,
    decode_transcript,
    encode_transcript,
    encode_transcript_events,
)
from tests.fakes.golden import golden

TOKENS = Usage(input_tokens=14, output_tokens=5, input_audio_tokens=14, source="vendor")
MADE = Transcript(
    text="Good morning. Bye.",
    language="english",
    duration_s=3661.5,
    segments=(Final(text="Good morning.", start_s=0.0, end_s=1.5), Final(text="Bye.", start_s=3660.25, end_s=3661.5)),
    words=(Word(text="Good", start_s=0.0, end_s=0.6),),
    usage=Usage(audio_seconds=3662.0),
)


def test_verbose_json():
    body = golden("openai/transcription_verbose")
    result = decode_transcript(body, "application/json", "verbose_json", "p")
    assert result == Transcript(
        text="Good morning.", language="english", duration_s=1.5,
        segments=(Final(text="Good morning.", start_s=0.0, end_s=1.5, confidence=math.exp(-0.2)),),
        words=(Word(text="Good", start_s=0.0, end_s=0.6), Word(text="morning", start_s=0.6, end_s=1.4)),
        usage=Usage(audio_seconds=2.0, source="vendor"), raw=body,
    )
    assert encode_transcript(result, "verbose_json") == (body, "application/json")


def test_json_with_tokens_and_silence():
    body = (
        b'{"text":"","usage":{"type":"tokens","input_tokens":14,"output_tokens":5,"total_tokens":19,'
        b'"input_token_details":{"audio_tokens":14,"text_tokens":0}}}'
    )
    result = decode_transcript(body, "application/json", "json", "p")
    assert (result.text, result.usage) == ("", TOKENS)
    assert decode_transcript(b'{"text":"a","duration":"1.25","usage":7}', "", "json", "p").duration_s == 1.25
    assert decode_transcript(b'{"text":"a","duration":"long"}', "", "json", "p").duration_s is None


@pytest.mark.parametrize("duration", [b'"inf"', b'"nan"', b'"-inf"', b"-1", b'"1e999"'])
def test_an_impossible_duration(duration):
    assert decode_transcript(b'{"text":"a","duration":%s}' % duration, "", "verbose_json", "p").duration_s is None


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b"{}", None), (b"null", None), (b'{"type":"tokens"}', None), (b'{"type":"duration","seconds":-2}', None),
        (b'{"type":"duration","seconds":0}', Usage(source="vendor")),
        (b'{"type":"duration","seconds":1e300}', None), (b'{"type":"duration","seconds":1e400}', None),
        (b'{"type":"tokens","input_tokens":-5000000,"output_tokens":1}', Usage(output_tokens=1, source="vendor")),
        (b'{"input_tokens":%s,"input_token_details":{"audio_tokens":-1}}' % (b"9" * 400), None),
        (b'{"input_tokens":NaN,"output_tokens":-Infinity}', None), (b'{"type":"duration","seconds":NaN}', None),
    ],
)
def test_odd_usage(usage, expected):
    assert decode_transcript(b'{"text":"a","usage":%s}' % usage, "", "json", "p").usage == expected
    [event] = TranscriptDecoder("p").feed(b'data: {"type":"transcript.text.done","text":"a","usage":%s}\n\n' % usage)
    assert isinstance(event, Transcript)
    assert event.usage == expected


def test_times_that_cannot_be_are_written_all_the_same():
    srt = b"1\n" + b"9" * 400 + b":00:00,000 --> 00:00:01,500\nGood.\n\n"
    result = decode_transcript(srt, "", "srt", "p")
    assert result.segments == (Final(text="Good.", start_s=0.0, end_s=1.5),)
    verbose = b'{"text":"a","segments":[{"start":-1e300,"end":1e300,"text":"a"}],"words":[{"word":"a","start":-1}]}'
    result = decode_transcript(verbose, "", "verbose_json", "p")
    assert result.segments == (Final(text="a", start_s=0.0, end_s=MAX_DURATION_S),)
    assert result.words == (Word(text="a", start_s=0.0, end_s=0.0),)


def test_plain_text_and_subtitles():
    result = decode_transcript(b"Good morning.\n", "text/plain", "text", "p")
    assert (result.text, result.raw, result.content_type) == ("Good morning.", b"Good morning.\n", "text/plain")
    srt = b"1\r\n00:00:00,000 --> 00:00:01,500\r\nGood\r\nmorning.\r\n\r\n2\r\n01:01:00,250 --> 01:01:01,500\r\nBye.\r\n"
    assert decode_transcript(srt, "", "srt", "p") == Transcript(
        text="Good morning. Bye.", segments=MADE.segments, raw=srt, content_type="application/x-subrip"
    )
    vtt = b"WEBVTT\n\n00:00.000 --> 00:01.500 align:start\nGood morning.\n\n01:01:00.250 --> 01:01:01.500\nBye.\n\n"
    assert decode_transcript(vtt, "text/vtt", "vtt", "p").segments == MADE.segments


def test_json_although_text_was_requested():
    result = decode_transcript(b'{"text":"Good morning."}', "application/json; charset=utf-8", "text", "p")
    assert (result.text, result.raw) == ("Good morning.", None)
    assert encode_transcript(result, "text") == (b"Good morning.\n", "text/plain; charset=utf-8")


@pytest.mark.parametrize(
    ("body", "form"),
    [
        (b"", "json"), (b"<html>", "json"), (b"{}", "json"), (b'{"text":1}', "json"), (b"[]", "verbose_json"),
        (b"\xff", "text"),
    ],
)
def test_malformed_bodies(body, form):
    with pytest.raises(UpstreamProtocolError):
        decode_transcript(body, "application/json", form, "p")


def test_an_error_with_status_200():
    with pytest.raises(ProviderFailed):
        decode_transcript(b'{"error":{"message":"m"}}', "application/json", "json", "p")


def test_written_json():
    assert encode_transcript(Transcript(text="ä"), "json") == ('{"text":"ä"}'.encode(), "application/json")
    body = json.loads(encode_transcript(Transcript(text="a", usage=TOKENS), "json")[0])
    assert body["usage"] == {
        "type": "tokens", "input_tokens": 14, "output_tokens": 5, "total_tokens": 19,
        "input_token_details": {"audio_tokens": 14, "text_tokens": 0},
    }


def test_written_verbose_json_reads_back():
    body, content_type = encode_transcript(MADE, "verbose_json", {"word"})
    result = decode_transcript(body, content_type, "verbose_json", "p")
    assert (result.text, result.language, result.duration_s) == (MADE.text, MADE.language, MADE.duration_s)
    assert (result.segments, result.words) == (MADE.segments, MADE.words)
    assert result.usage == Usage(audio_seconds=3662.0, source="vendor")
    assert json.loads(body)["segments"][1]["id"] == 1


def test_written_diarized_json():
    body = json.loads(encode_transcript(MADE, "diarized_json")[0])
    assert body["segments"][0] == {
        "id": "seg_0", "type": "transcript.text.segment", "speaker": "", "start": 0.0, "end": 1.5, "text": "Good morning.",
    }
    assert (body["task"], body["duration"], body["text"]) == ("transcribe", 3661.5, MADE.text)


def test_written_subtitles():
    srt, content_type = encode_transcript(MADE, "srt")
    assert content_type == "application/x-subrip"
    assert srt.decode() == (
        "1\n00:00:00,000 --> 00:00:01,500\nGood morning.\n\n2\n01:01:00,250 --> 01:01:01,500\nBye.\n\n"
    )
    vtt, _ = encode_transcript(MADE, "vtt")
    assert vtt.decode().startswith("WEBVTT\n\n00:00:00.000 --> 00:00:01.500\nGood morning.\n\n01:01:00.250")
    for form, body in (("srt", srt), ("vtt", vtt)):
        assert decode_transcript(body, "", form, "p").segments == MADE.segments
    complete = Transcript(text="Hi.", duration_s=2.0)
    assert encode_transcript(complete, "srt")[0] == b"1\n00:00:00,000 --> 00:00:02,000\nHi.\n\n"
    assert encode_transcript(Transcript(text=""), "srt")[0] == b"\n"
    assert encode_transcript(Transcript(text=""), "vtt")[0] == b"WEBVTT\n\n"


class TestTheStreamedForm:
    stream = golden("openai/transcription_stream")

    def expected(self) -> list[TranscribeEvent]:
        raws = [line.removeprefix(b"data: ") for line in self.stream.split(b"\n\n")]
        return [
            TextDelta(text="Good", raw=raws[0]),
            TextDelta(text=" morning.", raw=raws[1]),
            Transcript(text="Good morning.", usage=TOKENS, raw=raws[2], content_type="text/event-stream"),
        ]

    def test_cut_at_every_byte(self):
        for at in range(len(self.stream)):
            decoder = TranscriptDecoder("p")
            assert decoder.feed(self.stream[:at]) + decoder.feed(self.stream[at:]) == self.expected()
            assert decoder.end() == []

    def test_goes_out_unchanged(self):
        assert encode_transcript_events(self.expected()) == self.stream

    def test_its_closing_event_is_no_body(self):
        body, _ = encode_transcript(self.expected()[-1], "json")
        assert json.loads(body)["text"] == "Good morning."
        assert json.loads(body)["usage"]["type"] == "tokens"

    def test_an_unstreamed_transcript_becomes_the_closing_event(self):
        complete = decode_transcript(golden("openai/transcription_verbose"), "application/json", "verbose_json", "p")
        sent = encode_transcript_events([TextDelta(text="Good"), complete])
        first, last = TranscriptDecoder("p").feed(sent)
        assert isinstance(first, TextDelta)
        assert first.text == "Good"
        assert isinstance(last, Transcript)
        assert (last.text, last.usage) == ("Good morning.", Usage(audio_seconds=2.0, source="vendor"))
        assert encode_transcript_events([Transcript(text="a")]) == b'data: {"type":"transcript.text.done","text":"a"}\n\n'

    def test_segments_pass_and_are_collected(self):
        segment = b'{"type":"transcript.text.segment","id":"s","speaker":"A","start":0.5,"end":1.0,"text":"Hi"}'
        done = b'{"type":"transcript.text.done","text":"Hi"}'
        stream = b"data: " + segment + b"\n\ndata: {\"type\":\"new\"}\n\ndata: [DONE]\n\ndata: " + done + b"\n\n"
        first, last = TranscriptDecoder("p").feed(stream + stream)
        assert first == TextDelta(text="", raw=segment)
        assert isinstance(last, Transcript)
        assert last.segments == (Final(text="Hi", start_s=0.5, end_s=1.0, speaker="A"),)

    def test_cut(self):
        decoder = TranscriptDecoder("p")
        decoder.feed(self.stream[:100])
        with pytest.raises(UpstreamCut):
            decoder.end()

    @pytest.mark.parametrize("data", [b"data: {\n\n", b"data: 1\n\n", b"x" * 5_000_000])
    def test_malformed(self, data):
        with pytest.raises(UpstreamProtocolError):
            TranscriptDecoder("p").feed(data)

    @pytest.mark.parametrize("payload", [b'{"error":{"message":"m","code":"c"}}', b'{"type":"error","message":"m","code":"c"}'])
    def test_a_failure(self, payload):
        with pytest.raises(ProviderFailed) as caught:
            TranscriptDecoder("p").feed(b"data: " + payload + b"\n\n")
        assert caught.value.upstream_code == "c"
