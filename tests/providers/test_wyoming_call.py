"""Whisper and Piper by servers of the Wyoming protocol."""

from __future__ import annotations

import sys

import attrs
import pytest
import trio

from gw.errors import (
    ProviderError,
    ProviderFailed,
    ProviderRejected,
    ProviderUnreachable,
    UpstreamCut,
    UpstreamProtocolError,
)
from gw.net.http1 import Pool
from gw.providers import piper, whisper
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.stt import TextDelta, TranscribeRequest
from gw.types.tts import SpeakRequest
from gw.wire import wav, wyoming
from tests.fakes.net import black_hole
from tests.fakes.recording import Recording, recognized, spoken, wav_of
from tests.fakes.vendors.wyoming import FakeWyoming

SOUND = bytes(range(256)) * 40
WAV = AudioFormat(encoding="wav", sample_rate_hz=24_000)


@pytest.fixture
def server(net):
    fake = FakeWyoming(speech_pcm=SOUND)
    net.hosts["voice.test", 10_300] = fake
    return fake


@pytest.fixture
def stt(account_at, server):
    return account_at("whisper", "tcp://voice.test:10300", model="small")


@pytest.fixture
def tts(account_at, server):
    return account_at("piper", "tcp://voice.test:10300", model="en_US-lessac-medium")


def transcription(audio=None, **more):
    audio = audio or wav_of(SOUND)
    return TranscribeRequest(model="m", audio=audio, format=AudioFormat(encoding="wav", sample_rate_hz=16_000), **more)


def speech(text="Hello.", **more):
    return SpeakRequest(**{"model": "m", "text": text, "format": PCM_24K, **more})


# ---- speech to text


async def test_a_recording_is_sent_as_samples(stt, server, net, autojump_clock):
    (transcript,) = await recognized(whisper.transcribe(transcription(language="en-US"), stt))
    assert (transcript.text, transcript.language, transcript.usage) == ("hello there", "en", None)
    assert bytes(server.audio) == SOUND
    assert server.seen == [
        wyoming.Transcribe(name="small", language="en"), wyoming.AudioStart(rate=16_000), wyoming.AudioStop(),
    ]  # fmt: skip
    assert net.open == 0


@pytest.mark.parametrize("stream", [True, False])
async def test_pieces_are_passed_on_to_who_asked_for_them(stt, server, stream, autojump_clock):
    server.streams = True
    events = await recognized(whisper.transcribe(transcription(stream=stream), stt))
    assert [event.text for event in events if isinstance(event, TextDelta)] == (["hello", "there"] if stream else [])
    assert events[-1].text == "hello there"


@pytest.mark.parametrize(
    ("audio", "decoded", "length"),
    [
        (Recording(SOUND, "a.raw", "audio/pcm;rate=16000"), None, len(SOUND)),
        (Recording(SOUND, "a.raw", ""), AudioFormat(encoding="pcm_s16le", sample_rate_hz=16_000), len(SOUND)),
        (Recording(b"\xff" * 800, "a.ulaw", "audio/basic"), AudioFormat(encoding="mulaw", sample_rate_hz=8_000), 3_200),
        (wav_of(SOUND, 48_000), None, pytest.approx(len(SOUND) / 3, abs=4)),
    ],
)
async def test_other_samples_are_converted(stt, server, audio, decoded, length):
    await recognized(whisper.transcribe(attrs.evolve(transcription(audio), format=decoded), stt))
    assert len(server.audio) == length


