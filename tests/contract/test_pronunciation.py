"""A project's pronunciations: every dialect and every vendor gets the respelled text, and every caller its own words."""

from __future__ import annotations

import msgspec
import pytest
import trio

from tests.contract.readers import DEEPGRAM, READERS, Reader, Spoken, receive_speech, send
from tests.fakes.complete import open_complete
from tests.fakes.hosting import hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
models:
  tts:
    openai/tts-1: {price: {unit: 1M_characters, usd: 10}}
    cartesia/other: {default_voice: v}
    cartesia/sonic-3: {default_voice: v}
    deepgram/aura-2-thalia-en: {}
    deepgram/aura-2-agathe-fr: {}
    elevenlabs/eleven_flash_v2_5: {default_voice: v}
    elevenlabs/eleven_flash_v2: {default_voice: v}
fallbacks: {tts: []}
projects:
  default:
    PHRASES
    pronunciations:
      - {word: Nguyen, say: win, ipa: w ɪ n}
      - {word: US, say: you ess, match_case: true}
      - {word: Worcester, say: wooster, language: en}
routing: {hedge: off}
"""
TEXT = "Call Nguyen in the US and Worcester now."
SENT = "Call win in the you ess and Worcester now."
MAKERS = {"openai": FakeOpenAI, "cartesia": FakeCartesia, "deepgram": FakeDeepgram, "elevenlabs": FakeElevenLabs}
MARKER = r'\{"word": "Nguyen", "pronounce": "wɪn"\}'
PLAIN = ["openai/tts-1", "cartesia/other", "deepgram/aura-2-agathe-fr", "elevenlabs/eleven_flash_v2_5"]


def config(phrases: str = "") -> str:
    return CONFIG.replace("PHRASES", phrases or "name: house")


def vendors(plane) -> dict[str, object]:
    made = {name: make() for name, make in MAKERS.items()}
    for name, vendor in made.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
    return made


def sent_text(vendor) -> str:
    fields = vendor.ledger[-1].fields
    return next(str(fields[name]) for name in ("input", "transcript", "text") if fields.get(name))


def body(model: str, text: str = TEXT) -> bytes:
    return msgspec.json.encode({"model": model, "input": text, "response_format": "pcm", "voice": "v"})


async def speak(reader: Reader, plane, model: str, texts: list[str]) -> Spoken:
    spoken = Spoken()
    async with reader.open(plane, model) as ws, trio.open_nursery() as nursery:
        await send(ws, reader.begin(model), model)
        nursery.start_soon(receive_speech, reader, ws, spoken)
        for text in texts:
            await send(ws, reader.say(text), model)
            await trio.sleep(0.01)
        await send(ws, reader.end, model)
    return spoken


@pytest.mark.parametrize("model", PLAIN)
async def test_every_vendor_gets_the_respelled_text_and_bills_it(model, tmp_path, autojump_clock):
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        assert (await plane.post("/v1/audio/speech", body(model))).status == 200
        assert sent_text(made[model.split("/")[0]]) == SENT
        record = plane.kept.record
        assert record.usage.characters == len(SENT)
        assert [attempt.text_characters for attempt in record.attempts] == [len(TEXT)]


@pytest.mark.parametrize(
    ("model", "sent"),
    [
        ("cartesia/sonic-3", "Call <<w|ɪ|n>> in the you ess and Worcester now."),
        ("elevenlabs/eleven_flash_v2", 'Call <phoneme alphabet="ipa" ph="wɪn">Nguyen</phoneme> in the you ess and Worcester now.'),
        ("deepgram/aura-2-thalia-en", f"Call {MARKER} in the you ess and Worcester now."),
    ],
)
async def test_models_that_take_phonemes_get_them(model, sent, tmp_path, autojump_clock):
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        assert (await plane.post("/v1/audio/speech", body(model))).status == 200
        assert sent_text(made[model.split("/")[0]]) == sent


async def test_a_marker_goes_out_whole_and_counts_as_its_word(tmp_path, autojump_clock):
    """Counts a marker as deepgram-sdk 7.17.0 does, and leaves the caller's own markers as they are, wherever they are cut."""
    async with open_plane(config(), tmp_path) as plane:
        vendor = vendors(plane)["deepgram"]
        texts = ["Call Ngu", "yen, or \\{\"word\": \"Ngu", "yen\", \"pronounce\": \"ŋ\"\\} now."]
        spoken = await speak(DEEPGRAM, plane, "deepgram/aura-2-thalia-en", texts)
        assert spoken.errors == []
        sent = "".join(frame["text"] for frame in map(msgspec.json.decode, vendor.ledger[-1].frames) if frame["type"] == "Speak")
        own = r'\{"word": "Nguyen", "pronounce": "ŋ"\}'
        assert sent == f"Call {MARKER}, or {own} now."
        assert plane.kept.record.usage.characters == len("Call Nguyen, or Nguyen now.")


