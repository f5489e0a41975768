"""ElevenLabs' speech over HTTP: what is asked for, lines with timestamps cut anywhere, and what a client says."""

from __future__ import annotations

from base64 import b64encode
from urllib.parse import parse_qs, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ClientProtocolError, ProviderFailed, UpstreamCut, UpstreamProtocolError
from gw.types.audio import MULAW_8K, PCM_16K, PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest, WordTiming
from gw.wire.elevenlabs_speak import (
    TimedDecoder,
    body,
    encode_lines,
    http_path,
    output_format,
    parse,
    parse_format,
    sent_for,
)
from tests.fakes.golden import golden

LINES = golden("elevenlabs/speech_with_timestamps")
WORDS = [
    WordTiming(word="Hi", start_s=0.0, end_s=0.2),
    WordTiming(word="tö!", start_s=0.25, end_s=0.5),
]


def request(fmt=PCM_24K, **members) -> SpeakRequest:
    return SpeakRequest(**{"model": "m", "text": "Hi", "voice": "v", "format": fmt, **members})


def decoded(*pieces: bytes) -> list:
    decoder = TimedDecoder("p")
    events = [event for piece in pieces for event in decoder.feed(piece)]
    if decoder.fault is not None:
        raise decoder.fault
    return events + decoder.end()


# ---- the client's side


def mp3(rate_hz, kbit=0):
    return AudioFormat(encoding="mp3", sample_rate_hz=rate_hz, kbit_per_s=kbit)


@pytest.mark.parametrize(
    ("options", "name", "result"),
    [
        (PCM_16K, "pcm_16000", PCM_16K),
        (MULAW_8K, "ulaw_8000", MULAW_8K),
        (AudioFormat(encoding="alaw", sample_rate_hz=8_000), "alaw_8000", AudioFormat(encoding="alaw", sample_rate_hz=8_000)),
        (AudioFormat(encoding="mulaw", sample_rate_hz=16_000), "pcm_16000", PCM_16K),
        (AudioFormat(encoding="wav", sample_rate_hz=24_000), "pcm_24000", PCM_24K),
        (AudioFormat(encoding="wav"), "pcm_24000", PCM_24K),
        (AudioFormat(encoding="mp3"), "mp3_44100_128", AudioFormat(encoding="mp3")),
        (mp3(22_050, 32), "mp3_22050_32", mp3(22_050, 32)),
        (mp3(24_000), "mp3_24000_48", mp3(24_000)),
        (mp3(44_100), "mp3_44100_128", mp3(44_100)),
        (AudioFormat(encoding="opus"), "opus_48000_96", AudioFormat(encoding="opus")),
        (AudioFormat(encoding="flac"), "mp3_44100_128", AudioFormat(encoding="mp3")),
    ],
)
def test_formats_of_the_vendor(options, name, result):
    assert sent_for(options) == result
    assert parse_qs(urlsplit(http_path(request(options))).query)["output_format"] == [name]


@pytest.mark.parametrize("as_json", ["mp3_22050_32", "opus_48000_32", "pcm_44100", ""])
def test_the_callers_own_word_for_a_form_stands_where_it_names_that_form(as_json):
    assert output_format(AudioFormat(encoding="mp3"), as_json) == (as_json if as_json.startswith("mp3") else "mp3_44100_128")
    assert output_format(AudioFormat(encoding="opus"), as_json) == (as_json if as_json.startswith("opus") else "opus_48000_96")
    assert output_format(PCM_24K, as_json) == "pcm_24000"


def test_the_path():
    assert http_path(request(voice="a/b c")) == "/v1/text-to-speech/a%2Fb%20c/stream?output_format=pcm_24000"
    assert http_path(request(want_timings=True)).startswith("/v1/text-to-speech/v/stream/with-timestamps?")


@pytest.mark.parametrize(
    ("members", "model", "sent"),
    [
        ({}, "eleven_flash_v2_5", {}),
        ({"language": "de-DE"}, "eleven_flash_v2_5", {"language_code": "de"}),
        ({"language": "de"}, "eleven_multilingual_v2", {}),
        ({"speed": 9.0}, "m", {"voice_settings": {"speed": 1.2}}),
        ({"speed": 0.1}, "m", {"voice_settings": {"speed": 0.7}}),
        ({"extra": {"seed": msgspec.Raw(b"1")}}, "m", {}),
    ],
)
def test_the_body(members, model, sent):
    assert msgspec.json.decode(body(request(**members), model)) == {"text": "Hi", "model_id": model, **sent}


def test_a_caller_of_this_dialect_keeps_its_settings():
    received = b'{"text":"Hi","model_id":"x","seed":1,"previous_text":null,"voice_settings":{"speed":1.1,"style":0.5}}'
    options = parse("v", b"output_format=mp3_22050_32&enable_logging=false&gw_x=1&token=t", received, timings=True)
    query = parse_qs(urlsplit(http_path(options)).query)
    assert query == {"output_format": ["mp3_22050_32"], "enable_logging": ["false"]}
    assert msgspec.json.decode(body(options, "m")) == {
        "text": "Hi", "model_id": "m", "seed": 1, "voice_settings": {"speed": 1.1, "style": 0.5}
    }  # fmt: skip
    assert (options.speed, options.format, options.want_timings) == (1.1, mp3(22_050, 32), True)


