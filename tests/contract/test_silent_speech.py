"""Vendors that fail without an error: no audio, silence in the middle, an early end. The listener hears every word once.

Each vendor is behind the gateway's own sockets and HTTP routes; what arrives there is played as it comes, and the words in it
are counted. The voices speak 15 or 22 letters a second, and are known from some texts before.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import attrs
import msgspec
import pytest
import trio

from gw.types.usage import RequestRecord
from tests.contract.readers import DEEPGRAM as READER
from tests.contract.readers import ELEVEN_ONE, Reader, Spoken, receive_speech, send
from tests.fakes.cells import Cells
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.live import LiveVendor
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.word_voice import SENTENCE, WORDS, WordVoice, gaps_of, mp3_frames

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
HANDSHAKE_S, FIRST_AUDIO_S = 0.2, 0.3
"""Of the vendor that takes over."""
POINTS = [n / 10 for n in range(10)]
SOCKETS: dict[str, tuple[Callable[..., LiveVendor], str, int]] = {
    "deepgram": (FakeDeepgram, "aura-2-thalia-en", 1),
    "cartesia": (FakeCartesia, "sonic-3", 0),
    "elevenlabs": (FakeElevenLabs, "eleven_flash_v2_5", 0),
}
"""Type → fake, model, and by how many words a vendor without word times may be off."""
FAULTS = ["no audio", "stalls", "ends early"]


async def _speak(plane: Plane, model: str, text: str, reader: Reader = READER) -> Spoken:
    spoken = Spoken()
    async with reader.open(plane, model) as ws, trio.open_nursery() as nursery:
        nursery.start_soon(receive_speech, reader, ws, spoken)
        await send(ws, reader.begin(model))
        for word in text.split():
            await send(ws, reader.say(word + " "))
        await send(ws, reader.end)
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
            second = FakeDeepgram(
                api_key="k", word_voice=voice, speech_gap_s=0.05, answer_after_s=HANDSHAKE_S, first_token_after_s=FIRST_AUDIO_S
            )
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


PUNCTUATED = (
    "Alpha bravo charlie, delta echo foxtrot golf. Hotel india juliett kilo lima, mike november oscar. "
    "Papa quebec, romeo sierra tango."
)


@pytest.mark.parametrize("form", ["socket", "http"])
async def test_a_voice_that_was_never_heard_before_goes_on_by_its_pauses(form, tmp_path, autojump_clock):
    """It has no word times. Before its first pause nothing but a usual pace is known; up to two words may be said twice there."""
    cells = Cells(at_least=4 * 8)
    for per_s in (12.0, 15.0, 18.0, 22.0):
        voice = WordVoice(per_s=per_s, comma_s=0.2, sentence_s=0.4)
        for point in range(1, 9):
            folder = tmp_path / f"{per_s}{point}"
            async with open_plane(CONFIG.replace("TYPE", "deepgram").replace("MODEL", "aura-2-thalia-en"), folder) as plane:
                first = FakeDeepgram(api_key="k", word_voice=voice, speech_gap_s=0.08, speech_fault="stalls", speech_share=point / 10)
                second = FakeDeepgram(api_key="k", word_voice=voice, speech_gap_s=0.05)
                plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
                with cells.cell(f"{form}, {per_s} letters/s, stalls at {point}"):
                    if form == "socket":
                        pcm = (await _speak(plane, "first/aura-2-thalia-en", PUNCTUATED)).pcm
                    else:
                        pcm = (await _read(plane, FORMS[0], PUNCTUATED))[0][44:]
                    heard = voice.heard(pcm, RATE)
                    first_s = voice.spans("Alpha bravo charlie,")[-1][2] + 0.12
                    spoken_s = point / 10 * len(voice.pcm(PUNCTUATED, 1_000)) / 2_000
                    assert words_off(heard) <= (1 if spoken_s > first_s else 2), " ".join(heard)
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
    second: str = "deepgram"
    second_model: str = "aura-2-thalia-en"
    make_second: Callable[..., LiveVendor] = FakeDeepgram

    def config(self) -> str:
        config = CONFIG.replace("second: {type: deepgram", f"second: {{type: {self.second}")
        config = config.replace("second/aura-2-thalia-en", f"second/{self.second_model}")
        return config.replace("TYPE", self.type).replace("MODEL", self.model)


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
        words=lambda voice, data: voice.heard_mp3(data), bytes_per_s=16_000,
        second="cartesia", second_model="sonic-3", make_second=FakeCartesia,
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
        async with open_plane(form.config(), tmp_path) as plane:
            first = form.make(api_key="k", word_voice=voice, speech_gap_s=0.08, first_token_after_s=0.15)
            second = form.make_second(api_key="k", word_voice=voice, speech_gap_s=0.05, first_token_after_s=FIRST_AUDIO_S)
            plane.net.connect_s["second.test"] = HANDSHAKE_S
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


async def test_mp3_goes_on_with_the_same_sample_rate(tmp_path, autojump_clock):
    """The second vendor has MP3 of 22.05 kHz only: its samples are encoded at 44.1 kHz, the rate of the first."""
    form = attrs.evolve(FORMS[2], second="deepgram", second_model="aura-2-thalia-en", make_second=FakeDeepgram)
    voice = WordVoice()
    async with open_plane(form.config(), tmp_path) as plane:
        first = form.make(api_key="k", word_voice=voice, speech_gap_s=0.08)
        second = form.make_second(api_key="k", word_voice=voice)
        plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
        for lesson in LESSONS:
            await _read(plane, form, lesson)
        first.speech_fault, first.speech_share = "stalls", 0.5
        plane.kept.records.clear()
        body, _, cut = await _read(plane, form, SENTENCE)
        assert not cut
        frames = mp3_frames(body)
        assert {seconds for _, seconds in frames} == {1_152 / 44_100}
        assert {head[3] >> 6 for head, _ in frames} == {3}, "one channel"
        made = [frame for frame, _ in frames if len(set(frame[4:])) > 1]
        spoken_s = len(voice.pcm(SENTENCE, 1_000)) / 2_000
        assert len(made) * 1_152 / 44_100 == pytest.approx(spoken_s / 2, abs=0.8), "the half that the encoder made"
        assert plane.kept.record.status == "fallback"


# ---------------------------------------------------------------------- no false alarms, and nobody else to go on

ALONE = re.sub(r"    second/.*\n", "", CONFIG)
ALONE = ALONE.replace("fallbacks: {tts: [first/MODEL, second/aura-2-thalia-en]}", "").replace("TYPE", "deepgram")
ALONE = ALONE.replace("MODEL", "aura-2-thalia-en")
VOICE = WordVoice(per_s=15.0)


@asynccontextmanager
async def _alone(tmp_path: Path, **fields: Any) -> AsyncIterator[tuple[Plane, FakeDeepgram]]:
    async with open_plane(ALONE, tmp_path) as plane:
        vendor = FakeDeepgram(api_key="k", word_voice=VOICE, **{"speech_gap_s": 0.08, **fields})
        plane.net.hosts["first.test", 80] = hosted(vendor)
        yield plane, vendor


class _Jitter:
    """Pauses between two pieces of audio of 100 ms: mostly short, now and then 350 ms."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> float:
        self.count += 1
        return 0.35 if self.count % 9 == 0 else 0.06


