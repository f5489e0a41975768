"""No caller takes a vendor away from the others: what a vendor refuses for the request's own sake counts against no breaker."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio.testing

from gw.config.settings import BreakerSettings
from tests.contract import readers, talkers
from tests.contract.endpoints import (
    CHAT_STREAM,
    CHAT_WHOLE,
    ENDPOINTS,
    RESPONSES_STREAM,
    RESPONSES_WHOLE,
    SPEECH,
    TRANSCRIPTION,
    Endpoint,
    speech_body,
)
from tests.fakes.cells import Cells
from tests.fakes.hosting import Plane, hosted, open_plane
from tests.fakes.vendors.anthropic import FakeAnthropic
from tests.fakes.vendors.assemblyai import FakeAssemblyAI
from tests.fakes.vendors.cartesia import FakeCartesia
from tests.fakes.vendors.deepgram import FakeDeepgram
from tests.fakes.vendors.elevenlabs import FakeElevenLabs
from tests.fakes.vendors.openai import FakeOpenAI

FAKES: dict[str, tuple[Any, str]] = {
    "openai": (FakeOpenAI, "/v1"), "groq": (lambda: FakeOpenAI(prefix="/openai/v1"), "/openai/v1"), "anthropic": (FakeAnthropic, ""),
    "deepgram": (FakeDeepgram, ""), "elevenlabs": (FakeElevenLabs, ""), "cartesia": (FakeCartesia, ""),
    "assemblyai": (FakeAssemblyAI, ""),
}  # fmt: skip
MODELS: dict[str, Any] = {
    "stt": ["openai/stt", "groq/stt", "deepgram/nova-3", "elevenlabs/scribe_v2", "cartesia/ink-whisper", "assemblyai/universal"],
    "llm": ["openai/llm", "groq/llm", "anthropic/llm"],
    "tts": {
        "openai/tts": {}, "groq/tts": {"default_voice": "troy"}, "deepgram/aura-2-thalia-en": {},
        "cartesia/sonic-3": {"default_voice": "alloy", "aliases": ["first/tone"]},  # the reader's frames name this model
        "elevenlabs/eleven_flash_v2_5": {"default_voice": "alloy"},
    },
}  # fmt: skip
OF_THE_CALLER = (400, 413, 414, 415, 422, 431)
TIMES = BreakerSettings().failures + 1
CALLS: list[tuple[Endpoint, str]] = [
    *((endpoint, f"openai/{endpoint.modality}") for endpoint in ENDPOINTS),
    *((CHAT_WHOLE, model) for model in MODELS["llm"][1:]),
    *((SPEECH, model) for model in [*MODELS["tts"]][1:]),
    *((TRANSCRIPTION, model) for model in MODELS["stt"][1:]),
]


def world(folder: Path) -> Any:
    providers = {name: {"api_key": "k", "base_url": f"http://{name}.test{root}"} for name, (_, root) in FAKES.items()}
    return open_plane(msgspec.json.encode({"providers": providers, "models": MODELS}).decode(), folder)


def put(plane: Plane) -> dict[str, Any]:
    fakes = {name: make() for name, (make, _) in FAKES.items()}
    for name, fake in fakes.items():
        plane.net.hosts[f"{name}.test", 80] = hosted(fake)
    return fakes


async def test_over_http(tmp_path, autojump_clock):
    """The caller gets the vendor's status: no retry would help."""
    cells = Cells(len(OF_THE_CALLER) * len(CALLS))
    async with world(tmp_path) as plane:
        fakes = put(plane)
        for endpoint, model in CALLS:
            fake = fakes[model.partition("/")[0]]
            for status in OF_THE_CALLER:
                with cells.cell(f"{endpoint.name} {model} {status}"):
                    fake.status = status
                    for _ in range(TIMES):
                        refused = await endpoint.ask(plane, model)
                        assert refused.status == status, refused.body[:300]
                        assert plane.kept.records[-1].attempts[0].outcome == "rejected"
                    fake.status = 200
                    answered = await endpoint.ask(plane, model)
                    assert (answered.status, bool(endpoint.content(answered))) == (200, True)
    cells.check()


