"""Voices when another vendor answers: each fake refuses a voice that is not its own, and nobody is asked for one of another vendor."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

import attrs
import msgspec
import pytest
import trio

from tests.contract.readers import CARTESIA, ELEVEN_MANY, LIVEKIT, Reader, converse
from tests.fakes.hosting import Plane, Reply, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI
from tests.fakes.vendors.scripted import ScriptedVendor

TEXT = "one two three"
BROKEN = 503
MODELS = {
    "openai": "openai/gpt-4o-mini-tts", "groq": "groq/canopylabs/orpheus-v1-english", "cartesia": "cartesia/sonic-3",
    "elevenlabs": "elevenlabs/eleven_flash_v2_5", "deepgram": "deepgram/aura-2-thalia-en", "kokoro": "kokoro/kokoro",
}  # fmt: skip
OWN = {
    "openai": ["alloy", "nova"], "groq": ["autumn", "troy"], "cartesia": ["c-house", "c-brand"],
    "elevenlabs": ["e-house", "e-brand"], "deepgram": [], "kokoro": ["af_heart", "nova"],
}  # fmt: skip
"""Voices of each account; the first is the default that the model has here, or its vendor."""
CONFIG = """
providers:
  openai: {api_key: k, base_url: "http://openai.test/v1"}
  groq: {api_key: k, base_url: "http://groq.test/openai/v1"}
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  kokoro: {base_url: "http://kokoro.test/v1"}
models:
  tts:
    openai/gpt-4o-mini-tts: {aliases: [first/tone]}
    groq/canopylabs/orpheus-v1-english: {}
    cartesia/sonic-3: {CARTESIA}
    elevenlabs/eleven_flash_v2_5: {ELEVENLABS}
    deepgram/aura-2-thalia-en: {}
    kokoro/kokoro: {}
voices:
  brand: {cartesia: c-brand, elevenlabs: e-brand, openai: nova}
