"""LiveKit's xAI plugin and Pipecat's Grok service, unchanged, in a voice conversation: with the fake vendor, and with gw before it.

xAI's own SDK (xai-sdk 1.21.0) has no voice sessions; these two are the clients that its documentation names.
"""

from __future__ import annotations

import asyncio
import json
import urllib.request
from collections.abc import Iterator
from typing import Any

import attrs
import pytest

from gw.providers.sim import fsk
from tests.clients.conftest import Gateway
from tests.clients.gateway_pair import KEY, TEXT, hosted, spoken_text
from tests.e2e.conftest import starter
from tests.e2e.test_workers_live import wait_for
from tests.fakes.vendors.openai_variants import CONVENTIONS, FakeVariant

pytestmark = [pytest.mark.clients, pytest.mark.usefixtures("not_ours"), pytest.mark.filterwarnings("ignore")]

WHO = pytest.mark.parametrize("who", ["fake", "gateway"])
MODEL = "grok-voice-3.0"
SENTENCE = TEXT + "?"
PCM = b"".join(fsk.encode(SENTENCE, 24_000)) + bytes(48_000)


@attrs.frozen
class Addresses:
    fake: str
    gateway: Gateway

    def of(self, who: str) -> str:
        base = self.fake if who == "fake" else self.gateway.daemon.url
        return base.replace("http", "ws", 1) + "/v1/realtime"

    def costs(self) -> list[dict[str, Any]]:
        with urllib.request.urlopen(f"{self.gateway.base}/logs?limit=100") as response:
            logs: list[dict[str, Any]] = json.load(response)
        return logs


@pytest.fixture(scope="module")
def addresses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Addresses]:
    with hosted(FakeVariant(api_key=KEY, conventions=CONVENTIONS["xai"])) as fake, starter(tmp_path_factory.mktemp("gateway")) as start:
        providers = {"xai": {"api_key": KEY, "base_url": fake + "/v1"}}
        yield Addresses(fake, Gateway(start(json.dumps({"providers": providers, "models": {"llm": {f"xai/{MODEL}": {}}}}))))


@WHO
def test_livekit(addresses, package, who):
    package("livekit")
    from livekit import rtc
    from livekit.plugins import xai

    async def talk() -> tuple[list[Any], list[str], bytes, bytes]:
        import aiohttp

        errors: list[Any] = []
        heard: list[str] = []
        created: asyncio.Queue[Any] = asyncio.Queue()

        async def spoken(generation: Any) -> bytes:
            pcm = b""
            async for message in generation.message_stream:
                async for frame in message.audio_stream:
                    pcm += bytes(frame.data)
            return pcm

        async with aiohttp.ClientSession() as http:
            model = xai.realtime.RealtimeModel(model=MODEL, base_url=addresses.of(who), api_key=KEY, http_session=http)
            session = model.session()
            session.on("error", lambda event: errors.append(event.error))
            session.on("generation_created", created.put_nowait)
            session.on(
                "input_audio_transcription_completed", lambda event: heard.append(event.transcript) if event.is_final else None
            )
            for at in range(0, len(PCM), 2_400):
                data = PCM[at : at + 2_400]
                session.push_audio(rtc.AudioFrame(data, 24_000, 1, len(data) // 2))
            answer = await spoken(await created.get())
            reply = await spoken(await session.generate_reply(instructions="Say it again."))
            await session.aclose()
        return errors, heard, answer, reply

    errors, heard, answer, reply = asyncio.run(asyncio.wait_for(talk(), 120))
    assert errors == []
    assert heard == [SENTENCE]
    assert TEXT in spoken_text(answer, 24_000)
    assert TEXT in spoken_text(reply, 24_000)


@WHO
def test_pipecat(addresses, package, who):
    package("pipecat")
    assert TEXT in _written_turn(addresses, who)


def _written_turn(addresses: Addresses, who: str) -> str:
    """Return what Pipecat's service speaks in a turn that is written: it drops what is said before the session is ready."""
    from pipecat.frames.frames import LLMRunFrame, TTSStoppedFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair
    from pipecat.services.xai.realtime.llm import GrokRealtimeLLMService

    from tests.clients.test_pipecat import run, sound

    service: Any = GrokRealtimeLLMService(
        api_key=KEY, base_url=addresses.of(who), settings=GrokRealtimeLLMService.Settings(model=MODEL)
    )
    pair = LLMContextAggregatorPair(LLMContext(messages=[{"role": "user", "content": TEXT}]))
    frames = asyncio.run(run([pair.user(), service, pair.assistant()], [LLMRunFrame()], TTSStoppedFrame))
    return spoken_text(sound(frames), 24_000)


def test_the_gateway_has_the_vendors_seconds_and_messages(addresses, package):
    """Each record has a cost: $0.08 a minute, $0.004 for each message."""
    package("pipecat")
    before = len(addresses.costs())
    for _ in range(2):
        _written_turn(addresses, "gateway")
    wait_for(lambda: len(addresses.costs()) >= before + 2)
    logs = addresses.costs()
    assert [one for one in logs if one["status"] == "success"]
    for one in logs:
        with urllib.request.urlopen(f"{addresses.gateway.base}/requests/{one['id']}") as response:
            usage = json.load(response)["usage"]
        messages = usage.get("dimensions", {}).get("text_messages", 0)
        assert one["cost_usd"] == pytest.approx(usage["audio_seconds"] * 0.08 / 60 + messages * 0.004, abs=1e-8)