@pytest.mark.parametrize("type_", SOCKETS)
async def test_a_vendor_whose_audio_comes_unevenly_is_no_false_alarm(type_, tmp_path, autojump_clock):
    make, model, _ = SOCKETS[type_]
    async with open_plane(CONFIG.replace("TYPE", type_).replace("MODEL", model), tmp_path) as plane:
        first = make(api_key="k", word_voice=VOICE, first_token_after_s=0.4, speech_gap=_Jitter())
        plane.net.hosts["first.test", 80] = hosted(first)
        for text in [*LESSONS, "alpha.", "bravo charlie.", SENTENCE + " " + SENTENCE, *LESSONS]:
            await _speak(plane, f"first/{model}", text)
            await trio.sleep(0.1)
        assert [(r.status, len(r.attempts)) for r in plane.kept.records] == [("success", 1)] * 9, plane.kept.records
        assert {r.wasted_units for r in plane.kept.records} == {0}


async def test_the_only_provider_may_pause(tmp_path, autojump_clock):
    """Nobody else could go on; before `routing.idle_s` it is not given up."""
    async with _alone(tmp_path, speech_gap=lambda: 2.0) as (plane, _):
        spoken = await _speak(plane, "first/aura-2-thalia-en", "alpha bravo.")
        assert VOICE.heard(spoken.pcm, RATE) == ["alpha", "bravo"]
        await trio.sleep(0.1)
        assert (plane.kept.record.status, len(plane.kept.record.attempts)) == ("success", 1)