fallbacks: {tts: [CHAIN]}
"""


@asynccontextmanager
async def opened(
    tmp_path: Path, *chain: str, defaults: bool = True
) -> AsyncIterator[tuple[Plane, dict[str, Any]]]:
    text = CONFIG.replace("CHAIN", ", ".join(MODELS[kind] for kind in chain))
    text = text.replace("{CARTESIA}", "{default_voice: c-house}" if defaults else "{}")
    text = text.replace("{ELEVENLABS}", "{default_voice: e-house}" if defaults else "{}")
    fakes: dict[str, ScriptedVendor] = {
        "openai": FakeOpenAI(), "groq": FakeOpenAI(prefix="/openai/v1"), "kokoro": FakeOpenAI(),
        "cartesia": FakeCartesia(), "elevenlabs": FakeElevenLabs(), "deepgram": FakeDeepgram(),
    }  # fmt: skip
    async with open_plane(text, tmp_path) as plane:
        for kind, fake in fakes.items():
            fake.voices = frozenset(OWN[kind]) if kind != "deepgram" else None
            plane.net.hosts[f"{kind}.test", 80] = hosted(fake)
        yield plane, fakes


async def speak(plane: Plane, model: str, voice: object = None, **headers: str) -> Reply:
    body = {"model": model, "input": TEXT, "response_format": "pcm"} | ({} if voice is None else {"voice": voice})
    return await plane.post("/v1/audio/speech", msgspec.json.encode(body), **headers)


def voice_at(fakes: dict[str, Any], kind: str) -> Any:
    """Return the voice that a vendor was asked for, in its only request."""
    (entry,) = fakes[kind].ledger
    return entry.fields.get("voice")


REQUESTED = {"openai": "nova", "cartesia": "c-1", "elevenlabs": "e-1", "groq": "troy", "kokoro": "af_sky"}
"""A voice of each vendor; `nova` is in the entry `brand`, and Kokoro maps it itself."""
MAPPED = {("openai", "cartesia"): "c-brand", ("openai", "elevenlabs"): "e-brand", ("openai", "kokoro"): "nova"}
PAIRS = [(first, second) for first in REQUESTED for second in REQUESTED if first != second]


@pytest.mark.parametrize(("first", "second"), PAIRS)
async def test_a_fallback_is_asked_for_a_voice_of_its_own(first, second, tmp_path, autojump_clock):
    async with opened(tmp_path, first, second) as (plane, fakes):
        fakes[first].status = BROKEN
        reply = await speak(plane, MODELS[first], REQUESTED[first])
        assert (reply.status, reply.headers["x-gw-model"]) == (200, MODELS[second]), reply.body[:300]
        expected = MAPPED.get((first, second), OWN[second][0])
        assert voice_at(fakes, second) == expected
        failed, answered = plane.kept.record.attempts
        assert (failed.voice, answered.voice) == (None, None if expected == REQUESTED[first] else expected)
        assert reply.headers.get("x-gw-voice") == answered.voice


@pytest.mark.parametrize("kind", REQUESTED)
async def test_the_requested_model_keeps_the_voice(kind, tmp_path, autojump_clock):
    async with opened(tmp_path, kind) as (plane, fakes):
        fakes[kind].voices = frozenset({REQUESTED[kind]})
        reply = await speak(plane, MODELS[kind], REQUESTED[kind])
        assert reply.status == 200
        assert "x-gw-voice" not in reply.headers
        assert voice_at(fakes, kind) == REQUESTED[kind]
        assert plane.kept.record.attempts[0].voice is None


@pytest.mark.parametrize("first", REQUESTED)
async def test_a_vendor_whose_models_are_voices_is_asked_for_its_model(first, tmp_path, autojump_clock):
    async with opened(tmp_path, first, "deepgram") as (plane, fakes):
        fakes[first].status = BROKEN
        reply = await speak(plane, MODELS[first], REQUESTED[first])
        assert (reply.status, reply.headers["x-gw-model"]) == (200, MODELS["deepgram"])
        (entry,) = fakes["deepgram"].ledger
        assert "model=aura-2-thalia-en" in entry.fields["query"]
        assert plane.kept.record.attempts[1].voice == ""


@pytest.mark.parametrize("second", ["cartesia", "elevenlabs"])
async def test_a_candidate_without_a_voice_is_skipped(second, tmp_path, autojump_clock):
    async with opened(tmp_path, "groq", second, "kokoro", defaults=False) as (plane, fakes):
        fakes["groq"].status = BROKEN
        reply = await speak(plane, MODELS["groq"], "troy")
        assert (reply.status, reply.headers["x-gw-model"]) == (200, MODELS["kokoro"])
        skipped = plane.kept.record.attempts[1]
        assert skipped.outcome == "missing_ability"
        assert skipped.detail == (
            f"{MODELS[second]} has no voice for the voice 'troy': set its default_voice, or map the voice in voices"
        )
        assert fakes[second].ledger == []


@pytest.mark.parametrize(("voice", "named"), [(None, "a request without a voice"), ("coral", "the voice 'coral'")])
@pytest.mark.parametrize("kind", ["cartesia", "elevenlabs"])
async def test_no_voice_at_all_is_a_fault_of_the_request(kind, voice, named, tmp_path, autojump_clock):
    async with opened(tmp_path, kind, defaults=False) as (plane, fakes):
        reply = await speak(plane, MODELS[kind], voice)
        assert (reply.status, reply.error["code"], reply.error["param"]) == (400, "unsupported_parameter", "voice")
        assert f"{MODELS[kind]} has no voice for {named}: set its default_voice" in reply.error["message"]
        assert fakes[kind].ledger == []


@pytest.mark.parametrize(
    ("kind", "expected"), [("cartesia", "c-house"), ("elevenlabs", "e-house"), ("groq", "autumn"), ("kokoro", "af_heart")]
)
async def test_openais_fixed_names_are_nobody_elses(kind, expected, tmp_path, autojump_clock):
    """OpenAI's SDK cannot leave the voice out, so an app that moved here sends one of its names to any model."""
    async with opened(tmp_path, kind) as (plane, fakes):
        reply = await speak(plane, MODELS[kind], "marin")
        assert (reply.status, reply.headers["x-gw-voice"]) == (200, expected)
        assert voice_at(fakes, kind) == expected


async def test_an_alias_is_the_voice_of_every_vendor(tmp_path, autojump_clock):
    async with opened(tmp_path, "cartesia", "elevenlabs", "openai") as (plane, fakes):
        fakes["cartesia"].status = fakes["elevenlabs"].status = BROKEN
        reply = await speak(plane, MODELS["cartesia"], "brand")
        assert reply.headers["x-gw-voice"] == "nova"
        assert voice_at(fakes, "openai") == "nova"
        assert [attempt.voice for attempt in plane.kept.record.attempts] == ["c-brand", "e-brand", "nova"]


async def test_openais_custom_voice_stays_an_object(tmp_path, autojump_clock):
    async with opened(tmp_path, "openai", "groq") as (plane, fakes):
        await speak(plane, MODELS["openai"], {"id": "voice_1234"})
        assert voice_at(fakes, "openai") == {"id": "voice_1234"}
        fakes["openai"].status = BROKEN
        reply = await speak(plane, MODELS["openai"], {"id": "voice_1234"})
        assert (reply.headers["x-gw-model"], voice_at(fakes, "groq")) == (MODELS["groq"], "autumn")


async def test_a_voice_that_the_vendor_does_not_know_is_refused_by_it(tmp_path, autojump_clock):
    """So these fakes would have noticed a foreign voice."""
    async with opened(tmp_path, "cartesia") as (plane, fakes):
        for kind, status in (("cartesia", 404), ("elevenlabs", 404), ("groq", 400)):
            reply = await speak(plane, MODELS[kind], "nobody", x_gw_fallback="off")
            assert voice_at(fakes, kind) == "nobody"
            assert reply.status >= 400
            assert plane.kept.records[-1].attempts[0].upstream_status == status


@attrs.define
class _Targets:
    """An app, and the path of each request to it, as it was sent."""

    app: Any
    paths: list[bytes] = attrs.field(factory=list)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["raw_path"])
        await self.app(scope, receive, send)


