"""Agents of LiveKit and Pipecat, unchanged, that say the same again: the second time it comes from the phrase cache, for nothing."""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.clients import test_livekit_session, test_pipecat_pipeline
from tests.clients.conftest import Gateway
from tests.clients.test_livekit_session import CONFIG, turns, understood
from tests.e2e.conftest import starter
from tests.e2e.test_workers_live import wait_for

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of their own making
]

GREETING = "welcome to the hotel how can I help you"


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    config = CONFIG.replace("tts: {sim/tone: {}}", "tts: {sim/tone: {price: {unit: 1M_characters, usd: 1000}}}")
    with starter(tmp_path_factory.mktemp("phrases")) as start:
        yield Gateway(start(config + "projects: {default: {phrase_cache: {}}}\n"))


def spoken(gateway: Gateway) -> list[dict[str, Any]]:
    """The records of what the agent said, the first one first."""
    found = [stage for turn in turns(gateway, 2)[::-1] for stage in turn["stages"] if stage["modality"] == "tts"]
    return [gateway.record(stage["request_id"]) for stage in found]


def check(gateway: Gateway, pcm: bytes, rate_hz: int) -> None:
    assert understood(pcm, rate_hz).split() == 2 * GREETING.split()
    paid, free = spoken(gateway)
    assert [[attempt["cache"] for attempt in record["attempts"]] for record in (paid, free)] == [["miss"], ["hit"]]
    assert paid["cost_usd"] > 0
    assert (free["cost_usd"], free["status"], free["pricing_source"]) == (0, "success", "cache")
    assert free["attempts"][0]["saved_usd"] == pytest.approx(paid["cost_usd"], rel=0.1)


def spoken_tts(gateway: Gateway, count: int) -> list[dict[str, Any]]:
    """Wait for so many records of speech, the first one first."""

    def complete() -> list[dict[str, Any]] | None:
        with urllib.request.urlopen(gateway.daemon.url + "/v1/logs?modality=tts") as answer:
            records: list[dict[str, Any]] = json.load(answer)
        return records[::-1] if len(records) == count else None

    records: list[dict[str, Any]] = wait_for(complete)
    return records


def check_warmed(gateway: Gateway, say: Callable[[str], object]) -> None:
    """Check that a greeting which the agent has never said comes from the cache, once it was spoken ahead as the agent speaks."""
    say("one moment please")
    body = json.dumps({"text": GREETING}).encode()
    request = urllib.request.Request(gateway.base + "/cache/warm", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        warmed = json.load(answer)
    assert (warmed["kinds"], warmed["spoken"], warmed["unkept"]) == (1, 1, 0)
    say(GREETING)
    _, ahead, later = spoken_tts(gateway, 3)
    assert ahead["cost_usd"] == warmed["cost_usd"] > 0
    assert ([attempt["cache"] for attempt in later["attempts"]], later["cost_usd"]) == (["hit"], 0)


def test_a_livekit_agent_finds_what_was_spoken_ahead(gateway, package):
    package("livekit")
    check_warmed(gateway, lambda text: asyncio.run(test_livekit_session.call_of(gateway, [text])))


def test_a_pipecat_agent_finds_what_was_spoken_ahead(gateway, package):
    package("pipecat")

    async def say(text: str) -> None:
        await test_pipecat_pipeline.converse(test_pipecat_pipeline.services(gateway), [text])

    check_warmed(gateway, lambda text: asyncio.run(say(text)))


def test_a_livekit_agent(gateway, package):
    package("livekit")
    call = asyncio.run(test_livekit_session.call_of(gateway, [GREETING, GREETING]))
    check(gateway, call.pcm, call.rate_hz)


def test_a_pipecat_agent(gateway, package):
    package("pipecat")

    async def held() -> test_pipecat_pipeline.Call:
        return await test_pipecat_pipeline.converse(test_pipecat_pipeline.services(gateway), [GREETING, GREETING])

    check(gateway, asyncio.run(held()).pcm, test_pipecat_pipeline.OUT_HZ)