async def test_no_audio_from_the_only_provider_is_an_error(tmp_path, autojump_clock):
    async with _alone(tmp_path, speech_fault="no audio") as (plane, _):
        spoken = await _speak(plane, "first/aura-2-thalia-en", SENTENCE)
        assert (spoken.pcm, len(spoken.errors)) == (b"", 1)
        await trio.sleep(0.1)
        record = plane.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("error", ["malformed"] * 2)  # it is dialled once more
        assert record.wasted_units == record.usage.characters == 2 * (len(SENTENCE) + 1)


@pytest.mark.parametrize("text", ["... ", "— !? ", "🎈 "])
async def test_text_without_words_may_be_silent(text, tmp_path, autojump_clock):
    async with _alone(tmp_path, speech_fault="no audio") as (plane, vendor):
        vendor.word_voice = None
        spoken = await _speak(plane, "first/aura-2-thalia-en", text)
        assert (spoken.pcm, spoken.errors) == (b"", [])
        await trio.sleep(0.1)
        assert plane.kept.record.status == "success"


class _BreaksOffOnce:
    """A vendor whose answer over HTTP breaks off after `next_cut_after` pieces, and later ones do not."""

    def __init__(self, fake: LiveVendor) -> None:
        self._fake = fake
        self.next_cut_after: int | None = None

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._fake.cut_after, self.next_cut_after = self.next_cut_after, None
        await self._fake(scope, receive, send)


async def test_the_only_provider_is_called_once_more_over_http(tmp_path, autojump_clock):
    async with _alone(tmp_path) as (plane, vendor):
        once = _BreaksOffOnce(vendor)
        plane.net.hosts["first.test", 80] = hosted(once)
        for lesson in LESSONS:
            await plane.post("/v1/audio/speech", msgspec.json.encode(FORMS[0].body("first/aura-2-thalia-en", lesson)))
        plane.kept.records.clear()
        once.next_cut_after = 40
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(FORMS[0].body("first/aura-2-thalia-en", SENTENCE)))
        assert not reply.cut
        assert words_off(VOICE.heard(reply.body[44:], RATE)) <= 1
        record = plane.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("success", ["cut", "ok"])
        again = record.attempts[1].characters
        assert 0 < again < len(SENTENCE)
        assert (record.usage.characters, record.wasted_units) == (len(SENTENCE) + again, again)
        assert record.cost_nusd == record.usage.characters * 10_000


async def test_a_container_that_cannot_be_continued_breaks_off(tmp_path, autojump_clock):
    config = CONFIG.replace("TYPE", "openai").replace("MODEL", "tts-x").replace("http://first.test", "http://first.test/v1")
    async with open_plane(config, tmp_path) as plane:
        plane.net.hosts["first.test", 80] = hosted(FakeOpenAI(api_key="k", speech_chunk_bytes=1_000, speech_gap_s=0.02, cut_after=9))
        body = {"model": "first/tts-x", "input": SENTENCE, "voice": "v", "response_format": "flac"}
        reply = await plane.post("/v1/audio/speech", msgspec.json.encode(body))
        assert reply.cut
        assert len(reply.body) == 9_000
        assert (plane.kept.record.status, [a.outcome for a in plane.kept.record.attempts]) == ("error", ["cut"])


TWO = CONFIG.replace("second: {type: deepgram", "second: {type: cartesia").replace("second/aura-2-thalia-en", "second/sonic-3")
TWO = TWO.replace("TYPE", "cartesia").replace("MODEL", "sonic-3")


@asynccontextmanager
async def _two(tmp_path: Path, cut_after: int = 57) -> AsyncIterator[tuple[Plane, FakeCartesia]]:
    """The first of them breaks off over HTTP."""
    async with open_plane(TWO, tmp_path) as plane:
        first = FakeCartesia(api_key="k", word_voice=VOICE, speech_gap_s=0.03, cut_after=cut_after)
        second = FakeCartesia(api_key="k", word_voice=VOICE, speech_gap_s=0.03)
        plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
        yield plane, second


