"""Run a Pipecat pipeline on a gateway inside its own process: no server, the same fallbacks, limits, budgets and records.

    async with gw.asyncio.open_gateway("gw.yaml") as g:
        pipeline = Pipeline([transport.input(), GatewaySTT(g.stt()), user, GatewayLLM(g.llm()), GatewayTTS(g.tts()), ...])

An interruption cancels what runs: the provider's connection is closed then, and the record has the status `cancelled`.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

from pipecat.frames.frames import (
    ErrorFrame,
    Frame,
    LLMContextFrame,
    LLMFullResponseEndFrame,
    LLMFullResponseStartFrame,
    TranscriptionFrame,
    TTSAudioRawFrame,
)
from pipecat.processors.frame_processor import FrameDirection
from pipecat.services.llm_service import LLMService
from pipecat.services.stt_service import SegmentedSTTService
from pipecat.services.tts_service import TTSService
from pipecat.utils.time import time_now_iso8601

import gw.asyncio
from gw.errors import GwError


class GatewaySTT(SegmentedSTTService):
    """Transcribes each utterance, as the voice activity detector of the pipeline cuts it out."""

    def __init__(self, model: gw.asyncio.AsyncioStt, **options: Any) -> None:
        super().__init__(**options)
        self.gateway_model = model

    async def run_stt(self, audio: bytes) -> AsyncGenerator[Frame | None, None]:
        try:
            transcript = await self.gateway_model.transcribe(audio)
        except GwError as error:
            yield ErrorFrame(error.message)
            return
        if transcript.text:
            yield TranscriptionFrame(transcript.text, self._user_id, time_now_iso8601())


class GatewayLLM(LLMService):
    def __init__(self, model: gw.asyncio.AsyncioLlm, **options: Any) -> None:
        super().__init__(**options)
        self.gateway_model = model

    async def process_frame(self, frame: Frame, direction: FrameDirection) -> None:
        await super().process_frame(frame, direction)
        if not isinstance(frame, LLMContextFrame):
            await self.push_frame(frame, direction)
            return
        await self.push_frame(LLMFullResponseStartFrame())
        try:
            async with self.gateway_model.chat(frame.context.get_messages()) as reply:
                async for text in reply:
                    await self._push_llm_text(text)
        except GwError as error:
            await self.push_error(error_msg=error.message, exception=error)
        finally:
            await self.push_frame(LLMFullResponseEndFrame())


class GatewayTTS(TTSService):
    def __init__(self, model: gw.asyncio.AsyncioTts, *, voice: str = "", **options: Any) -> None:
        super().__init__(push_start_frame=True, push_stop_frames=True, **options)
        self.gateway_model = model
        self.voice = voice

    async def run_tts(self, text: str, context_id: str) -> AsyncGenerator[Frame | None, None]:
        try:
            async with self.gateway_model.speak(text, voice=self.voice, sample_rate_hz=self.sample_rate) as speech:
                async for samples in speech:
                    yield TTSAudioRawFrame(samples, self.sample_rate, 1, context_id=context_id)
        except GwError as error:
            yield ErrorFrame(error.message)
