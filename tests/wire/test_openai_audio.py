"""Speech, both forms, and the form of a transcription request."""

import json
from collections.abc import AsyncIterator

import attrs
import msgspec
import pytest

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import TranscribeRequest
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakEvent, SpeakRequest, WordTiming
from gw.types.usage import Usage
from gw.wire.openai_audio import (
    SpeechDecoder,
    encode_speech,
    parse_speech,
    parse_transcription,
    speech_body,
    transcription_fields,
)
from tests.fakes.golden import golden


def parsed(**members: object) -> SpeakRequest:
    return parse_speech(json.dumps({"model": "tts-1", "input": "Hello.", "voice": "alloy", **members}).encode())


def test_a_plain_request():
    assert parsed() == SpeakRequest(
        model="tts-1", text="Hello.", voice="alloy", format=AudioFormat(encoding="mp3"),
    )
    least = parse_speech(b'{"input":"x"}')
    assert (least.model, least.voice) == ("", "")


def test_all_members():
    request = parsed(
        voice={"id": "v_1"}, response_format="pcm", speed=1.5, instructions="softly", stream_format="sse", lang_code="e",
    )
    assert request.voice == "v_1"
    assert request.format == PCM_24K
    assert (request.speed, request.instructions, request.want_events) == (1.5, "softly", True)
    assert dict(request.extra) == {"lang_code": msgspec.Raw(b'"e"')}


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("wav", AudioFormat(encoding="wav", sample_rate_hz=24_000)), ("opus", AudioFormat(encoding="opus")),
        ("aac", AudioFormat(encoding="aac")), ("flac", AudioFormat(encoding="flac")), ("ogg", AudioFormat(encoding="ogg")),
        ("mulaw", AudioFormat(encoding="mulaw", sample_rate_hz=8_000)),
    ],
)
def test_formats(name, fmt):
    assert parsed(response_format=name).format == fmt
    assert json.loads(speech_body(parsed(response_format=name), "m", "v"))["response_format"] == name


def test_groqs_sample_rate_is_heeded_and_passed_on():
    request = parsed(response_format="wav", sample_rate=48_000)
    assert request.format.sample_rate_hz == 48_000
    assert json.loads(speech_body(request, "m", "v"))["sample_rate"] == 48_000


@pytest.mark.parametrize(
    ("members", "param"),
    [
        ({"input": ""}, "input"), ({"input": " \n"}, "input"), ({"input": 5}, "input"), ({"input": None}, "input"),
        ({"voice": 5}, "voice"), ({"voice": {"id": 5}}, "voice"), ({"response_format": "midi"}, "response_format"),
        ({"speed": 0}, "speed"), ({"speed": 4.1}, "speed"), ({"speed": "1"}, "speed"), ({"stream_format": "x"}, "stream_format"),
        ({"sample_rate": 1}, "sample_rate"), ({"model": []}, "model"),
    ],
)
def test_a_bad_member_is_named(members, param):
    with pytest.raises(ClientProtocolError) as caught:
        parsed(**members)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"{", b'{"input":"\xff"}', b'{"input":"x","y":"\xff"}', b'{"input":"x","y":NaN}',
        b'{"input":"x","y":' + b"[" * 100_000,
    ],
)
def test_malformed_requests_are_refused(body):
    with pytest.raises(ClientProtocolError):
        parse_speech(body)


def test_a_missing_input_is_named():
    with pytest.raises(ClientProtocolError) as caught:
        parse_speech(b'{"voice":"x"}')
    assert caught.value.param == "input"


def test_the_upstream_body():
    request = parsed(response_format="pcm", speed=1.5, instructions="softly", stream_format="sse", lang_code="e")
    assert json.loads(speech_body(request, "m", "nova")) == {
        "model": "m", "input": "Hello.", "voice": "nova", "response_format": "pcm", "speed": 1.5,
        "instructions": "softly", "stream_format": "sse", "lang_code": "e",
    }
    assert json.loads(speech_body(parsed(), "m", "v")) == {
        "model": "m", "input": "Hello.", "voice": "v", "response_format": "mp3",
    }


SPOKEN: list[SpeakEvent] = [
    AudioChunk(data=b"\0\1\2\3\4\5"),
    AudioChunk(data=b"\6\7\x08\x09"),
    SpeakEnd(usage=Usage(input_tokens=7, output_tokens=25, output_audio_tokens=25, source="vendor")),
]


def test_a_stream_of_speech_cut_at_every_byte():
    stream = golden("openai/speech_stream")
    assert SpeechDecoder("p").feed(stream) == SPOKEN
    for at in range(len(stream)):
        decoder = SpeechDecoder("p")
        assert decoder.feed(stream[:at]) + decoder.feed(stream[at:]) == SPOKEN
        assert decoder.end() == []


def test_the_pair_agrees():
    assert encode_speech(SPOKEN) == golden("openai/speech_stream")
    silent = encode_speech([WordTiming(word="a", start_s=0, end_s=1), Flushed(), SpeakEnd()])
    assert silent == b'data: {"type":"speech.audio.done","usage":{"input_tokens":0,"output_tokens":0,"total_tokens":0}}\n\n'


def test_unknown_events_are_skipped_and_nothing_comes_after_the_end():
    decoder = SpeechDecoder("p")
    stream = b'data: {"type":"speech.new"}\n\ndata: [DONE]\n\ndata: {"type":"speech.audio.done"}\n\n'
    assert decoder.feed(stream + golden("openai/speech_stream")) == [SpeakEnd()]


