"""A real LiveKit agent and a real Pipecat pipeline on a gateway inside their own asyncio loop, through `gw.asyncio`."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import gw.asyncio
from gw.config.parse import parse
from gw.store.sqlite import open_reader
from tests.clients.test_livekit_session import SAID, understood

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of the frameworks' own making
]

CONFIG = """
providers: {sim: {}, down: {type: sim, fail_with: 503, fail_rate: 1}, slow: {type: sim, token_ms: 600000}}
models: {stt: [sim/tone], llm: [sim/echo, down/echo, slow/echo], tts: [sim/tone]}
fallbacks: {llm: [down/echo, sim/echo]}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Any:
    return parse(CONFIG, file="gw.yaml", env={}, data_dir=tmp_path)


def recorded(settings: Any) -> list[tuple[str, str, str]]:
    db = open_reader(settings.cost_tracking.db_path)
    try:
        return [tuple(row) for row in db.execute("select modality, model_id, status from requests order by id")]
    finally:
        db.close()


def test_a_livekit_agent_holds_a_session(settings, package):
    package("livekit")
    from examples.livekit_embedded import GatewayLLM, GatewaySTT, GatewayTTS
    from tests.clients.test_livekit_session import converse

    async def main() -> Any:
        async with gw.asyncio.open_gateway(settings) as g:
            return await converse({"stt": GatewaySTT(g.stt()), "llm": GatewayLLM(g.llm("down/echo")), "tts": GatewayTTS(g.tts())}, SAID)

    call = asyncio.run(main())
    assert call.history == [(role, text) for text in SAID for role in ("user", "assistant")]
    assert understood(call.pcm, call.rate_hz).split() == " ".join(SAID).split()
    records = recorded(settings)
    assert [record for record in records if record[0] == "llm"] == [("llm", "sim/echo", "fallback")] * len(SAID)
    assert [modality for modality, _, _ in records].count("stt") == 1


def test_a_livekit_stream_that_is_closed_closes_its_upstream(settings, package):
    package("livekit")
    from livekit.agents import llm

    from examples.livekit_embedded import GatewayLLM

    async def main() -> None:
        async with gw.asyncio.open_gateway(settings) as g:
            context = llm.ChatContext.empty()
            context.add_message(role="user", content="Hello you there")
            async with GatewayLLM(g.llm("slow/echo", fallback=False)).chat(chat_ctx=context) as stream:
                assert (await anext(stream)).delta.content

    asyncio.run(main())
    assert recorded(settings) == [("llm", "slow/echo", "cancelled")]


def test_a_pipecat_pipeline_talks(settings, package):
    package("pipecat")
    from loguru import logger

    from examples.pipecat_embedded import GatewayLLM, GatewaySTT, GatewayTTS
    from tests.clients.test_pipecat_pipeline import OUT_HZ, converse

    logger.remove()

    async def main() -> Any:
        async with gw.asyncio.open_gateway(settings) as g:
            return await converse((GatewaySTT(g.stt()), GatewayLLM(g.llm("down/echo")), GatewayTTS(g.tts())), SAID)

    call = asyncio.run(main())
    assert call.messages == [(role, text) for text in SAID for role in ("user", "assistant")]
    assert understood(call.pcm, OUT_HZ).split() == " ".join(SAID).split()
    assert {record for record in recorded(settings) if record[0] == "llm"} == {("llm", "sim/echo", "fallback")}
