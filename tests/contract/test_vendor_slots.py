"""Calls at once that a vendor allows, learnt from its answers: a full one is passed over or waited for, and not called in vain."""

from __future__ import annotations

from functools import partial
from typing import Any

import msgspec
import pytest
import trio

from tests.contract.readers import READERS
from tests.contract.readers import converse as have_spoken
from tests.contract.talkers import DEEPGRAM as TALKER
from tests.contract.talkers import converse
from tests.fakes.complete import open_complete
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs

CONFIG = """
providers:
  cartesia: {api_key: k, base_url: "http://cartesia.test"}
  deepgram: {api_key: k, base_url: "http://deepgram.test"}
  elevenlabs: {api_key: k, base_url: "http://elevenlabs.test"}
  house: {type: sim}
models:
  tts:
    cartesia/voice: {default_voice: v}
    deepgram/aura-2-thalia-en: {}
    elevenlabs/voice: {default_voice: v}
    house/tone: {}
  stt: [deepgram/nova-3, cartesia/ink-2, house/tone]
fallbacks: {tts: [house/tone], stt: [house/tone]}
routing: {hedge: off, whole_answer_s: 600}
"""
VOICES = {
    "cartesia": ("cartesia/voice", FakeCartesia), "deepgram": ("deepgram/aura-2-thalia-en", FakeDeepgram),
    "elevenlabs": ("elevenlabs/voice", FakeElevenLabs),
}  # fmt: skip


def speech(model: str) -> bytes:
    return msgspec.json.encode({"model": model, "input": "Good morning to you.", "response_format": "pcm", "voice": "v"})


async def speak(plane: Plane, model: str, **headers: str) -> str:
    """Return the model that spoke."""
    reply = await plane.post("/v1/audio/speech", speech(model), **headers)
    assert reply.status == 200, reply.body
    return reply.headers["x-gw-model"]


def skipped(plane: Plane) -> list[tuple[str, str]]:
    """Return model and detail of the attempts of the latest record that were not calls."""
    return [(a.model_id, a.detail) for a in plane.kept.records[-1].attempts if a.outcome == "busy"]


@pytest.mark.parametrize("name", VOICES)
async def test_after_one_refusal_a_full_vendor_is_passed_over_until_a_call_of_it_ends(name, tmp_path, autojump_clock):
    model, make = VOICES[name]
    async with open_plane(CONFIG, tmp_path) as plane, trio.open_nursery() as nursery:
        vendor = make(slots=2, first_token_after_s=3)
        plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
        for _ in range(2):
            nursery.start_soon(speak, plane, model)
        await trio.sleep(1)
        assert await speak(plane, model) == "house/tone"
        assert [entry.status for entry in vendor.ledger] == [0, 0, 429]  # this is how it was learnt
        assert [attempt.outcome for attempt in plane.kept.records[-1].attempts] == ["rate_limited", "ok"]
        for _ in range(3):
            assert await speak(plane, model) == "house/tone"
            assert skipped(plane) == [(model, "the vendor has all its 2 slots in use, as its answers say")]
        assert len(vendor.ledger) == 3
        await trio.sleep(4)
        assert await speak(plane, model) == model


