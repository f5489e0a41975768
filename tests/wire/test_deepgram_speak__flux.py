"""Flux TTS: the client's side from a golden session, the server's side against it."""

from __future__ import annotations

from contextlib import suppress

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gw.errors import ProviderError, ProviderFailed, UpstreamProtocolError
from gw.types.audio import PCM_24K, AudioFormat
from gw.types.tts import AudioChunk, Flushed, SpeakEnd, SpeakLiveRequest, SpeakRequest
from gw.types.usage import Usage, VendorFigure
from gw.wire.deepgram_speak import (
    CLOSE,
    FLUSH,
    INTERRUPT,
    FluxSpeakClient,
    FluxSpeakServer,
    http_path,
    is_flux,
    live_path,
    voice_model,
)
from gw.wire.live_messages import DirectReply
from tests.fakes.golden import golden

FRAMES = [b"\1\2" if line == "AUDIO" else line for line in golden("deepgram/flux_speak_live").decode().splitlines()]


def decoded(frames):
    return [msgspec.json.decode(frame) for frame in frames]


def billed(characters):
    figure = VendorFigure(amount=characters, unit="characters")
    return Usage(characters=characters, source="vendor", vendor_figure=figure)


def test_the_golden_session():
    speaker = FluxSpeakClient("p", secrets=("s",))
    assert decoded(speaker.text("Hello there. ")) == [{"type": "Speak", "text": "Hello there. "}]
    assert speaker.flush() == [FLUSH]
    events = [event for frame in FRAMES[:6] for event in speaker.receive(frame)]
    assert events == [AudioChunk(data=b"\1\2")] * 2 + [Flushed()]
    speaker.text("never mind")
    speaker.flush()
    assert speaker.clear() == [INTERRUPT]
    assert [event for frame in FRAMES[6:10] for event in speaker.receive(frame)] == [AudioChunk(data=b"\1\2")]
    speaker.text("bye.")
    assert speaker.finish() == [FLUSH]
    events = [event for frame in FRAMES[10:] for event in speaker.receive(frame)]
    assert events == [AudioChunk(data=b"\1\2"), SpeakEnd(usage=billed(13 + 30 + 4))]
    assert speaker.ended


def test_without_a_report_characters_are_counted():
    speaker = FluxSpeakClient("p")
    speaker.text("four")
    speaker.finish()
    assert speaker.receive(FRAMES[5]) == [SpeakEnd(usage=Usage(characters=4, source="measured"))]


def test_a_callers_clear_is_put_into_these_words():
    speaker = FluxSpeakClient("p")
    assert speaker.forward('{"type":"Clear"}') == [INTERRUPT]
    assert speaker.forward('{"type":"Speak","text":"a"}') == ['{"type":"Speak","text":"a"}']
    assert FluxSpeakClient("p").finish() == [CLOSE]


# ---- the server's side


def serving():
    return FluxSpeakServer(request_id="r", model="default", fmt=PCM_24K)


def test_the_server_tells_what_the_client_reads():
    server, client = serving(), FluxSpeakClient("p")
    assert decoded([server.opening()])[0]["type"] == "Connected"
    for frame in (*client.text("Hello. "), *client.flush()):
        assert not any(isinstance(message, DirectReply) for message in server.receive(frame))
    frames = server.encode([AudioChunk(data=bytes(4_800)), AudioChunk(data=b""), AudioChunk(data=bytes(4_800)), Flushed()])
    kinds = [frame if isinstance(frame, bytes) else msgspec.json.decode(frame)["type"] for frame in frames]
    assert kinds == ["SpeechStarted", bytes(4_800), bytes(4_800), "SpeechMetadata", "Flushed"]
    metadata = msgspec.json.decode(frames[3])
    assert (metadata["audio_duration_ms"], metadata["billable_character_count"]) == (200, 7)
    assert [event for frame in frames for event in client.receive(frame)] == [AudioChunk(data=bytes(4_800))] * 2 + [Flushed()]
    for frame in (*client.text("never mind"), *client.flush(), *client.clear()):
        server.receive(frame)
    interrupted = server.cleared()
    assert msgspec.json.decode(interrupted)["metadata"]["billable_character_count"] == 10
    assert client.receive(interrupted) == []
    (end,) = server.closing()
    assert decoded([end])[0]["total_billable_character_count"] == 17
    assert client.finish() == [CLOSE]
    assert client.closed() == [SpeakEnd(usage=billed(17))]


def test_a_flush_of_nothing_is_answered():
    server = serving()
    server.receive(FLUSH)
    assert [frame["type"] for frame in decoded(server.encode([Flushed()]))] == ["Flushed"]


@pytest.mark.parametrize("speed", [0.5, 0.85, 1, 1.15, 1.5])
def test_configure(speed):
    server = serving()
    (reply,) = server.receive(msgspec.json.encode({"type": "Configure", "speed": speed}).decode())
    assert isinstance(reply, DirectReply)
    assert msgspec.json.decode(reply.frame) == {"type": "ConfigureSuccess", "applied": {"speed": speed}}
    assert server.speed == speed


@pytest.mark.parametrize(
    ("speed", "code"),
    [(9, "SPEED_OUT_OF_RANGE"), (1.55, "SPEED_OUT_OF_RANGE"), ("x", "SPEED_OUT_OF_RANGE"), (1.07, "SPEED_INCREMENT_INVALID")],
)
def test_speeds_that_are_refused(speed, code):
    server = serving()
    (reply,) = server.receive(msgspec.json.encode({"type": "Configure", "speed": speed}).decode())
    assert isinstance(reply, DirectReply)
    answer = msgspec.json.decode(reply.frame)
    assert (answer["type"], answer["code"]) == ("ConfigureFailure", code)
    assert server.speed is None


def test_errors():
    with pytest.raises(ProviderFailed, match="NET-0000"):
        FluxSpeakClient("p").receive('{"type":"Error","code":"NET-0000","description":"NET-0000 gone"}')
    for frame in ("{", "[]", '{"type":7}'):
        with pytest.raises(UpstreamProtocolError):
            FluxSpeakClient("p").receive(frame)


@pytest.mark.parametrize(
    ("model", "voice", "named"),
    [
        ("flux-alexis-en", "", "flux-alexis-en"),
        ("flux-alexis-en", "flux-other-en", "flux-other-en"),
        ("flux-alexis-en", "aura-2-thalia-en", "flux-alexis-en"),
        ("flux", "alexis", "flux-alexis-en"),
    ],
)
def test_a_voice_is_part_of_the_model(model, voice, named):
    assert is_flux(model)
    assert voice_model(model, voice) == named


def test_paths():
    assert not is_flux("aura-2-thalia-en")
    request = SpeakRequest(model="m", text="t", voice="aura-2-thalia-en", format=AudioFormat(encoding="mp3"))
    assert http_path(request, "flux-alexis-en") == "/v2/speak?model=flux-alexis-en&encoding=mp3"
    live = SpeakLiveRequest(model="m", format=PCM_24K)
    assert live_path(live, "flux-alexis-en") == "/v2/speak?model=flux-alexis-en&encoding=linear16&sample_rate=24000"


@given(st.binary() | st.text())
def test_any_frame_is_read_or_refused(frame):
    with suppress(ProviderError):
        assert isinstance(FluxSpeakClient("p").receive(frame), list)
