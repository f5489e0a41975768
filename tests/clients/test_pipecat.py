"""Pipecat's unchanged OpenAI and Groq services in pipelines of their own: base_url, key and model names are ours.

`test_services` goes over each one's own vendor and over another, the rest to the demo's engine.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from gw.providers.sim import fsk
from tests.clients.gateway_pair import TEXT, spoken_text

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of Pipecat's own making
]

WITHIN_S = 120


@pytest.fixture
def quiet(package):
    package("pipecat")
    from loguru import logger

    logger.remove()
    logger.add(sys.stderr, level="WARNING")


@pytest.fixture
def address(demo, quiet):
    return {"base_url": demo.base, "api_key": "any"}


async def run(
    processors: Sequence[Any], frames: Sequence[Any], until: type, session_ready: Callable[[], Awaitable[Any]] | None = None
) -> list[Any]:
    """Send `frames` through the pipeline; everything that came out at its end up to the first frame of type `until`.

    A type among `frames` holds back those after it until a frame of that type has come out. `session_ready` is waited for before the
    first frame: some services drop what is said before their vendor has begun the session.
    """
    from pipecat.frames.frames import EndFrame, ErrorFrame
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    from pipecat.workers.runner import WorkerRunner

    out: list[Any] = []
    errors: list[str] = []
    ready, done, arrived = asyncio.Event(), asyncio.Event(), asyncio.Condition()

    class Sink(FrameProcessor):
        async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if not done.is_set():
                out.append(frame)
            async with arrived:
                arrived.notify_all()
            if isinstance(frame, until):
                done.set()
            await self.push_frame(frame, direction)

    worker = PipelineWorker(
        Pipeline([*processors, Sink()]), params=PipelineParams(audio_in_sample_rate=24_000), cancel_on_idle_timeout=False
    )

    @worker.event_handler("on_pipeline_started")
    async def started(worker: Any, frame: Any) -> None:
        ready.set()

    @worker.event_handler("on_pipeline_error")
    async def failed(worker: Any, frame: ErrorFrame) -> None:
        errors.append(frame.error)
        done.set()

    async def feed() -> None:
        await ready.wait()
        if session_ready is not None:
            await session_ready()
        for frame in frames:
            if isinstance(frame, type):
                async with arrived:
                    await arrived.wait_for(lambda kind=frame: done.is_set() or any(isinstance(one, kind) for one in out))
            else:
                await worker.queue_frame(frame)
        await done.wait()
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner(handle_sigint=False)  # which a loop in another thread could not
    await runner.add_workers(worker)
    async with asyncio.timeout(WITHIN_S):
        await asyncio.gather(runner.run(), feed())
    assert errors == []
    return out


def spoken(pcm: bytes) -> list[Any]:
    """The frames of a microphone and a voice activity detector: 20 ms each at 24 kHz."""
    from pipecat.frames.frames import InputAudioRawFrame, VADUserStartedSpeakingFrame, VADUserStoppedSpeakingFrame

    audio = [InputAudioRawFrame(pcm[at : at + 960], 24_000, 1) for at in range(0, len(pcm), 960)]
    return [VADUserStartedSpeakingFrame(), *audio, VADUserStoppedSpeakingFrame()]


def sound(frames: Sequence[Any]) -> bytes:
    from pipecat.frames.frames import TTSAudioRawFrame

    audio_frames = [frame for frame in frames if isinstance(frame, TTSAudioRawFrame)]
    assert {(frame.sample_rate, frame.num_channels) for frame in audio_frames} == {(24_000, 1)}
    return b"".join(frame.audio for frame in audio_frames)


def ears(address: dict[str, str]) -> Any:
    from pipecat.services.openai.stt import OpenAISTTService

    return OpenAISTTService(**address, settings=OpenAISTTService.Settings(model="sim/tone"))


def mouth(address: dict[str, str]) -> Any:
    from pipecat.services.openai.tts import OpenAITTSService

    return OpenAITTSService(**address, settings=OpenAITTSService.Settings(model="sim/tone", voice="alloy"))


def mind(address: dict[str, str], model: str) -> Any:
    from pipecat.services.openai.llm import OpenAILLMService

    return OpenAILLMService(**address, settings=OpenAILLMService.Settings(model=model))


def speech_of(address: dict[str, str], text: str) -> bytes:
    from pipecat.frames.frames import TTSSpeakFrame, TTSStoppedFrame

    return sound(asyncio.run(run([mouth(address)], [TTSSpeakFrame(text)], TTSStoppedFrame)))


def transcribed(address: dict[str, str], pcm: bytes) -> str:
    from pipecat.frames.frames import TranscriptionFrame

    frames = asyncio.run(run([ears(address)], spoken(pcm), TranscriptionFrame))
    assert isinstance(frames[-1], TranscriptionFrame)
    return frames[-1].text


def answered(llm: Any) -> list[str]:
    """The pieces of its answer."""
    from pipecat.frames.frames import LLMContextFrame, LLMFullResponseEndFrame, LLMTextFrame
    from pipecat.processors.aggregators.llm_context import LLMContext

    context = LLMContext([{"role": "user", "content": TEXT}])
    frames = asyncio.run(run([llm], [LLMContextFrame(context)], LLMFullResponseEndFrame))
    return [frame.text for frame in frames if isinstance(frame, LLMTextFrame)]


def test_llm_streams_text(address):
    pieces = answered(mind(address, "sim/echo"))
    assert "".join(pieces) == TEXT
    assert len(pieces) > 3


@pytest.mark.parametrize("who", ["own", "other"])
@pytest.mark.parametrize("vendor", ["openai", "groq"])
def test_services(drop_in, quiet, monkeypatch, vendor, who):
    """Language model, speech, and the transcription of that speech."""
    from pipecat.frames.frames import TranscriptionFrame, TTSSpeakFrame, TTSStoppedFrame
    from pipecat.services.groq.llm import GroqLLMService
    from pipecat.services.groq.stt import GroqSTTService
    from pipecat.services.groq.tts import GroqTTSService
    from pipecat.services.openai.llm import OpenAILLMService
    from pipecat.services.openai.stt import OpenAISTTService
    from pipecat.services.openai.tts import OpenAITTSService

    root = {"openai": "/v1", "groq": "/openai/v1"}[vendor]
    address = {"base_url": drop_in.at(vendor, who) + root, "api_key": "any"}
    at_speech = address
    if vendor == "groq":  # its speech takes the address from the environment alone
        monkeypatch.setenv("GROQ_BASE_URL", drop_in.at(vendor, who))
        at_speech = {"api_key": "any"}
    services: Any = {
        "openai": (OpenAILLMService, OpenAITTSService, OpenAISTTService),
        "groq": (GroqLLMService, GroqTTSService, GroqSTTService),
    }
    llm, tts, stt = services[vendor]
    pieces = answered(llm(**address, settings=llm.Settings(model=drop_in.model(vendor, "llm"))))
    assert "".join(pieces) == TEXT
    voice = tts(**at_speech, sample_rate=24_000, settings=tts.Settings(model=drop_in.model(vendor, "tts"), voice="alloy"))
    pcm = sound(asyncio.run(run([voice], [TTSSpeakFrame(TEXT)], TTSStoppedFrame)))
    assert spoken_text(pcm, 24_000) == TEXT
    ears = stt(**address, settings=stt.Settings(model=drop_in.model(vendor, "stt")))
    recording = b"".join(fsk.encode(TEXT, 24_000))
    frames = asyncio.run(run([ears], spoken(recording), TranscriptionFrame))
    assert frames[-1].text == TEXT


def test_tts_and_stt_round_trip(address):
    assert transcribed(address, speech_of(address, TEXT)) == TEXT


def test_a_function_is_called_and_its_result_read(address):
    from pipecat.adapters.llm.schemas.function_schema import FunctionSchema
    from pipecat.adapters.llm.schemas.tools_schema import ToolsSchema
    from pipecat.frames.frames import LLMContextAssistantTurnFrame, LLMContextFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair

    arguments: list[Any] = []

    async def get_weather(call: Any) -> None:
        arguments.append(call.arguments)
        await call.result_callback({"weather": "18 degrees"})

    tool = FunctionSchema(
        name="get_weather", description="Weather", properties={"city": {"type": "string"}}, required=["city"]
    )
    llm = mind(address, "sim/scripted")
    llm.register_function("get_weather", get_weather)
    context = LLMContext([{"role": "user", "content": "Paris"}], tools=ToolsSchema(standard_tools=[tool]))
    pair = LLMContextAggregatorPair(context)
    asyncio.run(run([llm, pair.assistant()], [LLMContextFrame(context)], LLMContextAssistantTurnFrame))
    assert arguments == [{"city": "Paris"}]
    answer = context.get_messages()[-1]
    assert answer["role"] == "assistant"
    assert "18 degrees" in answer["content"]


def test_a_voice_agent_listens_thinks_and_speaks(address):
    """Speech in, speech out, through one pipeline of three services; the echo says what was heard."""
    from pipecat.frames.frames import LLMContextAssistantTurnFrame, UserStartedSpeakingFrame, UserStoppedSpeakingFrame
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
    from pipecat.turns.user_turn_strategies import ExternalUserTurnStrategies

    question = speech_of(address, TEXT)
    context = LLMContext()
    params = LLMUserAggregatorParams(user_turn_strategies=ExternalUserTurnStrategies(), user_turn_stop_timeout=WITHIN_S)
    pair = LLMContextAggregatorPair(context, user_params=params)
    agent = [ears(address), pair.user(), mind(address, "sim/echo"), mouth(address), pair.assistant()]
    turn = [UserStartedSpeakingFrame(), *spoken(question), UserStoppedSpeakingFrame()]
    frames = asyncio.run(run(agent, turn, LLMContextAssistantTurnFrame))
    assert [(m["role"], m["content"]) for m in context.get_messages()] == [("user", TEXT), ("assistant", TEXT)]
    assert transcribed(address, sound(frames)) == TEXT
