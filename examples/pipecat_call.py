"""Call the pipeline of `agent.py` without a transport: a WAV file is the caller's microphone, another one records what the agent says.

    python pipecat_call.py question.wav answer.wav

`agent.py` has `new_worker(hears, speaks, vad)`, which returns the PipelineWorker and its LLMContext: the processors before and after the
services, and the analyzer that notices speech. The recording is mono, 16-bit samples.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import wave
from array import array

from agent import new_worker
from loguru import logger
from pipecat.audio.vad.vad_analyzer import VADAnalyzer, VADParams
from pipecat.frames.frames import EndFrame, Frame, InputAudioRawFrame, LLMContextAssistantTurnFrame, TTSAudioRawFrame
from pipecat.processors.frame_processor import FrameDirection, FrameProcessor
from pipecat.workers.runner import WorkerRunner

ANSWER_WITHIN_S = 30
LOUD = 600


class Loudness(VADAnalyzer):
    """Notices tones as well as voices: the demo speaks in tones, which an analyzer made for voices ignores."""

    def num_frames_required(self) -> int:
        return self.sample_rate // 50

    def voice_confidence(self, buffer: bytes) -> float:
        return float(max(map(abs, array("h", buffer))) > LOUD)


class Recorder(FrameProcessor):
    """Keeps what the agent says, until its turn is over."""

    def __init__(self) -> None:
        super().__init__()
        self.samples, self.rate_hz, self.answered = b"", 24_000, asyncio.Event()

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if isinstance(frame, TTSAudioRawFrame):
            self.samples, self.rate_hz = self.samples + frame.audio, frame.sample_rate
        elif isinstance(frame, LLMContextAssistantTurnFrame):
            self.answered.set()
        await self.push_frame(frame, direction)


async def call(question: str, answer: str) -> None:
    with wave.open(question, "rb") as file:
        samples, rate_hz = file.readframes(file.getnframes()), file.getframerate()
    vad = Loudness(sample_rate=rate_hz, params=VADParams(start_secs=0.1, stop_secs=0.2, min_volume=0.0))
    recorder, started = Recorder(), asyncio.Event()
    worker, context = new_worker([], [recorder], vad, rate_hz)

    @worker.event_handler("on_pipeline_started")
    async def begin(_: object, __: object) -> None:
        started.set()

    async def microphone() -> None:
        """Play the recording in real time, 20 ms at a time, and silence after it."""
        count, next_at = rate_hz // 50, asyncio.get_running_loop().time()
        for at in range(0, len(samples) + 2 * rate_hz * ANSWER_WITHIN_S, 2 * count):
            await worker.queue_frame(InputAudioRawFrame(samples[at : at + 2 * count].ljust(2 * count, b"\0"), rate_hz, 1))
            next_at += 0.02
            await asyncio.sleep(max(0.0, next_at - asyncio.get_running_loop().time()))

    async def talk() -> None:
        await started.wait()
        speaking = asyncio.create_task(microphone())
        try:
            await asyncio.wait_for(recorder.answered.wait(), ANSWER_WITHIN_S)
        finally:
            speaking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await speaking
            await worker.queue_frame(EndFrame())

    runner = WorkerRunner()
    await runner.add_workers(worker)
    await asyncio.gather(runner.run(), talk())
    for message in context.get_messages():
        print({"user": "caller", "assistant": "agent"}[message["role"]] + ":", message["content"])
    with wave.open(answer, "wb") as file:
        file.setparams((1, 2, recorder.rate_hz, 0, "NONE", ""))
        file.writeframes(recorder.samples)


if __name__ == "__main__":
    logger.remove()
    asyncio.run(call(*sys.argv[1:]))
