"""A whole Pipecat agent: microphone frames in, speech frames out, through services of three vendors of which only addresses are ours.

The voice activity detector listens for loudness; the engine inside answers, whose speech is read back exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import pytest

from tests.clients.conftest import Gateway
from tests.clients.test_livekit_session import CONFIG, RATE_HZ, SAID, speech, turns, understood
from tests.e2e.conftest import starter

pytestmark = [
    pytest.mark.clients,
    pytest.mark.usefixtures("not_ours"),
    pytest.mark.filterwarnings("ignore"),   # of Pipecat's own making
]

OUT_HZ = 24_000
LOUD = 600
WITHIN_S = 120


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with starter(tmp_path_factory.mktemp("pipeline")) as start:
        yield Gateway(start(CONFIG))


@attrs.define
class Call:
    """What came out of one pipeline: the agent's speech, and what its context says."""

    pcm: bytes = b""
    messages: list[tuple[str, str]] = attrs.field(factory=list)


def detector() -> Any:
    from array import array

    from pipecat.audio.vad.vad_analyzer import VADAnalyzer, VADParams

    class Loudness(VADAnalyzer):
        def num_frames_required(self) -> int:
            return RATE_HZ // 50

        def voice_confidence(self, buffer: bytes) -> float:
            return float(max(map(abs, array("h", buffer))) > LOUD)

    return Loudness(sample_rate=RATE_HZ, params=VADParams(start_secs=0.1, stop_secs=0.2, min_volume=0.0))


def services(gateway: Gateway, of: Callable[[type[Any]], type[Any]] = lambda service: service) -> tuple[Any, Any, Any]:
    """Return ears, mind and mouth. `of`: what is made of each service's class."""
    from pipecat.services.deepgram.stt import DeepgramSTTService
    from pipecat.services.elevenlabs.tts import ElevenLabsTTSService
    from pipecat.services.openai.llm import OpenAILLMService

    url, socket = gateway.daemon.url, gateway.daemon.url.replace("http", "ws", 1)
    ears = of(DeepgramSTTService)(
        api_key="any", base_url=socket, sample_rate=RATE_HZ, settings=DeepgramSTTService.Settings(model="sim/tone")
    )
    mind = of(OpenAILLMService)(api_key="any", base_url=url + "/v1", settings=OpenAILLMService.Settings(model="sim/echo"))
    mouth = of(ElevenLabsTTSService)(
        api_key="any", url=socket, sample_rate=OUT_HZ,
        settings=ElevenLabsTTSService.Settings(model="sim/tone", voice="a-voice"),
    )  # fmt: skip
    return ears, mind, mouth


async def converse(made: tuple[Any, Any, Any], questions: list[str]) -> Call:
    """One pipeline into which `questions` are spoken at real time, each when the agent has answered the one before."""
    from pipecat.frames.frames import (
        EndFrame,
        ErrorFrame,
        InputAudioRawFrame,
        LLMContextAssistantTurnFrame,
        TTSAudioRawFrame,
    )
    from pipecat.pipeline.pipeline import Pipeline
    from pipecat.pipeline.worker import PipelineParams, PipelineWorker
    from pipecat.processors.aggregators.llm_context import LLMContext
    from pipecat.processors.aggregators.llm_response_universal import LLMContextAggregatorPair, LLMUserAggregatorParams
    from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
    from pipecat.turns.user_stop import SpeechTimeoutUserTurnStopStrategy
    from pipecat.turns.user_turn_strategies import UserTurnStrategies
    from pipecat.workers.runner import WorkerRunner

    call = Call()
    errors: list[str] = []
    ready, answered = asyncio.Event(), asyncio.Event()
    silence = bytes(RATE_HZ // 25)

    class Loudspeaker(FrameProcessor):
        async def process_frame(self, frame: Any, direction: FrameDirection) -> None:
            await super().process_frame(frame, direction)
            if isinstance(frame, TTSAudioRawFrame):
                assert (frame.sample_rate, frame.num_channels) == (OUT_HZ, 1)
                call.pcm += frame.audio
            elif isinstance(frame, LLMContextAssistantTurnFrame):
                answered.set()
            await self.push_frame(frame, direction)

    ears, mind, mouth = made
    context = LLMContext()
    strategies = UserTurnStrategies(stop=[SpeechTimeoutUserTurnStopStrategy(user_speech_timeout=0.3)])
    # Without words a turn is over after five seconds by default: it would be answered without a question.
    params = LLMUserAggregatorParams(user_turn_strategies=strategies, vad_analyzer=detector(), user_turn_stop_timeout=WITHIN_S)
    pair = LLMContextAggregatorPair(context, user_params=params)
    pipeline = Pipeline([ears, pair.user(), mind, mouth, pair.assistant(), Loudspeaker()])
    worker = PipelineWorker(
        pipeline,
        params=PipelineParams(audio_in_sample_rate=RATE_HZ, audio_out_sample_rate=OUT_HZ),
        cancel_on_idle_timeout=False,
    )

    @worker.event_handler("on_pipeline_started")
    async def started(worker: Any, frame: Any) -> None:
        ready.set()

    @worker.event_handler("on_pipeline_error")
    async def failed(worker: Any, frame: ErrorFrame) -> None:
        errors.append(frame.error)
        answered.set()

    to_say: asyncio.Queue[bytes] = asyncio.Queue()

    async def microphone() -> None:
        """20 ms at a time, silence between the questions."""
        left, next_at = b"", asyncio.get_running_loop().time()
        while True:
            if not left and not to_say.empty():
                left = to_say.get_nowait()
            piece, left = left[: len(silence)], left[len(silence) :]
            await worker.queue_frame(InputAudioRawFrame(piece.ljust(len(silence), b"\0"), RATE_HZ, 1))
            next_at += 0.02
            await asyncio.sleep(max(0.0, next_at - asyncio.get_running_loop().time()))

    async def talk() -> None:
        await ready.wait()
        listening = asyncio.create_task(microphone())
        for text in questions:
            answered.clear()
            to_say.put_nowait(speech(text))
            await asyncio.wait_for(answered.wait(), WITHIN_S)
        listening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await listening
        await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    assert errors == []
    call.messages = [(message["role"], message["content"]) for message in context.get_messages()]
    return call


@pytest.fixture
def quiet(package):
    package("pipecat")
    import sys

    from loguru import logger

    logger.remove()
    logger.add(sys.stderr, level="WARNING")


async def _run(gateway: Gateway) -> Call:
    return await converse(services(gateway), SAID)


def test_a_pipeline_talks_and_its_turns_are_waterfalls(gateway, quiet):
    call = asyncio.run(_run(gateway))
    assert call.messages == [(role, text) for text in SAID for role in ("user", "assistant")]
    assert understood(call.pcm, OUT_HZ).split() == " ".join(SAID).split()

    recorded = turns(gateway, len(SAID))[::-1]
    assert [[stage["modality"] for stage in turn["stages"]] for turn in recorded] == [["stt", "llm", "tts"]] * len(SAID)
    assert len({turn["session_id"] for turn in recorded}) == 1
    for turn, text in zip(recorded, SAID, strict=True):
        transcribed, thought, spoken = turn["stages"]
        assert (transcribed["shared"], transcribed["request_id"]) == (True, turn["session_id"])
        assert transcribed["start_ms"] + transcribed["total_ms"] <= thought["start_ms"] < spoken["start_ms"] < turn["first_audio_ms"]
        assert gateway.record(spoken["request_id"])["input_units"] == pytest.approx(len(text), abs=1)