async def test_the_headers_of_an_answer_are_enough(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane, trio.open_nursery() as nursery:
        vendor = FakeElevenLabs(slots=2)
        plane.net.hosts["elevenlabs.test", 80] = hosted(vendor)
        assert await speak(plane, "elevenlabs/voice") == "elevenlabs/voice"
        vendor.elsewhere, vendor.first_token_after_s = 0, 3
        for _ in range(2):
            nursery.start_soon(speak, plane, "elevenlabs/voice")
        await trio.sleep(1)
        assert await speak(plane, "elevenlabs/voice") == "house/tone"
        assert [entry.status for entry in vendor.ledger] == [200, 0, 0]


async def test_calls_of_other_clients_of_the_account_count(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendor = FakeElevenLabs(slots=4, elsewhere=3, speech_gap_s=0.1)
        plane.net.hosts["elevenlabs.test", 80] = hosted(vendor)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(speak, plane, "elevenlabs/voice")
            await trio.sleep(0.3)  # its head has come: three slots are in use elsewhere, one here
            assert await speak(plane, "elevenlabs/voice") == "house/tone"
        assert len(vendor.ledger) == 1


@pytest.mark.parametrize("name", VOICES)
async def test_without_another_candidate_a_request_waits_for_a_slot(name, tmp_path, autojump_clock):
    model, make = VOICES[name]
    async with open_plane(CONFIG, tmp_path) as plane, trio.open_nursery() as nursery:
        vendor = make(slots=1, first_token_after_s=0.8)
        plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
        only = partial(speak, plane, model, X_GW_Fallback="off")
        nursery.start_soon(only)
        await trio.sleep(0.1)
        refused = await plane.post("/v1/audio/speech", speech(model), X_GW_Fallback="off")
        assert refused.status == 429
        began = trio.current_time()
        assert await only() == model
        assert trio.current_time() - began > 0.6 + 0.8  # it waited for the first one
        assert [entry.status for entry in vendor.ledger] == [200, 429, 200]


@pytest.mark.parametrize(("name", "model", "make"), [("deepgram", "nova-3", FakeDeepgram), ("cartesia", "ink-2", FakeCartesia)])
async def test_live_sessions_are_refused_once_in_the_handshake(name, model, make, tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        vendor = make(slots=1)
        plane.net.hosts[f"{name}.test", 80] = hosted(vendor)
        async with TALKER.open(plane, f"{name}/{model}") as held:
            await held.send(b"\0\0" * 640)
            await trio.sleep(0.1)
            for _ in range(2):
                assert (await converse(TALKER, plane, f"{name}/{model}", ["hello"])).finals
        sessions = [[attempt.outcome for attempt in record.attempts] for record in plane.kept.records]
        assert sessions[:2] == [["rate_limited", "ok"], ["busy", "ok"]]
        assert len(vendor.ledger) == 2


async def test_a_context_of_a_speech_socket_is_refused_on_the_socket(tmp_path, autojump_clock):
    (reader,) = [reader for reader in READERS if reader.name == "deepgram"]
    async with open_plane(CONFIG, tmp_path) as plane:
        vendor = FakeCartesia(slots=2, elsewhere=2)
        plane.net.hosts["cartesia.test", 80] = hosted(vendor)
        for _ in range(2):
            spoken: Any = await have_spoken(reader, plane, "cartesia/voice", ["Good morning."])
            assert spoken.pcm
        assert [[a.outcome for a in record.attempts] for record in plane.kept.records] == [["rate_limited", "ok"], ["busy", "ok"]]
        assert len(vendor.ledger) == 1


async def test_what_was_learnt_ages_out(tmp_path, autojump_clock):
    async with open_plane(CONFIG, tmp_path) as plane:
        plane.net.hosts["elevenlabs.test", 80] = hosted(FakeElevenLabs(slots=7, elsewhere=4))
        await speak(plane, "elevenlabs/voice")

        def known() -> Any:
            return plane.gateway.limits.view(trio.current_time())["elevenlabs"].slots

        view = known()["tts:elevenlabs/voice"]
        assert (view.most, view.in_use, view.source) == (7, 4, "answer")
        await trio.sleep(3)
        assert known()["tts:elevenlabs/voice"].in_use == 0
        await trio.sleep(300)
        assert known() == {}


async def test_reports_show_the_slots(tmp_path):
    vendors = {"elevenlabs.test": FakeElevenLabs(slots=5, elsewhere=5)}
    async with open_complete(CONFIG, tmp_path, vendors) as house:
        status, _ = await house.request("POST", "/v1/audio/speech", msgspec.Raw(speech("elevenlabs/voice")))
        assert status == 200
        (slots,) = (await house.json("/v1/status"))["slots"]
        assert slots.pop("age_s") < 60
        expected = {
            "provider": "elevenlabs", "modality": "tts", "model": "elevenlabs/voice", "most": 5, "in_use": 5, "source": "refusal",
        }  # fmt: skip
        assert slots == expected
        (of_page,) = [one["slots"] for one in (await house.json("/api/reliability"))["providers"] if one["provider"] == "elevenlabs"]
        assert [one | {"age_s": 0} for one in of_page] == [expected | {"age_s": 0}]
        preview = await house.json("/api/route?model=elevenlabs/voice&modality=tts")
        assert [one["passed_over"] for one in preview["candidates"]] == ["busy", ""]
