"""Times of a vendor in a live session that cannot be: every number in its frames becomes one of these. The session ends, in words or in an
error of its own protocol; nothing crashes, and nobody pays for a year.
"""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import trio

from gw.net.ws import WsClosed
from gw.types.asgi import ASGIApp
from gw.wire import google_cloud_listen, protobuf
from gw.wire.aws_event_stream import EventMessage, decode_message, encode_headers, encode_message
from tests.contract.readers import READERS, Reader, Spoken, receive_speech, send
from tests.contract.talkers import TALKERS, Talker, converse
from tests.fakes.cells import Cells
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.nightly import cells
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.aws_transcribe import FakeAwsTranscribe
from tests.fakes.vendors.azure_speech import FakeAzureSpeech
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.gladia import FakeGladia
from tests.fakes.vendors.google_cloud import FakeGoogleCloud
from tests.fakes.vendors.soniox import FakeSoniox
from tests.fakes.vendors.speechmatics import FakeSpeechmatics
from tests.fakes.vendors.xai import FakeXai

CONFIG = """
providers:
  dg: {type: deepgram, api_key: k, base_url: "http://dg.test"}
  aai: {type: assemblyai, api_key: k, base_url: "http://aai.test"}
  ca: {type: cartesia, api_key: k, base_url: "http://ca.test"}
  el: {type: elevenlabs, api_key: k, base_url: "http://el.test"}
  so: {type: soniox, api_key: k, base_url: "http://so.test"}
  sm: {type: speechmatics, api_key: k, base_url: "http://sm.test/v2"}
  gl: {type: gladia, api_key: k, base_url: "http://gl.test"}
  tr: {type: aws_transcribe, api_key: k, base_url: "http://tr.test"}
  az: {type: azure_speech, api_key: k, base_url: "http://az.test"}
  xa: {type: xai, api_key: k, base_url: "http://xa.test"}
  gc: {type: google_cloud, api_key: k, base_url: "http://gc.test", project: acme}
routing: {breaker: {failures: 10000}}
models:
  stt:
    [dg/nova-3, dg/flux-general-en, aai/universal-streaming-english, ca/ink-whisper, ca/ink-2, el/scribe_v2_realtime, so/stt-rt-v5,
     sm/enhanced, az/standard, gl/solaria-1, tr/standard, gc/chirp_2,
     xa/grok-voice-transcribe-2.0]
  tts: {dg/aura-2-thalia-en: {}, ca/sonic-3: {default_voice: v}, el/eleven_flash_v2_5: {default_voice: v}, xa/grok-tts: {}}
"""
HEARS = (
    "dg/nova-3", "dg/flux-general-en", "aai/universal-streaming-english", "ca/ink-whisper", "ca/ink-2", "el/scribe_v2_realtime",
    "so/stt-rt-v5", "sm/enhanced", "az/standard", "gl/solaria-1", "tr/standard", "gc/chirp_2",
    "xa/grok-voice-transcribe-2.0",
)  # fmt: skip
SPEAKS = ("dg/aura-2-thalia-en", "ca/sonic-3", "el/eleven_flash_v2_5", "xa/grok-tts")
VENDORS = {
    "dg": FakeDeepgram, "aai": FakeAssemblyAI, "ca": FakeCartesia, "el": FakeElevenLabs,
    "so": FakeSoniox, "sm": FakeSpeechmatics, "az": FakeAzureSpeech, "gl": FakeGladia, "tr": FakeAwsTranscribe,
    "gc": FakeGoogleCloud, "xa": FakeXai,
}  # fmt: skip
NUMBERS = ("1e308", "-1e308", "1" + "0" * 30, "-1" + "0" * 30, "1e400")
_NUMBER = re.compile(r"(?<=[:,\[])\s*-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?=\s*[,}\]])")
TEXTS = ["one two three", "four"]
MOST_NUSD = 20_000_000
"""Two cents, for seconds of sound."""


def _event_in(frame: bytes) -> EventMessage | None:
    """Return the message of a frame in Amazon's encoding; None for audio."""
    try:
        return decode_message(frame)
    except ValueError:
        return None