def test_the_golden_lines_cut_at_every_byte():
    complete = decoded(LINES)
    assert complete == [AudioChunk(data=bytes(range(4))), WORDS[0], AudioChunk(data=bytes(range(4, 8))), WORDS[1], SpeakEnd()]
    for cut in range(len(LINES)):
        assert decoded(LINES[:cut], LINES[cut:]) == complete
    assert decoded(*(LINES[at : at + 1] for at in range(len(LINES)))) == complete


@pytest.mark.parametrize(
    ("received", "error"),
    [
        (b"", UpstreamProtocolError),
        (b"\n\n", UpstreamProtocolError),
        (b'{"audio_base64":"","alignment":null}\n', UpstreamProtocolError),
        (b"no JSON\n", UpstreamProtocolError),
        (b'{"audio_base64":"\xff"}\n', UpstreamProtocolError),
        (b'{"audio_base64":"%%%"}\n', UpstreamProtocolError),
        (b'{"alignment":{"characters":"x"}}\n', UpstreamProtocolError),
        (b'{"audio_base64":"AAEC"}\n{"audio_ba', UpstreamCut),
        (b'{"audio_base64":"AAEC"}\n{"detail":{"status":"quota_exceeded","message":"secret words"}}\n', ProviderFailed),
        (b'{"error":"over capacity"}\n', ProviderFailed),
        (b"x" * (5 * 2**20), UpstreamProtocolError),
    ],
)
def test_what_is_no_answer(received, error):
    with pytest.raises(error) as caught:
        decoded(received)
    assert "secret words" not in caught.value.message


def test_unknown_members_and_short_lists():
    line = b'{"new":[1],"audio_base64":"AA==","alignment":{"characters":["a","b"],"character_start_times_seconds":[0]}}\n'
    assert decoded(line) == [AudioChunk(data=b"\0"), SpeakEnd()]


# ---- the server's side


@pytest.mark.parametrize(
    ("query", "received", "param"),
    [
        (b"", b"", None),
        (b"", b"[]", None),
        (b"", b'{"text":5}', "text"),
        (b"", b'{"model_id":"m"}', "text"),
        (b"", b'{"text":""}', "text"),
        (b"", b'{"text":"  "}', "text"),
        (b"output_format=pcm_9", b'{"text":"x"}', "output_format"),
        (b"output_format=vorbis", b'{"text":"x"}', "output_format"),
        (b"output_format=pcm_999999", b'{"text":"x"}', "output_format"),
    ],
)
def test_what_is_no_request(query, received, param):
    with pytest.raises(ClientProtocolError) as caught:
        parse("v", query, received, timings=False)
    assert caught.value.param == param


@pytest.mark.parametrize(
    ("name", "fmt"),
    [
        ("mp3_44100_128", mp3(44_100, 128)),
        ("mp3_22050_32", mp3(22_050, 32)),
        ("opus_48000_32", AudioFormat(encoding="opus")),
        ("pcm_24000", PCM_24K),
        ("ulaw_8000", MULAW_8K),
        ("alaw_8000", AudioFormat(encoding="alaw", sample_rate_hz=8_000)),
        ("wav_44100", AudioFormat(encoding="wav", sample_rate_hz=44_100)),
    ],
)
def test_forms_by_name(name, fmt):
    assert parse_format(name) == fmt


def test_what_we_write_we_read():
    events = [AudioChunk(data=b"ab"), *WORDS, AudioChunk(data=b"cd")]
    assert decoded(encode_lines(events)) == [AudioChunk(data=b"abcd"), *WORDS, SpeakEnd()]
    assert encode_lines([SpeakEnd()]) == b""


@given(st.lists(st.tuples(st.binary(min_size=1, max_size=9), st.text(max_size=9)), min_size=1, max_size=5), st.integers(1, 40))
def test_any_audio_and_text_survives_any_cut(as_json, step):
    lines = b"".join(
        msgspec.json.encode(
            {
                "audio_base64": b64encode(data).decode(),
                "alignment": {
                    "characters": list(text),
                    "character_start_times_seconds": [0.0] * len(text),
                    "character_end_times_seconds": [0.0] * len(text),
                },
            }
        )
        + b"\n"
        for data, text in as_json
    )
    events = decoded(*(lines[at : at + step] for at in range(0, len(lines), step)))
    assert b"".join(event.data for event in events if isinstance(event, AudioChunk)) == b"".join(data for data, _ in as_json)
    words = [event.word for event in events if isinstance(event, WordTiming)]
    assert "".join(words) == "".join(c for _, text in as_json for c in text if not c.isspace())