@pytest.mark.parametrize("fmt", [AudioFormat(encoding="mp3"), None])
async def test_what_cannot_be_converted_is_for_another_candidate(stt, fmt, monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    request = attrs.evolve(transcription(Recording(b"ID3" + bytes(99), "a.mp3", "audio/mpeg")), format=fmt)
    with pytest.raises(ProviderRejected, match=r"with its extra 'audio'") as caught:
        await recognized(whisper.transcribe(request, stt))
    assert caught.value.fault == "candidate"


async def test_translation_is_for_another_candidate(stt, autojump_clock):
    with pytest.raises(ProviderRejected) as caught:
        await recognized(whisper.transcribe(transcription(task="translate"), stt))
    assert caught.value.retryable


# ---- text to speech


@pytest.mark.parametrize(
    ("requested", "voice"), [("", "en_US-lessac-medium"), ("alloy", "en_US-lessac-medium"), ("de_DE-thorsten-low", "de_DE-thorsten-low")]
)
async def test_speech_has_the_rate_of_its_voice(tts, server, requested, voice, autojump_clock):
    fmt, sound = await spoken(piper.speak(speech(voice=requested), tts))
    assert (fmt, sound) == (AudioFormat(encoding="pcm_s16le", sample_rate_hz=22_050), SOUND)
    assert server.seen == [wyoming.Synthesize(text="Hello.", voice=wyoming.Voice(name=voice))]


async def test_speech_in_a_wav(tts, autojump_clock):
    fmt, sound = await spoken(piper.speak(speech(format=WAV), tts))
    assert wav.parse(sound).format == fmt == AudioFormat(encoding="wav", sample_rate_hz=22_050)
    assert sound.endswith(SOUND)


async def test_empty_text_and_empty_audio(tts, server, autojump_clock):
    with pytest.raises(ProviderRejected) as caught:
        await spoken(piper.speak(speech(" \n"), tts))
    assert not caught.value.retryable
    server.speech_pcm = b""
    with pytest.raises(UpstreamProtocolError):
        await spoken(piper.speak(speech(), tts))


# ---- what goes wrong


@pytest.mark.parametrize(
    ("code", "error"), [("voice", ProviderRejected), ("tts-failed", ProviderFailed), ("language", ProviderRejected)]
)
async def test_an_error_tells_its_code_and_no_more(tts, stt, server, code, error, autojump_clock):
    server.error = code
    for opening, read in ((piper.speak(speech(), tts), spoken), (whisper.transcribe(transcription(), stt), recognized)):
        with pytest.raises(error) as caught:
            await read(opening)
        assert caught.value.retryable
        assert "itself" not in f"{caught.value} {caught.value.facts()}"


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", UpstreamCut),
        (wyoming.encode(wyoming.AudioStart(rate=16_000)), UpstreamCut),
        (b'{"type":"transcript","data_le', UpstreamCut),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", UpstreamProtocolError),
    ],
)
async def test_an_answer_that_is_none(tts, stt, server, net, answer, error, autojump_clock):
    server.answer = answer
    for opening, read in ((piper.speak(speech(), tts), spoken), (whisper.transcribe(transcription(), stt), recognized)):
        with pytest.raises(error):
            await read(opening)
    assert net.open == 0


async def test_nobody_there(tts, account_at, net, autojump_clock):
    net.hosts.clear()
    with pytest.raises(ProviderUnreachable):
        await spoken(piper.speak(speech(), tts))
    dark = account_at("piper", "tcp://voice.test:10300", pool=Pool(connect=black_hole))
    with pytest.raises(ProviderUnreachable, match="within 5 s"):
        await spoken(piper.speak(speech(), dark))


async def test_who_leaves_closes_the_connection(tts, server, net, autojump_clock):
    server.gap_s = 1
    with trio.move_on_after(1.5) as scope:
        await spoken(piper.speak(speech(), tts))
    assert scope.cancelled_caught
    assert net.open == 0


async def test_health(stt, tts, server, net, autojump_clock):
    await whisper.check(stt)
    await piper.check(tts)
    server.info = wyoming.Info()
    for check, account in ((whisper.check, stt), (piper.check, tts)):
        with pytest.raises(ProviderError):
            await check(account)
    net.hosts.clear()
    with pytest.raises(ProviderUnreachable):
        await whisper.check(stt)