@pytest.mark.parametrize(
    "payload",
    [b"{", b"[]", b'{"type":"speech.audio.delta","audio":"*"}', b'{"type":"speech.audio.delta","audio":"A"}'],
)
def test_malformed_speech(payload):
    with pytest.raises(UpstreamProtocolError):
        SpeechDecoder("p").feed(b"data: " + payload + b"\n\n")


def test_endless_speech_event():
    with pytest.raises(UpstreamProtocolError):
        SpeechDecoder("p").feed(b"x" * 5_000_000)


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        (b"{}", None), (b"7", None), (b'{"input_tokens":"x"}', None), (b"null", None),
        (b'{"input_tokens":-5,"output_tokens":-1}', Usage(source="vendor")),
        (b'{"input_tokens":3}', Usage(input_tokens=3, source="vendor")),
        (b'{"output_tokens":%s}' % (b"9" * 400), None),
    ],
)
def test_odd_usage_of_speech(usage, expected):
    done = b'data: {"type":"speech.audio.done","usage":%s}\n\n' % usage
    assert SpeechDecoder("p").feed(done) == [SpeakEnd(usage=expected)]


@pytest.mark.parametrize(
    "payload", [b'{"error":{"message":"key hunter2","code":"c"}}', b'{"type":"error","message":"key hunter2","code":"c"}']
)
def test_a_failure_in_speech(payload):
    with pytest.raises(ProviderFailed) as caught:
        SpeechDecoder("p").feed(b"data: " + payload + b"\n\n")
    assert (caught.value.upstream_code, caught.value.detail) == ("c", "an error inside the answer: c")


def test_cut_speech():
    decoder = SpeechDecoder("p")
    decoder.feed(golden("openai/speech_stream")[:60])
    with pytest.raises(UpstreamCut):
        decoder.end()


@attrs.frozen
class Upload:
    size: int = 3
    filename: str = "a.wav"
    content_type: str = "audio/wav"

    async def chunks(self) -> AsyncIterator[bytes]:
        yield b"abc"


FORM = [
    ("model", "whisper-1"), ("response_format", "verbose_json"), ("language", "en"), ("prompt", "names"),
    ("temperature", "0.20"), ("timestamp_granularities[]", "word"), ("timestamp_granularities", "segment"),
    ("stream", "True"), ("include[]", "logprobs"), ("keywords[]", "a"), ("keywords[]", "b"), ("chunking_strategy", "auto"),
]


def test_a_transcription_form():
    audio = Upload()
    request = parse_transcription(FORM, audio, PCM_24K, 1.5)
    assert request.audio is audio
    assert (request.model, request.response_format, request.language, request.prompt) == ("whisper-1", "verbose_json", "en", "names")
    assert (request.temperature, request.timestamps, request.stream) == (0.2, {"word", "segment"}, True)
    assert (request.format, request.audio_seconds, request.task) == (PCM_24K, 1.5, "transcribe")
    assert request.fields == (("include[]", "logprobs"), ("chunking_strategy", "auto"))
    assert (request.keyterms, request.needs_own, request.ignorable) == (("a", "b"), ("include[]",), ("chunking_strategy",))
    assert transcription_fields(request, "m", "verbose_json") == [
        ("model", "m"), ("response_format", "verbose_json"), ("language", "en"), ("prompt", "names"),
        ("temperature", "0.2"), ("timestamp_granularities[]", "segment"), ("timestamp_granularities[]", "word"),
        ("stream", "true"), *request.fields,
    ]


def test_a_form_with_the_file_only():
    request = parse_transcription([("language", ""), ("stream", "false"), ("temperature", "")], Upload(), None, 0.0, "translate")
    assert (request.model, request.language, request.stream, request.temperature) == ("", None, False, None)
    assert request.task == "translate"
    assert transcription_fields(request, "m", "json") == [("model", "m"), ("response_format", "json")]


@pytest.mark.parametrize(
    ("name", "value", "param"),
    [
        ("response_format", "xml", "response_format"), ("temperature", "warm", "temperature"), ("temperature", "nan", "temperature"),
        ("temperature", "-1", "temperature"), ("temperature", "inf", "temperature"), ("stream", "yes", "stream"),
        ("timestamp_granularities[]", "letter", "timestamp_granularities[]"),
        ("timestamp_granularities[]", "word", "timestamp_granularities[]"),
    ],
)
def test_a_bad_form_field_is_named(name, value, param):
    with pytest.raises(ClientProtocolError) as caught:
        parse_transcription([(name, value)], Upload(), None, 0.0)
    assert caught.value.param == param


class _Nothing:
    size, filename, content_type = 0, "a.wav", "audio/wav"


@pytest.mark.parametrize(
    ("request_", "sent"),
    [
        ({"language": "en-US"}, {"language": "en"}),
        ({"language": "multi"}, {}),
        ({"language": "nova"}, {}),
        ({"keyterms": ("Köln", "gw")}, {"prompt": "Köln, gw"}),
        ({"keyterms": ("Köln",), "prompt": "told"}, {"prompt": "told"}),
        ({"fields": (("smart_format", "true"),)}, {}),
    ],
)
def test_a_form_for_a_caller_of_another_dialect(request_, sent):
    request = TranscribeRequest(model="m", audio=_Nothing(), dialect="deepgram", **request_)
    assert dict(transcription_fields(request, "whisper-1", "json")) == {"model": "whisper-1", "response_format": "json", **sent}


def test_members_that_only_this_dialect_knows():
    request = parse_speech(b'{"model":"m","input":"hi","voice":"v","sample_rate":8000}')
    assert b"sample_rate" in speech_body(request, "m", "v")
    assert b"sample_rate" not in speech_body(attrs.evolve(request, dialect="elevenlabs"), "m", "v")