async def test_an_unknown_model_closes_no_other(tmp_path, autojump_clock):
    """The vendor's 404 is about the model that the caller named; models that are not listed go to the vendor.

    It counts for that name alone: a listed model that the vendor has withdrawn must not cost each request a round trip.
    """
    async with world(tmp_path) as plane:
        fakes = put(plane)
        fakes["openai"].status, fakes["openai"].error_code = 404, "model_not_found"
        assert [(await CHAT_WHOLE.ask(plane, "not-listed")).status for _ in range(TIMES)] == [404] * (TIMES - 1) + [503]
        fakes["openai"].status = 200
        assert (await CHAT_WHOLE.ask(plane, "openai/llm")).status == 200


@pytest.mark.parametrize("vendor", ["openai", "groq", "anthropic"])
async def test_an_answer_without_content(vendor, tmp_path, autojump_clock):
    """A stop sequence that the first word matches, or the wish for silence, ends an answer before it begins."""
    async with world(tmp_path) as plane:
        fake = put(plane)[vendor]
        for endpoint in (CHAT_WHOLE, CHAT_STREAM, RESPONSES_WHOLE, RESPONSES_STREAM):
            fake.empty = True
            for _ in range(TIMES):
                refused = await endpoint.ask(plane, f"{vendor}/llm")
                assert (refused.status, b"empty answer" in refused.body) == (502, True), refused.body
            fake.empty = False
            answered = await endpoint.ask(plane, f"{vendor}/llm")
            assert (answered.status, bool(endpoint.content(answered))) == (200, True)


async def test_speech_of_a_text_without_a_word(tmp_path, autojump_clock):
    """It closes nothing if there is no audio; no audio of words is the vendor's fault."""
    async with world(tmp_path) as plane:
        fakes = put(plane)
        for vendor in fakes.values():
            vendor.empty = True
        for text, last in (("...", 502), ("one two", 503)):
            for _ in range(TIMES):
                reply = await plane.post(SPEECH.path, *speech_body("openai/tts", input=text))
            assert reply.status == last


LIVE = [
    ("deepgram/nova-3", talkers.DEEPGRAM), ("assemblyai/universal", talkers.ASSEMBLYAI), ("cartesia/ink-whisper", talkers.CARTESIA),
    ("deepgram/aura-2-thalia-en", readers.DEEPGRAM), ("cartesia/sonic-3", readers.CARTESIA),
    ("elevenlabs/eleven_flash_v2_5", readers.ELEVEN_MANY),
]  # fmt: skip


async def converse(plane: Plane, model: str, speaker: Any) -> tuple[str, object]:
    """Return what was heard, and how the session failed."""
    if isinstance(speaker, talkers.Talker):
        received = await talkers.converse(speaker, plane, model, ["one two"])
        heard, failure = received.text, received.errors or received.code
    else:
        spoken = await readers.converse(speaker, plane, model, ["one two"])
        heard, failure = spoken.text(speaker), spoken.errors or spoken.code
    await trio.testing.wait_all_tasks_blocked()  # for the record
    return heard.strip(), failure


@pytest.mark.parametrize("status", OF_THE_CALLER)
async def test_at_the_handshake_of_a_socket(status, tmp_path, autojump_clock):
    cells = Cells(len(LIVE))
    async with world(tmp_path) as plane:
        fakes = put(plane)
        for model, speaker in LIVE:
            with cells.cell(f"{model} {status}"):
                fake = fakes[model.partition("/")[0]]
                fake.status = status
                for _ in range(TIMES):
                    heard, failure = await converse(plane, model, speaker)
                    assert (heard, bool(failure)) == ("", True)
                    attempts = plane.kept.records[-1].attempts
                    assert {(attempt.outcome, attempt.upstream_status) for attempt in attempts} == {("rejected", status)}
                fake.status = 200
                assert (await converse(plane, model, speaker))[0] == "one two"
    cells.check()
