"""The examples that make LiveKit Agents and Pipecat send ids: two calls say the same words at the same time, and each turn is whole."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from gw.types.audio import PCM_16K
from gw.wire import wav
from tests.clients import test_livekit_session as livekit_call
from tests.clients import test_pipecat_pipeline as pipecat_call
from tests.clients.conftest import Gateway
from tests.e2e.conftest import starter

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of the frameworks' own making
]

SAID = ["what is the weather in Paris", "thank you very much"]
CALLS = ("call-1", "call-2")
STAGES = ["stt", "llm", "tts"]


@pytest.fixture
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with starter(tmp_path_factory.mktemp("ids")) as start:
        yield Gateway(start(livekit_call.CONFIG))


def check_turns(gateway: Gateway, over_http: bool) -> None:
    """Each call has its turns, and they have the ids that were sent."""
    turns = livekit_call.turns(gateway, len(CALLS) * len(SAID))[::-1]
    assert sorted(turn["session_id"] for turn in turns) == sorted(CALLS * len(SAID))
    for turn in turns:
        assert [stage["modality"] for stage in turn["stages"]] == STAGES
        assert turn["turn_id"].startswith(turn["session_id"] + "-")
        heard, *others = [gateway.record(stage["request_id"]) for stage in turn["stages"]]
        assert (heard["session_id"], heard["turn_id"]) == (turn["session_id"], None)
        assert {(record["session_id"], record["turn_id"]) for record in others} == {(turn["session_id"], turn["turn_id"])}
        assert others[-1]["endpoint"].endswith("/audio/speech") == over_http


@pytest.mark.parametrize("over_http", [False, True], ids=["sockets", "speech over HTTP"])
def test_livekit(gateway, package, over_http):
    package("livekit")
    asyncio.run(_livekit_calls(gateway, over_http))
    check_turns(gateway, over_http)


async def _livekit_calls(gateway: Gateway, over_http: bool) -> None:
    await asyncio.gather(*(_livekit_call(gateway, name, over_http) for name in CALLS))


async def _livekit_call(gateway: Gateway, name: str, over_http: bool) -> None:
    from livekit.plugins import cartesia, deepgram, openai

    from examples.livekit_turn_ids import TurnIds

    ids, url = TurnIds(name), gateway.daemon.url
    client = ids.openai(base_url=url + "/v1", api_key="any")
    spoken: Any = openai.TTS(model="sim/tone", voice="alloy", response_format="pcm", client=client)
    if not over_http:
        spoken = cartesia.TTS(model="sim/tone", base_url=url, api_key="any", http_session=ids.http_session())
    plugins = {
        "stt": deepgram.STT(model="sim/tone", base_url=url + "/v1/listen", api_key="any", http_session=ids.http_session()),
        "llm": openai.LLM(model="sim/echo", client=client),
        "tts": spoken,
    }
    call = await livekit_call.converse(plugins, SAID)
    await ids.aclose()
    assert call.history == [(role, text) for text in SAID for role in ("user", "assistant")]


@pytest.mark.parametrize("over_http", [False, True], ids=["sockets", "speech over HTTP"])
def test_pipecat(gateway, package, over_http):
    package("pipecat")
    asyncio.run(_pipecat_calls(gateway, over_http))
    check_turns(gateway, over_http)


async def _pipecat_calls(gateway: Gateway, over_http: bool) -> None:
    calls = await asyncio.gather(*(pipecat_call.converse(_services(gateway, name, over_http), SAID) for name in CALLS))
    for call in calls:
        assert call.messages == [(role, text) for text in SAID for role in ("user", "assistant")]


def _services(gateway: Gateway, name: str, over_http: bool) -> tuple[Any, Any, Any]:
    from pipecat.services.openai.tts import OpenAITTSService

    from examples.pipecat_turn_ids import TurnIds

    ids = TurnIds(name)
    if not over_http:
        return pipecat_call.services(gateway, ids.of)
    settings = OpenAITTSService.Settings(model="sim/tone", voice="alloy")
    mouth = ids.of(OpenAITTSService)(base_url=gateway.daemon.url + "/v1", api_key="any", settings=settings)
    return (*pipecat_call.services(gateway, ids.of)[:2], mouth)


def test_sdks(gateway, package):
    """Each as docs/clients.md has it: the ids are on the records, and join what was sent with them."""
    for name in ("openai", "deepgram", "elevenlabs", "cartesia"):
        package(name)
    import cartesia
    import deepgram
    import elevenlabs
    import openai
    from deepgram.environment import DeepgramClientEnvironment

    url, call_id, turn_id = gateway.daemon.url, "a-call", "a-turn"
    ws_url = url.replace("http", "ws", 1)
    turn = {"X-GW-Turn": turn_id}
    raw = {"container": "raw", "encoding": "pcm_s16le", "sample_rate": 16_000}
    voice = {"mode": "id", "id": "a-voice"}
    chat = openai.OpenAI(base_url=url + "/v1", api_key="any", default_headers={"X-GW-Session": call_id})
    where = DeepgramClientEnvironment(base=url, production=ws_url, agent=ws_url, agent_rest=url)
    ears = deepgram.DeepgramClient(api_key="any", environment=where, headers={"X-GW-Session": call_id})
    mouth = cartesia.Cartesia(api_key="any", base_url=url, websocket_base_url=ws_url, default_headers={"X-GW-Session": call_id})
    other_mouth = elevenlabs.ElevenLabs(api_key="any", base_url=url)

    recording = wav.header(PCM_16K, None) + livekit_call.speech("good morning")
    ears.listen.v1.media.transcribe_file(request=recording, model="sim/tone", request_options={"additional_headers": turn})
    chat.chat.completions.create(model="sim/echo", messages=[{"role": "user", "content": "good morning"}], extra_headers=turn)
    mouth.tts.generate(model_id="sim/tone", transcript="one", voice=voice, output_format=raw, extra_headers=turn).read()
    b"".join(other_mouth.text_to_speech.convert(
        "a-voice", text="two", model_id="sim/tone", output_format="pcm_16000",
        request_options={"additional_headers": {"X-GW-Session": call_id, "X-GW-Turn": turn_id}},
    ))  # fmt: skip
    with mouth.tts.websocket_connect(extra_headers={"X-GW-Session": call_id}) as connection:
        context = connection.context(model_id="sim/tone", voice=voice, output_format=raw)
        context.push("good morning")
        context.no_more_inputs()
        list(context.receive())
    [found] = livekit_call.turns(gateway, 1, stages=5)
    assert (found["session_id"], found["turn_id"]) == (call_id, turn_id)
    assert [stage["modality"] for stage in found["stages"]] == [*STAGES, "tts", "tts"]