async def test_times_go_on_in_a_stream_of_events(tmp_path, autojump_clock):
    async with _two(tmp_path) as (plane, _):
        body = FORMS[-1].body("first/sonic-3", SENTENCE) | {"add_timestamps": True}
        reply = await plane.post("/tts/sse", msgspec.json.encode(body))
        frames = [msgspec.json.decode(line.removeprefix(b"data: ")) for line in reply.body.splitlines() if line.startswith(b"data: ")]
        pcm = b"".join(b64decode(frame["data"]) for frame in frames if frame["type"] == "chunk")
        assert words_off(VOICE.heard(pcm, RATE)) == 0
        assert [frame["type"] for frame in frames].count("done") == 1
        times = [frame["word_timestamps"] for frame in frames if frame["type"] == "timestamps"]
        spans = [span for t in times for span in zip(t["words"], t["start"], t["end"], strict=True)]
        ends = {word.strip("."): end for word, _, end in spans}
        assert set(ends) == set(WORDS[:20])
        assert sorted(ends.values()) == [ends[word] for word in WORDS[:20]]
        assert ends["tango"] == pytest.approx(len(pcm) / 2 / RATE - VOICE.tail_s, abs=0.05)


async def test_a_caller_who_leaves_the_second_provider(tmp_path, autojump_clock):
    async with _two(tmp_path) as (plane, second):
        second.speech_gap_s = 0.1
        async with plane.open("/tts/bytes", msgspec.json.encode(FORMS[-1].body("first/sonic-3", SENTENCE))) as response:
            with trio.move_on_after(60 * 0.03 + 2.0):
                while await response.receive_some():
                    pass
        await plane.kept.finished.wait()
        record = plane.kept.record
        first, second_attempt = record.attempts
        assert (record.status, first.outcome) == ("cancelled", "cut")
        assert record.usage.characters == len(SENTENCE) + second_attempt.characters
        assert record.cost_nusd == len(SENTENCE) * 10_000 + second_attempt.characters * 20_000
        assert second_attempt.characters < record.wasted_units < record.usage.characters


async def test_the_first_is_called_once_more_when_no_other_can_go_on(tmp_path, autojump_clock):
    async with _two(tmp_path) as (plane, second):
        second.status = 503
        reply = await plane.post("/tts/bytes", msgspec.json.encode(FORMS[-1].body("first/sonic-3", SENTENCE)))
        assert not reply.cut
        record = plane.kept.record
        assert (record.status, record.model_id) == ("success", "first/sonic-3")
        assert [a.outcome for a in record.attempts] == ["cut", "failed", "ok"]


async def test_nobody_can_go_on(tmp_path, autojump_clock):
    async with _two(tmp_path, cut_after=20) as (plane, second):
        second.status = 503
        reply = await plane.post("/tts/bytes", msgspec.json.encode(FORMS[-1].body("first/sonic-3", SENTENCE)))
        assert reply.cut
        record = plane.kept.record
        assert (record.status, [a.outcome for a in record.attempts]) == ("error", ["cut", "failed", "cut"])


MP3_READER = attrs.evolve(
    ELEVEN_ONE, name="elevenlabs mp3", path=lambda model: f"/v1/text-to-speech/v/stream-input?model_id={model}&output_format=mp3_24000_48"
)
ELEVEN = CONFIG.replace("second: {type: deepgram", "second: {type: elevenlabs").replace("TYPE", "elevenlabs")
ELEVEN = ELEVEN.replace("second/aura-2-thalia-en", "second/eleven_turbo_v2_5").replace("MODEL", "eleven_flash_v2_5")


@pytest.mark.parametrize("fault", FAULTS)
async def test_compressed_live_speech_goes_on(fault, tmp_path, autojump_clock):
    """Its length is read from its frames."""
    async with open_plane(ELEVEN, tmp_path) as plane:
        first, second = (FakeElevenLabs(api_key="k", word_voice=VOICE, speech_gap_s=0.08, first_token_after_s=0.15) for _ in "12")
        plane.net.hosts["first.test", 80], plane.net.hosts["second.test", 80] = hosted(first), hosted(second)
        for point in (0.1, 0.3, 0.7):  # not just before the end of a word, which would sound as good as twice
            first.speech_fault, first.speech_share = fault, point
            plane.kept.records.clear()
            spoken = await _speak(plane, "first/eleven_flash_v2_5", SENTENCE, MP3_READER)
            assert words_off(VOICE.heard_mp3(spoken.pcm)) == 0, point
            pieces = [(at, size / 6_000) for at, size in zip(spoken.at, spoken.sizes, strict=True)]
            assert max(gaps_of(pieces), default=0.0) <= LONGEST_GAP_S
            await trio.sleep(0.1)
            check_record(plane.kept.record, fault)