ODD_VOICES = ["a/b", "../../v1/user", "a?b=c", "a#b", "%2e%2e", "..;", "...", "a b", "stimme-ü", "a\\b", "a\r\nx: y", "a\x00"]


async def test_a_voice_is_one_segment_of_the_vendors_address(tmp_path, autojump_clock):
    async with opened(tmp_path, "elevenlabs") as (plane, fakes):
        fakes["elevenlabs"].voices = frozenset(ODD_VOICES)
        targets = _Targets(fakes["elevenlabs"])
        plane.net.hosts["elevenlabs.test", 80] = hosted(targets)
        for voice in ODD_VOICES:
            await speak(plane, MODELS["elevenlabs"], voice)
            own = f"/v1/text-to-speech/{quote(voice, safe='')}/stream?output_format=pcm_24000"
            await plane.post(own, msgspec.json.encode({"text": TEXT, "model_id": "eleven_flash_v2_5"}))
        expected = [f"/v1/text-to-speech/{quote(voice, safe='')}/stream".encode() for voice in ODD_VOICES for _ in "12"]
        assert targets.paths == expected


@pytest.mark.parametrize("voice", [".", ".."])
async def test_a_voice_that_names_a_folder_goes_to_no_vendor(voice, tmp_path, autojump_clock):
    """In no spelling: a dot that is percent-encoded is a dot. The caller is to blame, so the next vendor is not asked."""
    async with opened(tmp_path, "elevenlabs", "openai") as (plane, fakes):
        for _ in range(6):  # more than open a breaker
            reply = await speak(plane, MODELS["elevenlabs"], voice)
            assert (reply.status, reply.error["type"]) == (400, "invalid_request_error"), reply.body
            dots = voice.replace(".", "%2e")
            body = msgspec.json.encode({"text": TEXT, "model_id": "eleven_flash_v2_5"})
            for form in ("", "/stream", "/stream/with-timestamps"):
                own = await plane.post(f"/v1/text-to-speech/{dots}{form}", body)
                assert (own.status, "detail" in msgspec.json.decode(own.body)) == (400, True)
        path = f"/v1/text-to-speech/{dots}/multi-stream-input?model_id={{}}&output_format=pcm_24000"
        spoken = await converse(attrs.evolve(ELEVEN_MANY, path=path.format), plane, MODELS["elevenlabs"], [TEXT])
        assert spoken.errors
        assert [fake.ledger for fake in fakes.values()] == [[] for _ in fakes]
        assert (await speak(plane, MODELS["elevenlabs"], "e-brand")).status == 200


# ---- live


@pytest.mark.parametrize("reader", [LIVEKIT, CARTESIA, ELEVEN_MANY], ids=lambda reader: reader.name)
async def test_live_speech(reader: Reader, tmp_path, autojump_clock):
    """The three protocols with a voice; each names OpenAI's `alloy` here, or an id of its own vendor."""
    async with opened(tmp_path, "openai", "cartesia") as (plane, fakes):
        fakes["openai"].status = BROKEN
        spoken = await converse(reader, plane, "first/tone", [TEXT])
        assert (spoken.errors, spoken.text(reader)) == ([], TEXT)
        with trio.fail_after(60):
            await plane.kept.finished.wait()
        record = plane.kept.record
        assert [(attempt.outcome, attempt.voice) for attempt in record.attempts][-1] == ("ok", "c-house")
        voices = {entry.fields["voice"] for entry in fakes["cartesia"].ledger if "voice" in entry.fields}
        assert voices == {"c-house"}, "a socket that was opened ahead has none"


@pytest.mark.parametrize(
    ("named", "expected"), [("e-brand", "e-brand"), ("brand", "e-brand"), ("e-unlisted", "e-unlisted"), (None, "e-house"), ("", "e-house")]
)
async def test_a_livekit_client_names_the_voice_of_each_fallback(named, expected, tmp_path, autojump_clock):
    """`fallback.models[].voice`, which `FallbackModel` of livekit-agents 1.8.9 always has; "" leaves the choice to the gateway."""
    fallback = {"model": MODELS["elevenlabs"]} | ({} if named is None else {"voice": named})
    create = {"type": "session.create", "voice": "c-brand" if named == "" else "c-house", "fallback": {"models": [fallback]}}
    begin = [msgspec.json.encode({**msgspec.json.decode(LIVEKIT.begin(MODELS["cartesia"])[0]), **create}).decode()]
    reader = attrs.evolve(LIVEKIT, begin=lambda model: begin)
    async with opened(tmp_path, "cartesia") as (plane, fakes):
        fakes["cartesia"].status = BROKEN
        fakes["elevenlabs"].voices = frozenset({expected, "e-brand"})
        spoken = await converse(reader, plane, MODELS["cartesia"], [TEXT])
        assert spoken.text(reader).strip() == TEXT
        voices = {entry.fields["voice"] for entry in fakes["elevenlabs"].ledger}  # and that of a socket dialled ahead
        assert voices == {"e-brand" if named == "" else expected}
