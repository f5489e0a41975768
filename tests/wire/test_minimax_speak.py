"""MiniMax's speech: requests of both roles, events of the answer, and refusals of status 200.

The golden answer has the members that livekit-plugins-minimax-ai 1.8.9 and pipecat-ai 1.14.0 read, and those of the vendor's page on
its answer; read 2026-11-26.
"""

from __future__ import annotations

from pathlib import Path

import attrs
import pytest

from gw.errors import (
    ClientProtocolError,
    ProviderFailed,
    ProviderRefused,
    ProviderRejected,
    RateLimitError,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, SpeakEnd, SpeakRequest
from gw.wire import minimax_speak
from gw.wire.minimax_speak import MiniMaxDecoder

GOLDEN = (Path(__file__).parents[1] / "golden" / "minimax" / "speak.txt").read_bytes() + b"\n"  # an event ends with an empty line
REQUEST = SpeakRequest(model="m", text="Hello.", voice="Wise_Woman", format=PCM_24K, dialect="openai")


def read(*pieces: bytes):
    decoder = MiniMaxDecoder("p", ("secret",))
    events = [event for piece in pieces for event in decoder.feed(piece)]
    if decoder.fault is not None:
        raise decoder.fault
    return events + decoder.end()


def test_the_golden_answer_cut_at_each_byte():
    for at in range(len(GOLDEN)):
        *audio, end = read(GOLDEN[:at], GOLDEN[at:])
        assert audio == [AudioChunk(data=b"\0\1\2\3"), AudioChunk(data=b"\4\5")]
        assert isinstance(end, SpeakEnd)
        assert (end.usage.characters, end.usage.source) == (15, "vendor")
        assert (end.usage.vendor_figure.amount, end.usage.vendor_figure.unit) == (15.0, "characters")


def test_the_last_event_may_repeat_all_audio():
    events = read(minimax_speak.encode_piece(b"ab"), minimax_speak.encode_last("Hé 你", b"ab"))
    assert events[0] == AudioChunk(data=b"ab")
    assert events[-1].usage.characters == 4
    assert len(events) == 2


@pytest.mark.parametrize(
    ("code", "error", "fault"),
    [
        (1002, RateLimitError, ""), (2056, RateLimitError, ""),
        (1004, ProviderRejected, "candidate"), (2049, ProviderRejected, "candidate"),
        (1008, ProviderFailed, ""), (1026, ProviderRefused, ""), (1042, ProviderRejected, "caller"), (2013, ProviderRejected, "request"),
        (20132, ProviderRejected, "request"), (2042, ProviderRejected, "candidate"), (1000, ProviderFailed, ""), (1001, ProviderFailed, ""),
        (31337, ProviderFailed, ""),
    ],
)  # fmt: skip
def test_refusals(code, error, fault):
    for pieces in ([minimax_speak.error_event(code, "the secret is bad")], [minimax_speak.error_body(code, "the secret is bad")]):
        with pytest.raises(error) as caught:
            read(*pieces)
        assert getattr(caught.value, "fault", "") == fault
        assert "secret" not in caught.value.detail


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([minimax_speak.encode_piece(b"a")], UpstreamCut), ([], UpstreamCut), ([b"data: {\n\n"], UpstreamProtocolError),
        ([minimax_speak.encode_last("a")], UpstreamProtocolError), ([b'{"base_resp":{"status_code":0}}'], UpstreamProtocolError),
        ([b"{"], UpstreamProtocolError), ([b"{" + b" " * 65_536], UpstreamProtocolError),
        ([b'data: {"data":{"audio":"xy","status":1}}\n\n'], UpstreamProtocolError),
        ([b'data: {"error":{"code":"overloaded","message":"m"}}\n\n'], ProviderFailed),
    ],
)  # fmt: skip
def test_answers_that_are_none(pieces, error):
    with pytest.raises(error):
        read(*pieces)


@pytest.mark.parametrize("count", ["-1", "100000", "null"])
def test_a_figure_that_cannot_be_is_not_believed(count):
    last = GOLDEN.replace(b'"usage_characters":15', b'"usage_characters":' + count.encode())
    assert read(last)[-1].usage is None


@pytest.mark.parametrize("encoding", minimax_speak.ENCODINGS)
def test_a_server_reads_what_the_client_writes(encoding):
    fmt = AudioFormat(encoding=encoding, sample_rate_hz=0 if encoding == "mp3" else 16_000)
    request = attrs.evolve(REQUEST, format=fmt, language="de-CH", speed=1.25)
    parsed, aggregates = minimax_speak.parse(minimax_speak.body(request, "speech-2.8-hd"))
    assert parsed == attrs.evolve(request, model="speech-2.8-hd", dialect="minimax", language="German")
    assert not aggregates


@pytest.mark.parametrize(("speed", "expected"), [(0.1, 0.5), (1.0, 1.0), (4.0, 2.0)])
def test_speed_has_bounds(speed, expected):
    assert minimax_speak.parse(minimax_speak.body(attrs.evolve(REQUEST, speed=speed), "m"))[0].speed == expected


@pytest.mark.parametrize(
    ("body", "param"),
    [
        (b'{"model":"m","voice_setting":{"voice_id":"v"},"stream":true}', "text"),
        (b'{"model":"m","text":"a","stream":true}', "voice_setting.voice_id"),
        (b'{"model":"m","text":"a","voice_setting":{"voice_id":"v"}}', "audio_setting"),
        (b'{"model":"m","text":"a","voice_setting":{"voice_id":"v","speed":3},"stream":true}', "text"),
        (b'{"model":"m","text":"a","voice_setting":{"voice_id":"v"},"audio_setting":{"sample_rate":1},"stream":true}',
         "audio_setting.sample_rate"),
    ],
)  # fmt: skip
def test_a_request_that_the_vendor_refuses(body, param):
    with pytest.raises(ClientProtocolError) as caught:
        minimax_speak.parse(body)
    assert caught.value.param == param


def test_texts_that_are_not_sent():
    minimax_speak.check_text(attrs.evolve(REQUEST, text="a" * 9_999), "p")
    for text, fault in (("a" * 10_000, "request"), (" ", "caller")):
        with pytest.raises(ProviderRejected) as caught:
            minimax_speak.check_text(attrs.evolve(REQUEST, text=text), "p")
        assert caught.value.fault == fault


def test_languages():
    assert minimax_speak.language_of("pt-BR", "speech-02-hd") == "Portuguese"
    assert minimax_speak.language_of("ta", "speech-02-hd") is None
    assert minimax_speak.language_of("ta", "speech-2.6-hd") == "Tamil"
    assert minimax_speak.language_of("multi", "speech-2.6-hd") is None
