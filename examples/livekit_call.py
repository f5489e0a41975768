"""Call the agent of `agent.py` without a room: a WAV file is the caller's microphone, another one records what the agent says.

    python livekit_call.py question.wav answer.wav

`agent.py` has `new_session()`, which returns an AgentSession, and the agent's class, `Assistant`. The recording is mono, 16-bit samples.
"""

from __future__ import annotations

import asyncio
import sys
import wave

from agent import Assistant, new_session
from livekit import rtc
from livekit.agents.utils import http_context
from livekit.agents.voice import io

ANSWER_WITHIN_S = 30
PIECE_S = 0.02


class Microphone(io.AudioInput):
    """Plays a recording in real time, 20 ms at a time, and silence after it."""

    def __init__(self, samples: bytes, rate_hz: int) -> None:
        super().__init__(label="recording")
        self.samples, self.rate_hz, self.next_at = samples, rate_hz, asyncio.get_running_loop().time()

    async def __anext__(self) -> rtc.AudioFrame:
        count = int(self.rate_hz * PIECE_S)
        piece, self.samples = self.samples[: 2 * count], self.samples[2 * count :]
        self.next_at += PIECE_S
        await asyncio.sleep(max(0.0, self.next_at - asyncio.get_running_loop().time()))
        return rtc.AudioFrame(piece.ljust(2 * count, b"\0"), self.rate_hz, 1, count)


class Recorder(io.AudioOutput):
    """Keeps what the agent says."""

    def __init__(self) -> None:
        super().__init__(label="recorder", capabilities=io.AudioOutputCapabilities(pause=False))
        self.samples, self.rate_hz, self.segment_s = b"", 24_000, 0.0

    async def capture_frame(self, frame: rtc.AudioFrame) -> None:
        await super().capture_frame(frame)
        self.samples, self.rate_hz = self.samples + bytes(frame.data), frame.sample_rate
        self.segment_s += frame.duration

    def flush(self) -> None:
        super().flush()
        self.on_playback_finished(playback_position=self.segment_s, interrupted=False)
        self.segment_s = 0.0

    def clear_buffer(self) -> None:
        self.flush()


async def call(question: str, answer: str) -> None:
    with wave.open(question, "rb") as file:
        samples, rate_hz = file.readframes(file.getnframes()), file.getframerate()
    answered = asyncio.Event()

    def show(event) -> None:  # noqa: ANN001
        if event.item.type == "message":
            print(f"{'caller' if event.item.role == 'user' else 'agent'}: {event.item.text_content}", flush=True)
            if event.item.role == "assistant":
                answered.set()

    async with http_context.open():
        session = new_session()
        session.on("conversation_item_added", show)
        session.input.audio, session.output.audio = Microphone(samples, rate_hz), (recorder := Recorder())
        await session.start(Assistant(), record=False)
        try:
            await asyncio.wait_for(answered.wait(), ANSWER_WITHIN_S)
        finally:
            await session.aclose()
    with wave.open(answer, "wb") as file:
        file.setparams((1, 2, recorder.rate_hz, 0, "NONE", ""))
        file.writeframes(recorder.samples)


if __name__ == "__main__":
    asyncio.run(call(*sys.argv[1:]))