def _answer_with(frame: bytes, number: str) -> bytes:
    """Return an answer of Google's with these seconds, as far as 64 bits have them, in place of all that it has."""
    duration = protobuf.number_field(1, 2**63 if number.startswith("-") else 2**63 - 1)

    def changed(message: bytes, *path: int) -> bytes:
        """Return a message with the durations of its results, and of their words, replaced."""
        parts = []
        for field, value in protobuf.fields(message):
            here = (*path, field)
            if here in ((6, 4), (6, 1, 3, 1), (6, 1, 3, 2)):
                parts.append(protobuf.bytes_field(field, duration))
            elif here in ((6,), (6, 1), (6, 1, 3)):
                parts.append(protobuf.bytes_field(field, changed(protobuf.data(value), *here)))
            elif isinstance(value, int):
                parts.append(protobuf.number_field(field, value))
            elif here not in ((6, 1, 2), (6, 1, 3, 4)):   # but confidences
                parts.append(protobuf.bytes_field(field, value))
        return b"".join(parts)

    return changed(frame)


def with_numbers(app: ASGIApp, number: str, changed: list[str]) -> ASGIApp:
    """Return the vendor, with this in place of every number that it sends over a socket."""

    async def run(scope: Any, receive: Any, sends: Any) -> None:
        async def odd(message: Any) -> None:
            frame = message.get("bytes")
            if frame and scope["path"] == google_cloud_listen.PATH:
                changed.append("an answer")
                message = {**message, "bytes": _answer_with(frame, number)}
            elif frame and (event := _event_in(frame)) is not None:
                other = _NUMBER.sub(number, event.payload.decode())
                if other.encode() != event.payload:
                    changed.append(other)
                message = {**message, "bytes": encode_message(encode_headers(event.headers), other.encode())}
            if text := message.get("text"):
                other = _NUMBER.sub(number, text)
                if other != text:
                    changed.append(other)
                message = {**message, "text": other}
            await sends(message)

        await app(scope, receive, odd)

    return run


def host(plane: Plane, number: str) -> list[str]:
    """Let every vendor send `number`; return the frames that have it, as they come."""
    changed: list[str] = []
    for name, make in VENDORS.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(with_numbers(make(api_key="k"), number, changed))
    return changed


async def heard(plane: Plane, talker: Talker, model: str) -> None:
    received = None
    with suppress(WsClosed), trio.move_on_after(10):  # some protocols have no end: the caller closes after what he hears, if anything
        received = await converse(talker, plane, model, TEXTS)
    if talker.finish:
        assert received is not None
        assert received.finals or received.errors or received.reason, received


async def spoken(plane: Plane, reader: Reader, model: str) -> None:
    got = Spoken()
    async with reader.open(plane, model) as ws:
        await send(ws, [*reader.begin(model), *reader.say("One two three."), *reader.end], model)
        await receive_speech(reader, ws, got)
    assert got.pcm or got.errors or got.reason, got


async def test_every_number_of_every_vendor_to_every_caller(tmp_path, autojump_clock):
    pairs = [(talker, model) for model in HEARS for talker in TALKERS] + [(reader, model) for model in SPEAKS for reader in READERS]
    chosen = list(cells(NUMBERS, pairs, part=3))
    ran, affected = Cells(at_least=len(chosen)), set[str]()
    for number in NUMBERS:
        async with open_plane(CONFIG, tmp_path) as plane:  # it fails the test for what is logged as an error
            changed = host(plane, number)
            for caller, model in [pair for one, pair in chosen if one == number]:
                with ran.cell(f"{caller.name}, {model}, {number}"):
                    changed.clear()
                    plane.kept.records.clear()
                    plane.kept.finished = trio.Event()
                    with trio.fail_after(60):
                        await (heard if isinstance(caller, Talker) else spoken)(plane, caller, model)  # type: ignore[operator]
                        await plane.kept.finished.wait()
                    affected |= {model} if changed else set()
                    assert sum(record.cost_nusd or 0 for record in plane.kept.records) <= MOST_NUSD
    ran.check()
    assert len(NUMBERS) * len(pairs) == 640
    assert affected == {*HEARS, *SPEAKS}
