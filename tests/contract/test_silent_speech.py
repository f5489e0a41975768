"""Vendors that fail without an error: no audio, silence in the middle, an early end. The listener hears every word once.

Each vendor is behind the gateway's own sockets and HTTP routes; what arrives there is played as it comes, and the words in it
are counted. The voices speak 15 or 22 letters a second, and are known from some texts before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.types.usage import RequestRecord
from tests.contract.readers import DEEPGRAM as READER
from tests.contract.readers import Spoken, receive_speech, send
from tests.fakes.cells import Cells
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.word_voice import FRAME_S, MP3_BYTES, SENTENCE, WORDS, WordVoice, gaps_of

CONFIG = """
providers:
  first: {type: TYPE, api_key: k, base_url: "http://first.test"}
  second: {type: deepgram, api_key: k, base_url: "http://second.test"}
models:
  tts:
    first/MODEL: {default_voice: v, price: {unit: 1M_characters, usd: 10}}
    second/aura-2-thalia-en: {default_voice: v, price: {unit: 1M_characters, usd: 20}}
fallbacks: {tts: [first/MODEL, second/aura-2-thalia-en]}
routing: {breaker: {failures: 1000}}
"""
RATE = 24_000
LESSONS = ["mike november oscar papa quebec romeo.", "alpha bravo charlie delta echo foxtrot golf hotel.", SENTENCE]
LONGEST_GAP_S = 0.7
POINTS = [n / 10 for n in range(10)]
SOCKETS: dict[str, tuple[Callable[..., LiveVendor], str, int]] = {
    "deepgram": (FakeDeepgram, "aura-2-thalia-en", 1),
    "cartesia": (FakeCartesia, "sonic-3", 0),
    "elevenlabs": (FakeElevenLabs, "eleven_flash_v2_5", 0),
}
"""Type → fake, model, and by how many words a vendor without word times may be off."""
FAULTS = ["no audio", "stalls", "ends early"]


async def _speak(plane: Plane, model: str, text: str) -> Spoken:
    spoken = Spoken()
    async with READER.open(plane, model) as ws, trio.open_nursery() as nursery:
        nursery.start_soon(receive_speech, READER, ws, spoken)
        for word in text.split():
            await send(ws, READER.say(word + " "))
        await send(ws, READER.end)
    return spoken


def _gap_s(spoken: Spoken) -> float:
    sizes = zip(spoken.at, spoken.sizes, strict=True)
    return max(gaps_of([(at, size / 2 / RATE) for at, size in sizes]), default=0.0)


def words_off(heard: list[str]) -> int:
    """Return how many words are missing or said twice."""
    return sum(abs(heard.count(word) - 1) for word in WORDS[:20])


def check_record(record: RequestRecord, fault: str) -> None:
    first, second = record.attempts
    assert (record.status, second.outcome) == ("fallback", "ok")
    assert first.outcome == {"no audio": "malformed", "stalls": "too_slow", "ends early": "malformed"}[fault]
    assert record.cost_nusd == first.characters * 10_000 + second.characters * 20_000
    assert record.wasted_units == first.characters + second.characters - len(SENTENCE) - 1
    assert record.wasted_nusd == record.wasted_units * 10_000


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("type_", SOCKETS)
async def test_a_live_session_goes_on(type_, fault, tmp_path, autojump_clock):
    make, model, may_be_off = SOCKETS[type_]
    cells = Cells(at_least=len(POINTS))
    for per_s in (15.0, 22.0):
        voice = WordVoice(per_s=per_s)
        async with open_plane(CONFIG.replace("TYPE", type_).replace("MODEL", model), tmp_path) as plane:
            first = make(api_key="k", word_voice=voice, speech_gap_s=0.08, first_token_after_s=0.15)
            second = FakeDeepgram(api_key="k", word_voice=voice, speech_gap_s=0.05, first_token_after_s=0.15, answer_after_s=0.1)
            plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
            for lesson in LESSONS:
                await _speak(plane, f"first/{model}", lesson)
            for point in POINTS[::2] if per_s == 15 else POINTS[1::2]:
                with cells.cell(f"{type_}, {fault} at {point}, {per_s} letters/s"):
                    first.speech_fault, first.speech_share = fault, point
                    plane.kept.records.clear()
                    spoken = await _speak(plane, f"first/{model}", SENTENCE)
                    heard = voice.heard(spoken.pcm, RATE)
                    assert words_off(heard) <= may_be_off, " ".join(heard)
                    assert spoken.errors == []
                    assert _gap_s(spoken) <= LONGEST_GAP_S
                    await trio.sleep(0.1)  # the record is made when the caller's socket has been answered
                    check_record(plane.kept.record, fault)
    cells.check()


# ---------------------------------------------------------------------- over HTTP


@attrs.frozen(kw_only=True)
class Form:
    """A form of speech over HTTP: the vendor behind it, the request, and how its words are read."""

    name: str
    type: str
    model: str
    make: Callable[..., LiveVendor]
    path: str
    body: Callable[[str, str], dict[str, Any]]
    words: Callable[[WordVoice, bytes], list[str]] = lambda voice, data: voice.heard(data, RATE)
    bytes_per_s: float = 2 * RATE


OUTPUT = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": RATE}
FORMS = [
    Form(
        name="wav", type="deepgram", model="aura-2-thalia-en", make=FakeDeepgram, path="/v1/audio/speech",
        body=lambda model, text: {"model": model, "input": text, "voice": "v", "response_format": "wav"},
        words=lambda voice, data: voice.heard(data[44:], RATE),
    ),
    Form(
        name="samples", type="elevenlabs", model="eleven_flash_v2_5", make=FakeElevenLabs, path="/v1/audio/speech",
        body=lambda model, text: {"model": model, "input": text, "voice": "v", "response_format": "pcm"},
    ),
    Form(
        name="mp3", type="elevenlabs", model="eleven_flash_v2_5", make=FakeElevenLabs, path="/v1/audio/speech",
        body=lambda model, text: {"model": model, "input": text, "voice": "v"},
        words=lambda voice, data: voice.heard_mp3(data), bytes_per_s=MP3_BYTES / FRAME_S,
    ),
    Form(
        name="bytes", type="cartesia", model="sonic-3", make=FakeCartesia, path="/tts/bytes",
        body=lambda model, text: {"model_id": model, "transcript": text, "voice": {"mode": "id", "id": "v"}, "output_format": OUTPUT},
    ),
]


async def _read(plane: Plane, form: Form, text: str) -> tuple[bytes, list[tuple[float, float]], bool]:
    """Return the body of an answer, its pieces with their lengths, and whether it broke off."""
    body = msgspec.json.encode(form.body(f"first/{form.model}", text))
    reply = await plane.post(form.path, body)
    assert reply.status == 200, reply.body
    return reply.body, [(at, len(data) / form.bytes_per_s) for at, data in reply.pieces], reply.cut


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.name)
async def test_an_answer_over_http_goes_on(form, fault, tmp_path, autojump_clock):
    cells = Cells(at_least=len(POINTS))
    for per_s in (15.0, 22.0):
        voice = WordVoice(per_s=per_s)
        async with open_plane(CONFIG.replace("TYPE", form.type).replace("MODEL", form.model), tmp_path) as plane:
            first = form.make(api_key="k", word_voice=voice, speech_gap_s=0.08, first_token_after_s=0.15)
            second = FakeDeepgram(api_key="k", word_voice=voice, speech_gap_s=0.05, first_token_after_s=0.15, answer_after_s=0.1)
            plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
            for lesson in LESSONS:
                await _read(plane, form, lesson)
            for point in POINTS[::2] if per_s == 15 else POINTS[1::2]:
                with cells.cell(f"{form.name}, {fault} at {point}, {per_s} letters/s"):
                    first.speech_fault, first.speech_share = fault, point
                    plane.kept.records.clear()
                    body, pieces, cut = await _read(plane, form, SENTENCE)
                    assert not cut
                    heard = form.words(voice, body)
                    assert words_off(heard) <= 1, " ".join(heard)
                    assert max(gaps_of(pieces), default=0.0) <= LONGEST_GAP_S
                    record = plane.kept.record
                    first_attempt, second_attempt = record.attempts
                    assert (record.status, second_attempt.outcome) == ("fallback", "ok")
                    assert first_attempt.outcome == {"stalls": "too_slow"}.get(fault, "malformed")
                    if point and fault != "no audio":
                        assert record.cost_nusd == len(SENTENCE) * 10_000 + second_attempt.characters * 20_000
                        assert record.wasted_units == second_attempt.characters
    cells.check()