async def test_every_dialect_over_http_is_respelled(tmp_path, autojump_clock):
    raw = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 24_000}
    cartesia = {"model_id": "openai/tts-1", "transcript": TEXT, "voice": {"mode": "id", "id": "alloy"}, "output_format": raw}
    requests = [
        ("/v1/audio/speech", {"model": "openai/tts-1", "input": TEXT, "voice": "alloy"}),
        ("/v1/audio/speech", {"model": "openai/tts-1", "input": TEXT, "voice": "alloy", "stream_format": "sse"}),
        ("/v1/speak?model=openai/tts-1", {"text": TEXT}),
        ("/v1/text-to-speech/alloy", {"model_id": "openai/tts-1", "text": TEXT}),
        ("/v1/text-to-speech/alloy/stream", {"model_id": "openai/tts-1", "text": TEXT}),
        ("/tts/bytes", cartesia),
        ("/tts/sse", cartesia),
    ]
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        for path, members in requests:
            reply = await plane.post(path, msgspec.json.encode(members), cartesia_version="2026-03-01")
            assert (reply.status, path) == (200, path), reply.body
            assert (sent_text(made["openai"]), path) == (SENT, path)


@pytest.mark.parametrize("model", PLAIN[1:])
async def test_live_text_of_every_dialect_is_respelled_wherever_it_is_cut(model, tmp_path, autojump_clock):
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        for reader in READERS:
            plane.kept.records.clear()
            spoken = await speak(reader, plane, model, ["Call Ngu", "yen in the U", "S and Worcester now."])
            assert (spoken.errors, spoken.text(reader).strip()) == ([], SENT), reader.name
            (record,) = plane.kept.records
            assert record.usage.characters == len(SENT), reader.name
            assert [attempt.text_characters for attempt in record.attempts] == [len(TEXT)], reader.name
        assert len(made[model.split("/")[0]].ledger) >= 1


async def test_word_times_are_those_of_the_callers_words(tmp_path, autojump_clock):
    async with open_plane(config(), tmp_path) as plane:
        vendors(plane)
        data = msgspec.json.encode({"text": TEXT, "model_id": "elevenlabs/eleven_flash_v2_5"})
        reply = await plane.post("/v1/text-to-speech/v/stream/with-timestamps", data)
        characters = "".join(
            "".join(line["alignment"]["characters"]) for line in map(msgspec.json.decode, reply.body.splitlines()) if line.get("alignment")
        )
        assert characters.split() == TEXT.split()


async def test_held_letters_are_sent_when_nothing_follows(tmp_path, autojump_clock):
    (reader,) = [reader for reader in READERS if reader.name == "cartesia"]
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        async with reader.open(plane, "cartesia/other") as ws:
            await send(ws, [*reader.begin("cartesia/other"), *reader.say("Call Nguyen")], "cartesia/other")
            await trio.sleep(2)
            assert "win" in "".join(map(str, made["cartesia"].ledger[-1].frames))


class StepsOf(trio.abc.Instrument):
    """Counts how often the tasks of a function have run."""

    def __init__(self, function: str) -> None:
        self._function, self.steps = function, 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += task.name.endswith(self._function)


async def test_a_session_in_which_nothing_is_held_wakes_no_task_for_it(tmp_path, autojump_clock):
    (reader,) = [reader for reader in READERS if reader.name == "cartesia"]
    async with open_plane(config(), tmp_path) as plane:
        made = vendors(plane)
        async with reader.open(plane, "cartesia/other") as ws:
            await send(ws, [*reader.begin("cartesia/other"), *reader.say("Call Nguyen")], "cartesia/other")
            await trio.sleep(2)
            trio.lowlevel.add_instrument(counting := StepsOf("release_held"))
            await trio.sleep(2)
            assert counting.steps == 0
            await send(ws, reader.say(" now. Call Nguyen"), "cartesia/other")
            await trio.sleep(2)
            trio.lowlevel.remove_instrument(counting)
            assert "".join(map(str, made["cartesia"].ledger[-1].frames)).count("win") == 2
            assert 0 < counting.steps <= 6


async def test_the_phrase_cache_goes_by_what_is_sent(tmp_path, autojump_clock):
    async with open_plane(config("phrase_cache: {}"), tmp_path) as plane:
        made = vendors(plane)
        for _ in range(2):
            reply = await plane.post("/v1/audio/speech", body("openai/tts-1"))
        assert reply.headers["x-gw-cache"] == "hit"
        assert len(made["openai"].ledger) == 1


async def test_the_request_shows_both_lengths(tmp_path):
    async with open_complete(config(), tmp_path, {"openai.test": FakeOpenAI()}) as house:
        status, _ = await house.request("POST", "/v1/audio/speech", msgspec.Raw(body("openai/tts-1")))
        assert status == 200
        (record,) = await house.json("/v1/logs")
        assert record["input_units"] == len(SENT)
        assert [attempt["text_characters"] for attempt in record["attempts"]] == [len(TEXT)]
        assert record["cost_usd"] == pytest.approx(len(SENT) * 10 / 1e6)
